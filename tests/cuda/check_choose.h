// SPDX-License-Identifier: Apache-2.0
//
// Checks of qsa_choose_cuda_mma; the number that failed.

#ifndef QSA_TESTS_CUDA_CHECK_CHOOSE_H
#define QSA_TESTS_CUDA_CHECK_CHOOSE_H

int check_choose(void);

#endif
