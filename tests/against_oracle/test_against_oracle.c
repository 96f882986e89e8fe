// SPDX-License-Identifier: Apache-2.0
//
// The library against the float64 oracle on random geometries, formats, rules, lengths and batches.
// Per attending row: q, index_q, k, v and scores within the bounds of the golden files; block keys within
// half a step of their format; the stored cache exactly what the oracle's codec makes of k and v; the
// selection exactly the best of the library's own scores, and the oracle's but for ties and for pairs
// that the score error explains; attention and log-sum-exp over the stored cache on the library's own
// selection. Rows that do not attend are left alone.
//
// Arguments: [seed [count]] repeats the case of one seed, or `count` cases from a base seed.
// LABELS: small cross
// RUNNER: plain
#include "random_case.h"
#include "support/oracle_sequence.h"
#include "support/plain_runner.h"

#include <stdlib.h>

#if !defined(__x86_64__) // under qemu-user
enum { CASES = 15, WIDE_CASES = 1 };
#elif defined(QSA_SANITIZED)
enum { CASES = 60, WIDE_CASES = 1 };
#else
enum { CASES = 240, WIDE_CASES = 4 };
#endif

static struct {
    double q, index_q, k, scores, stored_scores, key, attn, gated, lse, cache_k;
    long rows, kinds[4];
} worst;

static void raise_to(double *figure, double x) {
    *figure = isnan(x) ? INFINITY : x > *figure ? x : *figure;
}

typedef struct {
    const random_case *c;
    const oracle_geometry *g;
    rig rig;
    rig_rows rows;
    rig_result result; // of all rows
    int32_t *n;        // [rows] cells each row sees
    oracle_sequence sequences[CASE_SEQUENCES];
} bench;

// ---- Running the library ----------------------------------------------------------------------

// prep and score for the figures, then forward or the stages for the result: each writes the same batch.
static void run_batch(bench *b, int32_t first, int32_t count) {
    const qsa_batch batch = rig_batch(&b->rows, b->g, first, count, b->c->gate);
    const size_t q = (size_t)b->g->heads * (size_t)b->g->head_dim, kv = (size_t)b->g->kv_heads * (size_t)b->g->head_dim;
    const size_t iq = (size_t)b->g->index_heads * (size_t)b->g->index_dim, at = (size_t)first;
    rig_result view = b->result;
    view.cells += first;
    view.q += at * q;
    view.index_q += at * iq;
    view.k += at * kv;
    view.v += at * kv;
    view.scores += (int64_t)first * view.score_stride;
    view.selection.ids += (int64_t)first * view.selection.stride;
    view.selection.count += first;
    view.selection.cut_index += first;
    view.selection.cut_cells += first;
    view.out += at * q;
    view.lse += at * (size_t)b->g->heads;
    view.chunks += first;
    view.records = NULL;
    rig_observe(&b->rig, 0, &batch, &view);
    bool all = true;
    for (int32_t i = 0; i < count; i++)
        all = all && batch.attend[i];
    if (b->c->stages && all)
        rig_stages(&b->rig, 0, &batch, b->c->rule, &view);
    else
        rig_forward(&b->rig, 0, &batch, b->c->rule, &view);
    free(view.records);
    RIG_OK(qsa_cache_commit(b->rig.cache));
}

static void open_bench(bench *b, const random_case *c) {
    *b = (bench){.c = c, .g = &c->config.geometry};
    rig_open(&b->rig, &c->config);
    random_case_rows(c, &b->rows);
    rig_result_init(&b->result, &b->rig, c->rows);
    b->n = rig_new((size_t)c->rows, sizeof *b->n);
    for (int s = 0; s < c->config.max_sequences; s++)
        oracle_sequence_init(&b->sequences[s], b->g, &b->rig.norms, ORACLE_F64, rig_format(c->config.block_key_type));
    for (int32_t i = 0; i < c->rows; i++) {
        oracle_sequence *s = &b->sequences[b->rows.sequences[i]];
        const float *index = rig_index(&b->rows, b->g, i) + b->g->index_heads * b->g->index_dim;
        oracle_sequence_append(s, rig_k(&b->rows, b->g, i), rig_v(&b->rows, b->g, i), index, b->rows.positions + 3 * i);
        b->n[i] = s->cells;
    }
    rng r = rng_make(c->seed ^ 0x6368756e6bu);
    for (int32_t first = 0, count; first < c->rows; first += count) {
        count = PICK(&r, 1, 2, 7, 16, 64, 400);
        count = count < c->rows - first ? count : c->rows - first;
        run_batch(b, first, count);
    }
}

