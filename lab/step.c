// SPDX-License-Identifier: Apache-2.0
//
// Buffers have the names of docs/semantics.md's stages; kernels run in the order of MAP.md's decode step, one token at a time.
#include "lab/step.h"

#include "kernels/score/screen.h"
#include "lab/process.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// clang-format off
enum {
    RAW_Q, RAW_K, RAW_V, RAW_IQ, GATE, FACTOR, INV_FREQ, AXIS, // inputs
    COSINE, SINE, QCUR, QIDX, KCUR, KQ, KSC, VQ, VSC, TAIL, POOLED, SCREEN_CODES, SCREEN_SCALES, SCREEN_REST, EVENTS, // prep
    SCORES, LOWER, UPPER, CANDIDATES, IDS, PART, XP, GATED, LSE,
    ALL
};
// clang-format on

enum {
    Q_ROW = MODEL_HEADS * MODEL_DIM,
    K_ROW = MODEL_KV_HEADS * MODEL_DIM,
    I_ROW = MODEL_INDEX_HEADS * MODEL_INDEX_DIM,
    GROUPS = MODEL_DIM / QSA_GROUP,
    PER_KV = MODEL_HEADS / MODEL_KV_HEADS,
    TAKE = MODEL_BUDGET / MODEL_RATIO,
    CELLS = MODEL_BUDGET + MODEL_RATIO,
    CHUNKS = (CELLS + QSA_CHUNK - 1) / QSA_CHUNK,
    RECORD = 2 + MODEL_DIM,
    CHUNK_STRIDE = PER_KV * RECORD,
    POISON = 0xff,
};

static bool add(step *s, int number, const char *name, case_element_kind element, size_t bytes) {
    step_buffer *b = &s->buffer[number];
    *b = (step_buffer){name, element, aligned_alloc(64, (bytes + 64) / 64 * 64), bytes};
    return b->bytes != NULL;
}

static bool add_all(step *s) {
    const size_t n = (size_t)s->shape.tokens, cells = n + (size_t)s->shape.pos, blocks = cells / MODEL_RATIO + 1;
    const size_t f = sizeof(float), stride = (size_t)qsa_screen_stride(MODEL_INDEX_DIM);
    bool right =
        add(s, RAW_Q, "raw_q", CASE_F32, n * Q_ROW * f) && add(s, RAW_K, "raw_k", CASE_F32, n * K_ROW * f) &&
        add(s, RAW_V, "raw_v", CASE_F32, n * K_ROW * f) && add(s, RAW_IQ, "raw_index_q", CASE_F32, n * I_ROW * f) &&
        add(s, GATE, "gate", CASE_F32, n * Q_ROW * f) && add(s, FACTOR, "factor", CASE_F32, MODEL_DIM * f) &&
        add(s, INV_FREQ, "inv_freq", CASE_F32, MODEL_HALF * f) && add(s, AXIS, "axis", CASE_BYTES, MODEL_HALF) &&
        add(s, COSINE, "cosine", CASE_F32, cells * MODEL_HALF * f) &&
        add(s, SINE, "sine", CASE_F32, cells * MODEL_HALF * f) && add(s, QCUR, "qcur", CASE_F32, n * Q_ROW * f) &&
        add(s, QIDX, "qidx", CASE_F32, n * I_ROW * f) && add(s, KCUR, "kcur", CASE_F32, n * K_ROW * f) &&
        add(s, KQ, "kq", CASE_I8, cells * K_ROW) && add(s, VQ, "vq", CASE_I8, cells * K_ROW) &&
        add(s, KSC, "ksc", CASE_F16, cells * MODEL_KV_HEADS * GROUPS * 2) &&
        add(s, VSC, "vsc", CASE_F16, cells * MODEL_KV_HEADS * GROUPS * 2) &&
        add(s, TAIL, "tail", CASE_F32, cells * MODEL_INDEX_DIM * f) &&
        add(s, POOLED, "pooled", CASE_F32, blocks * MODEL_INDEX_DIM * f) &&
        add(s, SCREEN_CODES, "screen_codes", CASE_I8, blocks * stride) &&
        add(s, SCREEN_SCALES, "screen_scales", CASE_F32, blocks * f) &&
        add(s, SCREEN_REST, "screen_residuals", CASE_F32, blocks * f) && add(s, EVENTS, "events", CASE_U64, 24);
    s->buffers = SCORES;
    if (right && !s->shape.prep_only) {
        right = add(s, SCORES, "scores", CASE_F32, n * blocks * f) &&
                add(s, LOWER, "lower", CASE_F32, n * blocks * f) && add(s, UPPER, "upper", CASE_F32, n * blocks * f) &&
                add(s, CANDIDATES, "candidates", CASE_I32, n * (blocks + 1) * f) &&
                add(s, IDS, "ids", CASE_I32, n * (TAKE + 1) * f) &&
                add(s, PART, "part", CASE_F32, n * MODEL_KV_HEADS * CHUNKS * CHUNK_STRIDE * f) &&
                add(s, XP, "xp", CASE_F32, n * Q_ROW * f) && add(s, GATED, "gated", CASE_F32, n * Q_ROW * f) &&
                add(s, LSE, "lse", CASE_F32, n * MODEL_HEADS * f);
        s->buffers = ALL;
    }
    return right;
}

