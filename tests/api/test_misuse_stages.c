// SPDX-License-Identifier: Apache-2.0
//
// Misuse of the stage calls: workspace sizes, score, topk, attend, merge, gate.
// LABELS: small cross
// RUNNER: plain
#include "misuse.h"

enum { ROWS = 2, HEADS = 4, DIM = 24, STRIDE = 6, RECORD = HEADS * (2 + DIM) };

// Sequence 0 has 27 committed and 3 pending cells in layer 0, sequence 1 has 5. Row 0 sees 30 cells, row 1 sees 5.
static struct {
    fx_world *world;
    fx_session s;
    qsa_context *c;
    qsa_cache *k;
    qsa_geometry g;
    int32_t sequences[ROWS], cells[ROWS];
    qsa_row_set rows;
    float index_q[ROWS * 2 * 16], q[ROWS * HEADS * DIM], scores[ROWS * 8], records[ROWS * RECORD];
    float out[ROWS * HEADS * DIM], lse[ROWS * HEADS], x[ROWS * HEADS * DIM];
    int32_t chunks[ROWS], one_chunk[ROWS];
    int32_t ids[ROWS * STRIDE], count[ROWS], cut_index[ROWS], cut_cells[ROWS];
    qsa_selection selection;
    qsa_rows in;
    qsa_rows_out to;
    void *workspace;
    size_t bytes;
} t;

static void set_up(void) {
    memset(&t, 0, sizeof t);
    t.g = fx_geometry_small();
    const int32_t lengths[] = {30, 5, 2};
    t.world = fx_world_make(121, &t.g, 2, 3, lengths, 1);
    fx_options o = fx_options_default();
    o.max_sequences = 4;
    t.s = fx_open(t.world, &o);
    t.c = t.s.context;
    t.k = t.s.cache;
    const int32_t count[FX_MAX_SEQUENCES] = {27, 5, 0}, tokens[3] = {27, 28, 29};
    fx_step(&t.s, count, NULL);
    FX_OK(qsa_sequence_destroy(t.k, t.s.sequence[2]));
    fx_batch batch = fx_batch_make(&t.s, 0, 3, tokens);
    fx_compute(&t.s, 0, &batch, NULL); // pending in layer 0 only
    fx_batch_free(&batch);
    t.sequences[0] = t.s.sequence[0];
    t.sequences[1] = t.s.sequence[1];
    t.cells[0] = 30;
    t.cells[1] = 5;
    t.rows = (qsa_row_set){sizeof t.rows, ROWS, t.sequences, t.cells};
    for (int32_t i = 0; i < STRIDE; i++)
        t.ids[i] = i;
    t.count[0] = 4;
    t.cut_index[0] = t.cut_index[1] = -1;
    t.one_chunk[0] = t.one_chunk[1] = 1;
    t.selection = (qsa_selection){sizeof t.selection, t.ids, STRIDE, t.count, t.cut_index, t.cut_cells};
    t.in = (qsa_rows){t.x, QSA_F32, HEADS * DIM * 4, DIM * 4};
    t.to = (qsa_rows_out){t.out, QSA_F32, HEADS * DIM * 4, DIM * 4};
    t.workspace = fx_workspace(&t.s, QSA_STAGE_ATTEND, ROWS, &t.bytes);
    misuse_watch(t.k);
    misuse_guard(t.scores, sizeof t.scores);
    misuse_guard(t.records, sizeof t.records);
    misuse_guard(t.out, sizeof t.out);
    misuse_guard(t.lse, sizeof t.lse);
    misuse_guard(t.chunks, sizeof t.chunks);
}

static void tear_down(void) {
    misuse_end();
    fx_workspace_free(t.workspace);
    fx_close(&t.s);
    fx_world_free(t.world);
}

