// SPDX-License-Identifier: Apache-2.0
//
// Blocks of 512 tokens, projected on demand and kept until another block needs the place (least recently used first).
// A block is always projected whole, also where few of its tokens are wanted: that is what makes its bits its own.

#include "projection.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// OpenBLAS takes a buffer of 128 MiB at its first product, keeps it, and tries again for ever when it gets none.
#define BLAS_BUFFER ((size_t)192 << 20)
#define BLAS_WARM   256

typedef struct block {
    int64_t number; // -1: empty
    bool has_q;
    uint64_t used; // clock of the last use
    float *hidden; // [512][hidden]
    float *q;      // [512][2 * heads * head_dim]
    float *k, *v, *index;
} block;

struct projection {
    const layer_file *file;
    float *weight[LAYER_WEIGHTS];
    float *bias[LAYER_WEIGHTS]; // or NULL
    int32_t n[LAYER_WEIGHTS];   // rows of the weight: outputs
    int32_t k[LAYER_WEIGHTS];   // columns: inputs
    int32_t n_blocks;
    block *blocks;
    uint64_t clock;
    double ms;
};

static bool make_block(const projection *p, block *b, tool_error *error) {
    const int64_t tokens = (int64_t)p->file->batch * p->file->tokens;
    const size_t rows = tokens < PROJECTION_BLOCK ? (size_t)tokens : PROJECTION_BLOCK;
    b->number = -1;
    b->hidden = tool_array(rows * (size_t)p->file->hidden, sizeof(float), false, error);
    b->q = tool_array(rows * (size_t)p->n[LAYER_Q_PROJ], sizeof(float), false, error);
    b->k = tool_array(rows * (size_t)p->n[LAYER_K_PROJ], sizeof(float), false, error);
    b->v = tool_array(rows * (size_t)p->n[LAYER_V_PROJ], sizeof(float), false, error);
    b->index = tool_array(rows * (size_t)p->n[LAYER_INDEX_QK_PROJ], sizeof(float), false, error);
    return b->hidden && b->q && b->k && b->v && b->index;
}

// Has OpenBLAS take its buffer while it is known to be there.
static bool start_blas(tool_error *error) {
    openblas_set_num_threads(1);
    void *probe = tool_array(BLAS_BUFFER, 1, false, error);
    const bool there = probe != NULL;
    free(probe);
    float *x = there ? tool_array((size_t)3 * BLAS_WARM * BLAS_WARM, sizeof *x, true, error) : NULL;
    if (!x) {
        return false;
    }
    const int n = BLAS_WARM;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, n, n, 1.0F, x, n, x + n * n, n, 0.0F, x + 2 * n * n, n);
    free(x);
    return true;
}

projection *projection_create(const layer_file *file, int32_t blocks, tool_error *error) {
    projection *p = tool_array(1, sizeof *p, true, error);
    if (!p) {
        return NULL;
    }
    const double start = tool_now_ms();
    p->file = file;
    const int64_t in_file = ((int64_t)file->batch * file->tokens + PROJECTION_BLOCK - 1) / PROJECTION_BLOCK;
    p->n_blocks = blocks < in_file ? blocks : (int32_t)in_file;
    p->blocks = tool_array((size_t)p->n_blocks, sizeof *p->blocks, true, error);
    bool made = start_blas(error) && p->blocks;
    for (int w = 0; made && w < LAYER_WEIGHTS; w++) {
        p->n[w] = file->weight[w].rows;
        p->k[w] = file->weight[w].columns;
        p->weight[w] = layer_matrix_load(&file->weight[w], error);
        p->bias[w] = p->weight[w] && file->bias[w].parts ? layer_matrix_load(&file->bias[w], error) : NULL;
        made = p->weight[w] && (!file->bias[w].parts || p->bias[w]);
    }
    for (int32_t i = 0; made && i < p->n_blocks; i++) {
        made = make_block(p, &p->blocks[i], error);
    }
    if (!made) {
        projection_destroy(p);
        return NULL;
    }
    p->ms = tool_now_ms() - start;
    return p;
}

void projection_destroy(projection *p) {
    if (!p) {
        return;
    }
    for (int w = 0; w < LAYER_WEIGHTS; w++) {
        free(p->weight[w]);
        free(p->bias[w]);
    }
    for (int32_t i = 0; p->blocks && i < p->n_blocks; i++) {
        free(p->blocks[i].hidden);
        free(p->blocks[i].q);
        free(p->blocks[i].k);
        free(p->blocks[i].v);
        free(p->blocks[i].index);
    }
    free(p->blocks);
    free(p);
}

