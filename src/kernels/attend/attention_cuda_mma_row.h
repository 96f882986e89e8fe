// SPDX-License-Identifier: Apache-2.0
//
// Fast attention of one row and one KV head by four warps: 64 cells a tile. K and V go from the cache straight into the
// registers that feed the matrix units: no byte of them passes through shared memory, since their dims and cells may be
// permuted freely as long as the other operand is permuted alike.
//
//   K, i8      warp w has 16 cells; lane (g, t) loads 16 bytes a group of cells (g & 1) and (g & 1) + 2 of quad g / 2, which
//              are operand A of the 8-bit product as they are. B: 12 heads x 2 planes of the query (16 bits) = 24 columns,
//              so nothing is padded, nothing is converted, and the sums are exact integers.
//   P          f32 probabilities times V's scale (and a power of two that centres the tile's scales) rounded once to f16.
//   V, i8      warp w has group w of 64 dims; lane (g, t) loads 8 bytes of all four cells of quad t: bytes are interleaved to
//              pairs of cells and become exact halves.
//
// A tile is a record (m, l, O); records join in ascending order by one formula, in registers here, or through memory
// (SPLIT: a CTA per tile, qsa_join_records): the bits are the same, so the choice may depend on the batch.

#ifndef QSA_KERNELS_ATTEND_ATTENTION_CUDA_MMA_ROW_H
#define QSA_KERNELS_ATTEND_ATTENTION_CUDA_MMA_ROW_H

#include "kernels/attend/attention_cuda_mma_work.h"

#ifndef QSA_ROW_CTAS
#define QSA_ROW_CTAS 3 // CTAs per SM that the registers are bounded for
#endif

// Floats of a record of one KV head: m and l of 16 heads, then their accumulators.
#define QSA_RECORD_FLOATS (16 * 2 + 16 * QSA_DIM)

template <int FORM> struct qsa_slices { // copies of P: per group of V's scales; one; high and low part
    static constexpr int count = FORM == QSA_FORM_I8 ? 4 : FORM == QSA_FORM_F16 ? 1 : 2;
};

template <int FORM, int NT> struct qsa_row_shared {
    char planes[NT * (FORM == QSA_FORM_I8 ? 2048 : 4096)];
    uint4 p[qsa_slices<FORM>::count][4][2][16]; // [slice][warp][heads 0-7, 8-15][cell]: 8 heads
    float m[2][16][4], l[16][4];                // [head][warp]; m by parity of the tile
    uint2 largest_scale[4];
    float unit[16];
    qsa_quad quads[1];
};

// A warp's part of a tile on its way: 16 cells of K with their scales, and a group of dims of V.
struct qsa_row_loads {
    uint4 k[2][4];
    uint2 k_scale[2], v_scale[2];
    uint2 v[4][4];
};

QSA_DEVICE void qsa_row_load_k(qsa_row_loads &f, const qsa_cuda_cache &c, qsa_quad quad, int32_t lane) {
    const int64_t row = quad.row + (lane >> 2 & 1);
    const char *k = (const char *)c.k + row * QSA_DIM + lane % 4 * 16;
    for (int i = 0; i < 2; i++)
        for (int group = 0; group < 4; group++)
            f.k[i][group] = qsa_gather16(k + i * 2 * QSA_DIM + group * 64);
    for (int i = 0; i < 2; i++) {
        // Scales of what is not selected may be anything, NaN included: +0 takes their place.
        const bool valid = (lane >> 2 & 1) + 2 * i < quad.valid;
        const uint2 ks = qsa_gather8(c.k_scales + (row + 2 * i) * 4), vs = qsa_gather8(c.v_scales + (row + 2 * i) * 4);
        f.k_scale[i] = make_uint2(valid ? ks.x : 0, valid ? ks.y : 0);
        f.v_scale[i] = make_uint2(valid ? vs.x : 0, valid ? vs.y : 0);
    }
}

