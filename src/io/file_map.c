// SPDX-License-Identifier: Apache-2.0
//
// Maps a regular file. The descriptor is closed at once: the mapping keeps the file alive, also
// when its name is gone or renamed over.
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64
#endif

#include "io/file_map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static bool map_descriptor(io_map *map, int fd, io_error err) {
    struct stat st;
    if (fstat(fd, &st) != 0)
        return io_fail_errno(err, errno, "cannot read the file's size");
    if (S_ISDIR(st.st_mode))
        return io_fail(err, "is a directory");
    if (!S_ISREG(st.st_mode))
        return io_fail(err, "is not a regular file");
    if ((uintmax_t)st.st_size > SIZE_MAX)
        return io_fail(err, "file of %jd bytes does not fit into the address space", (intmax_t)st.st_size);
    map->size = (size_t)st.st_size;
    if (map->size == 0)
        return true;
    void *bytes = mmap(NULL, map->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return io_fail_errno(err, errno, "cannot map the file");
    map->bytes = bytes;
    return true;
}

bool io_map_open(io_map *map, const char *path, io_error err) {
    *map = (io_map){NULL, 0};
    // O_NONBLOCK: opening a pipe must not wait for somebody to write into it.
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return io_fail_errno(err, errno, "cannot open");
    bool ok = map_descriptor(map, fd, err);
    close(fd);
    return ok;
}

void io_map_close(io_map *map) {
    if (map->bytes != NULL)
        munmap((void *)(uintptr_t)map->bytes, map->size);
    *map = (io_map){NULL, 0};
}
