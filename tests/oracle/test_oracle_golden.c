// SPDX-License-Identifier: Apache-2.0
//
// The float64 oracle against the official implementation, small geometries: everything that the
// vectors hold, within the bounds of the specification. The measured figures are printed. The
// controls change one input each, and the comparison must object.
// LABELS: small
#include "support/io/golden_measure.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static golden *open_or_fail(const char *name) {
    char err[ST_ERR_SIZE];
    golden *g = golden_open(name, err, sizeof err);
    if (!g) {
        fail_msg("%s", err);
    }
    return g;
}

static void compare(void **state) {
    const char *name = *state;
    golden_figures f;
    golden *g = open_or_fail(name);
    golden_measure(g, &f);
    golden_print(name, &f);
    int stored = g->batch * g->rows;
    golden_close(g);
    const char *objection = golden_objection(&f);
    if (objection) {
        fail_msg("%s: %s out of bounds", name, objection);
    }
    assert_int_equal(f.rows + f.skipped, stored);
}

// Measures the changed `g` and checks that the objection is `want`; closes g.
static void must_object(golden *g, const char *want) {
    golden_figures f;
    golden_measure(g, &f);
    golden_close(g);
    const char *got = golden_objection(&f);
    if (!got) {
        fail_msg("no objection, where %s is wrong on purpose", want);
    }
    assert_string_equal(got, want);
}

static void norms_without_one(void **state) {
    (void)state;
    golden *g = open_or_fail("tiny_prefill");
    for (int i = 0; i < g->geometry.head_dim; i++) {
        g->factor[0][i] -= 1.0f;
    }
    must_object(g, "q");
    g = open_or_fail("tiny_prefill");
    for (int i = 0; i < g->geometry.head_dim; i++) {
        g->factor[1][i] -= 1.0f;
    }
    must_object(g, "k");
}

static void other_epsilon(void **state) {
    (void)state;
    golden *g = open_or_fail("tiny_prefill");
    g->geometry.eps = 1e-5;
    must_object(g, "q");
}

static void sections_swapped(void **state) {
    (void)state;
    golden *g = open_or_fail("tiny_mrope");
    g->geometry.sections[0] = 4;
    g->geometry.sections[1] = 0;
    g->geometry.sections[2] = 0;
    must_object(g, "cos and sin");
}

static void smaller_budget(void **state) {
    (void)state;
    golden *g = open_or_fail("tiny_prefill");
    g->geometry.budget -= g->geometry.ratio;
    must_object(g, "wrong selections");
}

static void bias_forgotten(void **state) {
    (void)state;
    golden *g = open_or_fail("tiny_bias");
    memset(g->linear[GOLDEN_V].bias, 0, g->linear[GOLDEN_V].outputs * sizeof(float));
    must_object(g, "v");
}

// Padding taken for cells: blocks shift, and with them everything that is selected.
static void mask_ignored(void **state) {
    (void)state;
    golden *g = open_or_fail("tiny_leftpad");
    for (int b = 0; b < g->batch; b++) {
        g->cells[b] = g->tokens;
        for (int32_t t = 0; t < g->tokens; t++) {
            g->cell_of_token[b * g->tokens + t] = g->token_of_cell[b * g->tokens + t] = t;
        }
    }
    must_object(g, "wrong selections");
}

// One official output of one row changed by 1e-4 of itself.
static void output_changed(void **state) {
    (void)state;
    golden *g = open_or_fail("tiny_ratio2");
    g->attn[5 * g->geometry.heads * g->geometry.head_dim] *= 1.0001f;
    must_object(g, "attn");
}

static void no_such_file(void **state) {
    (void)state;
    char err[ST_ERR_SIZE] = "";
    assert_null(golden_open("no_such_vectors", err, sizeof err));
    assert_int_not_equal(strlen(err), 0);
}

int main(void) {
    static char files[][16] = {"tiny_prefill", "tiny_bias", "tiny_mrope", "tiny_leftpad", "tiny_ratio2"};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(compare, files[0]),
        cmocka_unit_test_prestate(compare, files[1]),
        cmocka_unit_test_prestate(compare, files[2]),
        cmocka_unit_test_prestate(compare, files[3]),
        cmocka_unit_test_prestate(compare, files[4]),
        cmocka_unit_test(norms_without_one),
        cmocka_unit_test(other_epsilon),
        cmocka_unit_test(sections_swapped),
        cmocka_unit_test(smaller_budget),
        cmocka_unit_test(bias_forgotten),
        cmocka_unit_test(mask_ignored),
        cmocka_unit_test(output_changed),
        cmocka_unit_test(no_such_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