QSA_DEVICE void qsa_row_load_v(uint2 v[4], const qsa_cuda_cache &c, qsa_quad quad, int32_t warp, int32_t lane) {
    const char *p = (const char *)c.v + (int64_t)quad.row * QSA_DIM + warp * 64 + lane / 4 * 8;
    for (int i = 0; i < 4; i++)
        v[i] = qsa_gather8(p + i * QSA_DIM);
}

// Dot products of the warp's 16 cells with the heads' queries: s[j][i] of cell (g & 1) + 2 i and head_of_column(j, t).
template <int NT>
QSA_DEVICE void qsa_row_qk_i8(float s[NT][2], const qsa_row_loads &f, const char *planes, int32_t lane) {
    for (int group = 0; group < 4; group++) {
        const uint4 x = f.k[0][group], y = f.k[1][group];
        const float2 scale = make_float2(group & 1 ? qsa_unpack_f16(group < 2 ? f.k_scale[0].x : f.k_scale[0].y).y
                                                   : qsa_unpack_f16(group < 2 ? f.k_scale[0].x : f.k_scale[0].y).x,
                                         group & 1 ? qsa_unpack_f16(group < 2 ? f.k_scale[1].x : f.k_scale[1].y).y
                                                   : qsa_unpack_f16(group < 2 ? f.k_scale[1].x : f.k_scale[1].y).x);
        for (int j = 0; j < NT; j++) {
            const uint4 b = *(const uint4 *)(planes + (j * 4 + group) * 512 + lane * 16);
            int32_t c[4] = {0, 0, 0, 0};
            qsa_mma_s8(c, x.x, y.x, x.y, y.y, b.x, b.y);
            qsa_mma_s8(c, x.z, y.z, x.w, y.w, b.z, b.w);
            s[j][0] = fmaf((float)(c[0] * 256 + c[1]), scale.x, s[j][0]);
            s[j][1] = fmaf((float)(c[2] * 256 + c[3]), scale.y, s[j][1]);
        }
    }
}

template <int FORM, int NT>
QSA_DEVICE void qsa_row_qk_half(float s[NT][2], const qsa_cuda_cache &cache, qsa_quad quad, const char *planes,
                                int32_t lane) {
    const int64_t row = quad.row + (lane >> 2 & 1);
    const char *k = (const char *)cache.k + row * (2 * QSA_DIM) + lane % 4 * 16;
    float c[NT][4] = {};
    const bool first = (lane >> 2 & 1) < quad.valid, second = (lane >> 2 & 1) + 2 < quad.valid;
    for (int part = 0; part < 8; part++) { // 32 dims each
        const uint4 zero = make_uint4(0, 0, 0, 0);
        const uint4 x = first ? qsa_gather16(k + part * 64) : zero;
        const uint4 y = second ? qsa_gather16(k + 4 * QSA_DIM + part * 64) : zero;
        for (int j = 0; j < NT; j++) {
            const uint4 b = *(const uint4 *)(planes + (j * 8 + part) * 512 + lane * 16);
            if (FORM == QSA_FORM_F16) {
                qsa_mma_f16(c[j], x.x, y.x, x.y, y.y, b.x, b.y);
                qsa_mma_f16(c[j], x.z, y.z, x.w, y.w, b.z, b.w);
            } else {
                qsa_mma_bf16(c[j], x.x, y.x, x.y, y.y, b.x, b.y);
                qsa_mma_bf16(c[j], x.z, y.z, x.w, y.w, b.z, b.w);
            }
        }
    }
    for (int j = 0; j < NT; j++)
        s[j][0] = c[j][0] + c[j][1], s[j][1] = c[j][2] + c[j][3];
}

// The power of two that brings the largest of a tile's V scales to 2^14 .. 2^15, so that P times scale is a normal half over
// 2^29 below the largest, and its inverse.
QSA_DEVICE float qsa_centre(uint32_t half_bits, float *inverse) {
    const uint32_t exponent = max(half_bits >> 10 & 31u, 1u);
    *inverse = qsa_f32_of_bits((exponent + 98u) << 23);
    return qsa_f32_of_bits((156u - exponent) << 23);
}

