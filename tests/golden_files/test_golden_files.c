// SPDX-License-Identifier: Apache-2.0
//
// The library against the official implementation, small geometries, every stored row. Three questions
// apart: is everything right with nothing quantized, how much does a cache format cost, and how exact is
// the arithmetic over what is stored. The bounds are in golden_library.h. The controls change one input
// each, and the comparison must object.
// LABELS: small
#include "golden_test.h"

#include <string.h>

static const struct {
    const char *name;
    int rows;
} files[] = {
    {"tiny_prefill", 61}, {"tiny_bias", 37}, {"tiny_mrope", 45}, {"tiny_leftpad", 2 * 43}, {"tiny_ratio2", 33}};
enum { FILES = sizeof files / sizeof *files };

static void unquantized(void **state) {
    (void)state;
    for (int i = 0; i < FILES; i++)
        for (int chunk = 1; chunk <= 64; chunk = chunk == 1 ? 7 : chunk == 7 ? 64 : 65)
            compare(files[i].name, (golden_library_options){QSA_F32, QSA_F32, chunk, 1, 0, 0}, files[i].rows);
}

// attn within 1e-3, 5e-3, 1.2e-2, and over the stored codes within 2e-6.
static void cache_formats(void **state) {
    (void)state;
    const qsa_type formats[] = {QSA_F16, QSA_BF16, QSA_I8};
    for (int i = 0; i < FILES; i++)
        for (int t = 0; t < 3; t++)
            compare(files[i].name, (golden_library_options){formats[t], QSA_F32, 13, 2, 0, 0}, files[i].rows);
}

static void block_key_formats(void **state) {
    (void)state;
    for (int i = 0; i < FILES; i++) {
        compare(files[i].name, (golden_library_options){QSA_F32, QSA_F16, 16, 1, 0, 0}, files[i].rows);
        compare(files[i].name, (golden_library_options){QSA_I8, QSA_BF16, 16, 1, 0, 0}, files[i].rows);
    }
}

static void must_object(golden *g, qsa_type kv_type, const char *want) {
    const golden_library_options options = {kv_type, QSA_F32, 16, 1, 0, 0};
    golden_library_figures f;
    golden_library_measure(g, &options, &f);
    golden_close(g);
    const char *got = golden_library_objection(&options, &f);
    if (!got)
        fail_msg("no objection, where %s is wrong on purpose", want);
    assert_string_equal(got, want);
}

static void controls(void **state) {
    (void)state;
    golden *g = open_or_fail("tiny_prefill");
    g->geometry.eps = 1e-5;
    must_object(g, QSA_F32, "q");
    g = open_or_fail("tiny_prefill");
    g->geometry.budget -= g->geometry.ratio;
    must_object(g, QSA_F32, "wrong selections");
    g = open_or_fail("tiny_mrope");
    g->geometry.sections[0] = g->geometry.rotary_dim / 2;
    g->geometry.sections[1] = g->geometry.sections[2] = 0;
    must_object(g, QSA_F32, "q");
    g = open_or_fail("tiny_bias");
    memset(g->linear[GOLDEN_V].bias, 0, g->linear[GOLDEN_V].outputs * sizeof(float));
    must_object(g, QSA_F32, "v");
    g = open_or_fail("tiny_ratio2");
    for (int i = 0; i < 5; i++)
        g->scores[20 * g->blocks + i] += 1e-4f;
    must_object(g, QSA_F32, "scores");
    g = open_or_fail("tiny_ratio2");
    for (int i = 0; i < g->geometry.heads * g->geometry.head_dim; i++)
        g->attn[i] *= 1.013f;
    must_object(g, QSA_I8, "attn");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unquantized),
        cmocka_unit_test(cache_formats),
        cmocka_unit_test(block_key_formats),
        cmocka_unit_test(controls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
