// SPDX-License-Identifier: Apache-2.0
//
// SHA-256 of what every stage computes, through the public API, from raw rows that are made of integers alone: the same
// bytes on every machine, without libm. tests/digests.txt holds one line `scenario/what hash` each; machines and kernels
// must reproduce it. Hashed are the bytes in memory, little-endian.
#ifndef QSA_TESTS_DIGEST_H
#define QSA_TESTS_DIGEST_H

#include "qsa/qsa.h"

#include <stdbool.h>

typedef struct {
    char name[64], hash[65];
} digest_line;

typedef struct {
    digest_line *line;
    int count, capacity;
    int conflicts; // names added twice with different bytes
} digest_list;

// A line of another list.
void digest_append(digest_list *list, const char *name, const char *hash);
void digest_add(digest_list *list, const char *name, const void *data, size_t bytes);
const char *digest_find(const digest_list *list, const char *name); // the hash, NULL if there is none
void digest_free(digest_list *list);

// Reads or writes a file of digests, lines starting with # apart. read: false if there is no such file. A line that is no
// digest, or a name that is there twice, is a conflict. write sorts by name; false on failure.
bool digest_read(digest_list *list, const char *path);
bool digest_write(digest_list *list, const char *path, const char *comment);

typedef struct {
    const char *name;
    void (*geometry)(qsa_geometry *g);
    int32_t written; // cells that are in the cache before, in stored form; a multiple of the ratio
    int32_t rows;    // rows appended
    int32_t sequences;
    int32_t first_position;
    bool images;      // three positions per token that differ
    bool edges;       // infinities, NaN, subnormals and huge values among the raw numbers
    bool all_formats; // every cache format with every type of block keys, else each once
    qsa_type raw;     // type of the raw rows
    qsa_type only;    // not 0: this cache format alone
} digest_scenario;

// Changes one input, to see that the digests see it: the last bit of every number of the first vector.
typedef enum { DIGEST_AS_IS, DIGEST_Q, DIGEST_K, DIGEST_V, DIGEST_INDEX_Q, DIGEST_INDEX_K, DIGEST_GATE } digest_change;

// Runs a scenario with the kernels that the library picks (where NULL) or with those of one `where` in every stage that
// has one, and adds its digests. Ends the program when a call fails. f32_only: one format, for controls.
void digest_run(digest_list *list, const digest_scenario *scenario, const char *where, digest_change change,
                bool f32_only);

// The names of all kernels that such a context uses, in one line.
void digest_kernels(const char *where, size_t size, char *names);

// The test's main: all scenarios with every set of kernels against tests/digests.txt; with --write the file is made again
// (lines of other programs' scenarios are kept). controls: first see that SHA-256 is right, and that the digests of the
// first scenario see a changed input.
int digest_main(int argc, char **argv, const digest_scenario *scenarios, int count, bool controls);

void digest_tiny(qsa_geometry *g); // heads 4/2 x 16, indexer 2 x 8, ratio 4, budget 16
void digest_odd(qsa_geometry *g);  // dims that are no multiple of 16 or 64, ratio 3
void digest_long(qsa_geometry *g); // 16 bytes a cell in i8
void digest_real(qsa_geometry *g); // the preset

#endif
