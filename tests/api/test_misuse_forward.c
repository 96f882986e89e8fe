// SPDX-License-Identifier: Apache-2.0
//
// Misuse of the calls that take a batch, forward and prep: every argument null, every field out of range, geometries that
// differ, selections that do not fit, workspaces too small. Outputs keep their bytes, the cache too.
// LABELS: small cross
// RUNNER: plain
#include "misuse.h"

enum { ROWS = 3, HEADS = 4, DIM = 24, STRIDE = 6 };

// A session whose sequence 0 has 28 cells and sequence 1 has 5, and a batch of two rows of the one and one of the other.
static struct {
    fx_world *world;
    fx_session s;
    fx_batch batch;
    float out[ROWS * HEADS * DIM], lse[ROWS * HEADS];
    int32_t ids[ROWS * STRIDE], count[ROWS], cut_index[ROWS], cut_cells[ROWS];
    int32_t given_ids[ROWS * STRIDE], given_count[ROWS], given_cut[ROWS], given_cells[ROWS];
    float prep_q[ROWS * HEADS * DIM];
    qsa_rows_out to;
    qsa_selection use, give;
    qsa_forward_options options;
    qsa_prep_out prep;
    void *workspace;
    size_t bytes;
} t;

static void set_up(void) {
    const qsa_geometry g = fx_geometry_small();
    const int32_t lengths[] = {30, 6, 2};
    t.world = fx_world_make(111, &g, 2, 3, lengths, 3);
    fx_options o = fx_options_default();
    o.max_sequences = 4;
    o.max_cells = 40;
    o.page_cells = 8;
    t.s = fx_open(t.world, &o);
    const int32_t count[FX_MAX_SEQUENCES] = {28, 5, 0}, tokens[ROWS] = {28, 35, 29};
    fx_step(&t.s, count, NULL);
    FX_OK(qsa_sequence_destroy(t.s.cache, t.s.sequence[2]));
    t.batch = fx_batch_make(&t.s, 1, ROWS, tokens);
    memset(t.out, 0x3c, sizeof t.out);
    t.to = (qsa_rows_out){t.out, QSA_F32, HEADS * DIM * 4, DIM * 4};
    for (int32_t i = 0; i < ROWS; i++) {
        // Rows 0 and 2 see 29 and 30 cells, above the budget: 4 of their 7 blocks.
        for (int32_t k = 0; k < STRIDE; k++)
            t.ids[i * STRIDE + k] = 2 * k < 7 ? 2 * k : 99;
        t.count[i] = 4;
        t.cut_index[i] = -1;
    }
    t.use = (qsa_selection){sizeof t.use, t.ids, STRIDE, t.count, t.cut_index, t.cut_cells};
    t.give = (qsa_selection){sizeof t.give, t.given_ids, STRIDE, t.given_count, t.given_cut, t.given_cells};
    t.options = (qsa_forward_options){sizeof t.options, QSA_RULE_OFFICIAL, &t.use, &t.give, t.lse};
    t.prep = (qsa_prep_out){.size = sizeof t.prep, .q = t.prep_q};
    t.workspace = fx_workspace(&t.s, QSA_STAGE_FORWARD, ROWS, &t.bytes);
    misuse_watch(t.s.cache);
    const struct {
        const void *memory;
        size_t bytes;
    } guards[] = {{t.out, sizeof t.out},
                  {t.lse, sizeof t.lse},
                  {t.given_ids, sizeof t.given_ids},
                  {t.given_count, sizeof t.given_count},
                  {t.given_cut, sizeof t.given_cut},
                  {t.given_cells, sizeof t.given_cells},
                  {t.prep_q, sizeof t.prep_q},
                  {t.batch.sequences, ROWS * 4}};
    for (size_t i = 0; i < sizeof guards / sizeof *guards; i++)
        misuse_guard(guards[i].memory, guards[i].bytes);
}

static void tear_down(void) {
    misuse_end();
    fx_workspace_free(t.workspace);
    fx_batch_free(&t.batch);
    fx_close(&t.s);
    fx_world_free(t.world);
}

