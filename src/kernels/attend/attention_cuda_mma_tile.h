// SPDX-License-Identifier: Apache-2.0
//
// Fast attention of four neighbouring rows and one KV head over the union of their cells, i8 caches, four warps: what
// neighbours share is gathered and converted once. 64 cells a step, online softmax.
//
//   QK   warp w has row w: 64 cells x (12 heads x 2 planes), 8-bit products; so its maxima and sums need no other warp
//   V    codes times scale (times a power of two) become halves in shared memory, once for all four rows
//   PV   transposed: warp w has dims 64 w .. 64 w + 63 of all 48 heads, so that nothing is padded
//
// Serves a tile only if its group of 16 rows is in the batch as a whole and the rows share enough; it leaves a flag for the
// kernel of single rows, which serves the rest. So a row's path depends on its own group of rows alone.

#ifndef QSA_KERNELS_ATTEND_ATTENTION_CUDA_MMA_TILE_H
#define QSA_KERNELS_ATTEND_ATTENTION_CUDA_MMA_TILE_H

#include "kernels/attend/attention_cuda_mma_work.h"

#define QSA_TILE_ROWS    4
#define QSA_GROUP_ROWS   16
#define QSA_TILE_HEADS   12
#define QSA_TILE_COLUMNS (QSA_TILE_ROWS * QSA_TILE_HEADS)
#define QSA_UNION_MOST   1280 // quads: 2.5 times a row's; beyond it rows share too little
#define QSA_WINDOW       8192 // quads of the map at a time
#define QSA_P_PITCH      56   // halves: 112 bytes, so that 8 rows of 16 bytes lie in different banks
#define QSA_O_PITCH      260  // floats

typedef struct qsa_union_quad {
    int32_t row;   // of the first cell
    uint32_t mask; // bit 4 i + c: row i selects cell c
} qsa_union_quad;

struct qsa_tile_shared {
    union {
        struct {
            uint4 k[64][16], v[64][16]; // codes; 16-byte piece j of cell c lies at j ^ (c & 7) in k, j ^ 4 (c & 1) in v
            uint4 halves[64][32];       // V as halves; piece j of cell c lies at j ^ (c & 7)
        } step;
        uint32_t map[QSA_WINDOW];
        float o[QSA_TILE_COLUMNS][QSA_O_PITCH];
    };
    char planes[QSA_TILE_ROWS][3 * 2048];
    uint16_t p[64][QSA_P_PITCH];
    uint2 scales[2][64]; // K, V
    float factor[QSA_TILE_COLUMNS], l[QSA_TILE_COLUMNS], m[QSA_TILE_COLUMNS], unit[QSA_TILE_ROWS][16];
    uint32_t largest_scale[4];
    int32_t counts[5], total, bad;
    qsa_union_quad quads[QSA_UNION_MOST];
};

// Is row r the first of four that are served together, in a group that is whole?
QSA_DEVICE bool qsa_tile_leads(const qsa_cuda_attention_args &a, int32_t r) {
    const int32_t position = a.rows[r].cells - 1, first = r - (position & (QSA_GROUP_ROWS - 1));
    if (position < 0 || position % QSA_TILE_ROWS || first < 0 || first + QSA_GROUP_ROWS > a.count)
        return false;
    for (int32_t i = 0; i < QSA_GROUP_ROWS; i++) {
        const qsa_cuda_row &row = a.rows[first + i];
        if (!row.attends || row.sequence != a.rows[r].sequence ||
            row.cells != position / QSA_GROUP_ROWS * QSA_GROUP_ROWS + i + 1)
            return false;
    }
    return true;
}

