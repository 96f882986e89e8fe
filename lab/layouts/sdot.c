// SPDX-License-Identifier: Apache-2.0
//
// sdot of NEON: signed bytes times signed bytes, added to 32-bit sums.
#include "probe.h"

#include <arm_neon.h>

static const char probe_name[] = "sdot", probe_types[] = "a s8[16], b s8[16] -> out s32[4]";

static int probe_possible(void) {
    return 1; // the emulator has it; on a machine, an illegal instruction is told by the lab
}

static void probe_apply(const unsigned char *a, const unsigned char *b, int32_t *out) {
    vst1q_s32(out, vdotq_s32(vdupq_n_s32(0), vld1q_s8((const int8_t *)a), vld1q_s8((const int8_t *)b)));
}

PROBE(16, 16, 4, 1, 1, 1)
