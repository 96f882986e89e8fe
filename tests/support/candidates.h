// SPDX-License-Identifier: Apache-2.0
//
// QSA_LAB_KERNELS=DIR for the tests: contexts run the candidates of a folder (lab/folder.h), so that one run of the suite says whether
// they may replace the rows. Builds without the lab run the rows.
#ifndef QSA_TESTS_CANDIDATES_H
#define QSA_TESTS_CANDIDATES_H

#include "qsa/qsa.h"

#ifdef QSA_TEST_LAB
#include "lab/folder.h"

#include <stdio.h>
#include <stdlib.h>

static inline void use_candidates(qsa_context *context) {
    bench_error error = {""};
    if (lab_folder_use(context, &error))
        return;
    fprintf(stderr, "%s\n", error.text);
    abort();
}
#else
static inline void use_candidates(qsa_context *context) {
    (void)context;
}
#endif

#endif
