// SPDX-License-Identifier: Apache-2.0
//
// tdpbusd of AMX: a tile of 16 rows of 64 unsigned bytes times one of 16 rows of 64 signed bytes, to 16 x 16 sums.
#define _GNU_SOURCE
#include "probe.h"

#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char probe_name[] = "tdpbusd", probe_types[] = "a u8[16][64], b s8[16][64] -> out s32[16][16]";

static int probe_possible(void) {
    enum { REQUEST = 0x1023, TILE_DATA = 18 }; // arch_prctl: ARCH_REQ_XCOMP_PERM
    if (syscall(SYS_arch_prctl, REQUEST, TILE_DATA) != 0)
        return 0;
    static _Alignas(64) unsigned char shape[64];
    shape[0] = 1; // palette
    for (int tile = 0; tile < 3; tile++) {
        shape[16 + 2 * tile] = 64; // bytes of a row
        shape[48 + tile] = 16;     // rows
    }
    _tile_loadconfig(shape);
    return 1;
}

static void probe_apply(const unsigned char *a, const unsigned char *b, int32_t *out) {
    _tile_loadd(1, a, 64);
    _tile_loadd(2, b, 64);
    _tile_zero(0);
    _tile_dpbusd(0, 1, 2);
    _tile_stored(0, out, 64);
}

PROBE(1024, 1024, 256, 64, 64, 16)
