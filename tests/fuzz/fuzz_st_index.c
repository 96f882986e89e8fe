// SPDX-License-Identifier: Apache-2.0
//
// Fuzz target: the index of a sharded checkpoint. A refusal must leave one printable line; of an index that is accepted no
// file lies outside of its folder.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/st_index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "broken: %s\n", what);
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char err[1024] = "";
    st_index *index = st_index_parse((const char *)data, size, (io_error){err, sizeof err});
    if (index == NULL) {
        require(*err != '\0' && strlen(err) < sizeof err - 1, "a refusal says why");
        for (const char *c = err; *c != '\0'; c++)
            require(*c >= 0x20 && *c <= 0x7e, "the line is printable ASCII");
        return 0;
    }
    for (size_t i = 0; i < st_index_count(index); i++) {
        const char *tensor = st_index_tensor(index, i), *file = st_index_file(index, i);
        require(i == 0 || strcmp(st_index_tensor(index, i - 1), tensor) < 0, "tensors ascend");
        require(st_index_find(index, tensor) == file, "a tensor is found");
        require(*file != '\0' && *file != '.' && strpbrk(file, "/\\") == NULL, "a file lies in the folder");
    }
    require(st_index_find(index, "no such tensor") == NULL || st_index_count(index) > 0, "nothing is found in nothing");
    st_index_free(index);
    return 0;
}
