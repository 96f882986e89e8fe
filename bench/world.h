// SPDX-License-Identifier: Apache-2.0
//
// The inputs of a case: a filled cache of one layer at the real geometry, raw rows of a batch behind it, selections, and
// room for every result. Random numbers of realistic scale throughout, the same on every run.

#ifndef QSA_BENCH_WORLD_H
#define QSA_BENCH_WORLD_H

#include "bench/options.h"
#include "bench/random.h"

#include <stddef.h>

enum { WORLD_BUFFERS = 40 };

typedef struct bench_world {
    const bench_options *options;
    qsa_context *context; // borrowed
    qsa_geometry geometry;
    qsa_layer *layer;
    qsa_cache *cache;
    bench_random random;

    int32_t pos, tokens, rows; // rows = tokens x seqs, the rows of one sequence one after the other
    int32_t group;             // rows that an attention call takes at once: 2 x threads, as qsa_forward's waves
    int32_t *sequences;        // [rows]
    int32_t *positions;        // [rows]
    int32_t *cells;            // [rows] that each row sees
    qsa_batch batch;           // raw rows, float32
    qsa_rows_out out;

    float *q, *index_q;      // [rows] of prep
    float *scores;           // [rows][score_stride]
    int64_t score_stride;    //
    float *records;          // [record_rows][record_stride]
    int64_t record_stride;   //
    int32_t record_rows;     // rows where all records are kept, else group
    int32_t *chunks;         // [record_rows]
    qsa_selection selection; // what the attention uses
    qsa_selection found;     // what top-k writes
    void *workspace;
    size_t workspace_bytes;

    // Of the selections, over all sequences: different cells, and the same per group of 8 and 16 neighbouring rows in
    // units of one row's blocks (0: fewer rows), and the mean Jaccard index of neighbours (0: one row).
    double unique_cells, union8, union16, jaccard;

    // On a GPU: what of the above lies there.
    void *device_memory[WORLD_BUFFERS];
    size_t device_bytes[WORLD_BUFFERS];
    int32_t n_device;

    struct {
        void *memory;
    } buffers[WORLD_BUFFERS];
    int32_t n_buffers;
} bench_world;

// A context of the options: threads, class and forced kernels. NULL and the library's own line when it has none.
qsa_context *world_context(const bench_options *options, bench_error *error);

// `id` says what has to be there, BENCH_ALL everything. pos and tokens are not -1. The world is closed when this fails.
bool world_open(bench_world *world, const bench_options *options, qsa_context *context, bench_id id, int32_t pos,
                int32_t tokens, bench_error *error);
void world_close(bench_world *world);

// count elements, aligned to 64, that live until world_close; NULL and a line when there is no memory.
void *world_array(bench_world *world, size_t count, size_t size, bench_error *error);

// fill.c: writes pos cells into every sequence, straight, as cells of stored form.
bool world_fill(bench_world *world, bench_error *error);

// select.c: selections of the rows above the budget, and the measures above.
bool world_select(bench_world *world, bench_selection kind, bench_error *error);

// Appends the batch as pending rows: q and index_q get what prep makes. world_discard takes them back.
qsa_status world_append(bench_world *world);
qsa_status world_discard(bench_world *world);

// Standard deviation of the logits of the first row over a sample of cells, all heads; the rows must be appended.
bool world_logits(bench_world *world, double *deviation, bench_error *error);

#endif
