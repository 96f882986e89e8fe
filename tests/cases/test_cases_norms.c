// SPDX-License-Identifier: Apache-2.0
//
// The norm weights' 1, forgotten or added twice: w = 0 in the checkpoints' form equals 1 in the form of
// GGUF files, and w equals 1 + w, bit for bit.
// LABELS: small cross
// RUNNER: plain
#include "cases.h"

enum { ROWS = 50 };

typedef struct {
    rig r;
    rig_result result;
    rig_stored stored;
} run;

static void start(run *a, const rig_config *config, const rig_rows *rows) {
    rig_open(&a->r, config);
    rig_result_init(&a->result, &a->r, ROWS);
    rig_run(&a->r, rows, 11, QSA_RULE_OFFICIAL, true, &a->result);
    rig_read(&a->r, 0, 0, &a->stored);
}

static void finish(run *a) {
    rig_stored_free(&a->stored);
    rig_result_free(&a->result);
    rig_close(&a->r);
}

static bool same(const oracle_geometry *g, const run *a, const run *b) {
    const size_t cells = (size_t)ROWS * (size_t)g->kv_heads * (size_t)g->head_dim,
                 keys = (size_t)(ROWS / g->ratio) * (size_t)g->index_dim;
    return same_rows(&a->r, &a->result, 0, &b->result, 0, ROWS) &&
           memcmp(a->stored.k_bits, b->stored.k_bits, cells * sizeof(float)) == 0 &&
           memcmp(a->stored.key_bits, b->stored.key_bits, keys * sizeof(float)) == 0;
}

// seed 0: w = 0 against 1; other seeds: w against 1 + w, of all four norms.
static void forms(void) {
    const oracle_geometry g = small_geometry();
    rig_rows rows;
    rig_rows_init(&rows, &g, ROWS, 71);
    for (uint64_t seed = 0; seed < 4; seed++) {
        for (int t = 0; t < COUNT(key_types); t++) {
            run a, b;
            rig_config config = rig_defaults(&g, ROWS);
            config.seed = seed;
            config.norm_type = key_types[t];
            start(&a, &config, &rows);
            config.norm_form = QSA_NORM_FACTOR;
            config.norm_type = QSA_F32; // 1 + w is not exact in bf16
            start(&b, &config, &rows);
            PLAIN_CHECK(same(&g, &a, &b));
            PLAIN_CHECK_BYTES(a.r.factor[1], b.r.factor[1], (size_t)g.head_dim * sizeof(float));
            finish(&a);
            finish(&b);
        }
    }
    rig_rows_free(&rows);
}

// The control: one of the four weights in the other form (its 1 missing, or added twice) is seen.
static void wrong_form(void) {
    const oracle_geometry g = small_geometry();
    rig_rows rows;
    float ones[100], zeros[100];
    rig_rows_init(&rows, &g, ROWS, 72);
    for (int i = 0; i < 100; i++) {
        ones[i] = 1;
        zeros[i] = 0;
    }
    for (int form = 0; form < 2; form++) {
        run right;
        rig_config config = rig_defaults(&g, ROWS);
        config.norm_form = form ? QSA_NORM_FACTOR : QSA_NORM_ZERO_CENTRED;
        for (int i = 0; i < 4; i++)
            config.weight[i] = form ? ones : zeros;
        start(&right, &config, &rows);
        for (int i = 0; i < 4; i++) {
            run wrong;
            rig_config broken = config;
            broken.weight[i] = form ? zeros : ones;
            // A factor of 2 on all index queries or keys leaves the selection and the outputs as they are:
            // dims differ, so that it does not.
            float uneven[100];
            for (int d = 0; d < 100; d++)
                uneven[d] = form ? (float)(d % 2) : (float)(1 + d % 3);
            if (i >= 2)
                broken.weight[i] = uneven;
            start(&wrong, &broken, &rows);
            PLAIN_CHECK(!same(&g, &right, &wrong));
            finish(&wrong);
        }
        finish(&right);
    }
    rig_rows_free(&rows);
}

int main(void) {
    PLAIN_RUN(forms);
    PLAIN_RUN(wrong_form);
    return plain_finish();
}