static void close_bench(bench *b) {
    for (int s = 0; s < b->c->config.max_sequences; s++)
        oracle_sequence_free(&b->sequences[s]);
    rig_result_free(&b->result);
    rig_rows_free(&b->rows);
    rig_close(&b->rig);
    free(b->n);
}

// ---- The cache --------------------------------------------------------------------------------

// Half a step of a format at x, and what the library's float32 arithmetic may add.
static double half_step(qsa_type type, double x) {
    const double relative = type == QSA_F16 ? 0x1p-11 : type == QSA_BF16 ? 0x1p-8 : 0;
    return fabs(x) * relative + (type == QSA_F16 ? 0x1p-25 : 0) + 4e-6;
}

static void check_block_keys(bench *b, int s, const rig_stored *stored) {
    const size_t n = (size_t)(stored->cells / b->g->ratio) * (size_t)b->g->index_dim;
    const qsa_type type = b->c->config.block_key_type;
    int bad = 0;
    // The oracle's keys before their own rounding.
    oracle_sequence exact = b->sequences[s];
    double *want = rig_new((size_t)b->g->index_dim, sizeof *want);
    for (size_t i = 0; i < n; i++) {
        const size_t d = i % (size_t)b->g->index_dim, first = i / (size_t)b->g->index_dim * (size_t)b->g->ratio;
        if (d == 0)
            oracle_block_key(b->g, &exact.norms, exact.raw_index_k + first * (size_t)b->g->index_dim,
                             (size_t)b->g->index_dim, exact.positions + 3 * first, want);
        const double error = fabs(stored->block_keys[i] - want[d]);
        bad += !(error <= half_step(type, want[d]));
        if (type == QSA_F32)
            raise_to(&worst.key, error);
    }
    PLAIN_CHECK_INT(bad, 0);
    free(want);
}

// Row i's key and value: stored bits = the oracle's encoding of what prep computed; v is the raw value.
static void check_cell(bench *b, const rig_stored *stored, int32_t i) {
    const oracle_geometry *g = b->g;
    const size_t row = (size_t)g->kv_heads * (size_t)g->head_dim, cell = (size_t)b->n[i] - 1;
    const float *k = b->result.k + (size_t)i * row, *v = b->result.v + (size_t)i * row;
    const double *want = b->sequences[b->rows.sequences[i]].k + cell * row;
    raise_to(&worst.k, oracle_max_abs_f32(row, k, want));
    PLAIN_CHECK(oracle_max_abs_f32(row, k, want) <= 4e-6);
    PLAIN_CHECK_BYTES(v, rig_v(&b->rows, g, i), row * sizeof(float));
    double *trip = rig_new(row, sizeof *trip);
    for (int which = 0; which < 2; which++) {
        oracle_widen(row, which ? v : k, trip);
        for (int h = 0; h < g->kv_heads; h++)
            oracle_round_trip(rig_format(b->c->config.kv_type), g->head_dim, trip + h * g->head_dim,
                              trip + h * g->head_dim);
        PLAIN_CHECK(memcmp((which ? stored->v : stored->k) + cell * row, trip, row * sizeof *trip) == 0 ||
                    oracle_max_abs(row, (which ? stored->v : stored->k) + cell * row, trip) == 0);
    }
    free(trip);
}

// ---- One row ----------------------------------------------------------------------------------

