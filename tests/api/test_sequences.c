// SPDX-License-Identifier: Apache-2.0
//
// Truncation to every length, drafts accepted up to every row, forks, held pages, and pages that run out, each against the
// same tokens from nothing: outputs, selections and cells byte by byte.
// RUNNER: plain
#include "support/fixture.h"
#include "support/plain_runner.h"

#include <stdlib.h>

#ifdef QSA_SANITIZED
enum { STRIDE = 5 }; // of the many lengths
#else
enum { STRIDE = 1 };
#endif

static const int32_t rollbacks[] = {0, 5, QSA_ROLLBACK_ALL};

// Sequence 0 is looked at; the tokens of sequence 1 are what a draft gets wrong.
static fx_world *make_world(void) {
    const qsa_geometry g = fx_geometry_small();
    const int32_t lengths[] = {48, 48};
    return fx_world_make(191, &g, 2, 2, lengths, 1);
}

static fx_options make_options(int32_t rollback) {
    fx_options o = fx_options_default();
    o.max_sequences = 4;
    o.max_cells = 64;
    o.page_cells = 8;
    o.pages = 24;
    o.rollback = rollback;
    return o;
}

static qsa_cache_info info_of(const fx_session *s) {
    qsa_cache_info info = {.size = sizeof info};
    FX_OK(qsa_cache_get_info(s->cache, &info));
    return info;
}
static qsa_sequence_info sequence_info(const fx_session *s, int32_t sequence) {
    qsa_sequence_info info = {.size = sizeof info};
    FX_OK(qsa_sequence_get_info(s->cache, sequence, &info));
    return info;
}

static void step(fx_session *s, int32_t rows, fx_results *r) {
    const int32_t count[FX_MAX_SEQUENCES] = {rows};
    fx_step(s, count, r);
}

// All layers get these tokens as rows of sequence 0; they are pending then.
static void draft(fx_session *s, int32_t rows, const int32_t *tokens, fx_results *r) {
    for (int32_t layer = 0; layer < s->layers; layer++) {
        fx_batch batch = fx_batch_make(s, layer, rows, tokens);
        for (int32_t i = 0; i < rows; i++)
            batch.sequences[i] = s->sequence[0];
        fx_compute(s, layer, &batch, r);
        fx_batch_free(&batch);
    }
}

// Tokens from..47 of sequence 0 and all of its cells.
static void same_from(const fx_results *got, const fx_results *want, int32_t from) {
    for (int32_t layer = 0; layer < 2; layer++) {
        for (int32_t i = from; i < 48; i++)
            PLAIN_CHECK(!fx_token_difference(got, want, layer, i));
        PLAIN_CHECK_INT(got->stored_bytes[layer][0], want->stored_bytes[layer][0]);
        PLAIN_CHECK_BYTES(got->stored[layer][0], want->stored[layer][0], want->stored_bytes[layer][0]);
    }
}

// The rest of sequence 0, and the comparison.
static void go_on(fx_session *s, const fx_results *base, fx_results *results, int32_t from) {
    while (s->done[0] < 48)
        step(s, s->done[0] < 45 ? 3 : 48 - s->done[0], results);
    fx_read(s, results);
    same_from(results, base, from);
}

static fx_results *make_base(const fx_world *world) {
    fx_options o = make_options(64);
    return fx_run(world, &o);
}

static void truncations(void) {
    fx_world *world = make_world();
    fx_results *base = make_base(world);
    const int32_t lengths[] = {1, 3, 4, 5, 15, 16, 17, 18, 19, 20, 21, 23, 24, 25, 40};
    for (int way = 0; way < 3; way++)
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
            for (int32_t n = (int32_t)l % STRIDE; n <= lengths[l]; n += STRIDE) {
                const int32_t length = lengths[l], rollback = rollbacks[way];
                fx_options o = make_options(rollback);
                fx_session s = fx_open(world, &o);
                step(&s, length, NULL);
                const int exact = n % 4 == 0 || rollback < 0 || n - n % 4 >= length - rollback - 3;
                PLAIN_CHECK(exact || n < length - rollback); // what the header promises
                PLAIN_CHECK_INT(qsa_sequence_truncate(s.cache, s.sequence[0], n), exact ? QSA_OK : QSA_ERR_STATE);
                const qsa_sequence_info info = sequence_info(&s, s.sequence[0]);
                PLAIN_CHECK_INT(info.length, exact ? n : length);
                PLAIN_CHECK_INT(info.pages, (info.length + 7) / 8);
                PLAIN_CHECK_INT(info_of(&s).free_pages, 24 - info.pages);
                s.done[0] = info.length;
                fx_results *results = fx_results_make(&s);
                go_on(&s, base, results, s.done[0]);
                fx_results_free(results);
                fx_close(&s);
            }
    fx_results_free(base);
    fx_world_free(world);
}