static qsa_status forward(const qsa_batch *batch, const qsa_forward_options *options, const qsa_rows_out *to) {
    return qsa_forward(t.s.context, t.s.layer[1], t.s.cache, 1, batch, options, to, t.workspace, t.bytes);
}
static qsa_status prep(const qsa_batch *batch) {
    return qsa_prep(t.s.context, t.s.layer[1], t.s.cache, 1, batch, &t.prep, t.workspace, t.bytes);
}

// Both calls refuse the changed batch in the same words.
#define BATCH(change, word)                                                                                            \
    {                                                                                                                  \
        WITH(qsa_batch, t.batch.batch, change, "qsa_forward", forward(&x, &t.options, &t.to), QSA_ERR_ARGUMENT, word); \
        WITH(qsa_batch, t.batch.batch, change, "qsa_prep", prep(&x), QSA_ERR_ARGUMENT, word);                          \
    }

static void handles(void) {
    set_up();
    qsa_context *c = t.s.context;
    qsa_layer *l = t.s.layer[1];
    qsa_cache *k = t.s.cache;
    const qsa_batch *b = &t.batch.batch;
    void *w = t.workspace;
    const char *f = "qsa_forward", *p = "qsa_prep";
    REFUSED(f, qsa_forward(NULL, l, k, 1, b, &t.options, &t.to, w, t.bytes), QSA_ERR_ARGUMENT, "context");
    REFUSED(f, qsa_forward(c, NULL, k, 1, b, &t.options, &t.to, w, t.bytes), QSA_ERR_ARGUMENT, "layer");
    REFUSED(f, qsa_forward(c, l, NULL, 1, b, &t.options, &t.to, w, t.bytes), QSA_ERR_ARGUMENT, "cache");
    REFUSED(f, qsa_forward(c, l, k, 1, NULL, &t.options, &t.to, w, t.bytes), QSA_ERR_ARGUMENT, "batch");
    REFUSED(f, qsa_forward(c, l, k, 1, b, &t.options, NULL, w, t.bytes), QSA_ERR_ARGUMENT, "out");
    REFUSED(f, qsa_forward(c, l, k, 1, b, &t.options, &t.to, NULL, t.bytes), QSA_ERR_ARGUMENT, "workspace");
    REFUSED(p, qsa_prep(NULL, l, k, 1, b, &t.prep, w, t.bytes), QSA_ERR_ARGUMENT, "context");
    REFUSED(p, qsa_prep(c, NULL, k, 1, b, &t.prep, w, t.bytes), QSA_ERR_ARGUMENT, "layer");
    REFUSED(p, qsa_prep(c, l, NULL, 1, b, &t.prep, w, t.bytes), QSA_ERR_ARGUMENT, "cache");
    REFUSED(p, qsa_prep(c, l, k, 1, NULL, &t.prep, w, t.bytes), QSA_ERR_ARGUMENT, "batch");
    REFUSED(p, qsa_prep(c, l, k, 1, b, &t.prep, NULL, t.bytes), QSA_ERR_ARGUMENT, "workspace");
    WITH(qsa_prep_out, t.prep, x.size = 0, p, qsa_prep(c, l, k, 1, b, &x, w, t.bytes), QSA_ERR_ARGUMENT, "out->size");
    size_t needed;
    FX_OK(qsa_workspace_size(c, k, QSA_STAGE_PREP, ROWS, &needed));
    const size_t small[2][3] = {{0, 1, t.bytes - 1}, {0, 1, needed - 1}};
    for (int i = 0; i < 3; i++) {
        REFUSED(f, qsa_forward(c, l, k, 1, b, &t.options, &t.to, w, small[0][i]), QSA_ERR_ARGUMENT, "workspace_bytes");
        REFUSED(p, qsa_prep(c, l, k, 1, b, &t.prep, w, small[1][i]), QSA_ERR_ARGUMENT, "workspace_bytes");
    }
    const int32_t layers[] = {-1, 2, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 4; i++) {
        REFUSED(f, qsa_forward(c, l, k, layers[i], b, &t.options, &t.to, w, t.bytes), QSA_ERR_ARGUMENT, "layer");
        REFUSED(p, qsa_prep(c, l, k, layers[i], b, &t.prep, w, t.bytes), QSA_ERR_ARGUMENT, "layer");
    }
    tear_down();
}

