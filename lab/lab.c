// SPDX-License-Identifier: Apache-2.0
//
// Files, hashes and names.
#define _GNU_SOURCE // O_TMPFILE
#include "lab/lab.h"

#include "lab/cuda/device.h"
#include "lab_build.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *lab_verdict_name(int verdict) {
    static const char *const names[] = {"keep", "reject", "inconclusive", "bad"};
    return verdict >= 0 && verdict <= LAB_BAD ? names[verdict] : "?";
}

bool lab_read(const char *path, lab_text *text, bench_error *error) {
    *text = (lab_text){NULL, 0};
    FILE *file = fopen(path, "rb");
    if (!file)
        return bench_fail(error, "%s: %s", path, strerror(errno));
    size_t room = 1 << 14, got = 1;
    text->bytes = malloc(room + 1);
    while (text->bytes && (got = fread(text->bytes + text->size, 1, room - text->size, file)) > 0) {
        text->size += got;
        if (text->size == room) {
            char *more = realloc(text->bytes, 2 * room + 1);
            if (!more)
                break;
            text->bytes = more;
            room *= 2;
        }
    }
    const bool bad = ferror(file) != 0 || got > 0;
    const int code = errno;
    if (fclose(file) != 0 || bad) {
        free(text->bytes);
        *text = (lab_text){NULL, 0};
        return bench_fail(error, "%s: %s", path, code ? strerror(code) : "cannot be read");
    }
    text->bytes[text->size] = '\0';
    return true;
}

static bool write_all(int fd, const void *bytes, size_t size) {
    const char *p = bytes;
    while (size > 0) {
        const ssize_t n = write(fd, p, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        p += n;
        size -= (size_t)n;
    }
    return true;
}

bool lab_write(const char *path, const void *bytes, size_t size, bench_error *error) {
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return bench_fail(error, "%s: %s", path, strerror(errno));
    const bool written = write_all(fd, bytes, size);
    if (close(fd) != 0 || !written)
        return bench_fail(error, "%s: %s", path, strerror(errno));
    return true;
}

// A nameless file in the folder of `path`, or a named one where the file system knows no nameless ones.
static int open_nameless(const char *path, char temporary[LAB_PATH]) {
    char folder[LAB_PATH];
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    else
        snprintf(folder, sizeof folder, ".");
    temporary[0] = '\0';
    const int fd = open(folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0644);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
        return fd;
    if (snprintf(temporary, LAB_PATH, "%s/.writing.%ld", folder, (long)getpid()) >= LAB_PATH) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
}

bool lab_publish(const char *path, const void *bytes, size_t size, bool *exists, bench_error *error) {
    char temporary[LAB_PATH], nameless[64];
    *exists = false;
    const int fd = open_nameless(path, temporary);
    if (fd < 0)
        return bench_fail(error, "%s: %s", path, strerror(errno));
    bool right = write_all(fd, bytes, size) && fsync(fd) == 0;
    if (right && temporary[0]) {
        right = link(temporary, path) == 0;
    } else if (right) {
        snprintf(nameless, sizeof nameless, "/proc/self/fd/%d", fd);
        right = linkat(AT_FDCWD, nameless, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0;
    }
    const int code = errno;
    if (temporary[0])
        unlink(temporary);
    close(fd);
    if (right)
        return true;
    *exists = code == EEXIST;
    return bench_fail(error, "%s: %s", path, strerror(code));
}

bool lab_copy(const char *from, const char *to, bench_error *error) {
    lab_text text;
    if (!lab_read(from, &text, error))
        return false;
    const bool right = lab_write(to, text.bytes, text.size, error);
    free(text.bytes);
    return right;
}

bool lab_join(char out[LAB_PATH], const char *folder, const char *name, bench_error *error) {
    if (snprintf(out, LAB_PATH, "%s/%s", folder, name) >= LAB_PATH)
        return bench_fail(error, "%s/%s: the path is longer than %d characters", folder, name, LAB_PATH - 1);
    return true;
}

void lab_hash(char out[LAB_HASH], const void *bytes, size_t size) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int n = 0;
    if (EVP_Digest(bytes, size, digest, &n, EVP_sha256(), NULL) != 1)
        n = 0; // no hash is equal to no other: what compares it refuses
    out[0] = '\0';
    for (unsigned int i = 0; i < n; i++)
        snprintf(out + (size_t)2 * i, 3, "%02x", digest[i]);
}

bool lab_hash_file(char out[LAB_HASH], const char *path, bench_error *error) {
    lab_text text;
    if (!lab_read(path, &text, error))
        return false;
    lab_hash(out, text.bytes, text.size);
    free(text.bytes);
    return true;
}

const char *lab_root(void) {
    const char *root = getenv("QSA_LAB_ROOT");
    return root && *root ? root : LAB_ROOT;
}

static const struct {
    const char *stage, *name;
} kernels[] = {
#define KERNEL_NAME(stage, kernel) {#stage, #kernel},
    QSA_KERNELS(KERNEL_NAME)
#undef KERNEL_NAME
};

bool lab_kernel(const char *name, qsa_kernel_number *number, bench_error *error) {
    char list[256] = "";
    size_t used = 0;
    for (int i = 0; i < QSA_K_COUNT; i++) {
        if (strcmp(kernels[i].name, name) == 0) {
            *number = (qsa_kernel_number)i;
            return true;
        }
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? " " : "", kernels[i].name);
    }
    return bench_fail(error, "KERNEL %s: expected one of %s", name, list);
}

