// SPDX-License-Identifier: Apache-2.0
//
// vpdpbusd: unsigned bytes of the first times signed bytes of the second factor, added to 32-bit sums.
#include "probe.h"

#include <immintrin.h>

static const char probe_name[] = "vpdpbusd", probe_types[] = "a u8[32], b s8[32] -> out s32[8]";

#if defined(__AVXVNNI__)
#define DOT _mm256_dpbusd_avx_epi32
#else
#define DOT _mm256_dpbusd_epi32
#endif

static int probe_possible(void) {
    return 1; // the lab has looked
}

static void probe_apply(const unsigned char *a, const unsigned char *b, int32_t *out) {
    const __m256i x = _mm256_load_si256((const void *)a), y = _mm256_load_si256((const void *)b);
    _mm256_store_si256((void *)out, DOT(_mm256_setzero_si256(), x, y));
}

PROBE(32, 32, 8, 1, 1, 1)
