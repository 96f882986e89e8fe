// SPDX-License-Identifier: Apache-2.0
//
// The row score_cuda as the lab launches it: the device code of its file, the launcher as lines.
//
// LAUNCH: kernel=score<QSA_F32> when=block_key_type==1 grid=min(up(blocks,256)*rows,2147483647) block=256 args=int64:up(blocks,256)*rows,int32:up(blocks,256)
// LAUNCH: kernel=score<QSA_F16> when=block_key_type==2 grid=min(up(blocks,256)*rows,2147483647) block=256 args=int64:up(blocks,256)*rows,int32:up(blocks,256)
// LAUNCH: kernel=score<QSA_BF16> when=block_key_type==3 grid=min(up(blocks,256)*rows,2147483647) block=256 args=int64:up(blocks,256)*rows,int32:up(blocks,256)
#include "kernels/score/score_cuda.cu"
