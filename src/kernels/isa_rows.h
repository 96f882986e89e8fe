// SPDX-License-Identifier: Apache-2.0
//
// Which rows of kernels.tbl exist on the architecture being compiled: QSA_ROW_OF(row) expands to QSA_ROW(row) or nothing. With
// QSA_REFERENCE_ONLY the rows `ref` alone.

#ifndef QSA_KERNELS_ISA_ROWS_H
#define QSA_KERNELS_ISA_ROWS_H

#define QSA_ROW_OF(stage, kernel, where, rank, kernel_class) QSA_ROW_##where(stage, kernel, where, rank, kernel_class)

#define QSA_ROW_ref(...) QSA_ROW(__VA_ARGS__)

#if defined(__x86_64__) && !defined(QSA_REFERENCE_ONLY)
#define QSA_ROW_fma(...)      QSA_ROW(__VA_ARGS__)
#define QSA_ROW_avx2(...)     QSA_ROW(__VA_ARGS__)
#define QSA_ROW_avx2_i16(...) QSA_ROW(__VA_ARGS__)
#define QSA_ROW_neon(...)
// A build for its own machine (QSA_HOST_ROWS) says which of the rarer ones this lacks.
#ifdef QSA_WITHOUT_avx512
#define QSA_ROW_avx512(...)
#define QSA_ROW_avx512_i16(...)
#else
#define QSA_ROW_avx512(...)     QSA_ROW(__VA_ARGS__)
#define QSA_ROW_avx512_i16(...) QSA_ROW(__VA_ARGS__)
#endif
#ifdef QSA_WITHOUT_avx2_vnni
#define QSA_ROW_avx2_vnni(...)
#else
#define QSA_ROW_avx2_vnni(...) QSA_ROW(__VA_ARGS__)
#endif
#ifdef QSA_WITHOUT_avx512_vnni
#define QSA_ROW_avx512_vnni(...)
#else
#define QSA_ROW_avx512_vnni(...) QSA_ROW(__VA_ARGS__)
#endif
#ifdef QSA_WITHOUT_amx
#define QSA_ROW_amx(...)
#else
#define QSA_ROW_amx(...) QSA_ROW(__VA_ARGS__)
#endif
#elif defined(__aarch64__) && !defined(QSA_REFERENCE_ONLY)
#define QSA_ROW_fma(...)
#define QSA_ROW_avx2(...)
#define QSA_ROW_avx512(...)
#define QSA_ROW_avx2_i16(...)
#define QSA_ROW_avx2_vnni(...)
#define QSA_ROW_avx512_i16(...)
#define QSA_ROW_avx512_vnni(...)
#define QSA_ROW_amx(...)
#define QSA_ROW_neon(...) QSA_ROW(__VA_ARGS__)
#else
#define QSA_ROW_fma(...)
#define QSA_ROW_avx2(...)
#define QSA_ROW_avx512(...)
#define QSA_ROW_avx2_i16(...)
#define QSA_ROW_avx2_vnni(...)
#define QSA_ROW_avx512_i16(...)
#define QSA_ROW_avx512_vnni(...)
#define QSA_ROW_amx(...)
#define QSA_ROW_neon(...)
#endif

#endif
