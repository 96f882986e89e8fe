// SPDX-License-Identifier: Apache-2.0
//
// kernels.tbl expanded into rows. Every pointer can start at the reference; a row of an instruction set overlays it when
// the machine has what the row's files are compiled for.

#include "dispatch/table.h"
#include "dispatch/cpu_features.h"

#include <string.h>

#define QSA_ROW(stage, kernel, where, rank, kernel_class)                                                              \
    {#stage,         #kernel,                                                                                          \
     #where,         #kernel "_" #where,                                                                               \
     rank,           QSA_CLASS_##kernel_class,                                                                         \
     QSA_K_##kernel, (qsa_kernel_fn)qsa_##kernel##_##where},
#define QSA_KERNEL QSA_ROW_OF
static const qsa_kernel_row rows[] = {
#include "kernels/kernels.tbl"
};
#undef QSA_KERNEL
#undef QSA_ROW

enum { ROWS = sizeof rows / sizeof rows[0] };

enum {
    X86_V3 = QSA_CPU_FMA | QSA_CPU_AVX2 | QSA_CPU_F16C,
    X86_V4 = X86_V3 | QSA_CPU_AVX512F | QSA_CPU_AVX512BW | QSA_CPU_AVX512VL | QSA_CPU_AVX512DQ,
};

// What a `where` needs: exact sets, as the compiler flags of its files say.
static const struct {
    const char *where;
    uint32_t needs;
    const char *reason;
} needs[] = {
    {"ref", 0, ""},
    {"fma", X86_V3, "needs avx2, fma and f16c"},
    {"avx2", X86_V3, "needs avx2, fma and f16c"},
    {"avx2_i16", X86_V3, "needs avx2, fma and f16c"},
    {"avx2_vnni", X86_V3 | QSA_CPU_AVX_VNNI, "needs avx2, fma, f16c and avx_vnni"},
    {"avx512", X86_V4, "needs avx512 f, bw, vl and dq"},
    {"avx512_i16", X86_V4, "needs avx512 f, bw, vl and dq"},
    {"avx512_vnni", X86_V4 | QSA_CPU_AVX512_VNNI, "needs avx512 f, bw, vl, dq and vnni"},
    {"amx", X86_V4 | QSA_CPU_AMX_TILE | QSA_CPU_AMX_INT8, "needs avx512 f, bw, vl and dq, and amx tile and int8"},
    {"neon", QSA_CPU_NEON, "needs neon"},
};

int32_t qsa_table_rows(void) {
    return ROWS;
}

const qsa_kernel_row *qsa_table_row(int32_t i) {
    return &rows[i];
}

const char *qsa_table_unusable(const qsa_kernel_row *row) {
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++)
        if (strcmp(needs[i].where, row->where) == 0)
            return (qsa_cpu_detect() & needs[i].needs) == needs[i].needs ? "" : needs[i].reason;
    return "unknown instruction set";
}

const char *qsa_table_ready(const qsa_kernel_row *row) {
    const char *reason = qsa_table_unusable(row);
    if (!*reason && strcmp(row->where, "amx") == 0 && !qsa_cpu_permit_tiles())
        return "the system does not permit tile registers";
    return reason;
}

const qsa_kernel_row *qsa_table_best(qsa_kernel_number number, qsa_class kernel_class) {
    const qsa_kernel_row *best = NULL;
    for (int32_t i = 0; i < ROWS; i++) {
        const qsa_kernel_row *row = &rows[i];
        if (row->number != number || (row->kernel_class == QSA_CLASS_FAST && kernel_class == QSA_CLASS_STRICT))
            continue;
        if ((!best || row->rank > best->rank) && !*qsa_table_ready(row))
            best = row;
    }
    return best;
}

const char *qsa_table_no_fast(void) {
    const char *reason = "";
    for (int32_t i = 0; i < ROWS; i++) {
        if (rows[i].kernel_class != QSA_CLASS_FAST)
            continue;
        const char *unusable = qsa_table_unusable(&rows[i]);
        if (!*unusable)
            return NULL;
        reason = *reason ? reason : unusable;
    }
    return reason;
}

void qsa_table_pick(qsa_kernel_set *set, const qsa_kernel_row *row) {
    switch (row->number) {
#define QSA_KERNEL_CASE(stage, kernel)                                                                                 \
    case QSA_K_##kernel:                                                                                               \
        set->kernel = (qsa_##kernel##_fn)row->function;                                                                \
        break;
        QSA_KERNELS(QSA_KERNEL_CASE)
#undef QSA_KERNEL_CASE
    case QSA_K_COUNT:
        break;
    }
}

int32_t qsa_kernel_count(void) {
    return ROWS;
}
