// SPDX-License-Identifier: Apache-2.0
//
// The row itself.
// KERNEL: gate
// EXPECT: honest not kept
// LAUNCH: kernel=gate grid=rows*heads block=128
#include "kernels/merge/gate_cuda.cu"
