// SPDX-License-Identifier: Apache-2.0
//
// What this machine's CPU can run, the operating system's part (XCR0, auxiliary vector) included.

#ifndef QSA_DISPATCH_CPU_FEATURES_H
#define QSA_DISPATCH_CPU_FEATURES_H

#include <stdint.h>

enum {
    QSA_CPU_FMA = 1u << 0, // with AVX2 and F16C: what rows `fma` and `avx2` are compiled for
    QSA_CPU_AVX2 = 1u << 1,
    QSA_CPU_F16C = 1u << 2,
    QSA_CPU_AVX512F = 1u << 3,
    QSA_CPU_AVX512BW = 1u << 4,
    QSA_CPU_AVX512VL = 1u << 5,
    QSA_CPU_AVX512DQ = 1u << 6,
    QSA_CPU_NEON = 1u << 7,
    QSA_CPU_AVX_VNNI = 1u << 8, // 256-bit vectors, without AVX-512
    QSA_CPU_AVX512_VNNI = 1u << 9,
    QSA_CPU_AMX_TILE = 1u << 10, // the process still needs qsa_cpu_permit_tiles
    QSA_CPU_AMX_INT8 = 1u << 11,
};

// Set of QSA_CPU_* bits. Any thread; asks the machine each time.
uint32_t qsa_cpu_detect(void);
// Asks the system, once more or for the first time, to let this process use tile registers: they are large, so Linux gives
// them only to who asks. 1: given, for all threads. Only to be called where QSA_CPU_AMX_TILE is set.
int qsa_cpu_permit_tiles(void);
// The name of one bit, "" for others.
const char *qsa_cpu_feature_name(uint32_t bit);

#endif
