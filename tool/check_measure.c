// SPDX-License-Identifier: Apache-2.0
//
// Measures. A number that is none where one is expected is infinitely wrong.

#include "check_measure.h"

#include <math.h>
#include <string.h>

// A score at or below is taken for a mask. Scores that are computed lie far above: they are not negative.
#define MASKED (-1e4F)

int32_t check_heads(const layer_file *file, result_tensor which) {
    switch (which) {
    case RESULT_Q:
    case RESULT_ATTN:
        return file->geometry.heads;
    case RESULT_INDEX_Q:
        return file->geometry.index_heads;
    case RESULT_K:
    case RESULT_V:
        return file->geometry.kv_heads;
    default:
        return 1;
    }
}

static double difference(float theirs, double ours) {
    const double d = fabs((double)theirs - ours);
    return isnan(d) ? INFINITY : d;
}

check_worst check_measure_vectors(result_tensor which, int32_t heads, int32_t dim, const float *theirs,
                                  const double *ours) {
    const bool l2 = which == RESULT_ATTN || which == RESULT_OUT;
    check_worst worst = {.error = -1};
    for (int32_t h = 0; h < heads; h++) {
        const float *x = theirs + (int64_t)h * dim;
        const double *e = ours + (int64_t)h * dim;
        double most = -1;
        double sum = 0;
        double norm = 0;
        int32_t at = 0;
        for (int32_t i = 0; i < dim; i++) {
            const double d = difference(x[i], e[i]);
            sum += d * d;
            norm += e[i] * e[i];
            if (d > most) {
                most = d;
                at = i;
            }
        }
        const double scale = norm > 0 ? sqrt(norm / dim) : 1;
        const double error = (l2 ? sqrt(sum / dim) : most) / scale;
        if (error > worst.error) {
            worst = (check_worst){.error = error, .head = h, .dim = at, .theirs = (double)x[at], .ours = e[at]};
        }
    }
    return worst;
}

double check_score_scale(const double *scores, int32_t blocks) {
    double most = 0;
    for (int32_t b = 0; b < blocks; b++) {
        most = fabs(scores[b]) > most ? fabs(scores[b]) : most;
    }
    return most > 0 && isfinite(most) ? most : 1;
}

check_worst check_measure_scores(const float *theirs, int32_t wide, const double *ours, int32_t blocks) {
    const double scale = check_score_scale(ours, blocks);
    check_worst worst = {0};
    for (int32_t b = 0; b < wide; b++) {
        const bool masked = !(theirs[b] > MASKED) || isnan(theirs[b]);
        const double error = b < blocks ? difference(theirs[b], ours[b]) / scale : masked ? 0 : INFINITY;
        if (error > worst.error) {
            worst = (check_worst){
                .error = error, .dim = b, .theirs = (double)theirs[b], .ours = b < blocks ? ours[b] : -INFINITY};
        }
    }
    return worst;
}

static int32_t count(const uint8_t *tokens, int32_t n) {
    int32_t sum = 0;
    for (int32_t t = 0; t < n; t++) {
        sum += tokens[t] != 0;
    }
    return sum;
}

// Every cell that differs lies in a complete block that is too close to call, and blocks are taken whole.
static bool swapped(const check_row *row, const uint8_t *theirs, const uint8_t *ours) {
    const int32_t ratio = row->file->geometry.ratio;
    const int32_t *token = row->file->cell_token + (int64_t)row->sequence * row->file->tokens;
    int32_t seen = 0;
    for (int32_t c = 0; c < row->n; c++) {
        const int32_t block = c / ratio;
        const int32_t first = token[block * ratio];
        seen += theirs[token[c]];
        if (block < row->n / ratio && !row->cut && theirs[token[c]] != theirs[first]) {
            return false;
        }
        if (theirs[token[c]] != ours[token[c]] &&
            (block >= row->n / ratio || !(fabs(row->scores[block] - row->least) <= row->slack))) {
            return false;
        }
    }
    return seen == count(theirs, row->file->tokens); // nothing that the row does not see
}

check_worst check_measure_selected(const check_row *row, const uint8_t *theirs, const uint8_t *ours) {
    const int32_t tokens = row->file->tokens;
    check_worst worst = {.theirs = count(theirs, tokens), .ours = count(ours, tokens), .dim = -1};
    if (memcmp(theirs, ours, (size_t)tokens) == 0 || (worst.theirs == worst.ours && swapped(row, theirs, ours))) {
        return worst;
    }
    int32_t differ = 0;
    for (int32_t t = 0; t < tokens; t++) {
        differ += theirs[t] != ours[t];
        worst.dim = worst.dim < 0 && theirs[t] != ours[t] ? t : worst.dim;
    }
    worst.error = (double)differ / (worst.ours > 0 ? worst.ours : 1);
    return worst;
}

static bool exact_in_half(float x) {
    const double size = fabs((double)x);
    if (size == 0 || !isfinite(size)) {
        return true;
    }
    const int exponent = ilogb(size) < -14 ? -14 : ilogb(size);
    const double scaled = ldexp(size, 10 - exponent);
    return size <= 65504 && scaled == floor(scaled);
}

qsa_type check_precision(const st_tensor *tensor, const float *values) {
    if (tensor->dtype == ST_BF16 || tensor->dtype == ST_F16) {
        return tensor->dtype == ST_BF16 ? QSA_BF16 : QSA_F16;
    }
    bool bf16 = true;
    bool f16 = true;
    bool any = false;
    for (int64_t i = 0; i < tensor->count && (bf16 || f16); i++) {
        uint32_t bits = 0;
        memcpy(&bits, &values[i], sizeof bits);
        any = any || (isfinite(values[i]) && values[i] != 0);
        bf16 = bf16 && (!isfinite(values[i]) || (bits & 0xffff) == 0);
        f16 = f16 && exact_in_half(values[i]);
    }
    return !any ? QSA_F32 : f16 ? QSA_F16 : bf16 ? QSA_BF16 : QSA_F32;
}
