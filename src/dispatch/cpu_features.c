// SPDX-License-Identifier: Apache-2.0
//
// CPUID says what the CPU has, XCR0 what the operating system saves: both are needed before a vector register is touched.
// Tiles need a permission besides, which is asked for when a kernel with tiles is about to be used, never before.

#define _DEFAULT_SOURCE // syscall

#include "dispatch/cpu_features.h"
#include "qsa/qsa.h"

#include <pthread.h>
#include <string.h>

#if defined(__linux__) && defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>

enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 }; // ARCH_REQ_XCOMP_PERM of a state component, Linux 5.16

int qsa_cpu_permit_tiles(void) {
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}
#else
int qsa_cpu_permit_tiles(void) {
    return 0;
}
#endif

#if defined(__x86_64__)
#include <cpuid.h>

static uint64_t read_xcr0(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

uint32_t qsa_cpu_detect(void) {
    uint32_t a, b, c, d, features = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d))
        return 0;
    const int osxsave = c >> 27 & 1, avx = c >> 28 & 1, fma = c >> 12 & 1, f16c = c >> 29 & 1;
    const uint64_t saved = osxsave ? read_xcr0() : 0;
    const int ymm = avx && (saved & 6u) == 6u, zmm = ymm && (saved & 0xe6u) == 0xe6u;
    if (ymm)
        features |= (fma ? QSA_CPU_FMA : 0u) | (f16c ? QSA_CPU_F16C : 0u);
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return features;
    if (ymm && (b >> 5 & 1))
        features |= QSA_CPU_AVX2;
    if (zmm)
        features |= (b >> 16 & 1 ? QSA_CPU_AVX512F : 0u) | (b >> 17 & 1 ? QSA_CPU_AVX512DQ : 0u) |
                    (b >> 30 & 1 ? QSA_CPU_AVX512BW : 0u) | (b >> 31 & 1 ? QSA_CPU_AVX512VL : 0u) |
                    (c >> 11 & 1 ? QSA_CPU_AVX512_VNNI : 0u);
    if (zmm && (saved & 0x60000u) == 0x60000u) // tile configuration and tile data
        features |= (d >> 24 & 1 ? QSA_CPU_AMX_TILE : 0u) | (d >> 25 & 1 ? QSA_CPU_AMX_INT8 : 0u);
    if (ymm && a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) // a of leaf 7: its highest subleaf
        features |= a >> 4 & 1 ? QSA_CPU_AVX_VNNI : 0u;
    return features;
}
#elif defined(__aarch64__)
#include <sys/auxv.h>

uint32_t qsa_cpu_detect(void) {
    return getauxval(AT_HWCAP) & 2u ? QSA_CPU_NEON : 0u; // HWCAP_ASIMD
}
#else
uint32_t qsa_cpu_detect(void) {
    return 0;
}
#endif

static const char *const names[] = {"fma",      "avx2", "f16c",     "avx512f",     "avx512bw", "avx512vl",
                                    "avx512dq", "neon", "avx_vnni", "avx512_vnni", "amx_tile", "amx_int8"};
enum { NAMES = sizeof names / sizeof names[0] };

const char *qsa_cpu_feature_name(uint32_t bit) {
    for (uint32_t i = 0; i < NAMES; i++)
        if (bit == 1u << i)
            return names[i];
    return "";
}

static pthread_once_t listed = PTHREAD_ONCE_INIT;
static char list[16 * NAMES];

static void make_list(void) {
    uint32_t features = qsa_cpu_detect();
    size_t at = 0;
    for (uint32_t i = 0; i < NAMES; i++) {
        if (!(features >> i & 1))
            continue;
        size_t length = strlen(names[i]);
        if (at)
            list[at++] = ' ';
        memcpy(list + at, names[i], length);
        at += length;
    }
    list[at] = '\0';
}

const char *qsa_cpu_features(void) {
    pthread_once(&listed, make_list);
    return list;
}
