// SPDX-License-Identifier: Apache-2.0
//
// One golden file through the library, its figures printed, cmocka failing with the figure that is out
// of bounds.
#ifndef QSA_TESTS_GOLDEN_TEST_H
#define QSA_TESTS_GOLDEN_TEST_H

#include "support/io/golden_library.h"
#include "support/unit.h"

static golden *open_or_fail(const char *name) {
    char err[ST_ERR_SIZE];
    golden *g = golden_open(name, err, sizeof err);
    if (!g)
        fail_msg("%s", err);
    return g;
}

static void compare(const char *name, golden_library_options options, int rows) {
    golden_library_figures f;
    golden *g = open_or_fail(name);
    if (options.row_count && g->batch == 1) // tokens behind the last row that is wanted need not be appended
        g->cells[0] = g->cell_of_token[g->row[options.first_row + options.row_count - 1]] + 1;
    golden_library_measure(g, &options, &f);
    golden_close(g);
    golden_library_print(name, &options, &f);
    const char *objection = golden_library_objection(&options, &f);
    if (objection)
        fail_msg("%s: %s out of bounds", name, objection);
    assert_int_equal(f.rows + f.skipped, rows);
}

#endif
