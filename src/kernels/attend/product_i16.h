// SPDX-License-Identifier: Apache-2.0
//
// The small matrix product of attend_i16.h: 64 int16 of up to 12 heads by 64 codes of a block of lanes, summed in registers.
// As QK its sums are scaled and added to logits, as PV they are scaled and are the record's dims.

#ifndef QSA_KERNELS_ATTEND_PRODUCT_I16_H
#define QSA_KERNELS_ATTEND_PRODUCT_I16_H

#include "kernels/attend/attend_fast.h"

enum {
    BLOCK = 2 * QSA_X, // lanes of one product: cells in QK, dims in PV
    // Pairs between two fetches. A product of 32 lanes by 12 heads does four times the work of one of 16 lanes by 6.
    SEGMENT = QSA_X == 16 ? 4 : WIDTH / 2,
};

// One product: 64 numbers of some heads by a block of codes.
typedef struct product {
    const int16_t *a, *b;
    const int32_t *start;
    int32_t pairs; // even
    fetches *ahead;
    const float *head_scale, *lane_scale;
    float *out;
    int64_t stride; // of out, from head to head
    int32_t dims;   // of out that exist from here on
} product;

QSA_INLINE void add_logits(const product *x, int h, i32x low, i32x high) {
    const f32x scale = f32x_set(x->head_scale[h]);
    float *s = x->out + h * WIDTH;
    f32x_store(s, f32x_fma(f32x_of(low), f32x_mul(scale, f32x_load(x->lane_scale)), f32x_load(s)));
    s += QSA_X;
    f32x_store(s, f32x_fma(f32x_of(high), f32x_mul(scale, f32x_load(x->lane_scale + QSA_X)), f32x_load(s)));
}

// Dims come in runs of 8, 16 dims apart (i32x_interleave).
QSA_INLINE void set_outputs(const product *x, int h, i32x low, i32x high) {
    const f32x scale = f32x_set(x->head_scale[h]), first = f32x_mul(f32x_of(low), scale);
    const f32x second = f32x_mul(f32x_of(high), scale);
    float *out = x->out + h * x->stride;
    if (x->dims >= 2 * BLOCK) {
        f32x_store_runs(out, first, second);
        return;
    }
    float all[2 * BLOCK];
    f32x_store_runs(all, first, second);
    for (int32_t i = 0; i < x->dims; i++)
        if (i % 16 < 8)
            out[i] = all[i];
}

// Accumulators are named one by one: the compiler would keep an array of them in memory. Two pairs a turn; after every SEGMENT
// pairs some rows are fetched. (Fetching single lines in the loop, from a list made before, was 4 % slower.)
// NOLINTBEGIN(bugprone-macro-parentheses): the arguments are names and lists of statements.
#define QSA_DECLARE(h) i32x low##h = i32x_load(x->start), high##h = i32x_load(x->start + QSA_X);
#define QSA_STEP(h)                                                                                                    \
    {                                                                                                                  \
        const i32x pair = i32x_pair(a + h * WIDTH);                                                                    \
        low##h = i32x_dot(low##h, pair, b0);                                                                           \
        high##h = i32x_dot(high##h, pair, b1);                                                                         \
    }
#define QSA_STEP_AFTER(h)                                                                                              \
    {                                                                                                                  \
        const i32x pair = i32x_pair(a + h * WIDTH + 2);                                                                \
        low##h = i32x_dot(low##h, pair, b2);                                                                           \
        high##h = i32x_dot(high##h, pair, b3);                                                                         \
    }
#define QSA_FINISH_LOGITS(h)  add_logits(x, h, low##h, high##h);
#define QSA_FINISH_OUTPUTS(h) set_outputs(x, h, low##h, high##h);
#define QSA_ONE(X)            X(0)
#define QSA_TWO(X)            X(0) X(1)
#define QSA_SIX(X)            QSA_TWO(X) X(2) X(3) X(4) X(5)
#define QSA_TWELVE(X)         QSA_SIX(X) X(6) X(7) X(8) X(9) X(10) X(11)
#define QSA_PRODUCT(name, heads, finish)                                                                               \
    static void name(const product *x) {                                                                               \
        const int16_t *a = x->a, *b = x->b, *end = b + x->pairs * 2 * BLOCK;                                           \
        heads(QSA_DECLARE) while (b < end) {                                                                           \
            const int16_t *stop = end - b > SEGMENT * 2 * BLOCK ? b + SEGMENT * 2 * BLOCK : end;                       \
            for (; b < stop; a += 4, b += 4 * BLOCK) {                                                                 \
                const i32x b0 = i32x_load(b), b1 = i32x_load(b + BLOCK);                                               \
                heads(QSA_STEP) const i32x b2 = i32x_load(b + 2 * BLOCK), b3 = i32x_load(b + 3 * BLOCK);               \
                heads(QSA_STEP_AFTER)                                                                                  \
            }                                                                                                          \
            fetch_some(x->ahead);                                                                                      \
        }                                                                                                              \
        heads(finish)                                                                                                  \
    }
#define QSA_PRODUCTS(name, finish)                                                                                     \
    QSA_PRODUCT(name##1, QSA_ONE, finish)                                                                              \
    QSA_PRODUCT(name##2, QSA_TWO, finish)                                                                              \
    QSA_PRODUCT(name##6, QSA_SIX, finish)
// NOLINTEND(bugprone-macro-parentheses)

QSA_PRODUCTS(logits, QSA_FINISH_LOGITS)
QSA_PRODUCTS(outputs, QSA_FINISH_OUTPUTS)
#if defined(__AVX512F__)
QSA_PRODUCT(logits12, QSA_TWELVE, QSA_FINISH_LOGITS)
QSA_PRODUCT(outputs12, QSA_TWELVE, QSA_FINISH_OUTPUTS)
#endif

typedef void product_fn(const product *x);
typedef struct products {
    product_fn *one, *two, *six, *twelve; // by heads; six again where heads_at_once never says 12
} products;

#if defined(__AVX512F__)
static const products all_logits = {logits1, logits2, logits6, logits12};
static const products all_outputs = {outputs1, outputs2, outputs6, outputs12};
#else
static const products all_logits = {logits1, logits2, logits6, logits6};
static const products all_outputs = {outputs1, outputs2, outputs6, outputs6};
#endif

QSA_INLINE int32_t heads_at_once(int32_t heads) {
    return QSA_X == 16 && heads >= 12 ? 12 : heads >= 6 ? 6 : heads >= 2 ? 2 : 1;
}

QSA_INLINE int32_t products_of(int32_t heads) {
    int32_t n = 0;
    for (; heads > 0; heads -= heads_at_once(heads))
        n++;
    return n;
}

#endif