// out[rows][n] = x[rows][k] * weight^T + bias
static void multiply(const projection *p, layer_weight w, int32_t rows, const float *x, float *out) {
    const int32_t n = p->n[w];
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, n, p->k[w], 1.0F, x, p->k[w], p->weight[w], p->k[w],
                0.0F, out, n);
    for (int32_t i = 0; p->bias[w] && i < rows; i++) {
        float *row = out + (size_t)i * (size_t)n;
        for (int32_t j = 0; j < n; j++) {
            row[j] += p->bias[w][j];
        }
    }
}

// Rows of the hidden states as float32. Type and shape were checked when the file was opened, so this cannot fail.
static void load_hidden(const projection *p, int64_t first, int32_t rows, float *out) {
    st_tensor part = *p->file->hidden_states;
    const size_t row_bytes = (size_t)p->file->hidden * st_dtype_size(part.dtype);
    part.n_dims = 2;
    part.shape[0] = rows;
    part.shape[1] = p->file->hidden;
    part.count = (int64_t)rows * p->file->hidden;
    part.bytes = (size_t)rows * row_bytes;
    part.data += (size_t)first * row_bytes;
    st_to_f32(&part, out, NULL, 0);
}

// The block, or the place of the one that was used longest ago.
static block *find_block(projection *p, int64_t number) {
    block *oldest = &p->blocks[0];
    for (int32_t i = 0; i < p->n_blocks; i++) {
        block *b = &p->blocks[i];
        if (b->number == number) {
            return b;
        }
        oldest = b->used < oldest->used ? b : oldest;
    }
    oldest->number = -1;
    return oldest;
}

projected projection_token(projection *p, int64_t token, bool with_q) {
    const int64_t number = token / PROJECTION_BLOCK;
    block *b = find_block(p, number);
    const bool fresh = b->number != number;
    if (fresh || (with_q && !b->has_q)) {
        const double start = tool_now_ms();
        const int64_t first = number * PROJECTION_BLOCK;
        const int64_t left = (int64_t)p->file->batch * p->file->tokens - first;
        const int32_t rows = left < PROJECTION_BLOCK ? (int32_t)left : PROJECTION_BLOCK;
        if (fresh) {
            load_hidden(p, first, rows, b->hidden);
            multiply(p, LAYER_K_PROJ, rows, b->hidden, b->k);
            multiply(p, LAYER_V_PROJ, rows, b->hidden, b->v);
            multiply(p, LAYER_INDEX_QK_PROJ, rows, b->hidden, b->index);
            b->number = number;
            b->has_q = false;
        }
        if (with_q) {
            multiply(p, LAYER_Q_PROJ, rows, b->hidden, b->q);
            b->has_q = true;
        }
        p->ms += tool_now_ms() - start;
    }
    b->used = ++p->clock;
    const size_t row = (size_t)(token % PROJECTION_BLOCK);
    return (projected){
        .q = with_q ? b->q + row * (size_t)p->n[LAYER_Q_PROJ] : NULL,
        .k = b->k + row * (size_t)p->n[LAYER_K_PROJ],
        .v = b->v + row * (size_t)p->n[LAYER_V_PROJ],
        .index = b->index + row * (size_t)p->n[LAYER_INDEX_QK_PROJ],
    };
}

bool projection_out(projection *p, int64_t rows, const uint8_t *used, const float *x, float *out, tool_error *error) {
    const double start = tool_now_ms();
    const size_t in = (size_t)p->k[LAYER_O_PROJ];
    const size_t hidden = (size_t)p->n[LAYER_O_PROJ];
    float *staged = tool_array(PROJECTION_BLOCK * in, sizeof *staged, false, error);
    for (int64_t first = 0; staged && first < rows; first += PROJECTION_BLOCK) {
        const int32_t n = rows - first < PROJECTION_BLOCK ? (int32_t)(rows - first) : PROJECTION_BLOCK;
        float *to = out + (size_t)first * hidden;
        memcpy(staged, x + (size_t)first * in, (size_t)n * in * sizeof *staged);
        for (int32_t i = 0; used && i < n; i++) {
            if (!used[first + i]) {
                memset(staged + (size_t)i * in, 0, in * sizeof *staged);
            }
        }
        multiply(p, LAYER_O_PROJ, n, staged, to);
        for (int32_t i = 0; used && i < n; i++) {
            for (size_t j = 0; !used[first + i] && j < hidden; j++) {
                to[(size_t)i * hidden + j] = NAN;
            }
        }
    }
    const bool done = staged != NULL;
    free(staged);
    p->ms += tool_now_ms() - start;
    return done;
}

double projection_ms(const projection *p) {
    return p->ms;
}

const char *projection_core(void) {
    return openblas_get_corename();
}
