// SPDX-License-Identifier: Apache-2.0
//
// States and capacities: commit with a layer missing, another batch while one is pending, pages, cells and sequences that
// run out, batches and sequences that are empty. What is refused changes no byte of the cache, and works after room is made.
// LABELS: small cross
// RUNNER: plain
#include "support/fixture.h"
#include "support/plain_runner.h"

#include <stdlib.h>

static fx_world *make_world(void) {
    const qsa_geometry g = fx_geometry_small();
    const int32_t lengths[] = {32, 32, 20};
    return fx_world_make(51, &g, 2, 3, lengths, 1);
}

static qsa_cache_info info_of(const qsa_cache *cache) {
    qsa_cache_info info = {.size = sizeof info};
    FX_OK(qsa_cache_get_info(cache, &info));
    return info;
}

static int32_t length_of(const fx_session *s, int32_t i) {
    int32_t length = -1;
    FX_OK(qsa_sequence_length(s->cache, s->sequence[i], &length));
    return length;
}

// prep of the next count[] tokens for one layer, its status passed on.
static qsa_status try_prep(fx_session *s, int32_t layer, const int32_t *count) {
    int32_t *tokens = fx_alloc((size_t)s->world->tokens * 4);
    const int32_t rows = fx_next(s, count, tokens);
    fx_batch batch = fx_batch_make(s, layer, rows, tokens);
    size_t bytes;
    void *workspace = fx_workspace(s, QSA_STAGE_PREP, rows, &bytes);
    const qsa_status status =
        qsa_prep(s->context, s->layer[layer], s->cache, layer, &batch.batch, NULL, workspace, bytes);
    fx_workspace_free(workspace);
    fx_batch_free(&batch);
    free(tokens);
    return status;
}

// The call gives this status and a message with the word, and no byte of the cache changes.
#define REFUSED(s, call, status, word)                                                                                 \
    do {                                                                                                               \
        size_t refused_bytes;                                                                                          \
        unsigned char *refused_before = fx_cache_bytes((s).cache, &refused_bytes);                                     \
        PLAIN_CHECK_INT(call, status);                                                                                 \
        PLAIN_CHECK(strstr(qsa_last_error(), word) != NULL);                                                           \
        unsigned char *refused_after = fx_cache_bytes((s).cache, &refused_bytes);                                      \
        PLAIN_CHECK_BYTES(refused_after, refused_before, refused_bytes);                                               \
        free(refused_before);                                                                                          \
        free(refused_after);                                                                                           \
    } while (0)

static void pending_states(void) {
    fx_world *world = make_world();
    fx_options o = fx_options_default();
    o.max_sequences = 4;
    fx_session s = fx_open(world, &o);
    const int32_t first[FX_MAX_SEQUENCES] = {10, 9, 0}, next[FX_MAX_SEQUENCES] = {3, 1, 0};
    const int32_t others[][FX_MAX_SEQUENCES] = {{3, 2, 0}, {3, 0, 0}, {3, 1, 1}, {0, 1, 0}, {1, 3, 0}};
    FX_OK(qsa_cache_commit(s.cache)); // nothing pending: nothing to do
    FX_OK(qsa_cache_discard(s.cache));
    fx_step(&s, first, NULL);
    FX_OK(try_prep(&s, 0, next));
    PLAIN_CHECK_INT(info_of(s.cache).pending_rows, 4);
    PLAIN_CHECK_INT(length_of(&s, 0), 10);
    REFUSED(s, qsa_cache_commit(s.cache), QSA_ERR_STATE, "layer 1");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        for (int32_t layer = 0; layer < 2; layer++)
            REFUSED(s, try_prep(&s, layer, others[i]), QSA_ERR_STATE, "pending");
    REFUSED(s, qsa_sequence_destroy(s.cache, s.sequence[0]), QSA_ERR_STATE, "pending");
    REFUSED(s, qsa_sequence_reset(s.cache, s.sequence[1]), QSA_ERR_STATE, "pending");
    int32_t extra;
    FX_OK(qsa_sequence_create(s.cache, &extra)); // of sequences that the batch does not touch
    FX_OK(qsa_sequence_destroy(s.cache, extra));
    FX_OK(qsa_sequence_reset(s.cache, s.sequence[2]));
    FX_OK(try_prep(&s, 1, next));
    FX_OK(try_prep(&s, 0, next)); // a layer again
    FX_OK(qsa_cache_commit(s.cache));
    PLAIN_CHECK_INT(length_of(&s, 0), 13);
    PLAIN_CHECK_INT(length_of(&s, 1), 10);
    PLAIN_CHECK_INT(info_of(s.cache).pending_rows, 0);
    // A layer that the last batch had is missing again in the next.
    FX_OK(try_prep(&s, 1, next));
    REFUSED(s, qsa_cache_commit(s.cache), QSA_ERR_STATE, "layer 0");
    FX_OK(qsa_cache_discard(s.cache));
    PLAIN_CHECK_INT(length_of(&s, 0), 13);
    FX_OK(qsa_cache_commit(s.cache));
    PLAIN_CHECK_INT(length_of(&s, 0), 13);
    FX_OK(qsa_sequence_destroy(s.cache, s.sequence[0]));
    fx_close(&s);
    fx_world_free(world);
}

