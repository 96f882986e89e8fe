// SPDX-License-Identifier: Apache-2.0
//
// The row topk_cuda as the lab launches it: the device code of its file, the launcher as lines.
//
// LAUNCH: kernel=topk<512,2,6144> when=rows>132 grid=rows block=512 shared=65808
// LAUNCH: kernel=topk<1024,1,12288> grid=rows block=1024 shared=114960
#include "kernels/topk/topk_cuda.cu"

static_assert(sizeof(shared<6144>) == 65808 && sizeof(shared<12288>) == 114960, "the dynamic shared memory above");