static void workspace_sizes(void) {
    set_up();
    size_t bytes = 123;
    misuse_guard(&bytes, sizeof bytes);
    const char *f = "qsa_workspace_size";
    REFUSED(f, qsa_workspace_size(NULL, t.k, QSA_STAGE_PREP, 1, &bytes), QSA_ERR_ARGUMENT, "context");
    REFUSED(f, qsa_workspace_size(t.c, NULL, QSA_STAGE_PREP, 1, &bytes), QSA_ERR_ARGUMENT, "cache");
    REFUSED(f, qsa_workspace_size(t.c, t.k, QSA_STAGE_PREP, 1, NULL), QSA_ERR_ARGUMENT, "bytes");
    REFUSED(f, qsa_workspace_size(t.c, t.k, (qsa_stage)6, 1, &bytes), QSA_ERR_ARGUMENT, "stage");
    REFUSED(f, qsa_workspace_size(t.c, t.k, (qsa_stage)-1, 1, &bytes), QSA_ERR_ARGUMENT, "stage");
    REFUSED(f, qsa_workspace_size(t.c, t.k, QSA_STAGE_PREP, -1, &bytes), QSA_ERR_ARGUMENT, "rows");
    REFUSED(f, qsa_workspace_size(t.c, t.k, QSA_STAGE_PREP, INT32_MIN, &bytes), QSA_ERR_ARGUMENT, "rows");
    misuse_end();
    for (int stage = QSA_STAGE_FORWARD; stage <= QSA_STAGE_MERGE; stage++) {
        size_t before = 0;
        for (int32_t rows = 0; rows >= 0 && rows < INT32_MAX; rows = rows < 100 ? rows + 1 : INT32_MAX) {
            FX_OK(qsa_workspace_size(t.c, t.k, (qsa_stage)stage, rows, &bytes));
            PLAIN_CHECK(bytes >= before); // what fits more rows fits fewer
            before = bytes;
        }
        FX_OK(qsa_workspace_size(t.c, t.k, (qsa_stage)stage, INT32_MAX, &bytes));
        PLAIN_CHECK(bytes >= before);
    }
    tear_down();
}

static qsa_status score(const qsa_row_set *rows) {
    return qsa_score(t.c, t.k, 0, rows, t.index_q, t.scores, 7, t.workspace, t.bytes);
}
static qsa_status attend(const qsa_row_set *rows, const qsa_selection *selection) {
    return qsa_attend(t.c, t.k, 0, rows, t.q, selection, t.records, RECORD, t.chunks, t.workspace, t.bytes);
}

// score and attend refuse a changed set of rows in the same words.
#define ROW_SET(change, word)                                                                                          \
    {                                                                                                                  \
        WITH(qsa_row_set, t.rows, change, "qsa_score", score(&x), QSA_ERR_ARGUMENT, word);                             \
        WITH(qsa_row_set, t.rows, change, "qsa_attend", attend(&x, &t.selection), QSA_ERR_ARGUMENT, word);             \
    }

static void row_sets(void) {
    set_up();
    ROW_SET(x.size = 0, "rows->size");
    ROW_SET(x.rows = -1, "rows->rows");
    ROW_SET(x.rows = INT32_MIN, "rows->rows");
    ROW_SET(x.sequences = NULL, "rows->sequences");
    ROW_SET(x.cells = NULL, "rows->cells");
    const int32_t no_sequence[] = {-1, 2, 3, 4, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 6; i++) {
        const int32_t sequences[ROWS] = {t.sequences[0], no_sequence[i]};
        ROW_SET(x.sequences = sequences, "sequence");
    }
    const int32_t no_cells[] = {-1, 6, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 4; i++) {
        const int32_t cells[ROWS] = {30, no_cells[i]}, more[ROWS] = {31 + i, 5};
        ROW_SET(x.cells = cells, "rows->cells[1]");
        ROW_SET(x.cells = more, "rows->cells[0]");
    }
    // Layer 1 has not been given the pending rows.
    REFUSED("qsa_score", qsa_score(t.c, t.k, 1, &t.rows, t.index_q, t.scores, 7, t.workspace, t.bytes),
            QSA_ERR_ARGUMENT, "rows->cells[0] is 30");
    REFUSED("qsa_attend",
            qsa_attend(t.c, t.k, 1, &t.rows, t.q, &t.selection, t.records, RECORD, t.chunks, t.workspace, t.bytes),
            QSA_ERR_ARGUMENT, "rows->cells[0] is 30");
    tear_down();
}

