// SPDX-License-Identifier: Apache-2.0
//
// All kernels: their numbers, their types, and the declaration of every row of kernels.tbl that this architecture has.

#ifndef QSA_KERNELS_KERNELS_H
#define QSA_KERNELS_KERNELS_H

#include "kernels/attend/attend.h"
#include "kernels/isa_rows.h"
#include "kernels/merge/merge.h"
#include "kernels/prep/prep.h"
#include "kernels/score/score.h"
#include "kernels/topk/topk.h"

// X(stage, kernel): the kernels, in the order of a step.
#define QSA_KERNELS(X)                                                                                                 \
    X(prep, angles)                                                                                                    \
    X(prep, norm_rope)                                                                                                 \
    X(prep, store)                                                                                                     \
    X(prep, pool)                                                                                                      \
    X(prep, prep_token)                                                                                                \
    X(prep, screen_key)                                                                                                \
    X(score, score)                                                                                                    \
    X(score, screen_query)                                                                                             \
    X(score, screen)                                                                                                   \
    X(topk, topk)                                                                                                      \
    X(topk, candidates)                                                                                                \
    X(attend, attend)                                                                                                  \
    X(merge, merge)                                                                                                    \
    X(merge, gate)

#define QSA_KERNEL_NUMBER(stage, kernel) QSA_K_##kernel,
typedef enum qsa_kernel_number { QSA_KERNELS(QSA_KERNEL_NUMBER) QSA_K_COUNT } qsa_kernel_number;
#undef QSA_KERNEL_NUMBER

#define QSA_ROW(stage, kernel, where, rank, kernel_class) void qsa_##kernel##_##where(const qsa_##kernel##_args *args);
#define QSA_KERNEL                                        QSA_ROW_OF
#include "kernels/kernels.tbl"
#undef QSA_KERNEL
#undef QSA_ROW

// The picked row of every kernel, typed.
#define QSA_KERNEL_FIELD(stage, kernel) qsa_##kernel##_fn kernel;
typedef struct qsa_kernel_set {
    QSA_KERNELS(QSA_KERNEL_FIELD)
} qsa_kernel_set;
#undef QSA_KERNEL_FIELD

#endif
