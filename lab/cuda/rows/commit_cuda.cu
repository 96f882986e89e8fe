// SPDX-License-Identifier: Apache-2.0
//
// The row commit_cuda as the lab launches it: the device code of its file, the launcher as lines.
//
// LAUNCH: kernel=commit grid=min(rows*layers*keep,65536) block=128 args=int64:rows*layers*keep
#include "kernels/prep/commit_cuda.cu"