// T verification rows of which the first m are right: they select for themselves, equal serial steps, and the rest leaves no
// trace. In front of it a draft whose steps reuse the selection of the last committed row, all of it discarded.
static void verification(void) {
    fx_world *world = make_world();
    fx_results *base = make_base(world);
    long refused = 0;
    for (int way = 0; way < 3; way++)
        for (int32_t start = 17 + way % STRIDE; start < 25; start += STRIDE)
            for (int32_t rows = 1; rows < 13; rows += 1 + rows / 4)
                for (int32_t m = 0; m <= rows; m++) {
                    fx_options o = make_options(rollbacks[way]);
                    fx_session s = fx_open(world, &o);
                    fx_results *results = fx_results_make(&s);
                    step(&s, start, results);
                    int32_t tokens[13];
                    for (int32_t i = 0; i < rows; i++)
                        tokens[i] = i < m ? start + i : 48 + start + i;
                    draft(&s, rows, tokens, results);
                    const int32_t open = (start + m) / 4 * 4, oldest = start + rows - o.rollback - 3;
                    const int exact = o.rollback < 0 || m == 0 || (start + m) % 4 == 0 || oldest <= start ||
                                      (open >= oldest && m > 0);
                    PLAIN_CHECK(exact || rows - m > o.rollback); // what the header promises
                    const qsa_status status = qsa_cache_accept(s.cache, 1, s.sequence, &m);
                    PLAIN_CHECK_INT(status, exact ? QSA_OK : QSA_ERR_STATE);
                    if (exact) {
                        s.done[0] += m;
                    } else {
                        refused++;
                        FX_OK(qsa_cache_discard(s.cache));
                    }
                    PLAIN_CHECK_INT(sequence_info(&s, s.sequence[0]).length, s.done[0]);
                    PLAIN_CHECK_INT(info_of(&s).free_pages, 24 - (s.done[0] + 7) / 8);
                    go_on(&s, base, results, 0);
                    fx_results_free(results);
                    fx_close(&s);
                }
    PLAIN_CHECK(refused > 0);
    fx_results_free(base);
    fx_world_free(world);
}

static void drafts_reuse_a_selection(void) {
    fx_world *world = make_world();
    fx_results *base = make_base(world);
    fx_options o = make_options(64);
    fx_session s = fx_open(world, &o);
    fx_results *results = fx_results_make(&s), *chosen = fx_results_make(&s), *drafted = fx_results_make(&s);
    step(&s, 30, results);
    const int32_t tokens[] = {30, 31, 32};
    for (int32_t layer = 0; layer < 2; layer++) // every draft step attends the blocks that token 29 chose
        for (int i = 0; i < 3; i++)
            for (int section = FX_IDS; section <= FX_CUT_CELLS; section++)
                memcpy(fx_at(chosen, layer, (fx_section)section, tokens[i]),
                       fx_at(results, layer, (fx_section)section, 29), results->row[section]);
    s.options.use = chosen;
    draft(&s, 3, tokens, drafted);
    FX_OK(qsa_cache_discard(s.cache));
    for (int32_t layer = 0; layer < 2; layer++)
        for (int i = 0; i < 3; i++) // it did attend those, and gave them out again
            PLAIN_CHECK_BYTES(fx_at(drafted, layer, FX_IDS, tokens[i]), fx_at(results, layer, FX_IDS, 29), 16);
    int different = 0;
    for (int i = 0; i < 3; i++)
        different |= fx_token_difference(drafted, base, 0, tokens[i]) != NULL;
    PLAIN_CHECK(different); // a control: own selections give something else here
    s.options.use = NULL;
    draft(&s, 3, tokens, results); // verification: each row for itself
    FX_OK(qsa_cache_accept(s.cache, 0, NULL, NULL));
    s.done[0] = 33;
    go_on(&s, base, results, 0);
    fx_results_free(results);
    fx_results_free(chosen);
    fx_results_free(drafted);
    fx_close(&s);
    fx_results_free(base);
    fx_world_free(world);
}