static void scores(void) {
    set_up();
    const char *f = "qsa_score";
    void *w = t.workspace;
    REFUSED(f, qsa_score(NULL, t.k, 0, &t.rows, t.index_q, t.scores, 7, w, t.bytes), QSA_ERR_ARGUMENT, "context");
    REFUSED(f, qsa_score(t.c, NULL, 0, &t.rows, t.index_q, t.scores, 7, w, t.bytes), QSA_ERR_ARGUMENT, "cache");
    REFUSED(f, qsa_score(t.c, t.k, 2, &t.rows, t.index_q, t.scores, 7, w, t.bytes), QSA_ERR_ARGUMENT, "layer");
    REFUSED(f, qsa_score(t.c, t.k, -1, &t.rows, t.index_q, t.scores, 7, w, t.bytes), QSA_ERR_ARGUMENT, "layer");
    REFUSED(f, qsa_score(t.c, t.k, 0, NULL, t.index_q, t.scores, 7, w, t.bytes), QSA_ERR_ARGUMENT, "rows");
    REFUSED(f, qsa_score(t.c, t.k, 0, &t.rows, NULL, t.scores, 7, w, t.bytes), QSA_ERR_ARGUMENT, "index_q");
    REFUSED(f, qsa_score(t.c, t.k, 0, &t.rows, t.index_q, NULL, 7, w, t.bytes), QSA_ERR_ARGUMENT, "scores");
    REFUSED(f, qsa_score(t.c, t.k, 0, &t.rows, t.index_q, t.scores, 6, w, t.bytes), QSA_ERR_ARGUMENT, "stride");
    REFUSED(f, qsa_score(t.c, t.k, 0, &t.rows, t.index_q, t.scores, -7, w, t.bytes), QSA_ERR_ARGUMENT, "stride");
    REFUSED(f, qsa_score(t.c, t.k, 0, &t.rows, t.index_q, t.scores, INT64_MIN, w, t.bytes), QSA_ERR_ARGUMENT, "stride");
    REFUSED(f, qsa_score(t.c, t.k, 0, &t.rows, t.index_q, t.scores, 7, NULL, t.bytes), QSA_ERR_ARGUMENT, "workspace");
    size_t needed;
    FX_OK(qsa_workspace_size(t.c, t.k, QSA_STAGE_SCORE, ROWS, &needed));
    REFUSED(f, qsa_score(t.c, t.k, 0, &t.rows, t.index_q, t.scores, 7, w, needed - 1), QSA_ERR_ARGUMENT,
            "workspace_bytes");
    misuse_end();
    PLAIN_CHECK_INT(score(&t.rows), QSA_OK);
    tear_down();
}

static qsa_status topk(const qsa_selection *selection) {
    qsa_selection x = *selection;
    return qsa_topk(t.c, &t.g, QSA_RULE_CUT, ROWS, t.cells, t.scores, 8, &x);
}
#define TOPK(change, word) WITH(qsa_selection, t.selection, change, "qsa_topk", topk(&x), QSA_ERR_ARGUMENT, word)

