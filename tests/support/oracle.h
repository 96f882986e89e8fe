// SPDX-License-Identifier: Apache-2.0
//
// The float64 oracle: a plain statement of what QSA computes, on plain arrays, for any geometry.
// It shares no code with the library and no order of additions: everything is summed front to back
// in double. Where the definition itself rounds (inverse frequencies, angles, cos and sin, stored
// scores, cache formats) the oracle rounds at the same place; nowhere else.
//
// oracle.c holds norm, RoPE and block keys; oracle_select.c scores and selection; oracle_attend.c
// attention and error measures; oracle_codec.c the cache formats; oracle_sequence.h puts them together
// for a whole sequence. All of them need libc and libm only. Arguments are trusted (asserted); nothing allocates unless it says so.
#ifndef QSA_TESTS_ORACLE_H
#define QSA_TESTS_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    int heads;       // H, query heads; query head h reads KV head h / (H/G)
    int kv_heads;    // G
    int head_dim;    // D
    int rotary_dim;  // R: the first R dims of D and of index_dim are rotated
    int index_heads; // IH
    int index_dim;   // ID
    int ratio;       // r, cells of a block
    int budget;      // cells; K = budget / ratio blocks, and ratio divides budget
    int sections[3]; // M-RoPE: temporal, height, width frequencies; they sum to R/2
    double theta;    // RoPE base
    double eps;      // of every RMS norm
} oracle_geometry;

// The preset of the first model: 24/2 heads of 256, R 64, indexer 4 x 128, ratio 4, budget 2048.
oracle_geometry oracle_geometry_flash_next(void);

// Norm weights as FACTORS: a checkpoint's zero-centred weights need their 1 added by the caller (in
// float32, as the official module does).
typedef struct {
    const float *q;       // [D]
    const float *k;       // [D]
    const float *index_q; // [ID]
    const float *index_k; // [ID]
} oracle_norms;

// ---- Norm and RoPE (oracle.c) -----------------------------------------------------------------

// inv_freq[i] = f32(1 / f32(theta^f32(2i/R))), 0 <= i < R/2: two roundings on purpose.
float oracle_inv_freq(const oracle_geometry *g, int i);

// cos and sin, R/2 values each, of one token: angle = f32(inv_freq[i] * f32(position)), the cosine
// and sine of that float32 angle rounded to float32. positions = {temporal, height, width};
// frequency i takes height if i % 3 == 1 and i < 3*sections[1], width if i % 3 == 2 and
// i < 3*sections[2], else temporal.
void oracle_rope_table(const oracle_geometry *g, const int32_t positions[3], float *cos_table, float *sin_table);

// Rotates the first R dims of one row in place, NeoX halves: a' = a*cos - b*sin, b' = b*cos +
// a*sin with a = x[0:R/2], b = x[R/2:R].
void oracle_rotate(const oracle_geometry *g, const int32_t positions[3], double *x);

// out = x / sqrt(mean(x^2) + eps) * factor over n values; x == out is allowed.
void oracle_rms_norm(int n, const double *x, const float *factor, double eps, double *out);

// One token's queries from its raw q_proj row [H][query D | gate D]: q [H][D] normed and rotated;
// gate [H][D] raw, or NULL.
void oracle_query(const oracle_geometry *g, const oracle_norms *norms, const float *raw, const int32_t positions[3],
                  double *q, double *gate);

// One token's keys [G][D] from its raw k_proj row [G][D].
void oracle_key(const oracle_geometry *g, const oracle_norms *norms, const float *raw, const int32_t positions[3],
                double *k);

// One token's indexer queries [IH][ID] from its raw index_qk_proj row [IH*ID | ID]; the raw index
// key at the end of the row (raw + IH*ID) is not touched.
void oracle_index_query(const oracle_geometry *g, const oracle_norms *norms, const float *raw,
                        const int32_t positions[3], double *index_q);

