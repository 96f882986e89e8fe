// SPDX-License-Identifier: Apache-2.0
//
// The oracle's per-token part: RMS norm, RoPE and block keys in float64.
#include "oracle.h"

#include <assert.h>
#include <math.h>

#define MAX_HALF 1024 // most rotated pairs, R/2

oracle_geometry oracle_geometry_flash_next(void) {
    return (oracle_geometry){.heads = 24,
                             .kv_heads = 2,
                             .head_dim = 256,
                             .rotary_dim = 64,
                             .index_heads = 4,
                             .index_dim = 128,
                             .ratio = 4,
                             .budget = 2048,
                             .sections = {11, 11, 10},
                             .theta = 1e7,
                             .eps = 1e-6};
}

float oracle_inv_freq(const oracle_geometry *g, int i) {
    float exponent = (float)(2.0 * i / g->rotary_dim);
    float power = (float)pow(g->theta, exponent);
    return (float)(1.0 / power);
}

static int32_t position_of(const oracle_geometry *g, const int32_t positions[3], int i) {
    if (i % 3 == 1 && i < 3 * g->sections[1]) {
        return positions[1];
    }
    if (i % 3 == 2 && i < 3 * g->sections[2]) {
        return positions[2];
    }
    return positions[0];
}

void oracle_rope_table(const oracle_geometry *g, const int32_t positions[3], float *cos_table, float *sin_table) {
    for (int i = 0; i < g->rotary_dim / 2; i++) {
        float position = (float)position_of(g, positions, i);
        // The product of two floats is exact in double, so this rounds once.
        float angle = (float)((double)oracle_inv_freq(g, i) * (double)position);
        cos_table[i] = (float)cos(angle);
        sin_table[i] = (float)sin(angle);
    }
}

static void rotate_by(int half, const float *cos_table, const float *sin_table, double *x) {
    for (int i = 0; i < half; i++) {
        double a = x[i], b = x[half + i];
        x[i] = a * cos_table[i] - b * sin_table[i];
        x[half + i] = b * cos_table[i] + a * sin_table[i];
    }
}

void oracle_rotate(const oracle_geometry *g, const int32_t positions[3], double *x) {
    float cos_table[MAX_HALF], sin_table[MAX_HALF];
    assert(g->rotary_dim / 2 <= MAX_HALF);
    oracle_rope_table(g, positions, cos_table, sin_table);
    rotate_by(g->rotary_dim / 2, cos_table, sin_table, x);
}

void oracle_rms_norm(int n, const double *x, const float *factor, double eps, double *out) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += x[i] * x[i];
    }
    double scale = 1 / sqrt(sum / n + eps);
    for (int i = 0; i < n; i++) {
        out[i] = x[i] * scale * factor[i];
    }
}

// Norm and RoPE of `rows` rows of `dim`, `stride` raw floats apart, all at the same positions.
static void norm_rope(const oracle_geometry *g, int rows, int dim, const float *raw, size_t stride, const float *factor,
                      const int32_t positions[3], double *out) {
    float cos_table[MAX_HALF], sin_table[MAX_HALF];
    assert(g->rotary_dim / 2 <= MAX_HALF && g->rotary_dim <= dim);
    oracle_rope_table(g, positions, cos_table, sin_table);
    for (int h = 0; h < rows; h++) {
        double *row = out + (size_t)h * (size_t)dim;
        oracle_widen((size_t)dim, raw + (size_t)h * stride, row);
        oracle_rms_norm(dim, row, factor, g->eps, row);
        rotate_by(g->rotary_dim / 2, cos_table, sin_table, row);
    }
}

void oracle_query(const oracle_geometry *g, const oracle_norms *norms, const float *raw, const int32_t positions[3],
                  double *q, double *gate) {
    size_t dim = (size_t)g->head_dim;
    norm_rope(g, g->heads, g->head_dim, raw, 2 * dim, norms->q, positions, q);
    for (size_t h = 0; gate && h < (size_t)g->heads; h++) {
        oracle_widen(dim, raw + h * 2 * dim + dim, gate + h * dim);
    }
}

void oracle_key(const oracle_geometry *g, const oracle_norms *norms, const float *raw, const int32_t positions[3],
                double *k) {
    norm_rope(g, g->kv_heads, g->head_dim, raw, (size_t)g->head_dim, norms->k, positions, k);
}

void oracle_index_query(const oracle_geometry *g, const oracle_norms *norms, const float *raw,
                        const int32_t positions[3], double *index_q) {
    norm_rope(g, g->index_heads, g->index_dim, raw, (size_t)g->index_dim, norms->index_q, positions, index_q);
}

void oracle_block_key(const oracle_geometry *g, const oracle_norms *norms, const float *raw_index_k, size_t stride,
                      const int32_t first_positions[3], double *key) {
    for (int i = 0; i < g->index_dim; i++) {
        double sum = 0;
        for (int cell = 0; cell < g->ratio; cell++) {
            sum += raw_index_k[(size_t)cell * stride + (size_t)i];
        }
        key[i] = sum / g->ratio;
    }
    oracle_rms_norm(g->index_dim, key, norms->index_k, g->eps, key);
    oracle_rotate(g, first_positions, key);
}
