// SPDX-License-Identifier: Apache-2.0
//
// The float64 oracle against the official implementation at the real geometry: the rows around every
// boundary of real_edge and the long rows of real_long. The controls: inverse frequencies with one
// rounding instead of two, and key positions off by one in one block.
// LABELS: real long
#include "support/io/golden_measure.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

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
    assert_int_equal(f.rows, stored);
}

// The last stored row of real_long is far enough out that the second rounding shows.
static void one_rounding(void **state) {
    (void)state;
    golden *g = open_or_fail("real_long");
    const oracle_geometry *o = &g->geometry;
    int half = o->rotary_dim / 2, position = g->positions[g->row[g->rows - 1] * 3];
    const float *want = g->cos_table + (size_t)(g->rows - 1) * 2 * (size_t)half;
    double one = 0, two = 0;
    for (int i = 0; i < half; i++) {
        float once = (float)pow(o->theta, -(double)(float)(2.0 * i / o->rotary_dim));
        one = fmax(one, fabs(cos(once * (float)position) - want[i]));
        two = fmax(two, fabs(cos(oracle_inv_freq(o, i) * (float)position) - want[i]));
    }
    printf("cos at position %d: off by %.2e with one rounding, %.2e with two\n", position, one, two);
    golden_close(g);
    assert_true(two < 1e-7);
    assert_true(one > 1e-4);
}

// One block of 525 whose first cell's position is off by one.
static void one_position(void **state) {
    (void)state;
    golden_figures f;
    golden *g = open_or_fail("real_edge");
    for (int axis = 0; axis < 3; axis++) {
        g->positions[1000 * 3 + axis]++;
    }
    golden_measure(g, &f);
    golden_close(g);
    assert_non_null(golden_objection(&f));
    assert_true(f.scores > 1e-3);
}

int main(void) {
    static char files[][16] = {"real_edge", "real_long"};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(compare, files[0]),
        cmocka_unit_test_prestate(compare, files[1]),
        cmocka_unit_test(one_rounding),
        cmocka_unit_test(one_position),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
