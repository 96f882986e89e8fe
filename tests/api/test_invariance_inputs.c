// SPDX-License-Identifier: Apache-2.0
//
// What the caller may choose without changing a bit: types of raw rows with the same values, strides of any kind, rows that
// do not attend, a selection given back, other layers in the cache. And output types: the float32 result, converted.
// LABELS: small cross
// RUNNER: plain
#include "invariance.h"
#include "support/oracle.h"

static const qsa_type float_types[] = {QSA_F32, QSA_F16, QSA_BF16};

static fx_world *make_world(void) {
    const qsa_geometry g = fx_geometry_small();
    const int32_t lengths[] = {40, 27, 2};
    return fx_world_make(21, &g, 2, 3, lengths, 3);
}

static void raw_types_and_strides(void) {
    fx_world *world = make_world();
    fx_options o = fx_options_default();
    fx_results *base = fx_run(world, &o);
    for (int type = 0; type < 3; type++)
        for (int layout = FX_PACKED; layout <= FX_BACKWARDS; layout++) {
            o.raw_type = float_types[type];
            o.layout = (fx_layout)layout;
            o.stages = 0;
            invariance_same(base, world, &o);
            o.stages = 1;
            o.chunk = 9;
            o.kernels = layout == FX_ODD ? "ref" : NULL;
            invariance_same(base, world, &o);
        }
    fx_results_free(base);
    fx_world_free(world);
}

// The oracle's conversion of the float32 output: nearest even.
static uint16_t converted(float x, qsa_type type) {
    return type == QSA_F16 ? oracle_f16_encode(x) : oracle_bf16_encode(x);
}

static void output_types(void) {
    fx_world *world = make_world();
    fx_options o = fx_options_default();
    fx_results *base = fx_run(world, &o);
    for (int type = 1; type < 3; type++)
        for (int stages = 0; stages < 2; stages++) {
            o.out_type = float_types[type];
            o.stages = stages;
            o.layout = stages ? FX_BACKWARDS : FX_ODD;
            fx_results *r = fx_run(world, &o);
            long wrong = 0, n = 0;
            for (int32_t layer = 0; layer < world->layers; layer++)
                for (size_t i = 0; i < (size_t)world->tokens * base->row[FX_OUT] / 4; i++) {
                    float x;
                    uint16_t code;
                    memcpy(&x, base->bytes[layer][FX_OUT] + 4 * i, 4);
                    memcpy(&code, r->bytes[layer][FX_OUT] + 2 * i, 2);
                    wrong += code != converted(x, o.out_type);
                    n++;
                }
            PLAIN_CHECK_INT(wrong, 0);
            PLAIN_CHECK(n > 1000);
            fx_results_free(r);
        }
    fx_results_free(base);
    fx_world_free(world);
}

// Rows that do not attend are appended all the same, and nothing of theirs is written (the fixture's pattern).
static void attend_mask(void) {
    fx_world *world = make_world();
    for (int stages = 0; stages < 2; stages++) {
        fx_options o = fx_options_default();
        o.stages = stages;
        fx_results *base = fx_run(world, &o);
        o.masked = 1;
        o.layout = FX_ODD;
        fx_results *masked = fx_run(world, &o);
        unsigned char *pattern = fx_alloc(4096);
        int attending = 0, others = 0;
        for (int32_t token = 0; token < world->tokens; token++)
            for (int32_t layer = 0; layer < world->layers; layer++)
                for (int section = FX_OUT; section < FX_FORWARD_SECTIONS; section++) {
                    const fx_section x = (fx_section)section;
                    const int attends = world->attend[token] != 0;
                    const unsigned char *want = attends ? fx_at(base, layer, x, token) : pattern;
                    PLAIN_CHECK(memcmp(fx_at(masked, layer, x, token), want, base->row[section]) == 0);
                    attending += attends;
                    others += !attends;
                }
        PLAIN_CHECK(attending > 100 && others > 100);
        for (int32_t s = 0; s < world->sequences; s++)
            PLAIN_CHECK_BYTES(masked->stored[1][s], base->stored[1][s], base->stored_bytes[1][s]);
        free(pattern);
        fx_results_free(masked);
        fx_results_free(base);
    }
    fx_world_free(world);
}