static void pages_run_out(void) {
    fx_world *world = make_world();
    for (int way = 0; way < 2; way++) {
        fx_options o = fx_options_default();
        o.page_cells = 8;
        fx_results *base = fx_run(world, &o);
        o.pages = 6; // 48 cells
        fx_session s = fx_open(world, &o);
        fx_results *results = fx_results_make(&s);
        const int32_t a[FX_MAX_SEQUENCES] = {24, 17, 0}, b[FX_MAX_SEQUENCES] = {1, 0, 0},
                      c[FX_MAX_SEQUENCES] = {0, 0, 1};
        const int32_t both[FX_MAX_SEQUENCES] = {0, 7, 1}, fits[FX_MAX_SEQUENCES] = {0, 7, 0};
        fx_step(&s, a, results); // 3 pages each
        PLAIN_CHECK_INT(info_of(s.cache).free_pages, 0);
        REFUSED(s, try_prep(&s, 0, b), QSA_ERR_CAPACITY, "pages");
        REFUSED(s, try_prep(&s, 0, c), QSA_ERR_CAPACITY, "pages");
        REFUSED(s, try_prep(&s, 0, both), QSA_ERR_CAPACITY, "pages");
        fx_step(&s, fits, results); // the page that sequence 1 has is not full
        if (way == 0)
            FX_OK(qsa_sequence_reset(s.cache, s.sequence[1]));
        else
            FX_OK(qsa_sequence_destroy(s.cache, s.sequence[1]));
        PLAIN_CHECK_INT(info_of(s.cache).free_pages, 3);
        const int32_t rest[FX_MAX_SEQUENCES] = {8, 0, 10};
        fx_step(&s, rest, results);
        for (int32_t layer = 0; layer < 2; layer++)
            for (int32_t i = 0; i < 10; i++) {
                PLAIN_CHECK(!fx_token_difference(results, base, layer, world->first[0] + 22 + i));
                PLAIN_CHECK(!fx_token_difference(results, base, layer, world->first[2] + i));
            }
        // Pending pages come back with a discard.
        const int32_t one[FX_MAX_SEQUENCES] = {0, 0, 7};
        REFUSED(s, try_prep(&s, 0, one), QSA_ERR_CAPACITY, "pages");
        fx_close(&s);
        fx_results_free(results);
        fx_results_free(base);
    }
    fx_world_free(world);
}

static void discard_gives_pages_back(void) {
    fx_world *world = make_world();
    fx_options o = fx_options_default();
    o.page_cells = 4;
    fx_session s = fx_open(world, &o);
    const int32_t a[FX_MAX_SEQUENCES] = {6, 0, 0}, b[FX_MAX_SEQUENCES] = {3, 9, 0};
    fx_step(&s, a, NULL);
    const int32_t free_pages = info_of(s.cache).free_pages;
    for (int i = 0; i < 40; i++) {
        FX_OK(try_prep(&s, i % 2, b));
        PLAIN_CHECK_INT(info_of(s.cache).free_pages, free_pages - 4);
        FX_OK(qsa_cache_discard(s.cache));
        PLAIN_CHECK_INT(info_of(s.cache).free_pages, free_pages);
    }
    // Every page is in one table or free, once.
    int32_t seen[64] = {0};
    for (int32_t i = 0; i < s.cache->free_pages; i++)
        seen[s.cache->free_list[i]]++;
    for (int32_t i = 0; i < 2; i++)
        seen[qsa_page_table(s.cache, s.sequence[0])[i]]++;
    for (int32_t i = 0; i < s.config.pages; i++)
        PLAIN_CHECK_INT(seen[i], 1);
    fx_close(&s);
    fx_world_free(world);
}