static void forks(void) {
    fx_world *world = make_world();
    fx_results *base = make_base(world);
    for (int way = 0; way < 3; way++)
        for (int32_t length = 14 + way % STRIDE; length < 26; length += STRIDE) {
            fx_options o = make_options(rollbacks[way]);
            fx_session s = fx_open(world, &o);
            fx_results *results = fx_results_make(&s);
            step(&s, length, results);
            const int32_t pages = (length + 7) / 8, open = length % 8 != 0;
            int32_t other, third;
            FX_OK(qsa_sequence_fork(s.cache, s.sequence[0], &other));
            FX_OK(qsa_sequence_fork(s.cache, other, &third));
            PLAIN_CHECK_INT(info_of(&s).free_pages, 24 - pages);
            PLAIN_CHECK_INT(sequence_info(&s, third).shared_pages, pages);
            // A batch that is discarded leaves everything shared.
            const int32_t wrong[] = {48, 49}, first = s.sequence[0];
            s.sequence[0] = other;
            draft(&s, 2, wrong, NULL);
            PLAIN_CHECK_INT(info_of(&s).free_pages, 24 - pages - open - (length + 2 > pages * 8));
            PLAIN_CHECK_INT(sequence_info(&s, other).pending_rows, 2);
            FX_OK(qsa_cache_discard(s.cache));
            PLAIN_CHECK_INT(info_of(&s).free_pages, 24 - pages);
            PLAIN_CHECK_INT(sequence_info(&s, other).shared_pages, pages);
            // The fork goes another way first, then the original its own.
            draft(&s, 2, wrong, NULL);
            FX_OK(qsa_cache_commit(s.cache));
            PLAIN_CHECK_INT(sequence_info(&s, other).shared_pages, pages - open);
            s.sequence[0] = first;
            go_on(&s, base, results, 0);
            // The third is still what it was: it continues as the original would, now alone.
            FX_OK(qsa_sequence_destroy(s.cache, first));
            FX_OK(qsa_sequence_destroy(s.cache, other));
            PLAIN_CHECK_INT(info_of(&s).free_pages, 24 - pages);
            PLAIN_CHECK_INT(sequence_info(&s, third).shared_pages, 0);
            s.sequence[0] = third;
            s.done[0] = length;
            go_on(&s, base, results, 0);
            s.sequence[0] = third;
            fx_close(&s);
            fx_results_free(results);
        }
    fx_results_free(base);
    fx_world_free(world);
}

// The page that a shared end takes is counted before anything is written, and the batch works once there is one.
static void no_page_for_a_copy(void) {
    fx_world *world = make_world();
    fx_results *base = make_base(world);
    fx_options o = make_options(64);
    o.pages = 7;
    fx_session s = fx_open(world, &o);
    fx_results *results = fx_results_make(&s);
    step(&s, 20, results); // 3 pages
    const int32_t count[FX_MAX_SEQUENCES] = {0, 30};
    fx_step(&s, count, NULL); // 4 pages
    int32_t fork, token = 20;
    FX_OK(qsa_sequence_fork(s.cache, s.sequence[0], &fork));
    PLAIN_CHECK_INT(info_of(&s).free_pages, 0);
    fx_batch batch = fx_batch_make(&s, 0, 1, &token);
    size_t bytes, size;
    void *workspace = fx_workspace(&s, QSA_STAGE_PREP, 1, &bytes);
    unsigned char *before = fx_cache_bytes(s.cache, &size);
    PLAIN_CHECK_INT(qsa_prep(s.context, s.layer[0], s.cache, 0, &batch.batch, NULL, workspace, bytes),
                    QSA_ERR_CAPACITY);
    PLAIN_CHECK(strstr(qsa_last_error(), "needs 1 pages") != NULL);
    unsigned char *after = fx_cache_bytes(s.cache, &size);
    PLAIN_CHECK_BYTES(after, before, size);
    FX_OK(qsa_sequence_reset(s.cache, s.sequence[1]));
    FX_OK(qsa_prep(s.context, s.layer[0], s.cache, 0, &batch.batch, NULL, workspace, bytes));
    FX_OK(qsa_cache_discard(s.cache));
    go_on(&s, base, results, 0);
    free(before);
    free(after);
    fx_workspace_free(workspace);
    fx_batch_free(&batch);
    fx_results_free(results);
    fx_close(&s);
    fx_results_free(base);
    fx_world_free(world);
}

static unsigned char stream[1 << 18];
static size_t written, taken;
static int keep(void *user, const void *data, size_t bytes) {
    (void)user;
    memcpy(stream + written, data, bytes);
    written += bytes;
    return 0;
}
static int give(void *user, void *data, size_t bytes) {
    (void)user;
    memcpy(data, stream + taken, bytes);
    taken += bytes;
    return 0;
}

