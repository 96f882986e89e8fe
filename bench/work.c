// SPDX-License-Identifier: Apache-2.0
//
// Operations and bytes of each case, as docs/performance.md states them. Only products and sums of the stated formulas
// count: exponentials, the softmax, comparisons, conversions of formats and (but for `merge` itself) the merge do not.

#include "bench/cases.h"

#include "num/load.h"

static double kv_cell_bytes(const bench_world *w) {
    const qsa_geometry *g = &w->geometry;
    const int32_t groups = (g->head_dim + QSA_GROUP - 1) / QSA_GROUP;
    const double scales = w->options->kv == QSA_I8 ? 2.0 * groups : 0;
    return 2.0 * g->kv_heads * (g->head_dim * (double)qsa_type_size(w->options->kv) + scales);
}

static double block_key_bytes(const bench_world *w) {
    return w->geometry.index_dim * (double)qsa_type_size(w->options->block_keys);
}

// Sums over the rows.
typedef struct totals {
    double cells;    // attended
    double blocks;   // complete, scored
    double ids;      // of selections
    double records;  // of 64 cells and one head
    double keys;     // complete blocks of the longest row of each sequence: what scoring reads
    double finished; // blocks that the rows complete
} totals;

static totals sum_rows(const bench_world *w) {
    const qsa_geometry *g = &w->geometry;
    totals t = {0};
    for (int32_t i = 0; i < w->rows; i++) {
        const int32_t n = w->cells[i], cells = qsa_selected_cells(g, QSA_RULE_OFFICIAL, n), blocks = n / g->ratio;
        const int32_t take = g->budget / g->ratio, chunks = (cells + QSA_CHUNK - 1) / QSA_CHUNK;
        t.cells += cells;
        t.blocks += blocks;
        t.ids += n > g->budget + g->ratio - 1 ? take : 0;
        t.records += (double)chunks * g->heads;
        t.keys += i % w->tokens == w->tokens - 1 ? blocks : 0;
        t.finished += n % g->ratio == 0;
    }
    return t;
}

static bench_work attention(const bench_world *w, const totals *t) {
    const qsa_geometry *g = &w->geometry;
    const double vector = (double)g->heads * g->head_dim;
    return (bench_work){.operations = 4 * vector * t->cells,
                        .bytes = w->unique_cells * kv_cell_bytes(w) + 4 * t->ids + 3 * 4 * vector * w->rows,
                        .gathered = t->cells * kv_cell_bytes(w)};
}

static bench_work scoring(const bench_world *w, const totals *t) {
    const qsa_geometry *g = &w->geometry;
    const double queries = (double)g->index_heads * g->index_dim;
    return (bench_work){.operations = 2 * queries * t->blocks,
                        .bytes = t->keys * block_key_bytes(w) + 4 * queries * w->rows};
}

// Norm of a vector of n: 4 n (square and sum, two products). RoPE: 3 R. i8: 2 per element (maximum, quotient).
static bench_work appending(const bench_world *w, const totals *t) {
    const qsa_geometry *g = &w->geometry;
    const double heads = (double)g->heads + g->kv_heads, rope = 3.0 * g->rotary_dim, raw = 4.0 * g->index_dim;
    const double vectors = heads * (4.0 * g->head_dim + rope) + g->index_heads * (4.0 * g->index_dim + rope);
    const double store = w->options->kv == QSA_I8 ? 4.0 * g->kv_heads * g->head_dim : 0;
    const double block = g->index_dim * (g->ratio + 4.0) + rope;
    const double in = 4 * ((heads + g->kv_heads) * g->head_dim + (double)g->index_heads * g->index_dim) + raw;
    return (bench_work){.operations = w->rows * (vectors + store) + t->finished * block,
                        .bytes = w->rows * (in + kv_cell_bytes(w) + raw) + t->finished * block_key_bytes(w)};
}

bench_work bench_work_of(const bench_world *w, bench_id id) {
    const qsa_geometry *g = &w->geometry;
    const totals t = sum_rows(w);
    const double vector = (double)g->heads * g->head_dim, queries = (double)g->index_heads * g->index_dim;
    bench_work work = {0}, part;
    switch (id) {
    case BENCH_PROMPT:
    case BENCH_DECODE:
        return attention(w, &t);
    case BENCH_SCORE:
        work = scoring(w, &t);
        work.bytes += 4 * t.blocks;
        return work;
    case BENCH_TOPK:
        work.bytes = t.ids ? 4 * (t.blocks + t.ids) : 4 * t.blocks;
        return work;
    case BENCH_SCORE_TOPK:
        work = scoring(w, &t);
        work.bytes += 4 * t.ids;
        return work;
    case BENCH_PREP:
        work = appending(w, &t);
        work.bytes += 4 * (vector + queries) * w->rows;
        return work;
    case BENCH_MERGE:
        work.operations = 2 * t.records * (g->head_dim + 1);
        work.bytes = 4 * t.records * (g->head_dim + 2) + 2 * 4 * vector * w->rows;
        return work;
    case BENCH_STEP:
        // Queries go from stage to stage; of the attention's three vectors a row, the query is prep's input.
        work = appending(w, &t);
        part = scoring(w, &t);
        work.operations += part.operations;
        work.bytes += part.bytes - 4 * queries * w->rows;
        part = attention(w, &t);
        work.operations += part.operations;
        work.bytes += part.bytes - 4 * t.ids - 4 * vector * w->rows;
        work.gathered = part.gathered;
        return work;
    default:
        return work;
    }
}