static float *floats(const step *s, int number) {
    return (float *)(void *)s->buffer[number].bytes;
}

static void fill(const step *s, rng *r, values_kind kind, int number) {
    values_fill(r, kind, QSA_F32, s->buffer[number].size / sizeof(float), s->buffer[number].bytes);
}

// Inputs, once.
static void draw(const step *s) {
    rng r = rng_make(s->shape.seed);
    const kernel_case like = {.shape = &(case_shape){1, s->shape.edge}};
    const values_kind kind = case_kind(&like, &r);
    for (int i = RAW_Q; i <= GATE; i++)
        fill(s, &r, kind, i);
    rng_fill_uniform(&r, MODEL_DIM, 0.5, 1.5, floats(s, FACTOR));
    for (int i = 0; i < MODEL_HALF; i++) {
        floats(s, INV_FREQ)[i] = (float)pow(1e7, -(double)i / MODEL_HALF);
        s->buffer[AXIS].bytes[i] = (unsigned char)(i % 3);
    }
}

// The cells before the step: codes, scales and raw index keys at random, block keys too.
static void history(const step *s) {
    rng r = rng_make(s->shape.seed + 1);
    const size_t pos = (size_t)s->shape.pos, cells = pos + (size_t)s->shape.tokens, blocks = pos / MODEL_RATIO;
    const size_t stride = (size_t)qsa_screen_stride(MODEL_INDEX_DIM);
    for (size_t head = 0; head < MODEL_KV_HEADS; head++)
        for (int i = 0; i < 2; i++) {
            rng_fill_bytes(&r, pos * MODEL_DIM, s->buffer[i ? VQ : KQ].bytes + head * cells * MODEL_DIM);
            values_fill_scales(&r, 0, pos * GROUPS, s->buffer[i ? VSC : KSC].bytes + head * cells * GROUPS * 2);
        }
    values_fill(&r, VALUES_NORMAL, QSA_F32, pos * MODEL_INDEX_DIM, floats(s, TAIL));
    values_fill(&r, VALUES_NORMAL, QSA_F32, blocks * MODEL_INDEX_DIM, floats(s, POOLED));
    for (size_t b = 0; b < blocks; b++) {
        const qsa_screen_key_args args = {.key = floats(s, POOLED) + b * MODEL_INDEX_DIM,
                                          .format = QSA_F32,
                                          .dim = MODEL_INDEX_DIM,
                                          .codes = (int8_t *)s->buffer[SCREEN_CODES].bytes + b * stride,
                                          .scale = floats(s, SCREEN_SCALES) + b,
                                          .residual = floats(s, SCREEN_REST) + b};
        qsa_screen_key_ref(&args);
    }
}

step *step_open(const step_shape *shape, bench_error *error) {
    step *s = calloc(1, sizeof *s);
    if (s)
        s->shape = *shape;
    if (!s || !add_all(s)) {
        bench_say(error, "no memory for a step of %d tokens at %d", (int)shape->tokens, (int)shape->pos);
        step_close(s);
        return NULL;
    }
    draw(s);
    return s;
}

void step_close(step *s) {
    for (int i = 0; s && i < STEP_BUFFERS; i++)
        free(s->buffer[i].bytes);
    free(s);
}

// ---- The kernels, each timed --------------------------------------------------------------------