static void selecting(void) {
    set_up();
    const char *f = "qsa_topk";
    qsa_geometry bad = t.g;
    bad.ratio = 0;
    const int32_t negative[ROWS] = {30, -1};
    qsa_selection *s = &t.selection;
    misuse_guard(t.ids, sizeof t.ids);
    misuse_guard(t.count, sizeof t.count);
    misuse_guard(t.cut_index, sizeof t.cut_index);
    misuse_guard(t.cut_cells, sizeof t.cut_cells);
    REFUSED(f, qsa_topk(NULL, &t.g, QSA_RULE_CUT, ROWS, t.cells, t.scores, 8, s), QSA_ERR_ARGUMENT, "context");
    REFUSED(f, qsa_topk(t.c, NULL, QSA_RULE_CUT, ROWS, t.cells, t.scores, 8, s), QSA_ERR_ARGUMENT, "geometry");
    REFUSED(f, qsa_topk(t.c, &bad, QSA_RULE_CUT, ROWS, t.cells, t.scores, 8, s), QSA_ERR_ARGUMENT, "geometry.ratio");
    REFUSED(f, qsa_topk(t.c, &t.g, (qsa_rule)2, ROWS, t.cells, t.scores, 8, s), QSA_ERR_ARGUMENT, "rule");
    REFUSED(f, qsa_topk(t.c, &t.g, QSA_RULE_CUT, -1, t.cells, t.scores, 8, s), QSA_ERR_ARGUMENT, "rows");
    REFUSED(f, qsa_topk(t.c, &t.g, QSA_RULE_CUT, ROWS, NULL, t.scores, 8, s), QSA_ERR_ARGUMENT, "cells");
    REFUSED(f, qsa_topk(t.c, &t.g, QSA_RULE_CUT, ROWS, negative, t.scores, 8, s), QSA_ERR_ARGUMENT, "cells[1]");
    REFUSED(f, qsa_topk(t.c, &t.g, QSA_RULE_CUT, ROWS, t.cells, NULL, 8, s), QSA_ERR_ARGUMENT, "scores");
    REFUSED(f, qsa_topk(t.c, &t.g, QSA_RULE_CUT, ROWS, t.cells, t.scores, 6, s), QSA_ERR_ARGUMENT, "stride");
    REFUSED(f, qsa_topk(t.c, &t.g, QSA_RULE_CUT, ROWS, t.cells, t.scores, -8, s), QSA_ERR_ARGUMENT, "stride");
    REFUSED(f, qsa_topk(t.c, &t.g, QSA_RULE_CUT, ROWS, t.cells, t.scores, 8, NULL), QSA_ERR_ARGUMENT, "selection");
    TOPK(x.size = 0, "size");
    TOPK(x.ids = NULL, "ids");
    TOPK(x.count = NULL, "count");
    TOPK(x.stride = 4, "stride"); // 5 under the rule cut
    TOPK(x.cut_index = NULL, "cut_index");
    TOPK(x.cut_cells = NULL, "cut_cells");
    TOPK((x.cut_index = NULL, x.cut_cells = NULL), "cut_index");
    misuse_end();
    // Rows below the budget need no scores.
    PLAIN_CHECK_INT(qsa_topk(t.c, &t.g, QSA_RULE_CUT, 1, t.cells + 1, NULL, 0, s), QSA_OK);
    tear_down();
}

#define ATTEND(change, word)                                                                                           \
    WITH(qsa_selection, t.selection, change, "qsa_attend", attend(&t.rows, &x), QSA_ERR_ARGUMENT, word)