static void check_scores(bench *b, int32_t i, const rig_stored *stored, const oracle_row *want, double *error) {
    const float *scores = b->result.scores + i * b->result.score_stride;
    const int32_t blocks = b->n[i] / b->g->ratio;
    const qsa_type type = b->c->config.block_key_type;
    const size_t iq = (size_t)b->g->index_heads * (size_t)b->g->index_dim;
    double *index_q = rig_new(iq, sizeof *index_q), *score = rig_new((size_t)blocks, sizeof *score);
    *error = oracle_max_abs_f32((size_t)blocks, scores, want->score);
    PLAIN_CHECK(*error <= (type == QSA_F32 ? 8e-6 : type == QSA_F16 ? 8e-3 : 6e-2));
    if (type == QSA_F32)
        raise_to(&worst.scores, *error);
    // Arithmetic alone: over the stored keys.
    oracle_widen(iq, b->result.index_q + (size_t)i * iq, index_q);
    oracle_scores(b->g, index_q, stored->block_keys, blocks, score, NULL);
    const double arithmetic = oracle_max_abs_f32((size_t)blocks, scores, score);
    raise_to(&worst.stored_scores, arithmetic);
    PLAIN_CHECK(arithmetic <= 8e-6);
    free(index_q);
    free(score);
}

static void check_selection(bench *b, int32_t i, const oracle_row *want, double error) {
    const oracle_rule rule = b->c->rule == QSA_RULE_CUT ? ORACLE_CUT : ORACLE_OFFICIAL;
    const int32_t n = b->n[i], *ids = b->result.selection.ids + i * b->result.selection.stride;
    const float *scores = b->result.scores + i * b->result.score_stride;
    int32_t *best = rig_new((size_t)oracle_max_ids(b->g, ORACLE_CUT) + 1, sizeof *best);
    const oracle_selection exact = oracle_select(b->g, rule, n, scores, best);
    const oracle_selection got = rig_selection(&b->rig, &b->result, i, n, NULL);
    PLAIN_CHECK_INT(got.blocks, exact.blocks);
    PLAIN_CHECK_INT(got.cut_index, exact.cut_index);
    PLAIN_CHECK_INT(got.cut_index < 0 ? 0 : got.cut_cells, exact.cut_cells);
    PLAIN_CHECK_INT(got.cells, oracle_width(b->g, rule, n));
    PLAIN_CHECK_INT(got.cells, qsa_selected_cells(&b->rig.geometry, b->c->rule, n));
    PLAIN_CHECK_BYTES(ids, best, (size_t)exact.blocks * sizeof *best);
    const oracle_kind kind = oracle_classify(want->stored, n / b->g->ratio, want->ids, want->selection.blocks, ids,
                                             b->result.selection.count[i], error);
    worst.kinds[kind]++;
    PLAIN_CHECK(kind != ORACLE_WRONG);
    free(best);
}

static void check_attention(bench *b, int32_t i, const rig_stored *stored, oracle_row *want) {
    const oracle_geometry *g = b->g;
    const size_t size = (size_t)g->heads * (size_t)g->head_dim;
    const oracle_rows k = {.f64 = stored->k}, v = {.f64 = stored->v};
    const float *out = b->result.out + (size_t)i * size;
    int32_t *cells = rig_new((size_t)oracle_max_cells(g), sizeof *cells);
    const oracle_selection selection = rig_selection(&b->rig, &b->result, i, b->n[i], cells);
    oracle_widen(size, b->result.q + (size_t)i * size, want->q);
    oracle_attend(g, want->q, k, v, cells, selection.cells, want->o, want->lse);
    if (b->c->gate)
        oracle_gate(size, want->o, want->gate, want->o);
    const double error = oracle_rel_l2_f32(size, out, want->o);
    const double lse = oracle_max_abs_f32((size_t)g->heads, b->result.lse + i * g->heads, want->lse);
    raise_to(b->c->gate ? &worst.gated : &worst.attn, error);
    raise_to(&worst.lse, lse);
    PLAIN_CHECK(error <= 2e-6);
    PLAIN_CHECK(lse <= 4e-6);
    free(cells);
}

static bool untouched(const void *memory, size_t bytes) {
    const unsigned char *at = memory;
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != 0xff)
            return false;
    return true;
}

