// SPDX-License-Identifier: Apache-2.0
//
// Lets the compiler fuse what the contract rounds twice.
// KERNEL: screen
// EXPECT: prove memcmp

#pragma GCC optimize("fp-contract=fast")
#define qsa_screen_ref qsa_screen_contracts_fma
#include "kernels/score/screen_ref.c"
