// SPDX-License-Identifier: Apache-2.0
//
// One process of timing on the device, and the bridge for the bound, as lab_device_ops has them.

#ifndef QSA_LAB_CUDA_TIME_H
#define QSA_LAB_CUDA_TIME_H

#include "lab/cuda/device.h"

void lab_cuda_time(const lab_device_times *times, lab_device_samples *samples);

bool lab_cuda_bind_attend(const lab_device_arm *arm, char *why, size_t size);
void lab_cuda_call_attend(const void *args);

#endif
