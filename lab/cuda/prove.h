// SPDX-License-Identifier: Apache-2.0
//
// The proof of a CUDA candidate as lab_device_ops has it.

#ifndef QSA_LAB_CUDA_PROVE_H
#define QSA_LAB_CUDA_PROVE_H

#include "lab/cuda/device.h"

void lab_cuda_prove(const lab_device_plan *plan, lab_device_proof *proof);

#endif