static void attending(void) {
    set_up();
    const char *f = "qsa_attend";
    void *w = t.workspace;
    const qsa_selection *s = &t.selection;
    const int64_t n = RECORD;
    REFUSED(f, qsa_attend(NULL, t.k, 0, &t.rows, t.q, s, t.records, n, t.chunks, w, t.bytes), QSA_ERR_ARGUMENT,
            "context");
    REFUSED(f, qsa_attend(t.c, NULL, 0, &t.rows, t.q, s, t.records, n, t.chunks, w, t.bytes), QSA_ERR_ARGUMENT,
            "cache");
    REFUSED(f, qsa_attend(t.c, t.k, 2, &t.rows, t.q, s, t.records, n, t.chunks, w, t.bytes), QSA_ERR_ARGUMENT, "layer");
    REFUSED(f, qsa_attend(t.c, t.k, 0, NULL, t.q, s, t.records, n, t.chunks, w, t.bytes), QSA_ERR_ARGUMENT, "rows");
    REFUSED(f, qsa_attend(t.c, t.k, 0, &t.rows, NULL, s, t.records, n, t.chunks, w, t.bytes), QSA_ERR_ARGUMENT, "q ");
    REFUSED(f, qsa_attend(t.c, t.k, 0, &t.rows, t.q, NULL, t.records, n, t.chunks, w, t.bytes), QSA_ERR_ARGUMENT,
            "selection");
    REFUSED(f, qsa_attend(t.c, t.k, 0, &t.rows, t.q, s, NULL, n, t.chunks, w, t.bytes), QSA_ERR_ARGUMENT, "records");
    REFUSED(f, qsa_attend(t.c, t.k, 0, &t.rows, t.q, s, t.records, n - 1, t.chunks, w, t.bytes), QSA_ERR_ARGUMENT,
            "row_stride");
    REFUSED(f, qsa_attend(t.c, t.k, 0, &t.rows, t.q, s, t.records, -n, t.chunks, w, t.bytes), QSA_ERR_ARGUMENT,
            "row_stride");
    REFUSED(f, qsa_attend(t.c, t.k, 0, &t.rows, t.q, s, t.records, n, NULL, w, t.bytes), QSA_ERR_ARGUMENT, "chunks");
    REFUSED(f, qsa_attend(t.c, t.k, 0, &t.rows, t.q, s, t.records, n, t.chunks, NULL, t.bytes), QSA_ERR_ARGUMENT,
            "workspace");
    REFUSED(f, qsa_attend(t.c, t.k, 0, &t.rows, t.q, s, t.records, n, t.chunks, w, t.bytes - 1), QSA_ERR_ARGUMENT,
            "workspace_bytes");
    ATTEND(x.size = 0, "size");
    ATTEND(x.ids = NULL, "ids");
    ATTEND(x.count = NULL, "count");
    ATTEND(x.stride = 3, "count[0] is 4, stride is 3");
    ATTEND(x.stride = 0, "stride");
    ATTEND(x.cut_index = NULL, "cut_index");
    ATTEND(x.cut_cells = NULL, "cut_cells");
    const int32_t ids[][4] = {{0, 1, 2, 7}, {0, 1, 1, 2}, {3, 2, 1, 0}, {-1, 0, 1, 2}, {0, 1, 2, INT32_MAX}};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        int32_t copy[ROWS * STRIDE];
        memcpy(copy, ids[i], sizeof ids[i]);
        ATTEND(x.ids = copy, "ids of row 0");
    }
    const int32_t counts[] = {5, 7, -1, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        int32_t copy[ROWS] = {counts[i], 0};
        ATTEND(x.count = copy, i ? "count[0]" : "selection of row 0");
    }
    misuse_end();
    PLAIN_CHECK_INT(attend(&t.rows, &t.selection), QSA_OK);
    tear_down();
}

#define MERGE(change, word)                                                                                            \
    {                                                                                                                  \
        WITH(qsa_rows_out, t.to, change, "qsa_merge",                                                                  \
             qsa_merge(t.c, &t.g, ROWS, t.records, RECORD, t.one_chunk, NULL, &x, t.lse), QSA_ERR_ARGUMENT,            \
             "out." word);                                                                                             \
        WITH(qsa_rows_out, t.to, change, "qsa_gate", qsa_gate(t.c, &t.g, ROWS, &t.in, &t.in, &x), QSA_ERR_ARGUMENT,    \
             "out." word);                                                                                             \
    }