#define TIMED(s, kernels, kernel, args)                                                                                \
    do {                                                                                                               \
        const double start_ = lab_now();                                                                               \
        (kernels)->kernel(args);                                                                                       \
        (s)->seconds[QSA_K_##kernel] += lab_now() - start_;                                                            \
        (s)->calls[QSA_K_##kernel]++;                                                                                  \
    } while (0)

static void norm_rope(step *s, const qsa_kernel_set *k, const float *x, int32_t vectors, int32_t dim, size_t cell,
                      float *out) {
    const qsa_norm_rope_args args = {.x = x,
                                     .type = QSA_F32,
                                     .x_stride = dim * 4,
                                     .vectors = vectors,
                                     .dim = dim,
                                     .half = MODEL_HALF,
                                     .factor = floats(s, FACTOR),
                                     .cosine = floats(s, COSINE) + cell * MODEL_HALF,
                                     .sine = floats(s, SINE) + cell * MODEL_HALF,
                                     .eps = 1e-6f,
                                     .out = out,
                                     .out_stride = dim};
    TIMED(s, k, norm_rope, &args);
}

static void store(step *s, const qsa_kernel_set *k, const float *x, size_t cell, int codes, int scales) {
    const size_t cells = (size_t)s->shape.pos + (size_t)s->shape.tokens;
    const qsa_store_args args = {.x = x,
                                 .type = QSA_F32,
                                 .x_stride = MODEL_DIM * 4,
                                 .vectors = MODEL_KV_HEADS,
                                 .dim = MODEL_DIM,
                                 .format = QSA_I8,
                                 .codes = s->buffer[codes].bytes + cell * MODEL_DIM,
                                 .code_stride = (int64_t)(cells * MODEL_DIM),
                                 .scales = (uint16_t *)(void *)s->buffer[scales].bytes + cell * GROUPS,
                                 .scale_stride = (int64_t)(cells * GROUPS),
                                 .events = (uint64_t *)(void *)s->buffer[EVENTS].bytes};
    TIMED(s, k, store, &args);
}

static void block_key(step *s, const qsa_kernel_set *k, size_t block) {
    qsa_raw_key keys[MODEL_RATIO];
    const size_t first = block * MODEL_RATIO;
    for (size_t i = 0; i < MODEL_RATIO; i++)
        keys[i] = (qsa_raw_key){floats(s, TAIL) + (first + i) * MODEL_INDEX_DIM, QSA_F32};
    float *key = floats(s, POOLED) + block * MODEL_INDEX_DIM;
    const qsa_pool_args args = {.keys = keys,
                                .ratio = MODEL_RATIO,
                                .dim = MODEL_INDEX_DIM,
                                .half = MODEL_HALF,
                                .factor = floats(s, FACTOR),
                                .cosine = floats(s, COSINE) + first * MODEL_HALF,
                                .sine = floats(s, SINE) + first * MODEL_HALF,
                                .eps = 1e-6f,
                                .format = QSA_F32,
                                .out = key,
                                .events = (uint64_t *)(void *)s->buffer[EVENTS].bytes};
    TIMED(s, k, pool, &args);
    const qsa_screen_key_args screen = {.key = key,
                                        .format = QSA_F32,
                                        .dim = MODEL_INDEX_DIM,
                                        .codes = (int8_t *)s->buffer[SCREEN_CODES].bytes +
                                                 block * (size_t)qsa_screen_stride(MODEL_INDEX_DIM),
                                        .scale = floats(s, SCREEN_SCALES) + block,
                                        .residual = floats(s, SCREEN_REST) + block};
    TIMED(s, k, screen_key, &screen);
}

static void angles(step *s, const qsa_kernel_set *k, size_t cell) {
    const int32_t positions[3] = {(int32_t)cell, (int32_t)cell, (int32_t)cell};
    const qsa_angles_args args = {.inv_freq = floats(s, INV_FREQ),
                                  .axis = s->buffer[AXIS].bytes,
                                  .positions = positions,
                                  .half = MODEL_HALF,
                                  .cosine = floats(s, COSINE) + cell * MODEL_HALF,
                                  .sine = floats(s, SINE) + cell * MODEL_HALF};
    TIMED(s, k, angles, &args);
}

static void prep_token(step *s, const qsa_kernel_set *k, size_t t) {
    const size_t cell = (size_t)s->shape.pos + t;
    angles(s, k, cell);
    norm_rope(s, k, floats(s, RAW_Q) + t * Q_ROW, MODEL_HEADS, MODEL_DIM, cell, floats(s, QCUR) + t * Q_ROW);
    norm_rope(s, k, floats(s, RAW_IQ) + t * I_ROW, MODEL_INDEX_HEADS, MODEL_INDEX_DIM, cell,
              floats(s, QIDX) + t * I_ROW);
    norm_rope(s, k, floats(s, RAW_K) + t * K_ROW, MODEL_KV_HEADS, MODEL_DIM, cell, floats(s, KCUR) + t * K_ROW);
    store(s, k, floats(s, KCUR) + t * K_ROW, cell, KQ, KSC);
    store(s, k, floats(s, RAW_V) + t * K_ROW, cell, VQ, VSC);
    memcpy(floats(s, TAIL) + cell * MODEL_INDEX_DIM, floats(s, RAW_K) + t * K_ROW, MODEL_INDEX_DIM * sizeof(float));
    if (cell % MODEL_RATIO == MODEL_RATIO - 1)
        block_key(s, k, cell / MODEL_RATIO);
}

// Scores of all blocks, and beside them the bounds and candidates of screened scoring.
static void score_token(step *s, const qsa_kernel_set *k, size_t t, int32_t blocks, const int32_t *table) {
    const size_t width = s->buffer[SCORES].size / sizeof(float) / (size_t)s->shape.tokens;
    const float *query = floats(s, QIDX) + t * I_ROW;
    const qsa_score_args args = {.index_q = query,
                                 .heads = MODEL_INDEX_HEADS,
                                 .dim = MODEL_INDEX_DIM,
                                 .divisor = sqrtf(MODEL_INDEX_DIM),
                                 .block_keys = floats(s, POOLED),
                                 .format = QSA_F32,
                                 .page_table = table,
                                 .page_blocks = MODEL_PAGE_BLOCKS,
                                 .end = blocks,
                                 .scores = floats(s, SCORES) + t * width};
    TIMED(s, k, score, &args);
    int16_t codes[MODEL_INDEX_HEADS * MODEL_INDEX_DIM];
    float scales[MODEL_INDEX_HEADS], bound[3];
    int32_t usable = 0, chosen[TAKE];
    const qsa_screen_query_args ask = {.index_q = query,
                                       .heads = MODEL_INDEX_HEADS,
                                       .dim = MODEL_INDEX_DIM,
                                       .codes = codes,
                                       .scales = scales,
                                       .bound = bound,
                                       .usable = &usable};
    TIMED(s, k, screen_query, &ask);
    if (!usable)
        return;
    const qsa_screen_args screen = {.codes = codes,
                                    .scales = scales,
                                    .bound = bound,
                                    .heads = MODEL_INDEX_HEADS,
                                    .stride = MODEL_INDEX_DIM,
                                    .keys = (const int8_t *)s->buffer[SCREEN_CODES].bytes,
                                    .key_scales = floats(s, SCREEN_SCALES),
                                    .residuals = floats(s, SCREEN_REST),
                                    .page_table = table,
                                    .page_blocks = MODEL_PAGE_BLOCKS,
                                    .end = blocks,
                                    .lower = floats(s, LOWER) + t * width,
                                    .upper = floats(s, UPPER) + t * width};
    TIMED(s, k, screen, &screen);
    int32_t *list = (int32_t *)(void *)s->buffer[CANDIDATES].bytes + t * (width + 1);
    const qsa_candidates_args args_of = {.lower = floats(s, LOWER) + t * width,
                                         .upper = floats(s, UPPER) + t * width,
                                         .blocks = blocks,
                                         .groups = blocks < 8 * TAKE ? blocks : 8 * TAKE,
                                         .take = TAKE,
                                         .chosen = chosen,
                                         .ids = list + 1,
                                         .count = list};
    TIMED(s, k, candidates, &args_of);
}

// The selected cells of a row, and their number.
static int32_t select_token(step *s, const qsa_kernel_set *k, size_t t, int32_t n, int32_t *cells) {
    int32_t count = 0;
    if (n < CELLS) {
        for (; count < n; count++)
            cells[count] = count;
        return count;
    }
    const size_t width = s->buffer[SCORES].size / sizeof(float) / (size_t)s->shape.tokens;
    int32_t *ids = (int32_t *)(void *)s->buffer[IDS].bytes + t * (TAKE + 1);
    const qsa_topk_args args = {floats(s, SCORES) + t * width, n / MODEL_RATIO, TAKE, ids, ids + TAKE};
    TIMED(s, k, topk, &args);
    for (int32_t i = 0; i < TAKE; i++)
        for (int32_t c = 0; c < MODEL_RATIO; c++)
            cells[count++] = ids[i] * MODEL_RATIO + c;
    for (int32_t c = n / MODEL_RATIO * MODEL_RATIO; c < n; c++)
        cells[count++] = c;
    return count;
}

static void attend_token(step *s, const qsa_kernel_set *k, size_t t, const int32_t *cells, int32_t count) {
    const size_t all = (size_t)s->shape.pos + (size_t)s->shape.tokens;
    const int32_t chunks = (count + QSA_CHUNK - 1) / QSA_CHUNK;
    for (size_t head = 0; head < MODEL_KV_HEADS; head++) {
        float *part = floats(s, PART) + (t * MODEL_KV_HEADS + head) * CHUNKS * CHUNK_STRIDE;
        const size_t first = t * Q_ROW + head * PER_KV * MODEL_DIM;
        const qsa_attend_args args = {
            .q = floats(s, QCUR) + first,
            .heads = PER_KV,
            .dim = MODEL_DIM,
            .scale = 1 / sqrtf(MODEL_DIM),
            .format = QSA_I8,
            .k = s->buffer[KQ].bytes + head * all * MODEL_DIM,
            .v = s->buffer[VQ].bytes + head * all * MODEL_DIM,
            .k_scales = (const uint16_t *)(const void *)s->buffer[KSC].bytes + head * all * GROUPS,
            .v_scales = (const uint16_t *)(const void *)s->buffer[VSC].bytes + head * all * GROUPS,
            .cells = cells,
            .count = count,
            .records = part,
            .chunk_stride = CHUNK_STRIDE};
        TIMED(s, k, attend, &args);
        const qsa_merge_args merge = {.records = part,
                                      .chunk_stride = CHUNK_STRIDE,
                                      .chunks = chunks,
                                      .heads = PER_KV,
                                      .dim = MODEL_DIM,
                                      .gate = floats(s, GATE) + first,
                                      .gate_type = QSA_F32,
                                      .gate_stride = MODEL_DIM * 4,
                                      .out = floats(s, XP) + first,
                                      .out_type = QSA_F32,
                                      .out_stride = MODEL_DIM * 4,
                                      .lse = floats(s, LSE) + t * MODEL_HEADS + head * PER_KV};
        TIMED(s, k, merge, &merge);
    }
    const qsa_gate_args gate = {.x = floats(s, QCUR) + t * Q_ROW,
                                .x_type = QSA_F32,
                                .x_stride = MODEL_DIM * 4,
                                .gate = floats(s, GATE) + t * Q_ROW,
                                .gate_type = QSA_F32,
                                .gate_stride = MODEL_DIM * 4,
                                .out = floats(s, GATED) + t * Q_ROW,
                                .out_type = QSA_F32,
                                .out_stride = MODEL_DIM * 4,
                                .heads = MODEL_HEADS,
                                .dim = MODEL_DIM};
    TIMED(s, k, gate, &gate);
}

void step_run(step *s, const qsa_kernel_set *kernels) {
    static int32_t table[(32768 + STEP_PREP_TOKENS) / MODEL_RATIO / MODEL_PAGE_BLOCKS + 2], cells[CELLS];
    memset(s->seconds, 0, sizeof s->seconds);
    memset(s->calls, 0, sizeof s->calls);
    for (int i = COSINE; i < s->buffers; i++)
        memset(s->buffer[i].bytes, POISON, s->buffer[i].size);
    memset(s->buffer[EVENTS].bytes, 0, s->buffer[EVENTS].size);
    history(s);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        table[i] = (int32_t)i;
    // The angles of an open block's earlier cells, which the history does not have.
    for (int32_t cell = s->shape.pos / MODEL_RATIO * MODEL_RATIO; cell < s->shape.pos; cell++)
        angles(s, kernels, (size_t)cell);
    for (int32_t t = 0; t < s->shape.tokens; t++)
        prep_token(s, kernels, (size_t)t);
    for (int32_t t = 0; !s->shape.prep_only && t < s->shape.tokens; t++) {
        const int32_t n = s->shape.pos + t + 1;
        if (n >= CELLS)
            score_token(s, kernels, (size_t)t, n / MODEL_RATIO, table);
        attend_token(s, kernels, (size_t)t, cells, select_token(s, kernels, (size_t)t, n, cells));
    }
}
