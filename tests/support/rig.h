// SPDX-License-Identifier: Apache-2.0
//
// The library on a test bench: a context, a layer with random norm weights and a cache, opened from an
// oracle geometry, driven through the public API alone; raw rows as an engine has them (fused query and
// gate, fused indexer rows); and the cache read back and decoded by the oracle's codec. A call that
// fails where it must not ends the program with the library's message. Workspaces have exactly the
// size that the library asks for, start at an odd address and are filled with NaN before every call.
#ifndef QSA_TESTS_RIG_H
#define QSA_TESTS_RIG_H

#include "oracle.h"
#include "qsa/qsa.h"

typedef struct {
    oracle_geometry geometry;
    qsa_norm_form norm_form;
    qsa_type norm_type;
    qsa_type kv_type, block_key_type;
    int32_t layers, threads;
    int32_t page_cells; // multiple of ratio
    int32_t max_sequences, max_cells, rollback;
    int32_t pages;         // 0: as many as all sequences at max_cells take
    uint64_t seed;         // of the norm weights; 0: factors of 1
    qsa_allocator hook;    // both null: the library's own
    const char *where;     // not null: kernels of this name are forced in every stage that has them
    const void *weight[4]; // not null: used instead of random ones (q, k, index q, index k), in norm_type
} rig_config;

// One layer, one sequence, one thread, f32 everywhere, pages of 4 blocks, rollback 64, random weights.
rig_config rig_defaults(const oracle_geometry *g, int32_t max_cells);

typedef struct {
    rig_config config;
    qsa_geometry geometry;
    qsa_context *context;
    qsa_layer *layer;
    qsa_cache *cache;      // sequences 0 .. max_sequences-1 are alive and empty
    oracle_norms norms;    // factors, for the oracle
    float *factor[4];      // what norms points to
    unsigned char *memory; // of the workspace
} rig;

void rig_open(rig *r, const rig_config *config);
void rig_close(rig *r);

// Ends the program unless status is QSA_OK. Use RIG_OK.
void rig_expect_ok(qsa_status status, const char *file, int line);
#define RIG_OK(call) rig_expect_ok((call), __FILE__, __LINE__)

// zeroed memory for count elements, at least one; ends the program when there is none.
void *rig_new(size_t count, size_t size);

// A workspace of exactly the bytes that a stage takes for `rows` rows; valid until the next call.
void *rig_workspace(rig *r, qsa_stage stage, int32_t rows, size_t *bytes);

// Forces kernels by `where`, in every stage that has such ones.
void rig_force(qsa_context *context, const char *where);
// The names that this build and machine can run in a strict context, at most 16. Returns their count.
int rig_wheres(const char *names[16]);

qsa_geometry rig_geometry(const oracle_geometry *g);
oracle_format rig_format(qsa_type type);
size_t rig_element(qsa_type type); // bytes

// n floats rounded to f32, f16 or bf16 and spelled in its bits, by the oracle's codec.
void rig_pack(qsa_type type, size_t n, const float *x, void *out);

// ---- Raw rows ---------------------------------------------------------------------------------

typedef struct {
    int32_t rows;
    int32_t *sequences; // [rows]
    int32_t *positions; // [rows][3]
    uint8_t *attend;    // [rows]
    float *q;           // [rows][H][query D | gate D]
    float *k, *v;       // [rows][G][D]
    float *index;       // [rows][IH*ID | ID]
    qsa_type type;      // QSA_F32: handed over as they are; else after rig_rows_pack
    void *packed[4];    // q, k, v, index in `type`
} rig_rows;

// Random rows of sequence 0 at positions 0, 1, 2, ..., all attending.
void rig_rows_init(rig_rows *rows, const oracle_geometry *g, int32_t count, uint64_t seed);
void rig_rows_free(rig_rows *rows);
// Rounds every value to f16 or bf16; the library gets the rows in that type.
void rig_rows_pack(rig_rows *rows, const oracle_geometry *g, qsa_type type);
// Row i's floats: raw q row, k, v, indexer row.
float *rig_q(const rig_rows *rows, const oracle_geometry *g, int32_t i);
float *rig_k(const rig_rows *rows, const oracle_geometry *g, int32_t i);
float *rig_v(const rig_rows *rows, const oracle_geometry *g, int32_t i);
float *rig_index(const rig_rows *rows, const oracle_geometry *g, int32_t i);
// Rows first .. first+count-1 as a batch.
qsa_batch rig_batch(const rig_rows *rows, const oracle_geometry *g, int32_t first, int32_t count, bool gate);

// ---- Running ----------------------------------------------------------------------------------

// What the calls gave for the rows of one batch. Everything is filled with a pattern of NaN first.
typedef struct {
    int32_t rows;
    int32_t *cells;             // [rows]
    float *q, *index_q, *k, *v; // as qsa_prep_out
    float *scores;              // [rows][score_stride]
    int64_t score_stride;       // at least max_cells / ratio of the cache
    qsa_selection selection;    // with room for the rule cut
    float *records;             // [rows][record_stride], of rig_stages
    int64_t record_stride;
    int32_t *chunks;
    float *out, *lse; // [rows][H][D], [rows][H]
} rig_result;

void rig_result_init(rig_result *result, const rig *r, int32_t rows);
void rig_result_free(rig_result *result);

// prep and score of every attending row: cells, q, index_q, k, v, scores. Leaves the batch pending.
void rig_observe(rig *r, int32_t layer, const qsa_batch *batch, rig_result *result);
// forward: selection, out and lse. Leaves the batch pending.
void rig_forward(rig *r, int32_t layer, const qsa_batch *batch, qsa_rule rule, rig_result *result);
// The same by prep, score, topk, attend, merge; every row must attend.
void rig_stages(rig *r, int32_t layer, const qsa_batch *batch, qsa_rule rule, rig_result *result);
// forward in layer 0 and commit, in batches of `chunk` rows; the results of all rows, without scores.
void rig_run(rig *r, const rig_rows *rows, int32_t chunk, qsa_rule rule, bool gate, rig_result *result);

// Row i of a result as the oracle's selection; `cells` (unless NULL) gets the cells.
oracle_selection rig_selection(const rig *r, const rig_result *result, int32_t i, int32_t n, int32_t *cells);

// ---- The cache --------------------------------------------------------------------------------

// Committed cells 0 .. cells-1 as stored, and decoded.
typedef struct {
    int32_t cells;
    void *k_bits, *v_bits, *key_bits;
    uint16_t *k_scales, *v_scales;
    double *k, *v;      // [cells][G][D]
    double *block_keys; // [cells / ratio][ID]
} rig_stored;

void rig_read(const rig *r, int32_t layer, int32_t sequence, rig_stored *stored);
void rig_stored_free(rig_stored *stored);

// Writes count cells behind a sequence's length (pending): k, v [count][G][D] and the keys of the blocks
// that they complete, encoded by the oracle's codec. The new length must be a multiple of ratio.
void rig_write(rig *r, int32_t layer, int32_t sequence, int32_t count, const float *k, const float *v,
               const float *block_keys);

#endif
