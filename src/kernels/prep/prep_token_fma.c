// SPDX-License-Identifier: Apache-2.0
//
// The reference's source compiled for AVX2 and FMA (x86-64), calling the rows that are too; angles have none.

#define qsa_prep_token_ref qsa_prep_token_fma
#define qsa_norm_rope_ref  qsa_norm_rope_fma
#define qsa_store_ref      qsa_store_fma
#define qsa_pool_ref       qsa_pool_fma
#include "kernels/prep/prep_token_ref.c"
