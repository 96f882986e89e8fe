// SPDX-License-Identifier: Apache-2.0
//
// The row prep_cuda as the lab launches it: the device code of its file, the launcher as lines.
//
// LAUNCH: kernel=prep grid=rows*(up(heads+index_heads+2*kv_heads,16)+1) block=288 args=int32:up(heads+index_heads+2*kv_heads,16)
#include "kernels/prep/prep_cuda.cu"