static void batches(void) {
    set_up();
    BATCH(x.size = 0, "batch->size");
    BATCH(x.rows = -1, "batch.rows");
    BATCH(x.rows = INT32_MIN, "batch.rows");
    BATCH(x.sequences = NULL, "batch.sequences");
    BATCH(x.positions = NULL, "batch.positions");
    const int32_t per_row[] = {0, 2, 4, -1, INT32_MAX};
    for (int i = 0; i < 5; i++)
        BATCH(x.positions_per_row = per_row[i], "batch.positions_per_row");
    BATCH(x.q.data = NULL, "batch.q.data");
    BATCH(x.k.data = NULL, "batch.k.data");
    BATCH(x.v.data = NULL, "batch.v.data");
    BATCH(x.index_q.data = NULL, "batch.index_q.data");
    BATCH(x.index_k.data = NULL, "batch.index_k.data");
    const int types[] = {0, QSA_I8, 5, -1};
    for (int i = 0; i < 4; i++) {
        BATCH(x.q.type = (qsa_type)types[i], "batch.q.type");
        BATCH(x.k.type = (qsa_type)types[i], "batch.k.type");
        BATCH(x.v.type = (qsa_type)types[i], "batch.v.type");
        BATCH(x.index_q.type = (qsa_type)types[i], "batch.index_q.type");
        BATCH(x.index_k.type = (qsa_type)types[i], "batch.index_k.type");
        BATCH(x.gate.type = (qsa_type)types[i], "batch.gate.type");
        WITH(qsa_rows_out, t.to, x.type = (qsa_type)types[i], "qsa_forward", forward(&t.batch.batch, &t.options, &x),
             QSA_ERR_ARGUMENT, "out.type");
    }
    WITH(qsa_rows_out, t.to, x.data = NULL, "qsa_forward", forward(&t.batch.batch, &t.options, &x), QSA_ERR_ARGUMENT,
         "out.data");
    const int32_t no_sequence[] = {-1, 2, 3, 4, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 6; i++)
        for (int32_t row = 0; row < ROWS; row++) {
            int32_t sequences[ROWS], positions[3 * ROWS];
            memcpy(sequences, t.batch.sequences, sizeof sequences);
            sequences[row] = no_sequence[i];
            char word[40];
            snprintf(word, sizeof word, "batch.sequences[%d]", (int)row);
            BATCH(x.sequences = sequences, word);
            memcpy(positions, t.batch.positions, sizeof positions);
            positions[3 * row + i % 3] = i < 3 ? -1 : INT32_MIN;
            snprintf(word, sizeof word, "batch.positions of row %d", (int)row);
            BATCH(x.positions = positions, word);
        }
    tear_down();
}

