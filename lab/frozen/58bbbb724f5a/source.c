// SPDX-License-Identifier: Apache-2.0
//
// Top-k in 256-bit vectors (x86-64-v3).

#include "kernels/topk/topk_simd.h"

void qsa_topk_avx2(const qsa_topk_args *args) {
    topk_simd(args);
}

// ---- src/kernels/topk/topk_simd.h ----

// SPDX-License-Identifier: Apache-2.0
//
// Radix select with vector scans. One histogram over the top 11 bits of all keys finds the bucket that holds the last taken
// score; a vector scan collects that bucket's keys; two more histograms over those few find the key itself; a last vector
// scan writes the ids. Scans compare floats, whose order is the keys' (docs/numerics.md), so nothing is written per score.
// A bucket that does not fit the buffer (many ties), or holds NaN or infinities, is narrowed by scanning all scores again:
// slower, never wrong.

#ifndef QSA_KERNELS_TOPK_TOPK_SIMD_H
#define QSA_KERNELS_TOPK_TOPK_SIMD_H

#include "kernels/kernels.h"
#include "kernels/simd/simd.h"
#include "kernels/topk/key.h"

enum { BITS = 11, BUCKETS = 1 << BITS, HELD = 4096 };

typedef struct search {
    uint32_t prefix; // of the key that is sought: its bits above `shift`
    int shift;
    int32_t wanted; // scores to take among those with the prefix
} search;

// Narrows the search by one digit, from a histogram over the digit of the scores with the prefix.
QSA_INLINE void descend(search *s, const int32_t *histogram, int bits) {
    uint32_t digit = (1u << bits) - 1;
    while (histogram[digit] < s->wanted)
        s->wanted -= histogram[digit--];
    s->shift -= bits;
    s->prefix |= digit << s->shift;
}

// Histogram of the top digit of all keys. Two tables, so that equal neighbours do not wait for each other's count.
QSA_INLINE void first_digit(search *s, const qsa_topk_args *args) {
    int32_t even[BUCKETS] = {0}, odd[BUCKETS] = {0};
    int32_t b = 0;
    for (; b + 16 <= args->blocks; b += 16) {
        uint32_t digit[16];
        for (int i = 0; i < 16; i++)
            digit[i] = qsa_score_key(args->scores[b + i]) >> (32 - BITS);
        for (int i = 0; i < 16; i += 2) {
            even[digit[i]]++;
            odd[digit[i + 1]]++;
        }
    }
    for (; b < args->blocks; b++)
        even[qsa_score_key(args->scores[b]) >> (32 - BITS)]++;
    for (int i = 0; i < BUCKETS; i++)
        even[i] += odd[i];
    descend(s, even, BITS);
}

// The keys of the first digit's bucket; -1 if they cannot be had by comparing floats, or are too many.
QSA_INLINE int32_t collect(const search *s, const qsa_topk_args *args, uint32_t held[HELD]) {
    const uint32_t low = s->prefix, most = s->prefix | ((1u << s->shift) - 1);
    if (low < 0x00800000u || most > 0xff800000u) // below: NaN and -inf; above: +inf
        return -1;
    // 7fffffff would be -0, which no key is: compared as a float it equals +0.
    const v16 from = v16_set(qsa_score_of_key(low)),
              to = v16_set(qsa_score_of_key(most == 0x7fffffffu ? most - 1 : most));
    int32_t count = 0, b = 0;
    for (; b + 16 <= args->blocks; b += 16) {
        const v16 x = v16_load(args->scores + b);
        uint32_t mask = v16_at_least(x, from) & v16_at_least(to, x);
        if (count > HELD - 16)
            return -1;
        for (; mask; mask &= mask - 1)
            held[count++] = qsa_score_key(args->scores[b + __builtin_ctz(mask)]);
    }
    if (count > HELD - 16)
        return -1;
    for (; b < args->blocks; b++) {
        const uint32_t key = qsa_score_key(args->scores[b]);
        if (key >> s->shift == s->prefix >> s->shift)
            held[count++] = key;
    }
    return count;
}

// The next digit over `count` keys, or over all scores if count is -1.
QSA_INLINE void next_digit(search *s, const qsa_topk_args *args, const uint32_t *held, int32_t count, int bits) {
    int32_t histogram[BUCKETS] = {0};
    const int32_t n = count < 0 ? args->blocks : count;
    for (int32_t i = 0; i < n; i++) {
        const uint32_t key = count < 0 ? qsa_score_key(args->scores[i]) : held[i];
        if (key >> s->shift == s->prefix >> s->shift)
            histogram[key >> (s->shift - bits) & ((1u << bits) - 1)]++;
    }
    descend(s, histogram, bits);
}

// Writes the ids: every score above the key, and the lowest `wanted` blocks of those equal to it.
QSA_INLINE void emit(const search *s, const qsa_topk_args *args) {
    const float last = qsa_score_of_key(s->prefix);
    int32_t wanted = s->wanted, taken = 0;
    for (int32_t b = 0; b < args->blocks && taken < args->take; b += 16) {
        const int32_t n = args->blocks - b < 16 ? args->blocks - b : 16;
        // Key 0 takes NaN scores too: then every block is looked at.
        uint32_t mask =
            n < 16 || s->prefix == 0 ? (1u << n) - 1 : v16_at_least(v16_load(args->scores + b), v16_set(last));
        for (; mask && taken < args->take; mask &= mask - 1) {
            const int32_t block = b + __builtin_ctz(mask);
            const uint32_t key = qsa_score_key(args->scores[block]);
            if (key < s->prefix || (key == s->prefix && wanted == 0))
                continue;
            if (key == s->prefix) {
                wanted--;
                *args->last = taken;
            }
            args->ids[taken++] = block;
        }
    }
}

QSA_INLINE void topk_simd(const qsa_topk_args *args) {
    uint32_t held[HELD];
    search s = {.shift = 32, .wanted = args->take};
    first_digit(&s, args);
    const int32_t count = collect(&s, args, held);
    next_digit(&s, args, held, count, BITS);
    next_digit(&s, args, held, count, 32 - 2 * BITS);
    emit(&s, args);
}

#endif

// ---- src/kernels/topk/key.h ----

// SPDX-License-Identifier: Apache-2.0
//
// The total order of scores as unsigned integers: NaN (0) below -inf ... -0 = +0 ... +inf.

#ifndef QSA_KERNELS_TOPK_KEY_H
#define QSA_KERNELS_TOPK_KEY_H

#include "num/num.h"

static inline uint32_t qsa_score_key(float score) {
    if (score != score)
        return 0;
    uint32_t u = qsa_bits_of_f32(score + 0.0f);
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

// The score of a key that some score has; key 0 gives NaN.
static inline float qsa_score_of_key(uint32_t key) {
    return key & 0x80000000u ? qsa_f32_of_bits(key ^ 0x80000000u) : key ? qsa_f32_of_bits(~key) : qsa_nan();
}

#endif