// Key [ID] of one complete block from the raw index keys of its `ratio` cells, `stride` floats
// apart, and the positions of its FIRST cell: rope(norm(mean)). The mean is not rounded.
void oracle_block_key(const oracle_geometry *g, const oracle_norms *norms, const float *raw_index_k, size_t stride,
                      const int32_t first_positions[3], double *key);

// ---- Scores and selection (oracle_select.c) ---------------------------------------------------

// score[b] = sum over index heads of relu(iq_h . key_b), divided by sqrt(ID). keys [blocks][ID].
// relu keeps NaN. `score` gets the float64 value, `stored` the float32 quotient that selection
// orders, f32(sum) / f32(sqrt(ID)), NaN as 7fc00000. Either may be NULL.
void oracle_scores(const oracle_geometry *g, const double *index_q, const double *keys, int32_t blocks, double *score,
                   float *stored);

// True if block a of score sa comes before block b of score sb: higher score first, -0 equal to
// +0, NaN after every number (also after -inf), then the lower block.
bool oracle_before(float sa, int32_t a, float sb, int32_t b);

typedef enum {
    ORACLE_OFFICIAL, // whole blocks and the tail: budget + n % ratio cells once n > budget+ratio-1
    ORACLE_CUT       // min(n, budget+ratio-1) cells: tail, blocks by score, the last one cut
} oracle_rule;

typedef struct {
    int32_t n;         // cells of the sequence, the row's own included
    int32_t blocks;    // how many ids
    int32_t cut_index; // ORACLE_CUT: index into ids of the block that is cut, else -1
    int32_t cut_cells; // how many of its lowest cells are kept; 0 when nothing is cut
    int32_t tail;      // n % ratio cells of the open block, always attended
    int32_t cells;     // total count of cells attended
} oracle_selection;

// Most ids a selection has: K, and K + 1 under ORACLE_CUT.
int32_t oracle_max_ids(const oracle_geometry *g, oracle_rule rule);

// Most cells a selection has: budget + ratio - 1.
int32_t oracle_max_cells(const oracle_geometry *g);

// Count of cells that a row with n cells attends.
int32_t oracle_width(const oracle_geometry *g, oracle_rule rule, int32_t n);

// Selects for the row with n cells from the n / ratio stored scores. ids (capacity
// oracle_max_ids) come out ascending. Scores are not read when every cell is taken; NULL is fine
// then. Allocates scratch and aborts when there is none.
oracle_selection oracle_select(const oracle_geometry *g, oracle_rule rule, int32_t n, const float *scores,
                               int32_t *ids);

// The cells of a selection, ascending, into cells[selection->cells]; returns their count.
int32_t oracle_cells(const oracle_geometry *g, const oracle_selection *selection, const int32_t *ids, int32_t *cells);

// The other way round for the official rule: selected[cell] for n cells -> ascending block ids.
// Returns their count, or -1 if the set is not whole blocks plus the whole tail. ids has room for
// n / ratio.
int32_t oracle_blocks_of(const oracle_geometry *g, int32_t n, const uint8_t *selected, int32_t *ids);

typedef enum { ORACLE_EQUAL, ORACLE_TIE, ORACLE_NEAR, ORACLE_WRONG } oracle_kind;

// "equal", "tie", "near", "wrong".
const char *oracle_kind_name(oracle_kind kind);

// How selection `got` differs from `want` (both ascending block ids), judged by the official
// scores `score`: tie, when all blocks that are in one of them only have one score; near, when
// every block lost and every block gained differ by less than 2 * score_error; else wrong, as when
// the counts differ or an id is no block (outside 0..blocks-1 or not ascending).
oracle_kind oracle_classify(const float *score, int32_t blocks, const int32_t *want, int32_t want_count,
                            const int32_t *got, int32_t got_count, double score_error);

// ---- Attention and errors (oracle_attend.c) ---------------------------------------------------

