// SPDX-License-Identifier: Apache-2.0
//
// Several sequences of different lengths in one cache, their rows interleaved in every batch: each equals
// itself alone, bit for bit, also in pages that other sequences used before.
// LABELS: small cross threads
// RUNNER: plain
#include "cases.h"

enum { SEQUENCES = 5 };
static const int32_t lengths[SEQUENCES] = {1, 7, 19, 33, 60}; // 120 rows

// Rows of sequence s alone, from the rows of all: in the same order.
static void extract(const oracle_geometry *g, const rig_rows *all, int32_t s, rig_rows *out) {
    rig_rows_init(out, g, lengths[s], 1);
    for (int32_t i = 0, at = 0; i < all->rows; i++) {
        if (all->sequences[i] != s)
            continue;
        const size_t kv = (size_t)g->kv_heads * (size_t)g->head_dim * sizeof(float);
        memcpy(rig_q(out, g, at), rig_q(all, g, i), 2 * (size_t)g->heads * (size_t)g->head_dim * sizeof(float));
        memcpy(rig_k(out, g, at), rig_k(all, g, i), kv);
        memcpy(rig_v(out, g, at), rig_v(all, g, i), kv);
        memcpy(rig_index(out, g, at), rig_index(all, g, i),
               ((size_t)g->index_heads + 1) * (size_t)g->index_dim * sizeof(float));
        memcpy(out->positions + 3 * at, all->positions + 3 * i, 3 * sizeof(int32_t));
        at++;
    }
}

static void interleave(const oracle_geometry *g, rig_rows *rows, uint64_t seed) {
    int32_t done[SEQUENCES] = {0}, total = 0;
    rng random = rng_make(seed);
    for (int s = 0; s < SEQUENCES; s++)
        total += lengths[s];
    rig_rows_init(rows, g, total, seed);
    for (int32_t i = 0; i < total; i++) {
        int32_t s;
        do
            s = rng_range(&random, 0, SEQUENCES - 1);
        while (done[s] == lengths[s]);
        rows->sequences[i] = s;
        for (int axis = 0; axis < 3; axis++) // the same positions in all sequences
            rows->positions[3 * i + axis] = done[s];
        done[s]++;
    }
}

// Row i of `all` = the next row of its sequence alone.
static void compare(const rig *r, const rig_rows *all, const rig_result *got, const rig_result *alone) {
    int32_t next[SEQUENCES] = {0};
    for (int32_t i = 0; i < all->rows; i++) {
        const int32_t s = all->sequences[i];
        PLAIN_CHECK(same_rows(r, got, i, &alone[s], next[s]++, 1));
    }
}

static void check(qsa_type kv_type, qsa_type key_type, qsa_rule rule, int32_t chunk, int32_t page_cells) {
    const oracle_geometry g = small_geometry();
    rig_config config = rig_defaults(&g, 60);
    rig_rows all;
    rig together, single[SEQUENCES];
    rig_result got, alone[SEQUENCES];
    interleave(&g, &all, 31 + (uint64_t)chunk);
    config.kv_type = kv_type;
    config.block_key_type = key_type;
    for (int32_t s = 0; s < SEQUENCES; s++) {
        rig_rows rows;
        extract(&g, &all, s, &rows);
        rig_open(&single[s], &config);
        rig_result_init(&alone[s], &single[s], lengths[s]);
        rig_run(&single[s], &rows, 60, rule, true, &alone[s]);
        rig_rows_free(&rows);
    }
    config.max_sequences = SEQUENCES;
    config.page_cells = page_cells;
    config.threads = 2;
    config.pages = 30 * 16 / page_cells + SEQUENCES; // no more than these lengths take
    rig_open(&together, &config);
    rig_result_init(&got, &together, all.rows);
    for (int again = 0; again < 3; again++) {
        rig_run(&together, &all, chunk, rule, true, &got);
        compare(&together, &all, &got, alone);
        memset(got.out, 0xff, (size_t)all.rows * (size_t)g.heads * (size_t)g.head_dim * sizeof(float));
        for (int32_t s = 0; s < SEQUENCES; s++) { // pages go back in another order than they were taken
            const int32_t which = (s * 3 + again) % SEQUENCES;
            int32_t number = -1;
            if (again == 0) {
                RIG_OK(qsa_sequence_reset(together.cache, which));
                continue;
            }
            RIG_OK(qsa_sequence_destroy(together.cache, which));
            RIG_OK(qsa_sequence_create(together.cache, &number));
            PLAIN_CHECK_INT(number, which);
        }
    }
    for (int32_t s = 0; s < SEQUENCES; s++) {
        rig_result_free(&alone[s]);
        rig_close(&single[s]);
    }
    rig_result_free(&got);
    rig_rows_free(&all);
    rig_close(&together);
}

static void interleaved(void) {
    const int32_t chunks[] = {1, 11, 64, 120}, pages[] = {4, 16, 64};
    for (int c = 0; c < COUNT(chunks); c++)
        for (int p = 0; p < COUNT(pages); p++)
            check(kv_types[(c + p) % 4], key_types[p], rules[c % 2], chunks[c], pages[p]);
}

int main(void) {
    PLAIN_RUN(interleaved);
    return plain_finish();
}
