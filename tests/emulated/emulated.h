// SPDX-License-Identifier: Apache-2.0
//
// Kernels whose instructions few machines have, compiled against a plain statement of these instructions. The files are
// <kernel>_<where>_<row>.c: the row's own source, for a machine of `where`.
#ifndef QSA_TESTS_EMULATED_EMULATED_H
#define QSA_TESTS_EMULATED_EMULATED_H

#include "dispatch/table.h"

#if defined(__x86_64__)
void qsa_attend_avx2_amx(const qsa_attend_args *args);
#endif

// Row i as a row of class fast, by the name of its function; NULL behind the last that this machine runs.
static inline const qsa_kernel_row *emulated_row(int i) {
#if defined(__x86_64__)
    static const qsa_kernel_row row = {"attend", "attend",       "avx2",       "attend_amx, emulated",
                                       0,        QSA_CLASS_FAST, QSA_K_attend, (qsa_kernel_fn)qsa_attend_avx2_amx};
    if (i == 0 && !*qsa_table_unusable(&row))
        return &row;
#endif
    (void)i;
    return NULL;
}

#endif