// Rows [cell][G][D]: exactly one pointer is set. Only listed cells are read.
typedef struct {
    const double *f64;
    const float *f32;
} oracle_rows;

// o [H][D] and, unless NULL, lse [H] (log-sum-exp of the scaled scores) of queries q [H][D] over
// the listed cells. No cell: zeros and -inf. A NaN score makes its head NaN.
void oracle_attend(const oracle_geometry *g, const double *q, oracle_rows k, oracle_rows v, const int32_t *cells,
                   int32_t count, double *o, double *lse);

// out[i] = o[i] * sigmoid(gate[i]); o == out is allowed.
void oracle_gate(size_t n, const double *o, const double *gate, double *out);

// out[i] = x[i].
void oracle_widen(size_t n, const float *x, double *out);

// Errors. A NaN or an infinite difference anywhere gives INFINITY, so that `error <= bound` fails.
// rel_l2 = |got - want| / |want|; when want is all zeros: 0 if got is too, else INFINITY.
double oracle_rel_l2(size_t n, const double *got, const double *want);
double oracle_rel_l2_f32(size_t n, const float *got, const double *want);
double oracle_max_abs(size_t n, const double *got, const double *want);
double oracle_max_abs_f32(size_t n, const float *got, const double *want);

// Largest rel_l2 of `heads` rows of `dim`; *worst (unless NULL) is the head.
double oracle_worst_head(int heads, int dim, const double *got, const double *want, int *worst);
double oracle_worst_head_f32(int heads, int dim, const float *got, const double *want, int *worst);

// ---- Cache formats (oracle_codec.c) -----------------------------------------------------------

typedef enum {
    ORACLE_F64, // no rounding at all: no cache has it, but a bound may want it
    ORACLE_F32,
    ORACLE_F16,
    ORACLE_BF16,
    ORACLE_I8
} oracle_format;

// What went into a cache changed, added up. For i8, `saturated` counts finite values whose code was
// clamped because the scale was saturated.
typedef struct {
    int64_t nans, infinities, saturated;
} oracle_events;

// IEEE binary16, to nearest even: finite values that round above 65504 become infinite, as IEEE says;
// any NaN is 7e00.
uint16_t oracle_f16_encode(double x);
double oracle_f16_decode(uint16_t h);

// bfloat16, to nearest even: finite values that round above the largest become infinite; any NaN is
// 7fc0. Float32 values are meant: a double is rounded once.
uint16_t oracle_bf16_encode(double x);
double oracle_bf16_decode(uint16_t b);

// The rule of f16 and bf16 CACHES: finite values that would round to infinity (f16: 65520 and above)
// become the largest finite one (counted), infinities and NaN stay (counted). format is ORACLE_F16 or
// ORACLE_BF16; events may be NULL.
uint16_t oracle_cache_encode(oracle_format format, double x, oracle_events *events);

#define ORACLE_I8_GROUP 64 // dims of one scale; the last group of a row may be shorter

// ceil(dim / 64).
int oracle_i8_groups(int dim);

// half(amax / 127), saturated at 65504 (7bff); amax >= 0, may be infinite.
uint16_t oracle_i8_scale(double amax);

// One row of `dim` values: per group amax = max |x| without NaNs, scale = half(amax / 127)
// saturated, code = clamp(rint(x / scale), -127, 127) with the stored scale; scale 0 gives codes
// 0. Infinity gives +-127 and NaN 0. events may be NULL.
void oracle_i8_encode(int dim, const double *x, int8_t *codes, uint16_t *scales, oracle_events *events);

// x[i] = code * scale of its group.
void oracle_i8_decode(int dim, const int8_t *codes, const uint16_t *scales, double *x);

// What a row of `dim` values is after a trip through a cache format (except for ORACLE_F64 the value
// is rounded to float32 first, as the cache gets float32); x == out is allowed.
void oracle_round_trip(oracle_format format, int dim, const double *x, double *out);

#endif