// The union of the rows' quads in ascending order, with who selects what; returns its length, or -1: too long, or the rows
// share less than what makes this kernel the faster one.
QSA_DEVICE int32_t qsa_tile_union(qsa_tile_shared &shared, const qsa_cuda_attention_args &a, int32_t r, int32_t kv) {
    const int32_t thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
    const int32_t ratio = a.cache.geometry.ratio, parts = ratio / 4, page_cells = a.cache.page_cells;
    const qsa_work last = qsa_work_of(a, r + QSA_TILE_ROWS - 1);
    int32_t total = 0, sum = 0;
    for (int32_t i = 0; i < QSA_TILE_ROWS; i++)
        sum += qsa_work_of(a, r + i).quads;
    for (int32_t base = 0; base < (last.cells + 3) / 4; base += QSA_WINDOW) {
        const int32_t here = min(QSA_WINDOW, (last.cells + 3) / 4 - base);
        __syncthreads();
        for (int32_t i = thread; i < here; i += 128)
            shared.map[i] = 0;
        __syncthreads();
        for (int32_t i = 0; i < QSA_TILE_ROWS; i++) {
            const qsa_work w = qsa_work_of(a, r + i);
            for (int32_t q = thread; q < w.quads; q += 128) {
                const int32_t block = parts == 1 ? q : q / parts, part = q - block * parts;
                int32_t at, valid = 4;
                if (block < w.count) {
                    const int32_t id = w.ids ? w.ids[block] : block;
                    if (id < 0 || id >= w.blocks)
                        continue;
                    at = id * parts + part;
                    if (block == w.cut)
                        valid = min(max(w.cut_cells - part * 4, 0), 4);
                } else {
                    at = w.blocks * parts + (q - w.count * parts);
                    valid = min(w.cells - at * 4, 4);
                }
                if (at >= base && at < base + here)
                    qsa_atomic_or(&shared.map[at - base], ((1u << valid) - 1) << (4 * i));
            }
        }
        __syncthreads();
        // Warp w has a quarter of the window, in order.
        const int32_t quarter = ((here + 127) / 128) * 32, from = min(warp * quarter, here),
                      to = min(from + quarter, here);
        int32_t mine = 0;
        for (int32_t i = from; i < to; i += 32)
            mine += qsa_popcount(qsa_ballot(i + lane < to && shared.map[i + lane] != 0));
        if (lane == 0)
            shared.counts[warp] = mine;
        __syncthreads();
        int32_t at = total;
        for (int32_t w = 0; w < 4; w++) {
            at += w < warp ? shared.counts[w] : 0;
            total += shared.counts[w];
        }
        if (total > QSA_UNION_MOST)
            return -1;
        for (int32_t i = from; i < to; i += 32) {
            const uint32_t mask = i + lane < to ? shared.map[i + lane] : 0, found = qsa_ballot(mask != 0);
            if (mask) {
                const int32_t cell = (base + i + lane) * 4, page = cell / page_cells;
                qsa_union_quad quad;
                quad.row =
                    (last.table[page] * a.cache.geometry.kv_heads + kv) * page_cells + (cell - page * page_cells);
                quad.mask = mask;
                shared.quads[at + qsa_popcount(found & ((1u << lane) - 1))] = quad;
            }
            at += qsa_popcount(found);
        }
    }
    return total == 0 || total * 2 > sum + 8 ? -1 : total; // + 8: short rows
}

// Codes of a step into shared memory, on their way when this returns; the thread's own scales come in a register.
QSA_DEVICE uint2 qsa_tile_fetch(qsa_tile_shared &shared, const qsa_cuda_cache &c, int32_t first, int32_t total) {
    const int32_t thread = threadIdx.x;
    for (int32_t i = thread; i < 64 * 16; i += 128) {
        const int32_t cell = i / 16, piece = i % 16, q = min(first + cell / 4, total - 1);
        const int64_t at = ((int64_t)shared.quads[q].row + cell % 4) * QSA_DIM + piece * 16;
        qsa_copy16(&shared.step.k[cell][piece ^ (cell & 7)], (const char *)c.k + at);
        qsa_copy16(&shared.step.v[cell][piece ^ (cell & 1) * 4], (const char *)c.v + at);
    }
    qsa_copy_commit();
    const int32_t cell = thread / 2, q = first + cell / 4;
    if (q >= total || !(shared.quads[q].mask & 0x1111u << cell % 4))
        return make_uint2(0, 0); // no row's: its scales may be anything
    return qsa_gather8((thread & 1 ? c.v_scales : c.k_scales) + ((int64_t)shared.quads[q].row + cell % 4) * 4);
}

QSA_DEVICE uint32_t qsa_halves_times(uint32_t codes_plus_128, uint32_t pick, uint32_t scale) {
    return qsa_mul_f16(qsa_sub_f16(__byte_perm(codes_plus_128, 0x64646464u, pick), 0x64806480u), scale);
}

