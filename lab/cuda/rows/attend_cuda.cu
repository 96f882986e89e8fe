// SPDX-License-Identifier: Apache-2.0
//
// The row attend_cuda as the lab launches it: the device code of its file, the launcher as lines.
//
// LAUNCH: kernel=attend<QSA_F32,12> when=kv_type==1&&heads/kv_heads==12 grid=min(rows*kv_heads*chunks,2147483647) block=256 args=int64:rows*kv_heads*chunks,int32:chunks
// LAUNCH: kernel=attend<QSA_F32,8> when=kv_type==1 grid=min(rows*kv_heads*chunks,2147483647) block=256 args=int64:rows*kv_heads*chunks,int32:chunks
// LAUNCH: kernel=attend<QSA_F16,12> when=kv_type==2&&heads/kv_heads==12 grid=min(rows*kv_heads*chunks,2147483647) block=256 args=int64:rows*kv_heads*chunks,int32:chunks
// LAUNCH: kernel=attend<QSA_F16,8> when=kv_type==2 grid=min(rows*kv_heads*chunks,2147483647) block=256 args=int64:rows*kv_heads*chunks,int32:chunks
// LAUNCH: kernel=attend<QSA_BF16,12> when=kv_type==3&&heads/kv_heads==12 grid=min(rows*kv_heads*chunks,2147483647) block=256 args=int64:rows*kv_heads*chunks,int32:chunks
// LAUNCH: kernel=attend<QSA_BF16,8> when=kv_type==3 grid=min(rows*kv_heads*chunks,2147483647) block=256 args=int64:rows*kv_heads*chunks,int32:chunks
// LAUNCH: kernel=attend<QSA_I8,12> when=kv_type==4&&heads/kv_heads==12 grid=min(rows*kv_heads*chunks,2147483647) block=256 args=int64:rows*kv_heads*chunks,int32:chunks
// LAUNCH: kernel=attend<QSA_I8,8> when=kv_type==4 grid=min(rows*kv_heads*chunks,2147483647) block=256 args=int64:rows*kv_heads*chunks,int32:chunks
#include "kernels/attend/attend_cuda.cu"
