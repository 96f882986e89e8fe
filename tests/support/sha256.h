// SPDX-License-Identifier: Apache-2.0
//
// SHA-256 (FIPS 180-4) for tests that are built where libcrypto is not.
#ifndef QSA_TESTS_SHA256_H
#define QSA_TESTS_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t state[8];
    uint64_t bytes; // so far
    unsigned char block[64];
} sha256;

void sha256_init(sha256 *s);
void sha256_add(sha256 *s, const void *data, size_t bytes);
// 64 hex digits and a zero.
void sha256_hex(sha256 *s, char hex[65]);

#endif
