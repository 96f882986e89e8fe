// SPDX-License-Identifier: Apache-2.0
//
// vpmaddubsw: unsigned bytes of the first times signed bytes of the second operand.
#include "probe.h"

#include <immintrin.h>

static const char probe_name[] = "vpmaddubsw", probe_types[] = "a u8[32], b s8[32] -> out s16[16]";

static int probe_possible(void) {
    return __builtin_cpu_supports("avx2");
}

static void probe_apply(const unsigned char *a, const unsigned char *b, int32_t *out) {
    int16_t sums[16];
    const __m256i x = _mm256_load_si256((const void *)a), y = _mm256_load_si256((const void *)b);
    _mm256_storeu_si256((void *)sums, _mm256_maddubs_epi16(x, y));
    for (int i = 0; i < 16; i++)
        out[i] = sums[i];
}

PROBE(32, 32, 16, 1, 1, 1)
