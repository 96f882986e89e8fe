// SPDX-License-Identifier: Apache-2.0
//
// The row prep_cuda as the lab launches it: the device code of its file, the launcher as lines.
//
// LAUNCH: kernel=prep_wide<2,2,true,1> when=aligned&&rows<=64&&rotary_dim==64&&ratio<=32&&(head_dim==128||head_dim==256)&&(index_dim==128||index_dim==256) grid=rows*(1+up(up(heads,4)+up(index_heads,4)+2*up(kv_heads,4),2)) block=96 args=int32:up(up(heads,4)+up(index_heads,4)+2*up(kv_heads,4),2),also:1+up(up(heads,4)+up(index_heads,4)+2*up(kv_heads,4),2),also:up(heads,4),also:up(index_heads,4),also:up(kv_heads,4)
// LAUNCH: kernel=prep_wide<2,3,false,8> when=aligned&&rotary_dim==64&&ratio<=32&&(head_dim==128||head_dim==256)&&(index_dim==128||index_dim==256) grid=up(rows,2)*(1+2*up(up(heads,4)+up(index_heads,4)+2*up(kv_heads,4),3)) block=128 args=int32:up(up(heads,4)+up(index_heads,4)+2*up(kv_heads,4),3),also:1+2*up(up(heads,4)+up(index_heads,4)+2*up(kv_heads,4),3),also:up(heads,4),also:up(index_heads,4),also:up(kv_heads,4)
// LAUNCH: kernel=prep grid=rows*(up(heads+index_heads+2*kv_heads,16)+1) block=288 args=int32:up(heads+index_heads+2*kv_heads,16)
#include "kernels/prep/prep_cuda.cu"

constexpr int built(int span, int warps, bool early, int blocks) {
    return span * 1000 + warps * 100 + early * 10 + blocks;
}
static_assert(built(QSA_PREP_FEW) == 2211 && built(QSA_PREP_MANY) == 2308, "the LAUNCH lines above");
