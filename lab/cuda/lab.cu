// SPDX-License-Identifier: Apache-2.0
//
// libqsa_cuda_lab as the lab sees it (lab/cuda/device.h).

#include "lab/cuda/compile.h"
#include "lab/cuda/layout.h"
#include "lab/cuda/module.h"
#include "lab/cuda/prove.h"
#include "lab/cuda/time.h"

#include <cstdio>
#include <cstring>

static void tell_about(lab_device_about *about) {
    int devices = 0;
    cudaDeviceProp properties;
    memset(about, 0, sizeof *about);
    about->nvrtc = lab_nvrtc_version();
    cudaError_t status = cudaGetDeviceCount(&devices);
    if (status == cudaSuccess && devices > 0)
        status = cudaGetDeviceProperties(&properties, 0);
    if (status != cudaSuccess || devices == 0) {
        snprintf(about->why, sizeof about->why, "no CUDA device: %.200s",
                 status == cudaSuccess ? "the driver lists none" : cudaGetErrorString(status));
        return;
    }
    snprintf(about->name, sizeof about->name, "%.120s", properties.name);
    about->major = properties.major, about->minor = properties.minor;
    about->multiprocessors = properties.multiProcessorCount;
    if (cudaDriverGetVersion(&about->driver) != cudaSuccess)
        about->driver = 0;
}

extern "C" __attribute__((visibility("default"))) const lab_device_ops *qsa_lab_device(void) {
    static const lab_device_ops ops = {LAB_DEVICE_ABI,       LAB_DEVICE_LAYOUT, lab_nvrtc_version, lab_nvrtc_compile,
                                       tell_about,           lab_cuda_prove,    lab_cuda_time,     lab_cuda_bind_attend,
                                       lab_cuda_call_attend, lab_cuda_layout};
    return &ops;
}