// More rows than max_cells or the pages hold: 40 cells a sequence, pages for the world's lengths.
static void capacity(void) {
    set_up();
    int32_t sequences[40], positions[3 * 40] = {0};
    for (int i = 0; i < 40; i++)
        sequences[i] = t.s.sequence[0];
    size_t bytes;
    void *workspace = fx_workspace(&t.s, QSA_STAGE_FORWARD, 40, &bytes);
    static float zeros[40 * HEADS * DIM];
    const qsa_rows rows = {zeros, QSA_F32, 0, 0}; // all rows the same
    qsa_batch b = {sizeof b, 13, sequences, positions, 3, rows, rows, rows, rows, rows, {0}, NULL};
    const qsa_rows_out to = {zeros, QSA_F32, HEADS * DIM * 4, DIM * 4};
    misuse_guard(zeros, sizeof zeros);
    qsa_context *c = t.s.context;
    qsa_cache *k = t.s.cache;
    const char *f = "qsa_forward";
    REFUSED(f, qsa_forward(c, t.s.layer[0], k, 0, &b, NULL, &to, workspace, bytes), QSA_ERR_CAPACITY, "max_cells");
    REFUSED("qsa_prep", qsa_prep(c, t.s.layer[0], k, 0, &b, NULL, workspace, bytes), QSA_ERR_CAPACITY, "max_cells");
    b.rows = 40;
    for (int i = 0; i < 40; i++)
        sequences[i] = t.s.sequence[i % 12 == 0 ? 0 : 1]; // 32 and 41 cells
    REFUSED(f, qsa_forward(c, t.s.layer[0], k, 0, &b, NULL, &to, workspace, bytes), QSA_ERR_CAPACITY, "max_cells");
    b.rows = 39; // 32 and 40 cells: 9 pages of 7
    REFUSED(f, qsa_forward(c, t.s.layer[0], k, 0, &b, NULL, &to, workspace, bytes), QSA_ERR_CAPACITY, "pages");
    // Counts that the arrays do not have: refused by the workspace, which is too small for them, before anything is read.
    b.rows = INT32_MAX;
    REFUSED(f, qsa_forward(c, t.s.layer[0], k, 0, &b, NULL, &to, workspace, bytes), QSA_ERR_ARGUMENT, "workspace");
    REFUSED("qsa_prep", qsa_prep(c, t.s.layer[0], k, 0, &b, NULL, workspace, bytes), QSA_ERR_ARGUMENT, "workspace");
    fx_workspace_free(workspace);
    tear_down();
}

static void geometries_differ(void) {
    set_up();
    for (int i = 0; i < 11; i++) {
        fx_world other = *t.world;
        qsa_geometry *g = &other.geometry;
        float weights[64] = {0};
        const char *words[] = {"heads",    "kv_heads", "head_dim", "index_heads", "index_dim", "rotary_dim",
                               "sections", "ratio",    "budget",   "eps",         "theta"};
        int32_t *const fields[] = {&g->heads,      &g->kv_heads,    &g->head_dim, &g->index_heads, &g->index_dim,
                                   &g->rotary_dim, &g->sections[0], &g->ratio,    &g->budget};
        const int32_t values[] = {6, 1, 25, 1, 17, 6, 1, 2, 20};
        if (i < 9)
            *fields[i] = values[i];
        if (i == 5 || i == 6) // the sections still sum to half of the rotary dims
            g->sections[i == 5 ? 0 : 1] = i == 5 ? 1 : 2;
        if (i == 9)
            g->eps = 1e-5f;
        if (i == 10)
            g->theta = 2e7;
        for (int n = 0; n < 4; n++)
            other.norms[0][n] = weights;
        qsa_layer *layer = fx_make_layer(t.s.context, &other, 0);
        REFUSED("qsa_forward",
                qsa_forward(t.s.context, layer, t.s.cache, 1, &t.batch.batch, NULL, &t.to, t.workspace, t.bytes),
                QSA_ERR_ARGUMENT, words[i]);
        REFUSED("qsa_prep", qsa_prep(t.s.context, layer, t.s.cache, 1, &t.batch.batch, NULL, t.workspace, t.bytes),
                QSA_ERR_ARGUMENT, words[i]);
        qsa_layer_destroy(layer);
    }
    tear_down();
}

#define OPTIONS(change, word)                                                                                          \
    WITH(qsa_forward_options, t.options, change, "qsa_forward", forward(&t.batch.batch, &x, &t.to), QSA_ERR_ARGUMENT,  \
         word)
#define USE(change, word)                                                                                              \
    {                                                                                                                  \
        const qsa_selection kept = t.use;                                                                              \
        WITH(qsa_selection, kept, (change, t.use = x), "qsa_forward", forward(&t.batch.batch, &t.options, &t.to),      \
             QSA_ERR_ARGUMENT, word);                                                                                  \
        t.use = kept;                                                                                                  \
    }
#define GIVE(change, word)                                                                                             \
    {                                                                                                                  \
        const qsa_selection kept = t.give;                                                                             \
        WITH(qsa_selection, kept, (change, t.give = x), "qsa_forward", forward(&t.batch.batch, &t.options, &t.to),     \
             QSA_ERR_ARGUMENT, word);                                                                                  \
        t.give = kept;                                                                                                 \
    }

