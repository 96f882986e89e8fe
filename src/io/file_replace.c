// SPDX-License-Identifier: Apache-2.0
//
// Replaces a file as a whole. Not mkstemp: its mode 0600 would have to become what the umask says,
// which cannot be asked for without changing it for every thread.
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700 // realpath
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64
#endif

#include "io/file_replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WRITE_PIECE ((size_t)1 << 30) // below what one write takes on any system

// The path with a link at its end followed; *mode is the old file's, 0 when there is none.
static char *follow_link(const char *path, mode_t *mode, io_error err) {
    struct stat st;
    *mode = 0;
    if (stat(path, &st) == 0) {
        if (S_ISDIR(st.st_mode)) {
            io_fail(err, "cannot be replaced: is a directory");
            return NULL;
        }
        if (!S_ISREG(st.st_mode)) {
            io_fail(err, "cannot be replaced: is not a regular file");
            return NULL;
        }
        *mode = st.st_mode;
    } else if (errno != ENOENT) {
        io_fail_errno(err, errno, "cannot be replaced");
        return NULL;
    }
    char *resolved = NULL;
    if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode)) {
        resolved = realpath(path, NULL);
        if (resolved == NULL) {
            io_fail_errno(err, errno, "cannot follow the symbolic link");
            return NULL;
        }
    }
    char *copy = io_copy_string(resolved != NULL ? resolved : path);
    free(resolved);
    if (copy == NULL)
        io_fail(err, "out of memory");
    return copy;
}

static void free_names(io_replacement *r) {
    io_free(r->path);
    io_free(r->temporary);
    *r = (io_replacement){.fd = -1};
}

// Tries names until one is new: another process, or one that was killed, may have taken some.
static bool create_temporary(io_replacement *r, io_error err) {
    size_t size = strlen(r->path) + 48;
    r->temporary = io_alloc(size);
    if (r->temporary == NULL)
        return io_fail(err, "out of memory");
    for (int i = 0; i < 1000; i++) {
        snprintf(r->temporary, size, "%s.%ld.%d.tmp", r->path, (long)getpid(), i);
        r->fd = open(r->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (r->fd >= 0)
            return true;
        if (errno != EEXIST)
            break;
    }
    return io_fail_errno(err, errno, "cannot create a temporary file beside it");
}

bool io_replace_begin(io_replacement *r, const char *path, io_error err) {
    mode_t mode;
    *r = (io_replacement){.fd = -1};
    r->path = follow_link(path, &mode, err);
    if (r->path == NULL || !create_temporary(r, err)) {
        free_names(r);
        return false;
    }
    if (mode != 0 && fchmod(r->fd, mode & 0777) != 0) {
        io_fail_errno(err, errno, "cannot give the temporary file the old file's permissions");
        io_replace_abandon(r);
        return false;
    }
    return true;
}

bool io_replace_write(io_replacement *r, const void *bytes, size_t size, io_error err) {
    const char *p = bytes;
    while (size > 0) {
        ssize_t n = write(r->fd, p, size < WRITE_PIECE ? size : WRITE_PIECE);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return io_fail_errno(err, errno, "cannot write");
        p += n;
        size -= (size_t)n;
    }
    return true;
}

// The rename is durable once its folder is. Some file systems cannot sync one; the new file is
// whole and in its place by now, so that is no failure.
static void sync_folder(const char *path) {
    char *folder = io_copy_string(path);
    if (folder == NULL)
        return;
    char *slash = strrchr(folder, '/');
    if (slash != NULL)
        slash[slash == folder ? 1 : 0] = '\0';
    int fd = open(slash != NULL ? folder : ".", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    io_free(folder);
}

bool io_replace_commit(io_replacement *r, io_error err) {
    const char *what = NULL;
    if (fsync(r->fd) != 0)
        what = "cannot sync";
    int code = errno;
    if (close(r->fd) != 0 && what == NULL) {
        what = "cannot close";
        code = errno;
    }
    r->fd = -1;
    if (what == NULL && rename(r->temporary, r->path) != 0) {
        what = "cannot rename the temporary file";
        code = errno;
    }
    if (what != NULL) {
        io_fail_errno(err, code, what);
        io_replace_abandon(r);
        return false;
    }
    sync_folder(r->path);
    free_names(r);
    return true;
}

void io_replace_abandon(io_replacement *r) {
    if (r->fd >= 0)
        close(r->fd);
    unlink(r->temporary);
    free_names(r);
}