// Writes the warp's 16 cells of P for the product with V. p[i][j] of cell (g & 1) + 2 i. Returns 1 / the factor of P that the
// calling warp's group carries.
template <int FORM, int NT>
QSA_DEVICE float qsa_row_put_p(qsa_row_shared<FORM, NT> &shared, const float p[2][NT], const uint2 v_scale[2],
                               int32_t warp, int32_t lane) {
    const int32_t g = lane / 4, t = lane % 4;
    float inverse = 1.0f, own_inverse = 1.0f;
    uint2 most = make_uint2(0, 0);
    if (FORM == QSA_FORM_I8)
        for (int i = 0; i < 4; i++)
            most = make_uint2(qsa_max_f16(most.x, shared.largest_scale[i].x),
                              qsa_max_f16(most.y, shared.largest_scale[i].y));
    for (int slice = 0; slice < qsa_slices<FORM>::count; slice++) {
        float centre = 1.0f;
        if (FORM == QSA_FORM_I8) {
            const uint32_t two = slice < 2 ? most.x : most.y;
            centre = qsa_centre(slice & 1 ? two >> 16 : two & 0xffffu, &inverse);
            own_inverse = slice == warp ? inverse : own_inverse;
        } else if (FORM == QSA_FORM_F16) {
            centre = 0x1p15f, own_inverse = 0x1p-15f;
        }
        for (int i = 0; i < 2; i++) {
            float factor = centre;
            if (FORM == QSA_FORM_I8) {
                const float2 two = qsa_unpack_f16(slice < 2 ? v_scale[i].x : v_scale[i].y);
                factor = centre * (slice & 1 ? two.y : two.x);
            }
            for (int half = 0; half < 2; half++) {
                const float a = p[i][2 * half] * factor,
                            b = 2 * half + 1 < NT ? p[i][2 * half + 1 < NT ? 2 * half + 1 : 0] * factor : 0.0f;
                uint32_t u;
                if (FORM == QSA_FORM_BF16) {
                    u = qsa_pack_bf16(a, b);
                    if (slice == 1)
                        u = qsa_pack_bf16(a - qsa_f32_of_bits(u << 16), b - qsa_f32_of_bits(u & 0xffff0000u));
                } else {
                    u = qsa_pack_f16(a, b);
                }
                ((uint32_t *)&shared.p[slice][warp][half][g + 8 * i])[t] = u;
            }
        }
    }
    return own_inverse;
}

// o[j] += P V over 16 cells: columns are dims 64 warp + 16 t + j and + 8 of lane (g, t), rows heads g and head_of_row(g).
template <int FORM, int NT>
QSA_DEVICE void qsa_row_pv_i8(float o[8][4], const qsa_row_shared<FORM, NT> &shared, const uint2 v[4], int32_t step,
                              int32_t warp, int32_t lane) {
    uint32_t p[4];
    qsa_ldmatrix_trans(p, &shared.p[warp][step][lane >> 3 & 1][(lane & 7) + (lane >> 4) * 8]);
    for (int word = 0; word < 2; word++) {
        uint32_t low[4], high[4];
        qsa_halves_of_codes(low, word ? v[0].y : v[0].x, word ? v[1].y : v[1].x);
        qsa_halves_of_codes(high, word ? v[2].y : v[2].x, word ? v[3].y : v[3].x);
        for (int j = 0; j < 4; j++)
            qsa_mma_f16(o[4 * word + j], p[0], p[1], p[2], p[3], low[j], high[j]);
    }
}

