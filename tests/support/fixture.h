// SPDX-License-Identifier: Apache-2.0
//
// Worlds of tokens to run through the library in many ways. A world holds, for some sequences and layers, the raw rows
// of every token: small multiples of 1/32, exact in f32, f16 and bf16. A session is a context, layers and a cache that
// take these tokens in; how (threads, chunks, order, pages, strides, stages) are options. What comes out lies in results
// at the token's own place, whatever the way, so two ways are compared with memcmp.
//
// The fixture ends the program when a call fails that may not fail, and when bytes between two output rows change.
#ifndef QSA_TESTS_FIXTURE_H
#define QSA_TESTS_FIXTURE_H

#include "qsa/qsa.h"
#include "support/heap.h"
#include "support/rng.h"

#include "api/cache.h"

enum { FX_MAX_LAYERS = 3, FX_MAX_SEQUENCES = 6, FX_PATTERN = 0xa5 };

// -- worlds

typedef enum fx_array { FX_Q, FX_K, FX_V, FX_INDEX_Q, FX_INDEX_K, FX_GATE, FX_ARRAYS } fx_array;

typedef struct fx_world {
    qsa_geometry geometry;
    int32_t layers, sequences, positions_per_row;
    int32_t length[FX_MAX_SEQUENCES];
    int32_t first[FX_MAX_SEQUENCES]; // number of the sequence's first token among the tokens of all
    int32_t tokens;
    float *values[FX_MAX_LAYERS][FX_ARRAYS]; // [tokens][heads][dim]
    float *norms[FX_MAX_LAYERS][4];          // q, k, index q, index k
    int32_t *positions;                      // [tokens][3]
    uint8_t *attend;                         // [tokens] some 0: used with the option `masked`
} fx_world;

// heads 4 over 2, dims 24 and 16, ratio 4, budget 16: most rows of 30 cells select.
qsa_geometry fx_geometry_small(void);
// heads 6 over 1, dims 80 (two groups, the second short) and 20, ratio 4, budget 96: rows have two records.
qsa_geometry fx_geometry_wide(void);
qsa_geometry fx_geometry_random(rng *r);

fx_world *fx_world_make(uint64_t seed, const qsa_geometry *geometry, int32_t layers, int32_t sequences,
                        const int32_t *lengths, int32_t positions_per_row);
void fx_world_free(fx_world *world);
void fx_shape(const qsa_geometry *geometry, fx_array array, int32_t *heads, int32_t *dim);
static inline float *fx_values(const fx_world *world, int32_t layer, fx_array array, int32_t token) {
    int32_t heads, dim;
    fx_shape(&world->geometry, array, &heads, &dim);
    return world->values[layer][array] + (size_t)token * (size_t)heads * (size_t)dim;
}

// -- arrays of rows in any type and layout

typedef enum fx_layout {
    FX_PACKED,
    FX_ODD,      // starts at an odd address, odd gaps between heads and rows
    FX_BACKWARDS // negative strides of heads and rows, gaps
} fx_layout;

// The memory ends with the last element, so that the address sanitizer sees a read or write past it.
typedef struct fx_rows {
    unsigned char *memory;
    size_t bytes;
    unsigned char *data; // element 0 of head 0 of row 0
    qsa_type type;
    int64_t row_stride, head_stride;
    int32_t rows, heads, dim;
} fx_rows;

size_t fx_element(qsa_type type);
fx_rows fx_rows_make(int32_t rows, int32_t heads, int32_t dim, qsa_type type, fx_layout layout);
// Row i becomes the values of token tokens[i].
void fx_rows_fill(fx_rows *rows, const float *values, const int32_t *tokens);
qsa_rows fx_rows_in(const fx_rows *rows);
qsa_rows_out fx_rows_out(const fx_rows *rows);
// Copies a row out without gaps and puts the pattern back in its place.
void fx_rows_take(fx_rows *rows, int32_t row, unsigned char *to);
// Ends the program unless all bytes hold the pattern.
void fx_rows_check_and_free(fx_rows *rows);
// One float encoded exactly; ends the program if it cannot be.
void fx_encode(float x, qsa_type type, void *to);

// -- results

typedef enum fx_section {
    FX_OUT,
    FX_LSE,
    FX_IDS,
    FX_COUNT,
    FX_CUT_INDEX,
    FX_CUT_CELLS,
    FX_FORWARD_SECTIONS, // the others are filled by the stage calls only
    FX_PREP_Q = FX_FORWARD_SECTIONS,
    FX_PREP_INDEX_Q,
    FX_PREP_K,
    FX_PREP_V,
    FX_PREP_CELLS,
    FX_SCORES,
    FX_SECTIONS
} fx_section;

typedef struct fx_results {
    const fx_world *world;
    int stages;
    size_t row[FX_SECTIONS];                                // bytes per token
    unsigned char *bytes[FX_MAX_LAYERS][FX_SECTIONS];       // [tokens][row], what was not written holds FX_PATTERN
    unsigned char *stored[FX_MAX_LAYERS][FX_MAX_SEQUENCES]; // the cache's cells, see fx_read
    size_t stored_bytes[FX_MAX_LAYERS][FX_MAX_SEQUENCES];
} fx_results;