static void selection_given_back(void) {
    fx_world *world = make_world();
    for (int rule = 0; rule < 2; rule++) {
        fx_options o = fx_options_default();
        o.rule = (qsa_rule)rule;
        fx_results *base = fx_run(world, &o);
        o.use = base;
        invariance_same(base, world, &o);
        o.chunk = 3;
        o.interleave = 1;
        o.threads = 2;
        invariance_same(base, world, &o);
        // Control: another selection of the last row gives another output.
        const int32_t token = world->length[0] - 1, last = world->length[0] / 4 - 1;
        fx_results *other = fx_run(world, &o);
        int32_t *ids = (int32_t *)fx_at(other, 0, FX_IDS, token), count;
        memcpy(&count, fx_at(other, 0, FX_COUNT, token), 4);
        int32_t k = count - 1;
        while (k >= 0 && ids[k] == last - (count - 1 - k))
            k--;
        PLAIN_CHECK(k >= 0); // some block in front of the run at the end can move up by one
        if (k >= 0)
            ids[k]++;
        o.use = other;
        fx_results *moved = fx_run(world, &o);
        PLAIN_CHECK(fx_token_difference(moved, base, 0, token) != NULL);
        PLAIN_CHECK(!fx_token_difference(moved, base, 0, token - 1));
        fx_results_free(moved);
        fx_results_free(other);
        fx_results_free(base);
    }
    fx_world_free(world);
}

static void other_layers(void) {
    const qsa_geometry g = fx_geometry_small();
    const int32_t lengths[] = {30, 9};
    fx_world *world = fx_world_make(22, &g, 3, 2, lengths, 1);
    fx_options o = fx_options_default();
    fx_results *all = fx_run(world, &o);
    for (int32_t layer = 0; layer < 3; layer++) {
        o.first_layer = layer;
        o.layers = 1;
        fx_results *one = fx_run(world, &o);
        PLAIN_CHECK(!fx_layer_difference(one, layer, all, layer));
        PLAIN_CHECK(fx_layer_difference(one, layer, all, (layer + 1) % 3) != NULL);
        fx_results_free(one);
    }
    fx_results_free(all);
    fx_world_free(world);
}

// Weights with the 1 added, of every type, and weights without it.
static void norm_forms(void) {
    const qsa_geometry g = fx_geometry_small();
    const int32_t lengths[] = {21};
    fx_world *world = fx_world_make(23, &g, 1, 1, lengths, 1);
    fx_options o = fx_options_default();
    fx_results *base = fx_run(world, &o);
    for (int type = 0; type < 3; type++)
        for (int form = 0; form < 2; form++) {
            fx_session s = fx_open(world, &o);
            fx_rows norms[4];
            const int32_t row[1] = {0};
            for (int i = 0; i < 4; i++) {
                const int32_t dim = i < 2 ? g.head_dim : g.index_dim;
                float *w = fx_alloc((size_t)dim * sizeof *w);
                for (int32_t d = 0; d < dim; d++)
                    w[d] = world->norms[0][i][d] + (form == QSA_NORM_FACTOR ? 1.0f : 0.0f);
                norms[i] = fx_rows_make(1, 1, dim, float_types[type], FX_ODD);
                fx_rows_fill(&norms[i], w, row);
                free(w);
            }
            qsa_layer_config c = {
                sizeof c,     g, (qsa_norm_form)form, float_types[type], norms[0].data, norms[1].data, norms[2].data,
                norms[3].data};
            qsa_layer_destroy(s.layer[0]);
            FX_OK(qsa_layer_create(s.context, &c, &s.layer[0]));
            for (int i = 0; i < 4; i++) {
                memset(norms[i].memory, 0xff, norms[i].bytes); // copied
                free(norms[i].memory);
            }
            fx_results *r = fx_results_make(&s);
            fx_run_on(&s, r);
            fx_read(&s, r);
            FX_SAME(r, base);
            fx_results_free(r);
            fx_close(&s);
        }
    fx_results_free(base);
    fx_world_free(world);
}

int main(void) {
    PLAIN_RUN(raw_types_and_strides);
    PLAIN_RUN(output_types);
    PLAIN_RUN(attend_mask);
    PLAIN_RUN(selection_given_back);
    PLAIN_RUN(other_layers);
    PLAIN_RUN(norm_forms);
    return plain_finish();
}
