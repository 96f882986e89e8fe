// SPDX-License-Identifier: Apache-2.0
//
// NVRTC as lab_device_ops has it.

#ifndef QSA_LAB_CUDA_COMPILE_H
#define QSA_LAB_CUDA_COMPILE_H

#include "lab/cuda/device.h"

int lab_nvrtc_version(void);
bool lab_nvrtc_compile(const lab_device_source *source, lab_device_code *code);

#endif
