// SPDX-License-Identifier: Apache-2.0
//
// The row gate_cuda as the lab launches it: the device code of its file, the launcher as lines.
//
// LAUNCH: kernel=gate grid=rows*heads block=128
#include "kernels/merge/gate_cuda.cu"