// V's codes to halves times scale times centre: thread has half the dims of a cell.
QSA_DEVICE void qsa_tile_convert(qsa_tile_shared &shared, float centre) {
    const int32_t cell = threadIdx.x / 2, half = threadIdx.x & 1;
    const float2 two = qsa_unpack_f16(half ? shared.scales[1][cell].y : shared.scales[1][cell].x);
    const uint32_t low = qsa_pack_f16(two.x * centre, two.x * centre),
                   high = qsa_pack_f16(two.y * centre, two.y * centre);
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const int32_t turn = (j + 2 * cell + half) & 7, piece = 8 * half + turn; // spreads the lanes over the banks
        const uint4 codes = shared.step.v[cell][piece ^ (cell & 1) * 4];
        const uint32_t scale = turn < 4 ? low : high, flip = 0x80808080u;
        shared.step.halves[cell][(2 * piece) ^ (cell & 7)] = make_uint4(
            qsa_halves_times(codes.x ^ flip, 0x4140, scale), qsa_halves_times(codes.x ^ flip, 0x4342, scale),
            qsa_halves_times(codes.y ^ flip, 0x4140, scale), qsa_halves_times(codes.y ^ flip, 0x4342, scale));
        shared.step.halves[cell][(2 * piece + 1) ^ (cell & 7)] = make_uint4(
            qsa_halves_times(codes.z ^ flip, 0x4140, scale), qsa_halves_times(codes.z ^ flip, 0x4342, scale),
            qsa_halves_times(codes.w ^ flip, 0x4140, scale), qsa_halves_times(codes.w ^ flip, 0x4342, scale));
    }
}

// s[step][j][i]: the warp's row, cell 16 step + g + 8 i, head_of_column(j, t).
QSA_DEVICE void qsa_tile_qk(float s[4][3][2], const qsa_tile_shared &shared, int32_t row, int32_t lane) {
    const int32_t g = lane / 4;
#pragma unroll
    for (int group = 0; group < 4; group++) {
        uint4 b[3];
#pragma unroll
        for (int j = 0; j < 3; j++)
            b[j] = *(const uint4 *)(shared.planes[row] + (j * 4 + group) * 512 + lane * 16);
#pragma unroll
        for (int step = 0; step < 4; step++) {
            const int32_t cell = 16 * step + g, from = 16 * step + (lane & 15), piece = group * 4 + lane / 16;
            uint32_t x[4], y[4];
            qsa_ldmatrix(x, &shared.step.k[from][piece ^ (from & 7)]);
            qsa_ldmatrix(y, &shared.step.k[from][(piece + 2) ^ (from & 7)]);
            const uint16_t *scales = (const uint16_t *)&shared.scales[0][cell] + group;
            const float scale[2] = {qsa_unpack_f16(scales[0]).x, qsa_unpack_f16(scales[8 * 4]).x};
#pragma unroll
            for (int j = 0; j < 3; j++) {
                int32_t c[4] = {0, 0, 0, 0};
                qsa_mma_s8(c, x[0], x[1], x[2], x[3], b[j].x, b[j].y);
                qsa_mma_s8(c, y[0], y[1], y[2], y[3], b[j].z, b[j].w);
                s[step][j][0] = fmaf((float)(c[0] * 256 + c[1]), scale[0], s[step][j][0]);
                s[step][j][1] = fmaf((float)(c[2] * 256 + c[3]), scale[1], s[step][j][1]);
            }
        }
    }
}

