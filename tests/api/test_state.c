// SPDX-License-Identifier: Apache-2.0
//
// The pending batch: what fails or is taken back leaves no trace. After each disturbance the sequences go on, and all
// outputs and stored bytes equal those of a run that was never disturbed.
// LABELS: small cross
// RUNNER: plain
#include "support/fixture.h"
#include "support/plain_runner.h"

#include <stdlib.h>

static const int32_t rollbacks[] = {0, 3, 64, QSA_ROLLBACK_ALL};

static fx_world *make_world(uint64_t seed) {
    const qsa_geometry g = fx_geometry_small();
    const int32_t lengths[] = {43, 26, 11};
    return fx_world_make(seed, &g, 2, 3, lengths, 1);
}

// A forward call that fails in its own way; the number of ways is FAILURES.
enum { FAILURES = 8 };
static qsa_status failing_forward(fx_session *s, int32_t layer, const fx_batch *b, int way) {
    const qsa_geometry *g = &s->world->geometry;
    qsa_batch batch = b->batch;
    fx_rows out = fx_rows_make(b->rows, g->heads, g->head_dim, QSA_F32, FX_ODD);
    const qsa_rows_out to = fx_rows_out(&out);
    size_t bytes;
    void *workspace = fx_workspace(s, QSA_STAGE_FORWARD, b->rows, &bytes);
    qsa_forward_options options = {.size = sizeof options};
    int32_t *bad = fx_alloc((size_t)b->rows * 4), id = 0, *zeros = fx_alloc((size_t)b->rows * 4);
    memset(zeros, 0, (size_t)b->rows * 4);
    memcpy(bad, b->sequences, (size_t)b->rows * 4);
    // Blocks out of range, for every row: a stride of 1 is enough for reading, ids of -1 are refused.
    qsa_selection use = {.size = sizeof use, .ids = &id, .count = zeros, .stride = 1};
    int32_t *ids = fx_alloc((size_t)b->rows * 4), *ones = fx_alloc((size_t)b->rows * 4);
    for (int32_t i = 0; i < b->rows; i++) {
        ids[i] = -1;
        ones[i] = 1;
    }
    switch (way) {
    case 0:
        bytes--;
        break;
    case 1:
        batch.v.data = NULL;
        break;
    case 2:
        batch.gate.type = QSA_I8;
        break;
    case 3:
        bad[b->rows - 1] = 99;
        batch.sequences = bad;
        break;
    case 4:
        memset(bad, 0xff, (size_t)b->rows * 4);
        batch.positions = bad;
        break;
    case 5:
        use.ids = ids;
        use.count = ones;
        options.use = &use;
        break;
    case 6:
        options.rule = (qsa_rule)7;
        break;
    default:
        batch.index_k.type = (qsa_type)0;
    }
    const qsa_status status =
        qsa_forward(s->context, s->layer[layer], s->cache, layer, &batch, &options, &to, workspace, bytes);
    fx_workspace_free(workspace);
    fx_rows_check_and_free(&out); // nothing was written
    free(bad);
    free(zeros);
    free(ids);
    free(ones);
    return status;
}

// Every way to fail, in front of each layer of each batch of 5 tokens. The selection of way 5 is only looked at for rows
// above the budget, so batches below it let it pass: they skip it.
static void failures_leave_no_trace(void) {
    fx_world *world = make_world(41);
    for (size_t r = 0; r < sizeof rollbacks / sizeof *rollbacks; r++) {
        fx_options o = fx_options_default();
        o.rollback = rollbacks[r];
        o.interleave = 1;
        fx_results *base = fx_run(world, &o);
        fx_session s = fx_open(world, &o);
        fx_results *results = fx_results_make(&s);
        int32_t *tokens = fx_alloc((size_t)world->tokens * 4);
        for (int more = 1; more;) {
            int32_t count[FX_MAX_SEQUENCES] = {0}, longest = 0;
            more = 0;
            for (int32_t i = 0; i < world->sequences; i++) {
                const int32_t left = world->length[i] - s.done[i];
                count[i] = left < 5 ? left : 5;
                more |= count[i] > 0;
                longest = s.done[i] > longest ? s.done[i] : longest;
            }
            if (!more)
                break;
            const int32_t rows = fx_next(&s, count, tokens);
            for (int32_t layer = 0; layer < s.layers; layer++) {
                fx_batch batch = fx_batch_make(&s, layer, rows, tokens);
                size_t bytes;
                unsigned char *before = fx_cache_bytes(s.cache, &bytes);
                for (int way = 0; way < FAILURES; way++)
                    if (way != 5 || longest >= 20)
                        PLAIN_CHECK_INT(failing_forward(&s, layer, &batch, way), QSA_ERR_ARGUMENT);
                unsigned char *after = fx_cache_bytes(s.cache, &bytes);
                PLAIN_CHECK_BYTES(after, before, bytes);
                free(before);
                free(after);
                fx_compute(&s, layer, &batch, results);
                fx_batch_free(&batch);
            }
            FX_OK(qsa_cache_commit(s.cache));
            for (int32_t i = 0; i < world->sequences; i++)
                s.done[i] += count[i];
        }
        fx_read(&s, results);
        FX_SAME(results, base);
        fx_close(&s);
        free(tokens);
        fx_results_free(results);
        fx_results_free(base);
    }
    fx_world_free(world);
}

