// SPDX-License-Identifier: Apache-2.0
//
// A layer file through the library: projects, appends every visible token of every sequence to one cache in ragged
// chunks that mix the sequences, and runs the stages prep, score, topk, attend, merge and gate for the rows that
// attend. The results do not depend on chunk, threads, or how sequences are mixed.
//
// Results are held as the golden files hold them: row r of sequence b is *slot* b * n_rows + r, and slots of masked
// tokens hold no value (NaN, nothing selected).

#ifndef QSA_TOOL_PIPELINE_H
#define QSA_TOOL_PIPELINE_H

#include "expected.h"
#include "projection.h"

typedef enum pipeline_stage {
    PIPELINE_PROJECT, // projections, o_proj included
    PIPELINE_PREP,
    PIPELINE_SCORE,
    PIPELINE_TOPK,
    PIPELINE_ATTEND,
    PIPELINE_MERGE, // merge and gate
    PIPELINE_STAGES
} pipeline_stage;

// What is kept for the caller. The selection always is; without ATTN, GATED and OUT attention is not computed.
enum {
    PIPELINE_KEEP_Q = 1,
    PIPELINE_KEEP_INDEX_Q = 2,
    PIPELINE_KEEP_KV = 4,
    PIPELINE_KEEP_SCORES = 8,
    PIPELINE_KEEP_ATTN = 16,
    PIPELINE_KEEP_GATED = 32,
    PIPELINE_KEEP_OUT = 64,
    PIPELINE_KEEP_ALL = 127,
};

#define PIPELINE_MAX_KERNELS 32

typedef struct pipeline_kernel {
    char stage[32];
    char name[96];
} pipeline_kernel;

typedef struct pipeline_options {
    qsa_type kv;
    qsa_type block_keys;
    qsa_rule rule;
    qsa_class kernel_class; // strict on the CPU, fast on a GPU, unless class_given
    bool class_given;
    qsa_backend backend;
    int32_t threads; // 1..1024
    int32_t chunk;   // rows per call, >= 1
    bool all_rows;   // also the rows that are not in the file's `rows` attend
    unsigned keep;   // PIPELINE_KEEP_*
    int n_kernels;
    pipeline_kernel kernels[PIPELINE_MAX_KERNELS];             // forced ones
    void (*progress)(void *user, int64_t done, int64_t total); // tokens, after each chunk; may be null
    void *progress_user;
} pipeline_options;

typedef struct pipeline_scratch pipeline_scratch;

typedef struct pipeline {
    const layer_file *file; // borrowed, as long as the pipeline lives
    pipeline_options options;
    // The file's, with a budget that no sequence reaches lowered to the longest sequence: the same results from less
    // memory, whatever budget a file claims.
    qsa_geometry geometry;
    projection *projection;
    qsa_context *context;
    qsa_layer *layer;
    qsa_cache *cache; // one layer; sequences[b] holds the cells of sequence b once run
    int32_t *sequences;

    int32_t n_rows;    // R: rows of the file, or all tokens
    int32_t *rows;     // [R] ascending t
    int64_t slots;     // B * R
    int32_t *cells;    // [slots] cells the row sees, itself included; 0: masked, no value
    uint8_t *attended; // [slots] 1 where the row's token is visible
    int64_t tokens;    // cells appended, of all sequences
    int64_t attending; // slots that attend

    // NULL where not kept. Blocks: tokens / ratio.
    int32_t blocks;
    float *q, *index_q;        // [slots]...
    float *k, *v;              // [B][T]...
    float *scores;             // [slots][blocks], -inf where the row does not have the block
    qsa_selection selection;   // [slots]; ids of rows below the budget are all blocks
    float *attn, *gated, *out; // [slots]... before the gate, after it, after o_proj
    double ms[PIPELINE_STAGES];
    double total_ms;        // pipeline_open and pipeline_run
    size_t cache_bytes;     // qsa_cache_size
    size_t workspace_bytes; // the largest qsa_workspace_size of the stages that run

    pipeline_scratch *scratch; // buffers of the calls
    double started_ms;
} pipeline;

// CPU, strict, official, i8 with f32 block keys, chunk 512, as many threads as the machine has cores; keeps all.
void pipeline_options_init(pipeline_options *options);

// Makes context, layer, cache and the arrays. A backend, class or kernel that is not there is refused here. On failure
// nothing is left.
bool pipeline_open(pipeline *run, const layer_file *file, const pipeline_options *options, tool_error *error);
// Runs everything, once.
bool pipeline_run(pipeline *run, tool_error *error);
void pipeline_close(pipeline *run);

// Makes a context as the options say, forced kernels included.
qsa_context *pipeline_context(const pipeline_options *options, tool_error *error);

// Marks the tokens that the row of a slot attends in tokens[T], 0 elsewhere. Returns how many.
int32_t pipeline_selected(const pipeline *run, int64_t slot, uint8_t *tokens);

// After pipeline_run with PIPELINE_KEEP_Q: attention of one slot over other complete blocks (ids ascend; the tail
// follows) of the same cache. attn and gated: [heads][head_dim], gated may be NULL. A row below the budget attends
// every cell, whatever ids says.
bool pipeline_attend(pipeline *run, int64_t slot, const int32_t *ids, int32_t count, float *attn, float *gated,
                     tool_error *error);

#endif