void fx_results_free(fx_results *results);
static inline unsigned char *fx_at(const fx_results *results, int32_t layer, fx_section section, int32_t token) {
    return results->bytes[layer][section] + (size_t)token * results->row[section];
}
// NULL if all that both have is equal byte by byte, else what differs first and where (static storage).
const char *fx_difference(const fx_results *a, const fx_results *b);
// The same of one layer each, and of a token alone.
const char *fx_layer_difference(const fx_results *a, int32_t layer_a, const fx_results *b, int32_t layer_b);
const char *fx_token_difference(const fx_results *a, const fx_results *b, int32_t layer, int32_t token);

// -- sessions

typedef struct fx_options {
    qsa_type kv_type, block_key_type, raw_type, out_type;
    fx_layout layout;                                              // of inputs and outputs
    int32_t page_cells, pages, rollback, max_sequences, max_cells; // pages, max_*: 0 is enough for all
    int32_t threads;
    qsa_parallel_for parallel_for;
    void *parallel_user;
    qsa_rule rule;
    int32_t chunk;  // tokens of a sequence per batch, 0: all
    int interleave; // 1: all sequences in each batch, rows in random order; 0: one sequence after the other
    int gate, masked, stages;
    int32_t screen;              // of the cache
    int shuffle_pages;           // the pool's pages in random order
    const fx_results *use;       // forward attends the blocks selected there
    int32_t first_layer, layers; // layers of the world in the cache; layers 0: all
    const char *kernels;         // a `where` to force, or null
    qsa_backend backend;         // with `fast` its fast kernels
    int fast;
    heap *heap;    // or null
    uint64_t seed; // of orders
} fx_options;

fx_options fx_options_default(void);

typedef struct fx_session {
    const fx_world *world;
    fx_options options;
    int32_t layers;
    qsa_context *context;
    qsa_layer *layer[FX_MAX_LAYERS];
    qsa_cache *cache;
    qsa_cache_config config;
    int32_t sequence[FX_MAX_SEQUENCES]; // the library's numbers
    int32_t done[FX_MAX_SEQUENCES];     // tokens committed
    rng order;
} fx_session;

// Rows of one call: the world's tokens, encoded.
typedef struct fx_batch {
    qsa_batch batch;
    int32_t rows;
    int32_t *tokens, *sequences, *positions;
    uint8_t *attend;
    fx_rows arrays[FX_ARRAYS];
} fx_batch;

fx_session fx_open(const fx_world *world, const fx_options *options);
void fx_close(fx_session *session);
qsa_cache_config fx_config(const fx_world *world, const fx_options *options);
qsa_layer *fx_make_layer(qsa_context *context, const fx_world *world, int32_t layer);

fx_results *fx_results_make(const fx_session *session);

// The next count[s] tokens of every sequence s, in the session's order; returns the number of rows. tokens: [world->tokens].
int32_t fx_next(fx_session *session, const int32_t *count, int32_t *tokens);
// A batch of these tokens for a layer of the world.
fx_batch fx_batch_make(const fx_session *session, int32_t layer, int32_t rows, const int32_t *tokens);
void fx_batch_free(fx_batch *batch);
// forward, or the stages, over a batch for a layer (of the session); the outcome goes to results (may be null).
void fx_compute(fx_session *session, int32_t layer, const fx_batch *batch, fx_results *results);
void fx_compute_stages(fx_session *session, int32_t layer, const fx_batch *batch, fx_results *results);
// The next count[s] tokens of every sequence through all layers, then commit.
void fx_step(fx_session *session, const int32_t *count, fx_results *results);
// Everything that is left, by chunk and order.
void fx_run_on(fx_session *session, fx_results *results);
// Reads the cells of all sequences into results: k, v, scales, block keys, raw index keys and positions of the open block.
void fx_read(const fx_session *session, fx_results *results);
// open, run_on, read, close.
fx_results *fx_run(const fx_world *world, const fx_options *options);

// A workspace of exactly the bytes that a stage asks for, at an odd address; free it with fx_workspace_free.
void *fx_workspace(const fx_session *session, qsa_stage stage, int32_t rows, size_t *bytes);
void fx_workspace_free(void *workspace);

// The cache's allocation without the writer's scratch: equal copies mean that nothing has changed.
unsigned char *fx_cache_bytes(const qsa_cache *cache, size_t *bytes);

// -- little helpers

_Noreturn void fx_die(const char *file, int line, const char *what);
#define FX_OK(call)                                                                                                    \
    do {                                                                                                               \
        if ((call) != QSA_OK)                                                                                          \
            fx_die(__FILE__, __LINE__, #call);                                                                         \
    } while (0)
void *fx_alloc(size_t bytes); // not 0 bytes; ends the program when there is no memory; filled with the pattern

// Counts a check of plain_runner.h, which the test includes.
#define FX_SAME(a, b)                                                                                                  \
    do {                                                                                                               \
        const char *fx_what = fx_difference((a), (b));                                                                 \
        plain_check(!fx_what, __FILE__, __LINE__, fx_what ? fx_what : "");                                             \
    } while (0)

#endif