// A batch of wrong tokens: `wrong` of each sequence, taken from the world's end, through `layers` layers.
static void wrong_batch(fx_session *s, const int32_t *wrong, int32_t layers) {
    const fx_world *w = s->world;
    int32_t *tokens = fx_alloc((size_t)w->tokens * 4), rows = 0;
    for (int32_t i = 0; i < w->sequences; i++)
        for (int32_t j = 0; j < wrong[i]; j++)
            tokens[rows++] = w->first[i] + w->length[i] - 1 - j;
    for (int32_t layer = 0; layer < layers; layer++) {
        fx_batch batch = fx_batch_make(s, layer, rows, tokens);
        fx_compute(s, layer, &batch, NULL);
        fx_batch_free(&batch);
    }
    free(tokens);
}

// Drafts of any number of tokens are written and discarded in front of every batch; or written over by the right ones.
static void drafts_leave_no_trace(void) {
    fx_world *world = make_world(42);
    rng r = rng_make(6);
    for (int round = 0; round < 24; round++) {
        fx_options o = fx_options_default();
        o.rollback = rollbacks[round % 4];
        o.kv_type = (qsa_type)(1 + round / 4 % 4);
        o.page_cells = 4 * (1 + round % 3);
        o.stages = round % 5 == 4;
        o.rule = (qsa_rule)(round % 2);
        o.interleave = 1;
        fx_results *base = fx_run(world, &o);
        fx_session s = fx_open(world, &o);
        fx_results *results = fx_results_make(&s);
        for (int more = 1; more;) {
            int32_t count[FX_MAX_SEQUENCES] = {0}, wrong[FX_MAX_SEQUENCES] = {0};
            more = 0;
            for (int32_t i = 0; i < world->sequences; i++) {
                const int32_t left = world->length[i] - s.done[i];
                count[i] = rng_range(&r, 0, left < 7 ? left : 7);
                wrong[i] = rng_range(&r, 0, left);
                more |= left > 0;
            }
            const int kind = rng_range(&r, 0, 3);
            if (kind == 0) { // the same rows, all layers or some, then the right ones without a discard
                wrong_batch(&s, count, rng_range(&r, 0, s.layers));
            } else if (kind < 3) {
                wrong_batch(&s, wrong, rng_range(&r, 1, s.layers));
                FX_OK(qsa_cache_discard(s.cache));
            }
            fx_step(&s, count, results);
        }
        fx_read(&s, results);
        FX_SAME(results, base);
        qsa_cache_info info = {.size = sizeof info};
        FX_OK(qsa_cache_get_info(s.cache, &info));
        PLAIN_CHECK_INT(info.pending_rows, 0);
        fx_close(&s);
        fx_results_free(results);
        fx_results_free(base);
    }
    fx_world_free(world);
}

// Control: a draft that is committed does leave a trace.
static void draft_control(void) {
    fx_world *world = make_world(43);
    fx_options o = fx_options_default();
    fx_results *base = fx_run(world, &o);
    o.max_cells = 50;
    fx_session s = fx_open(world, &o);
    fx_results *results = fx_results_make(&s);
    const int32_t wrong[FX_MAX_SEQUENCES] = {1, 0, 0}, none[FX_MAX_SEQUENCES] = {0};
    wrong_batch(&s, wrong, 2);
    fx_step(&s, none, NULL); // commits
    fx_run_on(&s, results);
    PLAIN_CHECK(fx_difference(results, base) != NULL);
    fx_close(&s);
    fx_results_free(results);
    fx_results_free(base);
    fx_world_free(world);
}

// Used before: the same cache after reset, after destroy and create, against a new cache.
static void reuse_leaves_no_trace(void) {
    fx_world *first = make_world(44), *second = make_world(45);
    for (int way = 0; way < 8; way++) {
        fx_options o = fx_options_default();
        o.rollback = rollbacks[way % 4];
        fx_session s = fx_open(first, &o);
        fx_run_on(&s, NULL);
        for (int32_t i = 0; i < first->sequences; i++) {
            if (way < 4) {
                FX_OK(qsa_sequence_reset(s.cache, s.sequence[i]));
            } else {
                FX_OK(qsa_sequence_destroy(s.cache, s.sequence[i]));
                FX_OK(qsa_sequence_create(s.cache, &s.sequence[i]));
            }
            s.done[i] = 0;
        }
        qsa_cache_info info = {.size = sizeof info};
        FX_OK(qsa_cache_get_info(s.cache, &info));
        PLAIN_CHECK_INT(info.free_pages, info.pages);
        PLAIN_CHECK_INT(info.sequences, 3);
        for (int32_t layer = 0; layer < 2; layer++) { // the other world's weights
            qsa_layer_destroy(s.layer[layer]);
            s.layer[layer] = fx_make_layer(s.context, second, layer);
        }
        s.world = second;
        o.chunk = s.options.chunk = 6;
        o.interleave = s.options.interleave = way % 2;
        fx_results *results = fx_results_make(&s), *base = fx_run(second, &o);
        fx_run_on(&s, results);
        fx_read(&s, results);
        FX_SAME(results, base);
        fx_close(&s);
        fx_results_free(results);
        fx_results_free(base);
    }
    fx_world_free(first);
    fx_world_free(second);
}

int main(void) {
    PLAIN_RUN(failures_leave_no_trace);
    PLAIN_RUN(drafts_leave_no_trace);
    PLAIN_RUN(draft_control);
    PLAIN_RUN(reuse_leaves_no_trace);
    return plain_finish();
}