template <int FORM, int NT>
QSA_DEVICE void qsa_row_pv_half(float o[8][4], const qsa_row_shared<FORM, NT> &shared, const qsa_cuda_cache &cache,
                                qsa_quad quad, int32_t step, int32_t warp, int32_t lane) {
    const char *from = (const char *)cache.v + (int64_t)quad.row * (2 * QSA_DIM) + warp * 128 + lane / 4 * 16;
    uint4 v[4];
    for (int i = 0; i < 4; i++)
        v[i] = i < quad.valid ? qsa_gather16(from + i * 2 * QSA_DIM) : make_uint4(0, 0, 0, 0);
    for (int slice = 0; slice < qsa_slices<FORM>::count; slice++) {
        uint32_t p[4];
        qsa_ldmatrix_trans(p, &shared.p[slice][step][lane >> 3 & 1][(lane & 7) + (lane >> 4) * 8]);
        for (int j = 0; j < 8; j++) {
            const uint32_t pick = j & 1 ? 0x7632 : 0x5410;
            uint32_t w[4];
            for (int i = 0; i < 4; i++)
                w[i] = j < 2 ? v[i].x : j < 4 ? v[i].y : j < 6 ? v[i].z : v[i].w;
            const uint32_t low = __byte_perm(w[0], w[1], pick), high = __byte_perm(w[2], w[3], pick);
            if (FORM == QSA_FORM_F16)
                qsa_mma_f16(o[j], p[0], p[1], p[2], p[3], low, high);
            else
                qsa_mma_bf16(o[j], p[0], p[1], p[2], p[3], low, high);
        }
    }
}