bool lab_kernel_of_file(const char *path, qsa_kernel_number *number) {
    const char *slash = strrchr(path, '/'), *stem = slash ? slash + 1 : path;
    size_t longest = 0;
    for (int i = 0; i < QSA_K_COUNT; i++) {
        const size_t length = strlen(kernels[i].name);
        if (length > longest && strncmp(stem, kernels[i].name, length) == 0 && stem[length] == '_') {
            longest = length;
            *number = (qsa_kernel_number)i;
        }
    }
    return longest > 0;
}

static const struct {
    const char *stage, *name;
} cuda_kernels[] = {
#define CUDA_KERNEL_NAME(stage, kernel) {#stage, #kernel},
    LAB_DEVICE_KERNEL_LIST(CUDA_KERNEL_NAME)
#undef CUDA_KERNEL_NAME
};

bool lab_is_cuda(qsa_kernel_number number) {
    return (int)number >= LAB_CUDA;
}

bool lab_is_cuda_file(const char *path) {
    const size_t length = strlen(path);
    return length > 3 && strcmp(path + length - 3, ".cu") == 0;
}

bool lab_cuda_kernel(const char *name, qsa_kernel_number *number, bench_error *error) {
    for (int i = 0; i < LAB_DEVICE_KERNELS; i++)
        if (strcmp(cuda_kernels[i].name, name) == 0) {
            *number = (qsa_kernel_number)(LAB_CUDA + i);
            return true;
        }
    return bench_fail(error, "KERNEL %s: a .cu file is one of score topk attend merge gate prep commit", name);
}

const char *lab_kernel_name(qsa_kernel_number number) {
    return lab_is_cuda(number) ? cuda_kernels[(int)number - LAB_CUDA].name : kernels[number].name;
}

const char *lab_kernel_stage(qsa_kernel_number number) {
    return lab_is_cuda(number) ? cuda_kernels[(int)number - LAB_CUDA].stage : kernels[number].stage;
}

const qsa_kernel_row *lab_row(qsa_kernel_number number, const char *name) {
    for (int32_t i = 0; i < qsa_table_rows(); i++) {
        const qsa_kernel_row *row = qsa_table_row(i);
        if (row->number == number && (strcmp(row->where, name) == 0 || strcmp(row->name, name) == 0))
            return row;
    }
    return NULL;
}