// While a sequence has pending rows behind a copy of a shared page, everything may happen to the others: also to the one
// that it shares with.
static void others_while_pending(void) {
    fx_world *world = make_world();
    fx_results *base = make_base(world);
    for (int32_t m = 0; m < 4; m++) {
        fx_options o = make_options(64);
        o.max_sequences = 6;
        fx_session s = fx_open(world, &o);
        fx_results *results = fx_results_make(&s);
        const int32_t count[FX_MAX_SEQUENCES] = {21, 10}, tokens[] = {21, 22, 23};
        int32_t fork, other, numbers[6], loaded, page;
        fx_step(&s, count, results);
        FX_OK(qsa_sequence_fork(s.cache, s.sequence[0], &fork));
        written = taken = 0;
        draft(&s, 3, tokens, results);
        FX_OK(qsa_snapshot_save(s.cache, 0, NULL, keep, NULL)); // without the pending rows
        FX_OK(qsa_sequence_fork(s.cache, s.sequence[1], &other));
        FX_OK(qsa_sequence_truncate(s.cache, fork, 18));
        FX_OK(qsa_sequence_destroy(s.cache, fork)); // the page that was copied has no other user now
        FX_OK(qsa_page_hold(s.cache, s.sequence[0], 1, &page));
        FX_OK(qsa_snapshot_load(s.cache, give, NULL, 6, numbers, &loaded));
        PLAIN_CHECK_INT(loaded, 3);
        PLAIN_CHECK_INT(sequence_info(&s, numbers[0]).length, 21);
        FX_OK(qsa_cache_accept(s.cache, 1, s.sequence, &m));
        s.done[0] += m;
        go_on(&s, base, results, 0);
        s.sequence[0] = numbers[0];
        s.done[0] = 21;
        go_on(&s, base, results, 0);
        FX_OK(qsa_page_release(s.cache, page));
        for (int32_t i = 0; i < 6; i++)
            (void)qsa_sequence_destroy(s.cache, i);
        PLAIN_CHECK_INT(info_of(&s).free_pages, 24);
        fx_results_free(results);
        fx_close(&s);
    }
    fx_results_free(base);
    fx_world_free(world);
}

// A prompt's pages outlive it, and a new sequence begins with them.
static void held_pages(void) {
    fx_world *world = make_world();
    fx_results *base = make_base(world);
    for (int way = 0; way < 3; way++) {
        fx_options o = make_options(rollbacks[way]);
        fx_session s = fx_open(world, &o);
        fx_results *results = fx_results_make(&s);
        step(&s, 30, results);
        int32_t pages[3], again;
        for (int32_t i = 0; i < 3; i++)
            FX_OK(qsa_page_hold(s.cache, s.sequence[0], i, &pages[i]));
        FX_OK(qsa_page_hold(s.cache, s.sequence[0], 1, &again)); // twice: the same page
        PLAIN_CHECK_INT(again, pages[1]);
        PLAIN_CHECK_INT(info_of(&s).held_pages, 3);
        FX_OK(qsa_sequence_reset(s.cache, s.sequence[0]));
        PLAIN_CHECK_INT(info_of(&s).free_pages, 24 - 3);
        for (int32_t n = 3; n >= 0; n--) {
            FX_OK(qsa_sequence_attach(s.cache, s.sequence[0], n, pages));
            const qsa_sequence_info info = sequence_info(&s, s.sequence[0]);
            PLAIN_CHECK_INT(info.length, 8 * n);
            PLAIN_CHECK_INT(info.shared_pages, n);
            PLAIN_CHECK_INT(info.index_keys_from, o.rollback < 0 ? 0 : 8 * n);
            s.done[0] = 8 * n;
            if (n == 2) { // into an attached page: copied, not written
                FX_OK(qsa_sequence_truncate(s.cache, s.sequence[0], o.rollback < 0 ? 11 : 12));
                s.done[0] = o.rollback < 0 ? 11 : 12;
            }
            go_on(&s, base, results, 0);
            FX_OK(qsa_sequence_reset(s.cache, s.sequence[0]));
            s.done[0] = 0;
            PLAIN_CHECK_INT(info_of(&s).free_pages, 24 - 3);
        }
        FX_OK(qsa_page_release(s.cache, pages[1]));
        PLAIN_CHECK_INT(info_of(&s).free_pages, 24 - 3);
        for (int32_t i = 0; i < 3; i++)
            FX_OK(qsa_page_release(s.cache, pages[i]));
        PLAIN_CHECK_INT(info_of(&s).free_pages, 24);
        PLAIN_CHECK_INT(info_of(&s).held_pages, 0);
        fx_results_free(results);
        fx_close(&s);
    }
    fx_results_free(base);
    fx_world_free(world);
}

int main(void) {
    PLAIN_RUN(truncations);
    PLAIN_RUN(verification);
    PLAIN_RUN(drafts_reuse_a_selection);
    PLAIN_RUN(forks);
    PLAIN_RUN(no_page_for_a_copy);
    PLAIN_RUN(others_while_pending);
    PLAIN_RUN(held_pages);
    return plain_finish();
}