static void merging(void) {
    set_up();
    const char *f = "qsa_merge";
    const int32_t *one = t.one_chunk, negative[ROWS] = {1, -1}, two[ROWS] = {2, 1}, huge[ROWS] = {1, INT32_MAX};
    qsa_geometry bad = t.g;
    bad.heads = 3;
    REFUSED(f, qsa_merge(NULL, &t.g, ROWS, t.records, RECORD, one, NULL, &t.to, t.lse), QSA_ERR_ARGUMENT, "context");
    REFUSED(f, qsa_merge(t.c, NULL, ROWS, t.records, RECORD, one, NULL, &t.to, t.lse), QSA_ERR_ARGUMENT, "geometry");
    REFUSED(f, qsa_merge(t.c, &bad, ROWS, t.records, RECORD, one, NULL, &t.to, t.lse), QSA_ERR_ARGUMENT,
            "geometry.heads");
    REFUSED(f, qsa_merge(t.c, &t.g, -1, t.records, RECORD, one, NULL, &t.to, t.lse), QSA_ERR_ARGUMENT, "rows");
    REFUSED(f, qsa_merge(t.c, &t.g, ROWS, NULL, RECORD, one, NULL, &t.to, t.lse), QSA_ERR_ARGUMENT, "records");
    REFUSED(f, qsa_merge(t.c, &t.g, ROWS, t.records, RECORD - 1, one, NULL, &t.to, t.lse), QSA_ERR_ARGUMENT,
            "row_stride");
    REFUSED(f, qsa_merge(t.c, &t.g, ROWS, t.records, -RECORD, one, NULL, &t.to, t.lse), QSA_ERR_ARGUMENT, "row_stride");
    REFUSED(f, qsa_merge(t.c, &t.g, ROWS, t.records, RECORD, NULL, NULL, &t.to, t.lse), QSA_ERR_ARGUMENT, "chunks");
    REFUSED(f, qsa_merge(t.c, &t.g, ROWS, t.records, RECORD, negative, NULL, &t.to, t.lse), QSA_ERR_ARGUMENT,
            "chunks[1]");
    REFUSED(f, qsa_merge(t.c, &t.g, ROWS, t.records, RECORD, two, NULL, &t.to, t.lse), QSA_ERR_ARGUMENT, "row_stride");
    REFUSED(f, qsa_merge(t.c, &t.g, ROWS, t.records, RECORD, huge, NULL, &t.to, t.lse), QSA_ERR_ARGUMENT, "row_stride");
    REFUSED(f, qsa_merge(t.c, &t.g, ROWS, t.records, RECORD, one, NULL, NULL, t.lse), QSA_ERR_ARGUMENT, "out");
    const char *gate = "qsa_gate";
    REFUSED(gate, qsa_gate(NULL, &t.g, ROWS, &t.in, &t.in, &t.to), QSA_ERR_ARGUMENT, "context");
    REFUSED(gate, qsa_gate(t.c, NULL, ROWS, &t.in, &t.in, &t.to), QSA_ERR_ARGUMENT, "geometry");
    REFUSED(gate, qsa_gate(t.c, &bad, ROWS, &t.in, &t.in, &t.to), QSA_ERR_ARGUMENT, "geometry.heads");
    REFUSED(gate, qsa_gate(t.c, &t.g, -1, &t.in, &t.in, &t.to), QSA_ERR_ARGUMENT, "rows");
    REFUSED(gate, qsa_gate(t.c, &t.g, ROWS, NULL, &t.in, &t.to), QSA_ERR_ARGUMENT, "x ");
    REFUSED(gate, qsa_gate(t.c, &t.g, ROWS, &t.in, NULL, &t.to), QSA_ERR_ARGUMENT, "gate");
    REFUSED(gate, qsa_gate(t.c, &t.g, ROWS, &t.in, &t.in, NULL), QSA_ERR_ARGUMENT, "out");
    WITH(qsa_rows, t.in, x.data = NULL, gate, qsa_gate(t.c, &t.g, ROWS, &x, &t.in, &t.to), QSA_ERR_ARGUMENT, "x.data");
    WITH(qsa_rows, t.in, x.data = NULL, gate, qsa_gate(t.c, &t.g, ROWS, &t.in, &x, &t.to), QSA_ERR_ARGUMENT,
         "gate.data");
    MERGE(x.data = NULL, "data");
    const int types[] = {0, QSA_I8, 5, -1};
    for (int i = 0; i < 4; i++) {
        MERGE(x.type = (qsa_type)types[i], "type");
        WITH(qsa_rows, t.in, x.type = (qsa_type)types[i], f,
             qsa_merge(t.c, &t.g, ROWS, t.records, RECORD, one, &x, &t.to, t.lse), QSA_ERR_ARGUMENT, "gate.type");
        WITH(qsa_rows, t.in, x.type = (qsa_type)types[i], gate, qsa_gate(t.c, &t.g, ROWS, &x, &t.in, &t.to),
             QSA_ERR_ARGUMENT, "x.type");
        WITH(qsa_rows, t.in, x.type = (qsa_type)types[i], gate, qsa_gate(t.c, &t.g, ROWS, &t.in, &x, &t.to),
             QSA_ERR_ARGUMENT, "gate.type");
    }
    tear_down();
}

int main(void) {
    PLAIN_RUN(workspace_sizes);
    PLAIN_RUN(row_sets);
    PLAIN_RUN(scores);
    PLAIN_RUN(selecting);
    PLAIN_RUN(attending);
    PLAIN_RUN(merging);
    return plain_finish();
}