static void options(void) {
    set_up();
    OPTIONS(x.size = 0, "options->size");
    OPTIONS(x.rule = (qsa_rule)2, "rule");
    OPTIONS(x.rule = (qsa_rule)-1, "rule");
    USE(x.size = 0, "size");
    USE(x.ids = NULL, "ids");
    USE(x.count = NULL, "count");
    USE(x.stride = 0, "stride");
    USE(x.stride = -6, "stride");
    USE(x.cut_index = NULL, "cut_index");
    USE(x.cut_cells = NULL, "cut_cells");
    GIVE(x.size = 0, "size");
    GIVE(x.ids = NULL, "ids");
    GIVE(x.count = NULL, "count");
    GIVE(x.stride = 3, "stride");
    GIVE(x.stride = -1, "stride");
    GIVE(x.cut_index = NULL, "cut_index");
    GIVE(x.cut_cells = NULL, "cut_cells");
    t.options.rule = QSA_RULE_CUT;
    GIVE(x.stride = 4, "stride");
    GIVE((x.cut_index = NULL, x.cut_cells = NULL), "cut_index");
    t.options.rule = QSA_RULE_OFFICIAL;
    tear_down();
}

// One number of the given selection changed, in a row above the budget.
#define NUMBER(array, index, value, word)                                                                              \
    {                                                                                                                  \
        const int32_t kept = t.array[index];                                                                           \
        t.array[index] = (value);                                                                                      \
        REFUSED("qsa_forward", forward(&t.batch.batch, &t.options, &t.to), QSA_ERR_ARGUMENT, word);                    \
        t.array[index] = kept;                                                                                         \
    }

static void selections(void) {
    set_up();
    const int32_t last = 2 * STRIDE; // row 2
    NUMBER(count, 2, -1, "count[2]");
    NUMBER(count, 2, STRIDE + 1, "count[2]");
    NUMBER(count, 2, INT32_MAX, "count[2]");
    NUMBER(count, 2, INT32_MIN, "count[2]");
    NUMBER(count, 0, 5, "selection of row 0"); // 5 blocks are wider than budget + ratio - 1 cells
    NUMBER(ids, last, -1, "row 2");
    NUMBER(ids, last, INT32_MIN, "row 2");
    NUMBER(ids, last + 1, 0, "row 2"); // twice
    NUMBER(ids, last + 2, 1, "row 2"); // descending
    NUMBER(ids, last + 3, 7, "row 2"); // the block that is not complete
    NUMBER(ids, last + 3, INT32_MAX, "row 2");
    NUMBER(ids, 3, 7, "row 0");
    NUMBER(cut_index, 2, 4, "cut_index[2]");
    NUMBER(cut_index, 2, -2, "cut_index[2]");
    NUMBER(cut_index, 2, INT32_MAX, "cut_index[2]");
    NUMBER(cut_index, 2, 1, "cut_cells[2]"); // 0 cells of it
    t.cut_cells[2] = 5;
    NUMBER(cut_index, 2, 1, "cut_cells[2]");
    t.cut_cells[2] = INT32_MIN;
    NUMBER(cut_index, 2, 1, "cut_cells[2]");
    t.cut_cells[2] = 2;
    // A cut selection cannot be given on without its arrays.
    t.cut_index[2] = 1;
    t.give.cut_index = t.give.cut_cells = NULL;
    REFUSED("qsa_forward", forward(&t.batch.batch, &t.options, &t.to), QSA_ERR_ARGUMENT, "options->give");
    // Row 1 is below the budget: its numbers are never read. All the rest is fine, and is computed.
    t.options.give = NULL;
    t.count[1] = -5;
    t.cut_index[1] = 77;
    misuse_end();
    PLAIN_CHECK_INT(forward(&t.batch.batch, &t.options, &t.to), QSA_OK);
    tear_down();
}

int main(void) {
    PLAIN_RUN(handles);
    PLAIN_RUN(batches);
    PLAIN_RUN(capacity);
    PLAIN_RUN(geometries_differ);
    PLAIN_RUN(options);
    PLAIN_RUN(selections);
    return plain_finish();
}