// Online softmax of the warp's row: m and l of its lanes' heads, P to shared memory (times 2^14), factor of what is summed.
QSA_DEVICE void qsa_tile_softmax(float s[4][3][2], float m[3], float l[3], qsa_tile_shared &shared, const float unit[3],
                                 int32_t first, int32_t total, float carry, int32_t row, int32_t lane) {
    const int32_t g = lane / 4, t = lane % 4;
    uint32_t valid = 0; // bit 2 step + i
#pragma unroll
    for (int k = 0; k < 8; k++) {
        const int32_t q = first + 2 * k + g / 4;
        valid |= (q < total ? shared.quads[q].mask >> (4 * row + g % 4) & 1u : 0u) << k;
    }
#pragma unroll
    for (int j = 0; j < 3; j++) {
        float largest = m[j];
#pragma unroll
        for (int k = 0; k < 8; k++) {
            s[k / 2][j][k % 2] *= unit[j];
            largest = fmaxf(largest, valid >> k & 1 ? s[k / 2][j][k % 2] : -qsa_infinity());
        }
        for (int mask = 4; mask < 32; mask *= 2)
            largest = fmaxf(largest, qsa_shuffle(largest, mask));
        const float factor = m[j] == largest ? 1.0f : qsa_exp2(m[j] - largest);
        float sum = 0.0f;
#pragma unroll
        for (int k = 0; k < 8; k++) {
            s[k / 2][j][k % 2] = valid >> k & 1 ? qsa_exp2(s[k / 2][j][k % 2] - largest + 14.0f) : 0.0f;
            sum += s[k / 2][j][k % 2];
        }
        l[j] = fmaf(l[j], factor, sum);
        m[j] = largest;
        if (g == 0)
            shared.factor[row * QSA_TILE_HEADS + qsa_head_of_column<3>(j, t)] = factor * carry;
    }
#pragma unroll
    for (int k = 0; k < 8; k++) {
        uint16_t *p = &shared.p[8 * k + g][row * QSA_TILE_HEADS];
        *(uint32_t *)(p + 2 * t) = qsa_pack_f16(s[k / 2][0][k % 2], s[k / 2][1][k % 2]);
        p[8 + t] = (uint16_t)qsa_pack_f16(s[k / 2][2][k % 2], 0.0f);
    }
}

