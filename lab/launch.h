// SPDX-License-Identifier: Apache-2.0
//
// How a CUDA candidate is launched: lines `// LAUNCH: kernel=NAME when=E grid=E,E,E block=E shared=E cluster=E args=int64:E,int32:E`
// in its source, where E is an integer expression over the call. NVRTC compiles device code only, so a candidate has no launcher.

#ifndef QSA_LAB_LAUNCH_H
#define QSA_LAB_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// What an expression may name. Those that a kernel's arguments do not have are 0. aligned: all rows, factors, results and cache
// arrays of prep and the strides of its rows are multiples of 16 bytes.
// clang-format off
#define LAB_LAUNCH_NAMES(X) \
    X(rows) X(heads) X(kv_heads) X(head_dim) X(index_heads) X(index_dim) X(rotary_dim) X(ratio) X(budget) \
    X(most_cells) X(blocks) X(chunks) X(kv_type) X(block_key_type) X(keep) X(layers) X(aligned)
// clang-format on

typedef struct lab_launch_values {
#define LAB_LAUNCH_VALUE(name) int64_t name;
    LAB_LAUNCH_NAMES(LAB_LAUNCH_VALUE)
#undef LAB_LAUNCH_VALUE
} lab_launch_values;

enum { LAB_LAUNCHES = 12, LAB_LAUNCH_TEXT = 160, LAB_LAUNCH_ARGS = 6, LAB_LAUNCH_LINE = 3200 };

typedef struct lab_launch {
    char kernel[LAB_LAUNCH_TEXT]; // a name expression of NVRTC: gate, score<QSA_F16>
    char when[LAB_LAUNCH_TEXT];   // the first line that holds is taken; empty: always
    char grid[3][LAB_LAUNCH_TEXT], block[3][LAB_LAUNCH_TEXT];
    char shared[LAB_LAUNCH_TEXT];               // bytes of dynamic shared memory
    char cluster[LAB_LAUNCH_TEXT];              // thread blocks of a cluster, along x
    char arg[LAB_LAUNCH_ARGS][LAB_LAUNCH_TEXT]; // parameters behind the argument struct
    int arg_bytes[LAB_LAUNCH_ARGS];             // 4 or 8; 0: an int32 behind the one before it in the same struct
    int args;
} lab_launch;

// One launch, worked out.
typedef struct lab_launch_shape {
    int64_t grid[3], block[3], shared, cluster;
    int64_t arg[LAB_LAUNCH_ARGS];
} lab_launch_shape;

// The LAUNCH lines of a source. False with a line in `why`: none, too many, an unknown word, a malformed expression.
bool lab_launch_read(lab_launch list[LAB_LAUNCHES], int *count, const char *text, char *why, size_t size);

// Writes a line as it was read, with another name of the kernel.
int lab_launch_write(const lab_launch *launch, const char *kernel, char *line, size_t size);

// The line that serves these values: its number, or -1 with a line in `why`. An empty grid (a count of 0) is no error.
int lab_launch_choose(const lab_launch *list, int count, const lab_launch_values *values, lab_launch_shape *shape,
                      char *why, size_t size);

#ifdef __cplusplus
}
#endif

#endif
