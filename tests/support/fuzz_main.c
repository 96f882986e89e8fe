// SPDX-License-Identifier: Apache-2.0
// main() of a fuzz target in builds without libFuzzer: replays every file of the folders and every
// file named on the command line. A folder without files is a failure: it would test nothing.
#include <dirent.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// The bytes are copied to a block of exactly their size, so that the sanitizers see a read past it.
static int replay_file(const char *path, size_t size) {
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(size ? size : 1);
    const int ok = file && data && fread(data, 1, size, file) == size;
    if (ok)
        LLVMFuzzerTestOneInput(data, size);
    else
        fprintf(stderr, "%s: cannot be read\n", path);
    free(data);
    if (file)
        fclose(file);
    return ok ? 1 : -1;
}

// The number of inputs replayed, or -1.
static int replay(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0) {
        perror(path);
        return -1;
    }
    if (!S_ISDIR(info.st_mode))
        return replay_file(path, (size_t)info.st_size);
    DIR *folder = opendir(path);
    if (!folder) {
        perror(path);
        return -1;
    }
    int count = 0;
    for (struct dirent *entry; count >= 0 && (entry = readdir(folder));) {
        char name[4096];
        const int length = snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        if (entry->d_name[0] == '.')
            continue;
        if (length >= (int)sizeof name || stat(name, &info) != 0 || !S_ISREG(info.st_mode)) {
            fprintf(stderr, "%s: not a plain file\n", name);
            count = -1;
        } else {
            count = replay_file(name, (size_t)info.st_size) < 0 ? -1 : count + 1;
        }
    }
    closedir(folder);
    return count;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const int count = replay(argv[i]);
        if (count <= 0) {
            fprintf(stderr, "%s: %s\n", argv[i], count ? "failed" : "no inputs");
            return 1;
        }
        printf("%s: %d inputs\n", argv[i], count);
    }
    return argc > 1 ? 0 : 1;
}
