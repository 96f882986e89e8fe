// SPDX-License-Identifier: Apache-2.0
//
// Blocks are made of cells by rank, whatever their positions: image tokens that share one, left padding
// that shifts them, gaps. A block's key is rotated at the positions of its first cell.
// LABELS: small cross
// RUNNER: plain
#include "cases.h"

// Appends the rows in chunks and checks every block key against the oracle's. Returns their count.
static int32_t check_block_keys(const oracle_geometry *g, rig_rows *rows, int32_t chunk) {
    rig r;
    rig_result result;
    rig_stored stored;
    rig_config config = rig_defaults(g, rows->rows);
    rig_open(&r, &config);
    rig_result_init(&result, &r, rows->rows);
    rig_run(&r, rows, chunk, QSA_RULE_OFFICIAL, false, &result);
    rig_read(&r, 0, 0, &stored);
    const int32_t blocks = stored.cells / g->ratio;
    double *want = rig_new((size_t)g->index_dim, sizeof *want);
    for (int32_t b = 0; b < blocks; b++) {
        const int32_t first = b * g->ratio;
        oracle_block_key(g, &r.norms, rig_index(rows, g, first) + g->index_heads * g->index_dim,
                         ((size_t)g->index_heads + 1) * (size_t)g->index_dim, rows->positions + 3 * first, want);
        PLAIN_CHECK(oracle_max_abs((size_t)g->index_dim, stored.block_keys + b * g->index_dim, want) <= 4e-6);
    }
    for (int32_t i = 0; i < rows->rows; i++)
        PLAIN_CHECK_INT(rig_selection(&r, &result, i, i + 1, NULL).cells,
                        qsa_selected_cells(&r.geometry, QSA_RULE_OFFICIAL, i + 1));
    free(want);
    rig_stored_free(&stored);
    rig_result_free(&result);
    rig_close(&r);
    return blocks;
}

// 300 cells of one position make 75 blocks.
static void one_position(void) {
    const oracle_geometry g = small_geometry();
    const int32_t chunks[] = {1, 50, 300};
    rig_rows rows;
    rig_rows_init(&rows, &g, 300, 41);
    for (int i = 0; i < 3 * 300; i++)
        rows.positions[i] = 17;
    for (int c = 0; c < COUNT(chunks); c++)
        PLAIN_CHECK_INT(check_block_keys(&g, &rows, chunks[c]), 75);
    rig_rows_free(&rows);
}

// Text, an image of 6 x 5 patches at one temporal position, text; all axes differ inside the image.
static void image_in_text(void) {
    const oracle_geometry g = small_geometry();
    for (int32_t before = 5; before < 9; before++) {
        rig_rows rows;
        rig_rows_init(&rows, &g, 60, 42);
        for (int32_t i = 0; i < 60; i++) {
            const int32_t patch = i - before;
            const bool image = patch >= 0 && patch < 30;
            rows.positions[3 * i] = image ? before : i < before ? i : i - 30 + 6;
            rows.positions[3 * i + 1] = rows.positions[3 * i] + (image ? patch / 5 : 0);
            rows.positions[3 * i + 2] = rows.positions[3 * i] + (image ? patch % 5 : 0);
        }
        PLAIN_CHECK_INT(check_block_keys(&g, &rows, 13), 15);
        rig_rows_free(&rows);
    }
}

// 4 tokens after 4 of padding: padding is no cell, so the first block is theirs, at position 0 as the
// model numbers them; not at 4, where they lie in the padded row.
static void left_padding(void) {
    const oracle_geometry g = small_geometry();
    const int32_t padding = 4;
    rig_rows rows;
    rig_rows_init(&rows, &g, 4, 43);
    double at[2][24], got[24];
    for (int which = 0; which < 2; which++) {
        const int32_t first[3] = {which * padding, which * padding, which * padding};
        rig r;
        rig_result result;
        rig_stored stored;
        rig_config config = rig_defaults(&g, 4);
        rig_open(&r, &config);
        rig_result_init(&result, &r, 4);
        for (int32_t i = 0; i < 12; i++) // an engine that does not renumber gets what it asks for
            rows.positions[i] = i / 3 + which * padding;
        rig_run(&r, &rows, 4, QSA_RULE_OFFICIAL, false, &result);
        rig_read(&r, 0, 0, &stored);
        memcpy(got, stored.block_keys, sizeof got);
        oracle_block_key(&g, &r.norms, rig_index(&rows, &g, 0) + g.index_heads * g.index_dim,
                         ((size_t)g.index_heads + 1) * (size_t)g.index_dim, first, at[which]);
        PLAIN_CHECK(oracle_max_abs(24, got, at[which]) <= 4e-6);
        rig_stored_free(&stored);
        rig_result_free(&result);
        rig_close(&r);
    }
    PLAIN_CHECK(oracle_max_abs(24, at[0], at[1]) > 0.1);
    rig_rows_free(&rows);
}

// positions_per_row 1 is three equal positions, and a block's key takes those of its first cell alone.
static void first_cell_alone(void) {
    const oracle_geometry g = small_geometry();
    rig_rows rows;
    rig_stored stored[3];
    rig_rows_init(&rows, &g, 40, 44);
    for (int run = 0; run < 3; run++) {
        rig r;
        rig_result result;
        rig_config config = rig_defaults(&g, 40);
        int32_t single[40];
        rig_open(&r, &config);
        rig_result_init(&result, &r, 40);
        for (int32_t i = 0; i < 40; i++) {
            single[i] = run == 1 && i % g.ratio ? 1000 + 7 * i : i * i;
            for (int axis = 0; axis < 3; axis++)
                rows.positions[3 * i + axis] = single[i];
        }
        qsa_batch batch = rig_batch(&rows, &g, 0, 40, false);
        if (run == 2) {
            batch.positions = single;
            batch.positions_per_row = 1;
        }
        rig_forward(&r, 0, &batch, QSA_RULE_OFFICIAL, &result);
        RIG_OK(qsa_cache_commit(r.cache));
        rig_read(&r, 0, 0, &stored[run]);
        rig_result_free(&result);
        rig_close(&r);
    }
    const size_t keys = (size_t)(40 / g.ratio) * (size_t)g.index_dim * sizeof(float);
    const size_t cells = 40 * (size_t)g.kv_heads * (size_t)g.head_dim * sizeof(float);
    PLAIN_CHECK_BYTES(stored[1].key_bits, stored[0].key_bits, keys);
    PLAIN_CHECK_BYTES(stored[2].key_bits, stored[0].key_bits, keys);
    PLAIN_CHECK_BYTES(stored[2].k_bits, stored[0].k_bits, cells);
    PLAIN_CHECK(memcmp(stored[1].k_bits, stored[0].k_bits, cells) != 0);
    for (int run = 0; run < 3; run++)
        rig_stored_free(&stored[run]);
    rig_rows_free(&rows);
}

int main(void) {
    PLAIN_RUN(one_position);
    PLAIN_RUN(image_in_text);
    PLAIN_RUN(left_padding);
    PLAIN_RUN(first_cell_alone);
    return plain_finish();
}
