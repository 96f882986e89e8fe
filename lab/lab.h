// SPDX-License-Identifier: Apache-2.0
//
// What all parts of the lab share: exit codes, refusals, texts, hashes, and where things lie.

#ifndef QSA_LAB_LAB_H
#define QSA_LAB_LAB_H

#include "bench/error.h"
#include "dispatch/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum lab_verdict {
    LAB_KEEP = 0,
    LAB_REJECT = 1,
    LAB_INCONCLUSIVE = 2,
    LAB_BAD = 3, // usage, a bad file, or the lab itself failed
} lab_verdict;

// "keep", "reject", "inconclusive", "bad".
const char *lab_verdict_name(int verdict);

enum { LAB_PATH = 1024, LAB_HASH = 65 };

// Bytes with a zero behind them. free(text.bytes).
typedef struct lab_text {
    char *bytes;
    size_t size;
} lab_text;

bool lab_read(const char *path, lab_text *text, bench_error *error);
// Creates or overwrites; for files of scratch, which nobody else reads.
bool lab_write(const char *path, const void *bytes, size_t size, bench_error *error);
// As a whole or not at all: a file that is visible is complete. Never replaces one: exists is set instead.
bool lab_publish(const char *path, const void *bytes, size_t size, bool *exists, bench_error *error);
bool lab_copy(const char *from, const char *to, bench_error *error);

// Joins with a slash; a path that does not fit is refused.
bool lab_join(char out[LAB_PATH], const char *folder, const char *name, bench_error *error);

// SHA-256 as 64 hexadecimal digits.
void lab_hash(char out[LAB_HASH], const void *bytes, size_t size);
bool lab_hash_file(char out[LAB_HASH], const char *path, bench_error *error);

// The source tree whose kernels are labelled: $QSA_LAB_ROOT or the one that was built.
const char *lab_root(void);

// The kernels of CUDA (kernels/cuda_args.h) have numbers behind those of the table: LAB_CUDA + LAB_DEVICE_*.
enum { LAB_CUDA = 64 };
bool lab_is_cuda(qsa_kernel_number number);
// Whether a path ends in .cu.
bool lab_is_cuda_file(const char *path);
bool lab_cuda_kernel(const char *name, qsa_kernel_number *number, bench_error *error);

// A kernel of the table by name.
bool lab_kernel(const char *name, qsa_kernel_number *number, bench_error *error);
// The kernel that a file's name begins with, before an underscore; longer names first (screen_query is no screen).
bool lab_kernel_of_file(const char *path, qsa_kernel_number *number);
const char *lab_kernel_name(qsa_kernel_number number);
const char *lab_kernel_stage(qsa_kernel_number number);
// The row of a kernel by `where` or full name; NULL if this build has none.
const qsa_kernel_row *lab_row(qsa_kernel_number number, const char *name);

#endif