template <int FORM, int NT, bool SPLIT>
QSA_KERNEL(128, QSA_ROW_CTAS)
qsa_attend_rows(const QSA_GRID_CONSTANT qsa_cuda_attention_args a, float *records, const int32_t *served,
                int32_t tiles_most) {
    QSA_SHARED;
    qsa_row_shared<FORM, NT> &shared = *(qsa_row_shared<FORM, NT> *)shared_bytes;
    const qsa_cuda_cache &cache = a.cache;
    const int32_t thread = threadIdx.x, warp = thread / 32, lane = thread % 32, g = lane / 4, t = lane % 4;
    const int32_t kv_heads = cache.geometry.kv_heads, heads = cache.geometry.heads / kv_heads;
    const int32_t item = SPLIT ? blockIdx.x / tiles_most : blockIdx.x, r = item / kv_heads, kv = item % kv_heads;
    qsa_wait_dependency();
    qsa_trigger_dependents();                           // only now: what follows may read the batch at once
    if (!a.rows[r].attends || (served && served[item])) // served: by qsa_attend_tiles
        return;
    const qsa_work work = qsa_work_of(a, r);
    const int32_t first = SPLIT ? blockIdx.x % tiles_most : 0, end = SPLIT ? min(first + 1, work.tiles) : work.tiles;
    if (SPLIT && first >= end)
        return;
    for (int32_t q = first * QSA_QUADS + thread; q < end * QSA_QUADS; q += 128)
        shared.quads[q - first * QSA_QUADS] = qsa_quad_of(a, work, kv, q);
    __syncthreads();

    const qsa_quad *quads = shared.quads;
    qsa_row_loads f;
    qsa_quad own = {0, 0};
    if (first < end) {
        own = quads[warp * 4 + g / 2];
        if (FORM == QSA_FORM_I8) {
            qsa_row_load_k(f, cache, own, lane);
            for (int step = 0; step < 4; step++)
                qsa_row_load_v(f.v[step], cache, quads[step * 4 + t], warp, lane);
        }
    }
    for (int i = warp; i < 4 * NT; i += 4) { // a head that the geometry lacks is a copy that nobody reads
        const int32_t j = i / 4, head = qsa_head_of_column<NT>(j, i % 4);
        const float *q = a.q + ((int64_t)r * cache.geometry.heads + kv * heads + min(head, heads - 1)) * QSA_DIM;
        const float unit = qsa_put_query<FORM, QSA_QUERY_LANES>(shared.planes, q, j, i % 4, lane);
        if (lane == 0)
            shared.unit[head] = unit;
    }
    __syncthreads();
    float unit[NT];
    for (int j = 0; j < NT; j++)
        unit[j] = shared.unit[qsa_head_of_column<NT>(j, t)];

    float o[8][4] = {}, m[2] = {-qsa_infinity(), -qsa_infinity()}, l[2] = {0.0f, 0.0f};
    for (int32_t tile = first; tile < end; tile++) {
        float s[NT][2] = {}, p[2][NT];
        uint2 v_scale[2] = {};
        const bool valid[2] = {(g & 1) < own.valid, (g & 1) + 2 < own.valid};
        if (FORM == QSA_FORM_I8) {
            qsa_row_qk_i8<NT>(s, f, shared.planes, lane);
            v_scale[0] = f.v_scale[0], v_scale[1] = f.v_scale[1];
        } else {
            qsa_row_qk_half<FORM, NT>(s, cache, own, shared.planes, lane);
        }
        const qsa_quad *next =
            tile + 1 < end ? quads + QSA_QUADS : quads; // the last loads again, from the nearest cache
        own = next[warp * 4 + g / 2];
        if (FORM == QSA_FORM_I8 && !SPLIT)
            qsa_row_load_k(f, cache, own, lane);
        uint2 most = make_uint2(qsa_max_f16(v_scale[0].x, v_scale[1].x), qsa_max_f16(v_scale[0].y, v_scale[1].y));
        for (int j = 0; j < NT; j++) {
            for (int i = 0; i < 2; i++)
                s[j][i] *= unit[j];
            float largest = fmaxf(valid[0] ? s[j][0] : -qsa_infinity(), valid[1] ? s[j][1] : -qsa_infinity());
            for (int mask = 4; mask < 32; mask *= 2)
                largest = fmaxf(largest, qsa_shuffle(largest, mask));
            if (g == 0)
                shared.m[tile & 1][qsa_head_of_column<NT>(j, t)][warp] = largest;
        }
        if (FORM == QSA_FORM_I8) {
            for (int mask = 4; mask < 32; mask *= 2)
                most = make_uint2(qsa_max_f16(most.x, qsa_shuffle(most.x, mask)),
                                  qsa_max_f16(most.y, qsa_shuffle(most.y, mask)));
            if (lane == 0)
                shared.largest_scale[warp] = most;
        }
        __syncthreads();
        for (int j = 0; j < NT; j++) {
            const int32_t head = qsa_head_of_column<NT>(j, t);
            const float4 four = *(const float4 *)shared.m[tile & 1][head];
            const float largest = fmaxf(fmaxf(four.x, four.y), fmaxf(four.z, four.w));
            for (int i = 0; i < 2; i++)
                p[i][j] = valid[i] ? qsa_exp2(s[j][i] - largest) : 0.0f;
            float sum = p[0][j] + p[1][j];
            for (int mask = 4; mask < 32; mask *= 2)
                sum += qsa_shuffle(sum, mask);
            if (g == 0)
                shared.l[head][warp] = sum;
        }
        const float inverse = qsa_row_put_p<FORM, NT>(shared, p, v_scale, warp, lane);
        __syncthreads();

        float part[8][4] = {}, old_factor[2], new_factor[2], tile_m[2], tile_l[2];
        for (int step = 0; step < 4; step++) {
            if (FORM == QSA_FORM_I8) {
                qsa_row_pv_i8<FORM, NT>(part, shared, f.v[step], step, warp, lane);
                if (!SPLIT)
                    qsa_row_load_v(f.v[step], cache, next[step * 4 + t], warp, lane);
            } else {
                qsa_row_pv_half<FORM, NT>(part, shared, cache, quads[step * 4 + t], step, warp, lane);
            }
        }
        for (int i = 0; i < 2; i++) {
            const int32_t head = i ? qsa_head_of_row<NT>(g) : g;
            const float4 four = *(const float4 *)shared.m[tile & 1][head], sums = *(const float4 *)shared.l[head];
            tile_m[i] = fmaxf(fmaxf(four.x, four.y), fmaxf(four.z, four.w));
            tile_l[i] = (sums.x + sums.y) + (sums.z + sums.w);
        }
        if constexpr (SPLIT) {
            float *record = records + (int64_t)blockIdx.x * QSA_RECORD_FLOATS;
            for (int i = 0; i < 2; i++) {
                const int32_t head = i ? qsa_head_of_row<NT>(g) : g;
                if (i && NT == 3 && (g & 1))
                    break;
                if (warp == 0 && t == 0)
                    record[2 * head] = tile_m[i], record[2 * head + 1] = tile_l[i];
                float *to = record + 32 + head * QSA_DIM + warp * 64 + t * 16;
                for (int j = 0; j < 4; j++)
                    ((float4 *)to)[j] = make_float4(
                        part[4 * (j & 1)][2 * i + j / 2] * inverse, part[4 * (j & 1) + 1][2 * i + j / 2] * inverse,
                        part[4 * (j & 1) + 2][2 * i + j / 2] * inverse, part[4 * (j & 1) + 3][2 * i + j / 2] * inverse);
            }
        } else {
            for (int i = 0; i < 2; i++) {
                qsa_join(&m[i], tile_m[i], &old_factor[i], &new_factor[i]);
                l[i] = fmaf(tile_l[i], new_factor[i], l[i] * old_factor[i]);
                new_factor[i] *= inverse; // a power of two
            }
            for (int j = 0; j < 8; j++)
                for (int i = 0; i < 4; i++)
                    o[j][i] = fmaf(part[j][i], new_factor[i / 2], o[j][i] * old_factor[i / 2]);
        }
        if (SPLIT)
            break;
        quads = next;
    }
    if constexpr (!SPLIT) {
        for (int i = 0; i < 2; i++) {
            const int32_t head = i ? qsa_head_of_row<NT>(g) : g;
            if (head >= heads || (i && NT == 3 && (g & 1)))
                break;
            float x[16];
            for (int j = 0; j < 16; j++)
                x[j] = o[j % 8][2 * i + j / 8];
            qsa_finish<16>(a, r, kv * heads + head, warp * 64 + t * 16, x, l[i]);
            if (a.lse && warp == 0 && t == 0)
                a.lse[(int64_t)r * cache.geometry.heads + kv * heads + head] = qsa_lse(m[i], l[i]);
        }
    }
}

