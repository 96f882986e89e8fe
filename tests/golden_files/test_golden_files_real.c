// SPDX-License-Identifier: Apache-2.0
//
// The library against the official implementation at the real geometry: the rows around every boundary
// of real_edge (2,100 tokens) and the long rows of real_long (6,003 tokens), all cache and block key
// formats. Under a sanitizer one row of each file in f32, and one in i8, all above the budget.
// LABELS: small real
#include "golden_test.h"

#ifdef QSA_SANITIZED
enum { EDGE_FIRST = 16, EDGE_ROWS = 1, LONG_FIRST = 1, LONG_ROWS = 1 };
#else
enum { EDGE_FIRST = 0, EDGE_ROWS = 23, LONG_FIRST = 0, LONG_ROWS = 7 };
#endif

static void both(qsa_type kv_type, qsa_type block_key_type, int32_t threads) {
    compare("real_edge", (golden_library_options){kv_type, block_key_type, 100, threads, EDGE_FIRST, EDGE_ROWS},
            EDGE_ROWS);
    compare("real_long", (golden_library_options){kv_type, block_key_type, 512, threads, LONG_FIRST, LONG_ROWS},
            LONG_ROWS);
}

static void unquantized(void **state) {
    (void)state;
    both(QSA_F32, QSA_F32, 1);
}

static void i8(void **state) {
    (void)state;
#ifdef QSA_SANITIZED
    compare("real_edge", (golden_library_options){QSA_I8, QSA_F32, 100, 2, EDGE_FIRST, EDGE_ROWS}, EDGE_ROWS);
#else
    both(QSA_I8, QSA_F32, 2);
#endif
}

#ifndef QSA_SANITIZED
static void halves(void **state) {
    (void)state;
    both(QSA_F16, QSA_F16, 1);
    both(QSA_BF16, QSA_BF16, 1);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unquantized),
        cmocka_unit_test(i8),
#ifndef QSA_SANITIZED
        cmocka_unit_test(halves),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