static void cells_and_sequences_run_out(void) {
    fx_world *world = make_world();
    fx_options o = fx_options_default();
    o.max_cells = 20;
    o.page_cells = 8;
    fx_session s = fx_open(world, &o);
    const int32_t a[FX_MAX_SEQUENCES] = {19, 20, 0}, b[FX_MAX_SEQUENCES] = {2, 0, 0}, c[FX_MAX_SEQUENCES] = {1, 1, 0};
    const int32_t d[FX_MAX_SEQUENCES] = {1, 0, 20}, big[FX_MAX_SEQUENCES] = {30, 0, 0};
    REFUSED(s, try_prep(&s, 0, big), QSA_ERR_CAPACITY, "max_cells");
    fx_step(&s, a, NULL);
    REFUSED(s, try_prep(&s, 0, b), QSA_ERR_CAPACITY, "max_cells");
    REFUSED(s, try_prep(&s, 1, c), QSA_ERR_CAPACITY, "max_cells");
    fx_step(&s, d, NULL);
    int32_t number = -77;
    REFUSED(s, qsa_sequence_create(s.cache, &number), QSA_ERR_CAPACITY, "max_sequences");
    PLAIN_CHECK_INT(number, -77);
    FX_OK(qsa_sequence_destroy(s.cache, s.sequence[1]));
    PLAIN_CHECK_INT(info_of(s.cache).sequences, 2);
    REFUSED(s, qsa_sequence_destroy(s.cache, s.sequence[1]), QSA_ERR_ARGUMENT, "sequence");
    FX_OK(qsa_sequence_create(s.cache, &number));
    PLAIN_CHECK_INT(number, s.sequence[1]);
    PLAIN_CHECK_INT(length_of(&s, 1), 0);
    fx_close(&s);
    fx_world_free(world);
}

// rows = 0 reads no array, writes nothing, and does not count as a batch.
static void empty_batches(void) {
    fx_world *world = make_world();
    fx_options o = fx_options_default();
    fx_session s = fx_open(world, &o);
    const int32_t some[FX_MAX_SEQUENCES] = {5, 0, 2};
    const qsa_batch none = {.size = sizeof none};
    for (int i = 0; i < 2; i++) {
        size_t bytes;
        unsigned char *before = fx_cache_bytes(s.cache, &bytes), *after;
        FX_OK(qsa_forward(s.context, s.layer[0], s.cache, 0, &none, NULL, NULL, NULL, 0));
        FX_OK(qsa_prep(s.context, s.layer[1], s.cache, 1, &none, NULL, NULL, 0));
        const qsa_row_set set = {.size = sizeof set};
        FX_OK(qsa_score(s.context, s.cache, 0, &set, NULL, NULL, 0, NULL, 0));
        FX_OK(qsa_attend(s.context, s.cache, 0, &set, NULL, NULL, NULL, 0, NULL, NULL, 0));
        FX_OK(qsa_merge(s.context, &world->geometry, 0, NULL, 0, NULL, NULL, NULL, NULL));
        FX_OK(qsa_gate(s.context, &world->geometry, 0, NULL, NULL, NULL));
        after = fx_cache_bytes(s.cache, &bytes);
        PLAIN_CHECK_BYTES(after, before, bytes);
        free(before);
        free(after);
        FX_OK(qsa_cache_commit(s.cache));
        PLAIN_CHECK_INT(length_of(&s, 0), i ? 5 : 0);
        fx_step(&s, some, NULL);
    }
    fx_close(&s);
    fx_world_free(world);
}

// A row set may hold rows that see no cell: their outputs are zeros and -inf.
static void rows_without_cells(void) {
    fx_world *world = make_world();
    const qsa_geometry *g = &world->geometry;
    fx_options o = fx_options_default();
    fx_session s = fx_open(world, &o);
    const int32_t sequence = s.sequence[0], zero = 0;
    const qsa_row_set set = {sizeof set, 1, &sequence, &zero};
    float q[4 * 24] = {0}, records[1], out[4 * 24], lse[4];
    int32_t chunks = -1;
    size_t bytes;
    void *workspace = fx_workspace(&s, QSA_STAGE_ATTEND, 1, &bytes);
    memset(out, 0xff, sizeof out);
    FX_OK(qsa_attend(s.context, s.cache, 0, &set, q, NULL, records, 0, &chunks, workspace, bytes));
    PLAIN_CHECK_INT(chunks, 0);
    const qsa_rows_out to = {out, QSA_F32, sizeof out, 24 * 4};
    FX_OK(qsa_merge(s.context, g, 1, records, 0, &chunks, NULL, &to, lse));
    for (int i = 0; i < 4 * 24; i++)
        PLAIN_CHECK(out[i] == 0 && !signbit(out[i]));
    for (int i = 0; i < 4; i++)
        PLAIN_CHECK(isinf(lse[i]) && lse[i] < 0);
    fx_workspace_free(workspace);
    fx_close(&s);
    fx_world_free(world);
}

int main(void) {
    PLAIN_RUN(pending_states);
    PLAIN_RUN(pages_run_out);
    PLAIN_RUN(discard_gives_pages_back);
    PLAIN_RUN(cells_and_sequences_run_out);
    PLAIN_RUN(empty_batches);
    PLAIN_RUN(rows_without_cells);
    return plain_finish();
}
