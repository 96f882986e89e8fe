// SPDX-License-Identifier: Apache-2.0
//
// The oracle's attention over listed cells in float64, and the error measures of the tests.
#include "oracle.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

static double at(oracle_rows rows, size_t i) {
    return rows.f64 ? rows.f64[i] : (double)rows.f32[i];
}

// One head: scores, softmax and weighted sum. s is scratch for `count` values.
static double attend_head(const oracle_geometry *g, const double *q, oracle_rows k, oracle_rows v, size_t kv_head,
                          const int32_t *cells, int32_t count, double *s, double *o) {
    size_t dim = (size_t)g->head_dim, row = (size_t)g->kv_heads * dim;
    double max = -INFINITY, sum = 0;
    for (int32_t c = 0; c < count; c++) {
        size_t base = (size_t)cells[c] * row + kv_head * dim;
        double dot = 0;
        for (size_t i = 0; i < dim; i++) {
            dot += q[i] * at(k, base + i);
        }
        s[c] = dot / sqrt(g->head_dim);
        max = isnan(s[c]) || s[c] > max ? s[c] : max;
    }
    for (size_t i = 0; i < dim; i++) {
        o[i] = 0;
    }
    for (int32_t c = 0; c < count; c++) {
        size_t base = (size_t)cells[c] * row + kv_head * dim;
        double p = exp(s[c] - max);
        sum += p;
        for (size_t i = 0; i < dim; i++) {
            o[i] += p * at(v, base + i);
        }
    }
    for (size_t i = 0; i < dim; i++) {
        o[i] = count ? o[i] / sum : 0;
    }
    return count ? max + log(sum) : -INFINITY;
}

void oracle_attend(const oracle_geometry *g, const double *q, oracle_rows k, oracle_rows v, const int32_t *cells,
                   int32_t count, double *o, double *lse) {
    assert(!k.f64 != !k.f32 && !v.f64 != !v.f32 && g->heads % g->kv_heads == 0);
    size_t dim = (size_t)g->head_dim;
    double *s = malloc(((size_t)count + 1) * sizeof *s);
    if (!s) {
        abort();
    }
    for (int h = 0; h < g->heads; h++) {
        size_t kv_head = (size_t)(h / (g->heads / g->kv_heads));
        double e = attend_head(g, q + (size_t)h * dim, k, v, kv_head, cells, count, s, o + (size_t)h * dim);
        if (lse) {
            lse[h] = e;
        }
    }
    free(s);
}

void oracle_gate(size_t n, const double *o, const double *gate, double *out) {
    for (size_t i = 0; i < n; i++) {
        out[i] = o[i] / (1 + exp(-gate[i]));
    }
}

void oracle_widen(size_t n, const float *x, double *out) {
    for (size_t i = 0; i < n; i++) {
        out[i] = x[i];
    }
}

// `got` as float or double; one of the two is set.
static double got_at(const double *f64, const float *f32, size_t i) {
    return f64 ? f64[i] : (double)f32[i]; // NOLINT(clang-analyzer-core.NullDereference): one of the two is set
}

static double rel_l2(size_t n, const double *f64, const float *f32, const double *want) {
    double error = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        double d = got_at(f64, f32, i) - want[i];
        error += d * d;
        norm += want[i] * want[i];
    }
    if (!isfinite(error) || !isfinite(norm)) {
        return INFINITY;
    }
    if (norm == 0) {
        return error == 0 ? 0 : INFINITY;
    }
    return sqrt(error / norm);
}

static double max_abs(size_t n, const double *f64, const float *f32, const double *want) {
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs(got_at(f64, f32, i) - want[i]);
        if (isnan(d)) {
            return INFINITY;
        }
        worst = d > worst ? d : worst;
    }
    return worst;
}

static double worst_head(int heads, int dim, const double *f64, const float *f32, const double *want, int *worst) {
    double most = -1;
    for (int h = 0; h < heads; h++) {
        size_t base = (size_t)h * (size_t)dim;
        double e = rel_l2((size_t)dim, f64 ? f64 + base : NULL, f32 ? f32 + base : NULL, want + base);
        if (e > most) {
            most = e;
            if (worst) {
                *worst = h;
            }
        }
    }
    return most;
}

double oracle_rel_l2(size_t n, const double *got, const double *want) {
    return rel_l2(n, got, NULL, want);
}

double oracle_rel_l2_f32(size_t n, const float *got, const double *want) {
    return rel_l2(n, NULL, got, want);
}

double oracle_max_abs(size_t n, const double *got, const double *want) {
    return max_abs(n, got, NULL, want);
}

double oracle_max_abs_f32(size_t n, const float *got, const double *want) {
    return max_abs(n, NULL, got, want);
}

double oracle_worst_head(int heads, int dim, const double *got, const double *want, int *worst) {
    return worst_head(heads, dim, got, NULL, want, worst);
}

double oracle_worst_head_f32(int heads, int dim, const float *got, const double *want, int *worst) {
    return worst_head(heads, dim, NULL, got, want, worst);
}
