// SPDX-License-Identifier: Apache-2.0
//
// Probes of the matrix instructions as lab_device_ops has them: which thread's register holds which element.

#ifndef QSA_LAB_CUDA_LAYOUT_H
#define QSA_LAB_CUDA_LAYOUT_H

#include "lab/cuda/device.h"

bool lab_cuda_layout(const char *name, bool json, char *said, size_t room, char *why, size_t size);

// The text of one instruction, appended. Throws.
void lab_layout_mma(bool bytes, bool json, char *said, size_t room);
void lab_layout_wgmma(bool json, char *said, size_t room);
void lab_layout_say(char *said, size_t room, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
