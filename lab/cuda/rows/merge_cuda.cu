// SPDX-License-Identifier: Apache-2.0
//
// The row merge_cuda as the lab launches it: the device code of its file, the launcher as lines.
//
// LAUNCH: kernel=merge grid=rows*heads block=256
#include "kernels/merge/merge_cuda.cu"
