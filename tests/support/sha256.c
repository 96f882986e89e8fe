// SPDX-License-Identifier: Apache-2.0
//
// SHA-256, plain. The constants are the fractions of the square and cube roots of the first primes.
#include "sha256.h"

#include <string.h>

static const uint32_t round_constant[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, int n) {
    return x >> n | x << (32 - n);
}

static void add_block(sha256 *s) {
    uint32_t w[64], a[8];
    for (int i = 0; i < 16; i++) {
        const unsigned char *p = s->block + 4 * i;
        w[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    }
    for (int i = 16; i < 64; i++) {
        const uint32_t x = w[i - 15], y = w[i - 2];
        w[i] =
            w[i - 16] + (rotate(x, 7) ^ rotate(x, 18) ^ x >> 3) + w[i - 7] + (rotate(y, 17) ^ rotate(y, 19) ^ y >> 10);
    }
    memcpy(a, s->state, sizeof a);
    for (int i = 0; i < 64; i++) {
        const uint32_t choice = (a[4] & a[5]) ^ (~a[4] & a[6]),
                       majority = (a[0] & a[1]) ^ (a[0] & a[2]) ^ (a[1] & a[2]);
        const uint32_t first =
            a[7] + (rotate(a[4], 6) ^ rotate(a[4], 11) ^ rotate(a[4], 25)) + choice + round_constant[i] + w[i];
        const uint32_t second = (rotate(a[0], 2) ^ rotate(a[0], 13) ^ rotate(a[0], 22)) + majority;
        a[7] = a[6], a[6] = a[5], a[5] = a[4], a[4] = a[3] + first;
        a[3] = a[2], a[2] = a[1], a[1] = a[0];
        a[0] = first + second;
    }
    for (int i = 0; i < 8; i++)
        s->state[i] += a[i];
}

void sha256_init(sha256 *s) {
    *s = (sha256){
        .state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void sha256_add(sha256 *s, const void *data, size_t bytes) {
    const unsigned char *p = data;
    while (bytes > 0) {
        const size_t at = s->bytes % 64, n = bytes < 64 - at ? bytes : 64 - at;
        memcpy(s->block + at, p, n);
        s->bytes += n;
        p += n;
        bytes -= n;
        if (s->bytes % 64 == 0)
            add_block(s);
    }
}

void sha256_hex(sha256 *s, char hex[65]) {
    static const char digits[] = "0123456789abcdef";
    const uint64_t bits = s->bytes * 8;
    unsigned char length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(bits >> (56 - 8 * i));
    sha256_add(s, "\x80", 1);
    while (s->bytes % 64 != 56)
        sha256_add(s, "", 1);
    sha256_add(s, length, sizeof length);
    for (int i = 0; i < 64; i++)
        hex[i] = digits[s->state[i / 8] >> (28 - 4 * (i % 8)) & 15];
    hex[64] = '\0';
}