// o[tile of 16 dims][columns 8n ..] = o * factor + V P.
QSA_DEVICE void qsa_tile_pv(float o[4][6][4], const qsa_tile_shared &shared, int32_t warp, int32_t lane) {
#pragma unroll
    for (int n = 0; n < 6; n++) {
        const float2 factor = *(const float2 *)&shared.factor[8 * n + 2 * (lane % 4)];
#pragma unroll
        for (int d = 0; d < 4; d++)
            o[d][n][0] *= factor.x, o[d][n][1] *= factor.y, o[d][n][2] *= factor.x, o[d][n][3] *= factor.y;
    }
#pragma unroll
    for (int step = 0; step < 4; step++) {
        uint32_t b[3][4];
#pragma unroll
        for (int n = 0; n < 3; n++)
            qsa_ldmatrix_trans(b[n], &shared.p[16 * step + (lane & 15)][16 * n + lane / 16 * 8]);
#pragma unroll
        for (int d = 0; d < 4; d++) {
            const int32_t cell = 16 * step + (lane & 7) + lane / 16 * 8, piece = warp * 8 + 2 * d + (lane >> 3 & 1);
            uint32_t v[4];
            qsa_ldmatrix_trans(v, &shared.step.halves[cell][piece ^ (cell & 7)]);
#pragma unroll
            for (int n = 0; n < 6; n++)
                qsa_mma_f16(o[d][n], v[0], v[1], v[2], v[3], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
        }
    }
}

QSA_KERNEL(128, 2)
qsa_attend_tiles(const QSA_GRID_CONSTANT qsa_cuda_attention_args a, int32_t *served) {
    QSA_SHARED;
    qsa_tile_shared &shared = *(qsa_tile_shared *)shared_bytes;
    const int32_t thread = threadIdx.x, warp = thread / 32, lane = thread % 32, g = lane / 4, t = lane % 4;
    const int32_t kv_heads = a.cache.geometry.kv_heads, r = blockIdx.x / kv_heads, kv = blockIdx.x % kv_heads;
    const int32_t heads = a.cache.geometry.heads / kv_heads;
    qsa_wait_dependency();
    qsa_trigger_dependents();
    if (!qsa_tile_leads(a, r)) {
        const int32_t leader = r - (a.rows[r].cells + QSA_TILE_ROWS - 1) % QSA_TILE_ROWS; // sets the flags of its rows
        if (thread == 0 && (leader < 0 || leader >= r || !qsa_tile_leads(a, leader)))
            served[blockIdx.x] = 0;
        return;
    }
    const int32_t total = qsa_tile_union(shared, a, r, kv);
    if (total < 0) {
        if (thread < QSA_TILE_ROWS)
            served[(r + thread) * kv_heads + kv] = 0;
        return;
    }
    if (thread == 0)
        shared.bad = 0;
    __syncthreads();
    uint2 scales = qsa_tile_fetch(shared, a.cache, 0, total);
    for (int32_t i = 0; i < QSA_TILE_HEADS; i++) { // warp w its own row w
        const int32_t head = qsa_head_of_column<3>(i / 4, i % 4);
        const float *q =
            a.q + ((int64_t)(r + warp) * a.cache.geometry.heads + kv * heads + min(head, heads - 1)) * QSA_DIM;
        const float unit = qsa_put_query<QSA_FORM_I8, QSA_QUERY_DIMS>(shared.planes[warp], q, i / 4, i % 4, lane);
        if (lane == 0)
            shared.unit[warp][head] = unit;
    }
    __syncwarp();
    float unit[3], m[3], l[3] = {}, o[4][6][4] = {}, centre = 0x1p100f;
    for (int j = 0; j < 3; j++) {
        unit[j] = shared.unit[warp][qsa_head_of_column<3>(j, t)];
        m[j] = -qsa_infinity();
    }
    for (int32_t first = 0; first < total; first += QSA_QUADS) {
        shared.scales[thread & 1][thread / 2] = scales;
        const uint2 magnitude = make_uint2(scales.x & 0x7fff7fffu, scales.y & 0x7fff7fffu);
        uint32_t most = qsa_max_u16(magnitude.x, magnitude.y);
        most = max(most & 0xffffu, most >> 16);
        if (most >= 0x7c00u)
            shared.bad = 1; // it would reach rows that do not select its cell: the other kernel's
        most = thread & 1 ? most : 0;
        for (int mask = 1; mask < 32; mask *= 2)
            most = max(most, qsa_shuffle(most, mask));
        if (lane == 0)
            shared.largest_scale[warp] = most;
        qsa_copy_wait();
        __syncthreads();
        most = max(max(shared.largest_scale[0], shared.largest_scale[1]),
                   max(shared.largest_scale[2], shared.largest_scale[3]));
        // The largest scale comes to 2^7 .. 2^8, codes times it below 2^15; never larger than in the steps before.
        const float here = fminf(centre, qsa_f32_of_bits((149u - min(max(most >> 10, 1u), 30u)) << 23));
        const float carry = first ? here / centre : 1.0f;
        centre = here;
        qsa_tile_convert(shared, centre);
        float s[4][3][2] = {};
        qsa_tile_qk(s, shared, warp, lane);
        qsa_tile_softmax(s, m, l, shared, unit, first, total, carry, warp, lane);
        __syncthreads();
        if (first + QSA_QUADS < total)
            scales = qsa_tile_fetch(shared, a.cache, first + QSA_QUADS, total);
        qsa_tile_pv(o, shared, warp, lane);
    }
    for (int j = 0; j < 3; j++) {
        for (int mask = 4; mask < 32; mask *= 2)
            l[j] += qsa_shuffle(l[j], mask);
        const int32_t head = qsa_head_of_column<3>(j, t);
        if (g == 0) {
            shared.l[warp * QSA_TILE_HEADS + head] = l[j] * centre;
            if (a.lse && head < heads && !shared.bad)
                a.lse[(int64_t)(r + warp) * a.cache.geometry.heads + kv * heads + head] = qsa_lse(m[j] - 14.0f, l[j]);
        }
    }
    __syncthreads();
    for (int d = 0; d < 4; d++)
        for (int n = 0; n < 6; n++)
            for (int i = 0; i < 4; i++)
                shared.o[8 * n + 2 * t + (i & 1)][64 * warp + 16 * d + g + (i & 2) * 4] = o[d][n][i];
    __syncthreads();
    if (thread < QSA_TILE_ROWS)
        served[(r + thread) * kv_heads + kv] = !shared.bad;
    if (shared.bad)
        return;
    for (int32_t i = thread; i < QSA_TILE_COLUMNS * 16; i += 128) {
        const int32_t column = i / 16, row = column / QSA_TILE_HEADS, head = column % QSA_TILE_HEADS, dim = i % 16 * 16;
        if (head >= heads)
            continue;
        float x[16];
#pragma unroll
        for (int k = 0; k < 16; k++)
            x[k] = shared.o[column][dim + k];
        qsa_finish<16>(a, r + row, kv * heads + head, dim, x, shared.l[column]);
    }
}

#endif
