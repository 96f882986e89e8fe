// SPDX-License-Identifier: Apache-2.0
//
// Machine code on the device: loaded from a file, launched by its LAUNCH lines, and what it needs of a multiprocessor.

#ifndef QSA_LAB_CUDA_MODULE_H
#define QSA_LAB_CUDA_MODULE_H

#include "kernels/cuda_args.h"
#include "lab/cuda/device.h"
#include "lab/launch.h"

#include <cuda.h>
#include <cuda_runtime.h>
#include <string>

// Anything that ends a child's work: whose fault it was, and why.
struct lab_stop {
    int arm; // 0 baseline, 1 candidate, 2 null, -1 the lab
    std::string why;
};

// Throws a lab_stop of the lab.
void lab_check(cudaError_t status, const char *what);

class lab_module {
  public:
    lab_module(const lab_device_arm &arm, int number);
    ~lab_module();
    lab_module(const lab_module &) = delete;
    // Queues the call; args: the kernel's argument struct. Throws.
    void launch(int kernel, const void *args, cudaStream_t stream);
    lab_device_resources resources(int kernel, const void *args);

  private:
    int number_, count_ = 0;
    lab_launch list_[LAB_LAUNCHES];
    CUmodule module_ = nullptr;
    CUfunction function_[LAB_LAUNCHES] = {};
    int choose(int kernel, const void *args, lab_launch_shape *shape);
};

// What a LAUNCH line may name, of a kernel's arguments.
lab_launch_values lab_values_of(int kernel, const void *args);

#endif