static void check_row(bench *b, int32_t i, const rig_stored *stored) {
    const oracle_geometry *g = b->g;
    const size_t size = (size_t)g->heads * (size_t)g->head_dim, iq = (size_t)g->index_heads * (size_t)g->index_dim;
    const int s = b->rows.sequences[i];
    PLAIN_CHECK_INT(b->result.cells[i], b->n[i]);
    check_cell(b, stored, i);
    if (!b->rows.attend[i]) {
        PLAIN_CHECK(untouched(b->result.out + (size_t)i * size, size * sizeof(float)));
        PLAIN_CHECK(untouched(b->result.lse + i * g->heads, (size_t)g->heads * sizeof(float)));
        return;
    }
    oracle_row want;
    double error;
    oracle_row_init(&want, g, b->n[i]);
    oracle_row_compute(&want, &b->sequences[s], b->c->rule == QSA_RULE_CUT ? ORACLE_CUT : ORACLE_OFFICIAL, b->n[i],
                       rig_q(&b->rows, g, i), rig_index(&b->rows, g, i), b->rows.positions + 3 * i);
    const double q = oracle_max_abs_f32(size, b->result.q + (size_t)i * size, want.q);
    const double index_q = oracle_max_abs_f32(iq, b->result.index_q + (size_t)i * iq, want.index_q);
    raise_to(&worst.q, q);
    raise_to(&worst.index_q, index_q);
    PLAIN_CHECK(q <= 4e-6);
    PLAIN_CHECK(index_q <= 4e-6);
    check_scores(b, i, stored, &want, &error);
    check_selection(b, i, &want, error);
    check_attention(b, i, stored, &want);
    worst.rows++;
    oracle_row_free(&want);
}

static void check_case(uint64_t seed, bool wide) {
    const random_case c = random_case_make(seed, wide);
    const long failures = plain.failures;
    bench b;
    open_bench(&b, &c);
    rig_stored stored[CASE_SEQUENCES];
    for (int s = 0; s < c.config.max_sequences; s++) {
        rig_read(&b.rig, 0, s, &stored[s]);
        PLAIN_CHECK_INT(stored[s].cells, c.lengths[s]);
        check_block_keys(&b, s, &stored[s]);
    }
    for (int32_t i = 0; i < c.rows; i++)
        check_row(&b, i, &stored[b.rows.sequences[i]]);
    for (int s = 0; s < c.config.max_sequences; s++)
        rig_stored_free(&stored[s]);
    close_bench(&b);
    if (plain.failures != failures)
        random_case_print(&c);
}

static uint64_t base = 0x20260917;
static int cases = CASES, wide_cases = WIDE_CASES;

static void random_geometries(void) {
    rng r = rng_make(base);
    for (int i = 0; i < cases; i++)
        check_case(cases == 1 ? base : rng_u64(&r), false);
}

static void model_width(void) {
    rng r = rng_make(base ^ 0x77696465);
    for (int i = 0; i < wide_cases; i++)
        check_case(rng_u64(&r), true);
}

int main(int argc, char **argv) {
    base = argc > 1 ? strtoull(argv[1], NULL, 0) : base;
    cases = argc > 2 ? (int)strtol(argv[2], NULL, 10) : argc > 1 ? 1 : cases;
    printf("base seed 0x%llx, %d cases and %d of the model's width\n", (unsigned long long)base, cases, wide_cases);
    PLAIN_RUN(random_geometries);
    PLAIN_RUN(model_width);
    printf("%ld rows: equal %ld, tie %ld, near %ld, wrong %ld\n", worst.rows, worst.kinds[ORACLE_EQUAL],
           worst.kinds[ORACLE_TIE], worst.kinds[ORACLE_NEAR], worst.kinds[ORACLE_WRONG]);
    printf("max abs: q %.2e, index_q %.2e, k %.2e, block keys (f32) %.2e, scores (f32 keys) %.2e, scores over stored "
           "keys %.2e, lse %.2e\n",
           worst.q, worst.index_q, worst.k, worst.key, worst.scores, worst.stored_scores, worst.lse);
    printf("relative l2 over the stored cache: attn %.2e, gated %.2e\n", worst.attn, worst.gated);
    return plain_finish();
}