// Joins the records of a row and head, a thread per dim: the same formula and order as in registers above.
#define QSA_TILES_MOST 1024 // records of a row that this kernel has room for
QSA_KERNEL(QSA_DIM, 4)
qsa_join_records(const QSA_GRID_CONSTANT qsa_cuda_attention_args a, const float *records, int32_t tiles_most) {
    QSA_SHARED;
    float2 *ml = (float2 *)shared_bytes, *factors = ml + tiles_most;
    const int32_t all = a.cache.geometry.heads, heads = all / a.cache.geometry.kv_heads;
    const int32_t r = blockIdx.x / all, head = blockIdx.x % all, thread = threadIdx.x;
    if (tiles_most == 0) // else the kernel before has waited for the batch
        qsa_wait_dependency();
    const bool wanted = a.rows[r].attends;
    const int32_t tiles = qsa_work_of(a, r).tiles;
    qsa_wait_dependency();
    qsa_trigger_dependents();
    if (!wanted)
        return;
    records += ((int64_t)r * a.cache.geometry.kv_heads + head / heads) * tiles_most * QSA_RECORD_FLOATS;
    for (int32_t k = thread; k < tiles; k += QSA_DIM)
        ml[k] = *(const float2 *)(records + (int64_t)k * QSA_RECORD_FLOATS + 2 * (head % heads));
    __syncthreads();
    for (int32_t k = thread; k < tiles; k += QSA_DIM) {
        float before = -qsa_infinity();
        for (int32_t i = 0; i < k; i++)
            before = fmaxf(before, ml[i].x);
        qsa_join(&before, ml[k].x, &factors[k].x, &factors[k].y);
    }
    __syncthreads();
    const float *from = records + 32 + (head % heads) * QSA_DIM + thread;
    float o = 0.0f, l = 0.0f, m = -qsa_infinity();
#pragma unroll 16
    for (int32_t k = 0; k < tiles; k++) {
        const float x = from[(int64_t)k * QSA_RECORD_FLOATS];
        const float2 factor = factors[k];
        m = fmaxf(m, ml[k].x);
        l = fmaf(ml[k].y, factor.y, l * factor.x);
        o = fmaf(x, factor.y, o * factor.x);
    }
    qsa_finish<1>(a, r, head, thread, &o, l);
    if (a.lse && thread == 0)
        a.lse[(int64_t)r * all + head] = qsa_lse(m, l);
}

#endif
