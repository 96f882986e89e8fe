// SPDX-License-Identifier: Apache-2.0
//
// The fused kernel of stage prep equals the separate ones byte for byte: every row of prep_token against angles, norm_rope,
// store and pool of every `where` that has them, called one after another for the same token, over formats, geometries and edge
// values, between guard pages (support/kernel_case.h).
// LABELS: small cross
// RUNNER: plain
#include "support/kernel_case.h"
#include "support/plain_runner.h"

enum { CASES = 300 };

static kernel_case the_case;
static qsa_kernel_set separate; // rows of one `where`, the reference's where it has none

static const qsa_kernel_row *row_of(qsa_kernel_number number, const char *where) {
    for (int32_t i = 0; i < qsa_table_rows(); i++) {
        const qsa_kernel_row *row = qsa_table_row(i);
        if (row->number == number && strcmp(row->where, where) == 0 && !*qsa_table_ready(row))
            return row;
    }
    return NULL;
}

static void pick_separate(const char *where) {
    static const qsa_kernel_number numbers[] = {QSA_K_angles, QSA_K_norm_rope, QSA_K_store, QSA_K_pool};
    for (int i = 0; i < 4; i++) {
        const qsa_kernel_row *row = row_of(numbers[i], where);
        qsa_table_pick(&separate, row ? row : row_of(numbers[i], "ref"));
    }
}

static void rotate(const qsa_norm_rope_args *part, const qsa_angles_args *angles, float *out) {
    qsa_norm_rope_args args = *part;
    args.cosine = angles->cosine;
    args.sine = angles->sine;
    args.out = out ? out : args.out;
    args.out_stride = out ? args.dim : args.out_stride;
    if (args.x)
        separate.norm_rope(&args);
}

// As the stage call does it: whole arrays between the kernels, angles made for queries, keys and block each.
static void one_by_one(const qsa_prep_token_args *token) {
    static float keys[4 * QSA_MAX_HEAD_DIM]; // case_make_prep_token draws at most 4 KV heads
    float cosine[QSA_MAX_HEAD_DIM / 2], sine[QSA_MAX_HEAD_DIM / 2];
    qsa_angles_args angles = token->angles;
    angles.cosine = cosine;
    angles.sine = sine;
    if (token->k.x) {
        separate.angles(&angles);
        rotate(&token->k, &angles, keys);
        qsa_store_args store = token->k_store;
        store.x = keys;
        store.type = QSA_F32;
        store.x_stride = store.dim * (int64_t)sizeof(float);
        store.vectors = token->k.vectors;
        separate.store(&store);
        separate.store(&token->v_store);
    }
    if (token->block.keys) {
        qsa_angles_args first = angles;
        first.positions = token->block_positions;
        separate.angles(&first);
        qsa_pool_args block = token->block;
        block.cosine = cosine;
        block.sine = sine;
        separate.pool(&block);
    }
    separate.angles(&angles);
    rotate(&token->q, &angles, NULL);
    rotate(&token->index_q, &angles, NULL);
}

// The rows of prep_token that run here, and how often each was compared.
static void fused_is_separate(void) {
    static const char *const wheres[] = {"ref", "fma", "avx2", "avx512", "neon"};
    for (int w = 0; w < 5; w++) {
        if (!row_of(QSA_K_norm_rope, wheres[w]))
            continue;
        pick_separate(wheres[w]);
        int rows = 0;
        for (int i = 0; i < CASES; i++) {
            rng r = rng_make(7000003u * (uint64_t)(w + 1) + (uint64_t)i);
            case_make(&the_case, QSA_K_prep_token, &r);
            const char *complaint = case_run_both(&the_case, (qsa_kernel_fn)one_by_one, true);
            plain_check(!complaint, __FILE__, __LINE__, complaint ? complaint : "");
            rows = 0;
            for (int32_t j = 0; j < qsa_table_rows(); j++) {
                const qsa_kernel_row *row = qsa_table_row(j);
                if (row->number != QSA_K_prep_token || *qsa_table_ready(row))
                    continue;
                rows++;
                complaint = case_run_both(&the_case, row->function, false);
                char text[1024];
                snprintf(text, sizeof text, "%s after %s: %s; case %d: %s", row->name, wheres[w],
                         complaint ? complaint : "", i, the_case.what);
                plain_check(!complaint, __FILE__, __LINE__, text);
            }
        }
        printf("  %d rows of prep_token against the separate kernels %s\n", rows, wheres[w]);
        PLAIN_CHECK(rows >= 1);
    }
}

// A fused kernel that takes the token's positions for its block, or leaves a part out, is seen.
static void wrong_positions(const qsa_prep_token_args *token) {
    qsa_prep_token_args args = *token;
    args.block_positions = args.angles.positions;
    qsa_prep_token_ref(&args);
}

static void no_values(const qsa_prep_token_args *token) {
    qsa_prep_token_args args = *token;
    args.v_store.vectors = 0;
    qsa_prep_token_ref(&args);
}

static void controls(void) {
    int positions = 0, values = 0;
    pick_separate("ref");
    for (int i = 0; i < 60; i++) {
        rng r = rng_make((uint64_t)i);
        case_make(&the_case, QSA_K_prep_token, &r);
        PLAIN_CHECK(!case_run_both(&the_case, (qsa_kernel_fn)one_by_one, true));
        positions += case_run_both(&the_case, (qsa_kernel_fn)wrong_positions, false) != NULL;
        values += case_run_both(&the_case, (qsa_kernel_fn)no_values, false) != NULL;
    }
    PLAIN_CHECK(positions >= 20); // blocks with something rotated
    PLAIN_CHECK(values >= 30);
}

int main(void) {
    case_open(&the_case);
    PLAIN_RUN(fused_is_separate);
    PLAIN_RUN(controls);
    case_close(&the_case);
    return plain_finish();
}
