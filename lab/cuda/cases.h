// SPDX-License-Identifier: Apache-2.0
//
// The shapes of CUDA kernels that are timed, in the geometry of the first model over an i8 cache with float block keys. The first
// of each is the one that a claim is made of.

#ifndef QSA_LAB_CUDA_CASES_H
#define QSA_LAB_CUDA_CASES_H

#include "lab/cuda/device.h"

static const lab_device_case lab_device_cases[LAB_DEVICE_KERNELS][LAB_DEVICE_CASES] = {
    {{"64 rows of 131072 cells", 64, 131072, false}, {"1 row of 131072 cells", 1, 131072, true}, {NULL, 0, 0, false}},
    {{"512 rows of 131072 cells", 512, 131072, false},
     {"1 row of 131072 cells", 1, 131072, false},
     {NULL, 0, 0, false}},
    {{"64 rows of 2050 cells", 64, 131074, true}, {"1 row of 2050 cells", 1, 131074, true}, {NULL, 0, 0, false}},
    {{"64 rows", 64, 131074, true}, {"1 row", 1, 131074, false}, {NULL, 0, 0, false}},
    {{"512 rows", 512, 131072, true}, {"1 row", 1, 131072, false}, {NULL, 0, 0, false}},
    {{"512 rows", 512, 131072, true}, {"1 row", 1, 131072, false}, {NULL, 0, 0, false}},
    {{"16 sequences in 12 layers", 16, 131072, false}, {NULL, 0, 0, false}, {NULL, 0, 0, false}},
};

#endif
