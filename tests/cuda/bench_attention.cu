// SPDX-License-Identifier: Apache-2.0
//
// Checks and times the fast CUDA attention. Built with -DQSA_VARIANTS='X(a) X(b)' several variants of it: variant a is
// attention_cuda_mma.cu with its functions renamed to a, a_scratch, a_wide.

#include "attention_case.h"

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#ifndef QSA_VARIANTS
#define QSA_VARIANTS X(qsa_attention_cuda_mma)
#endif
#define X(name)                                                                                                        \
    extern "C" int name##_wide(void);                                                                                  \
    extern "C" int name(const qsa_cuda_attention_args *, void *);                                                      \
    extern "C" size_t name##_scratch(const qsa_cuda_cache *, int32_t);
QSA_VARIANTS
#undef X

struct variant {
    const char *name;
    int (*run)(const qsa_cuda_attention_args *, void *);
    size_t (*scratch)(const qsa_cuda_cache *, int32_t);
    int (*wide)(void);
};
#define X(name) {#name, name, name##_scratch, name##_wide},
static const variant variants[] = {QSA_VARIANTS};
#undef X

static void must(cudaError_t e, int line) {
    if (e != cudaSuccess) {
        printf("line %d: %s\n", line, cudaGetErrorString(e));
        exit(1);
    }
}
#define MUST(call) must((cudaError_t)(call), __LINE__)

#include "check_wgmma.h"
#include "device_case.h"

static double worst_error(const attention_case &c, const std::vector<unsigned char> &out, const std::vector<float> &lse,
                          int step, double *lse_error) {
    const int n = 16;
    std::vector<std::thread> threads;
    std::vector<double> e((size_t)n, 0), l((size_t)n, 0);
    for (int t = 0; t < n; t++)
        threads.emplace_back([&, t] {
            for (int i = t * step; i < c.count(); i += n * step) {
                if (!c.rows[(size_t)i].attends)
                    continue;
                const double x = attention_error(&c, i, out.data(), lse.data(), &l[(size_t)t]);
                e[(size_t)t] = x <= e[(size_t)t] ? e[(size_t)t] : x;
            }
        });
    double worst = 0;
    for (int t = 0; t < n; t++) {
        threads[(size_t)t].join();
        worst = e[(size_t)t] <= worst ? worst : e[(size_t)t];
        *lse_error = l[(size_t)t] <= *lse_error ? *lse_error : l[(size_t)t];
    }
    return worst;
}

static void fetch(const device_case &d, std::vector<unsigned char> &out, std::vector<float> &lse,
                  const attention_case &c) {
    MUST(cudaDeviceSynchronize());
    out.resize(d.out_bytes), lse.resize((size_t)c.count() * c.g.heads);
    MUST(cudaMemcpy(out.data(), d.a.out.data, d.out_bytes, cudaMemcpyDeviceToHost));
    MUST(cudaMemcpy(lse.data(), d.a.lse, lse.size() * 4, cudaMemcpyDeviceToHost));
}

static void run(const variant &v, device_case &d) {
    MUST(cudaMemset(d.a.out.data, 0xff, d.out_bytes));
    MUST(cudaMemset(d.a.lse, 0xff, (size_t)d.a.count * d.a.cache.geometry.heads * 4));
    if (v.scratch(&d.a.cache, d.a.count) > d.scratch_limit)
        printf("%s needs more scratch than there is\n", v.name);
    MUST(v.run(&d.a, 0));
}

// Everything that no row selects becomes NaN: scales of i8 caches, numbers of others.
static void poison(attention_case *c) {
    std::vector<char> used((size_t)c->sequences * c->most_cells, 0);
    for (int i = 0; i < c->count(); i++)
        for (int cell : attention_cells(c, i))
            used[(size_t)c->rows[(size_t)i].sequence * c->most_cells + cell] = 1;
    for (int s = 0; s < c->sequences; s++)
        for (int cell = 0; cell < c->table_pages * c->page_cells; cell++)
            for (int kv = 0; kv < c->g.kv_heads && !(cell < c->most_cells && used[(size_t)s * c->most_cells + cell]);
                 kv++) {
                const int64_t row = c->row_of(s, cell, kv);
                if (c->kv_type == QSA_I8)
                    for (int j = 0; j < 4; j++)
                        c->k_scales[row * 4 + j] = 0x7e01, c->v_scales[row * 4 + j] = 0xfe01;
                else
                    memset(c->k.data() + row * c->row_bytes(), 0xff, c->row_bytes()),
                        memset(c->v.data() + row * c->row_bytes(), 0xff, c->row_bytes());
            }
}

static void check(const variant &v, qsa_type type, int page_cells, float deviation, qsa_type out_type, bool cut,
                  bool gated) {
    attention_case c;
    attention_cache(&c, type, 2048, page_cells, 2, 4103, 11);
    std::vector<int> cells = {0,    1,    2,    3,    4,    5,    63,   64,   65,   1000, 2040, 2046, 2047,
                              2048, 2049, 2050, 2051, 2052, 2053, 2054, 2055, 2056, 3001, 4102, 4103};
    std::vector<int> sequence(cells.size(), 1);
    const int apart = (int)cells.size();
    for (int i = 0; i < 40; i++)
        cells.push_back(2033 + i), sequence.push_back(0); // neighbours of one sequence: two whole groups and 8 more
    attention_rows(&c, cells, sequence, deviation, out_type, gated, 12);
    attention_random random = {13};
    for (int i = 0; i < c.count(); i++)
        attention_select(&c, i, cut, &random);
    const int idle = 9; // a row that does not attend
    c.rows[(size_t)idle].attends = 0;
    const int nowhere = apart - 2; // a row with ids of blocks that it does not have
    c.ids[(size_t)nowhere * c.stride + 7] = 1 << 30, c.ids[(size_t)nowhere * c.stride + 300] = -1;
    poison(&c);
    device_case d;
    d.make(c);
    std::vector<unsigned char> out, again, alone;
    std::vector<float> lse, lse_again, lse_alone;
    run(v, d);
    fetch(d, out, lse, c);
    run(v, d);
    fetch(d, again, lse_again, c);
    const bool same = out == again && memcmp(lse.data(), lse_again.data(), lse.size() * 4) == 0;
    const qsa_cuda_attention_args all = d.a;
    const size_t row_bytes = (size_t)all.out.row_stride;
    const bool untouched =
        std::count(out.begin() + idle * row_bytes, out.begin() + (idle + 1) * row_bytes, 0xff) == (int64_t)row_bytes;
    static std::vector<unsigned char> first_out; // of the variants' common case
    const bool common = type == QSA_I8 && out_type == QSA_F32 && deviation == 1;
    if (common && &v == variants)
        first_out = out;
    const bool as_first = common && out == first_out;
    MUST(cudaMemset(d.a.out.data, 0xff, d.out_bytes));
    for (int i = 0; i < c.count(); i++) {
        qsa_cuda_attention_args one = all;
        one.count = 1, one.rows += i, one.q += (int64_t)i * c.g.heads * c.g.head_dim, one.lse += i * c.g.heads;
        one.selection.ids += i * all.selection.stride, one.selection.counts += i;
        one.selection.cut_index += i, one.selection.cut_cells += i;
        if (c.gated)
            one.gate.data = (const char *)all.gate.data + i * all.gate.row_stride;
        one.out.data = (char *)all.out.data + i * all.out.row_stride;
        MUST(v.run(&one, 0));
    }
    fetch(d, alone, lse_alone, c);
    int differ = 0;
    for (int i = 0; i < c.count(); i++)
        differ +=
            memcmp(out.data() + i * all.out.row_stride, alone.data() + i * all.out.row_stride, all.out.row_stride) != 0;
    double lse_error = 0;
    const double e = worst_error(c, out, lse, 1, &lse_error);
    double ignored = 0;
    const double e1 = worst_error(c, alone, lse_alone, 1, &ignored);
    // Without the rows of the other sequence, the same bits.
    qsa_cuda_attention_args part = all;
    part.count -= apart, part.rows += apart, part.q += (int64_t)apart * c.g.heads * c.g.head_dim,
        part.lse += apart * c.g.heads;
    part.selection.ids += apart * all.selection.stride, part.selection.counts += apart;
    part.selection.cut_index += apart, part.selection.cut_cells += apart;
    if (c.gated)
        part.gate.data = (const char *)all.gate.data + apart * all.gate.row_stride;
    part.out.data = (char *)all.out.data + apart * all.out.row_stride;
    MUST(cudaMemset(d.a.out.data, 0xff, d.out_bytes));
    MUST(v.run(&part, 0));
    fetch(d, again, lse_again, c);
    const bool others = memcmp(again.data() + apart * all.out.row_stride, out.data() + apart * all.out.row_stride,
                               d.out_bytes - apart * all.out.row_stride) == 0;
    // A NaN in one selected cell of the last row: its heads of KV head 0 are NaN, and those of the rows that select it too.
    const int last = c.count() - 1, cell = attention_cells(&c, last)[10];
    const int64_t row = c.row_of(0, cell, 0);
    if (type == QSA_I8)
        MUST(cudaMemset((uint16_t *)d.a.cache.v_scales + row * 4, 0xff, 8));
    else
        MUST(cudaMemset((char *)d.a.cache.v + row * c.row_bytes(), 0xff, c.row_bytes()));
    run(v, d);
    fetch(d, again, lse_again, c);
    int nan_wrong = 0;
    for (int i = 0; i < c.count(); i++) {
        if (i == idle)
            continue;
        const std::vector<int> mine = attention_cells(&c, i);
        const bool has = c.rows[(size_t)i].sequence == 0 && std::count(mine.begin(), mine.end(), cell);
        for (int k = 0; k < 24 * 256; k++)
            nan_wrong += (bool)isnan(qsa_load(again.data(), out_type, i * 24 * 256 + k)) != (has && k < 12 * 256);
    }
    printf("%-5s %-4s page %3d sd %g out %d cut %d gate %d: error %.1e alone %.1e lse %.1e again %s others %s alone "
           "differs %d NaN wrong %d idle %s%s\n",
           v.name,
           type == QSA_I8    ? "i8"
           : type == QSA_F16 ? "f16"
                             : "bf16",
           page_cells, deviation, out_type, cut, gated, e, e1, lse_error, same ? "same" : "DIFFERS",
           others ? "same" : "DIFFER", differ, nan_wrong, untouched ? "untouched" : "TOUCHED",
           !common    ? ""
           : as_first ? ", bits of the first"
                      : ", other bits than the first");
}

static char *flush_buffer;
static const size_t flush_bytes = 256u << 20;

static float median(std::vector<float> &x) {
    std::sort(x.begin(), x.end());
    return x[x.size() / 2];
}

static float time_flushed(const variant &v, device_case &d, int times) {
    std::vector<float> ms;
    cudaEvent_t from, to;
    MUST(cudaEventCreate(&from));
    MUST(cudaEventCreate(&to));
    for (int i = 0; i < times + 3; i++) {
        MUST(cudaMemsetAsync(flush_buffer, i, flush_bytes, 0));
        MUST(cudaEventRecord(from, 0));
        MUST(v.run(&d.a, 0));
        MUST(cudaEventRecord(to, 0));
        MUST(cudaEventSynchronize(to));
        float x;
        MUST(cudaEventElapsedTime(&x, from, to));
        if (i >= 3)
            ms.push_back(x);
    }
    return median(ms);
}

static const char *only; // a variant's name, or null: all

static bool skipped(const variant &v) {
    return only && strcmp(v.name, only);
}

static void time_prompt(const char *name, attention_case &c, device_case &d, bool all) {
    double work = 0;
    for (int i = 0; i < c.count(); i++)
        work += (double)attention_cells(&c, i).size();
    for (const variant &v : variants) {
        if (!all && &v != variants)
            break;
        if (skipped(v))
            continue;
        if (strcmp(v.name, "rows") && &v != variants)
            continue;
        run(v, d);
        std::vector<unsigned char> out;
        std::vector<float> lse;
        fetch(d, out, lse, c);
        double lse_error = 0;
        const double e = worst_error(c, out, lse, c.count() / 16 - 1, &lse_error);
        const float ms = time_flushed(v, d, 20);
        printf("%-22s %-8s %7.4f ms  %6.1f TFLOP/s  %7.1f GB/s of rows  error %.2e\n", name, v.name, ms,
               work * 24 * 256 * 4 / ms * 1e-9, work * 2 * (c.kv_type == QSA_I8 ? 528 : 1024) / ms * 1e-6, e);
    }
}

static void time_decode(const char *name, attention_case &c, device_case &d) {
    printf("%s, us hot, cold:", name);
    for (const variant &v : variants) {
        if (skipped(v))
            continue;
        cudaStream_t stream;
        cudaGraph_t graph;
        cudaGraphExec_t twenty;
        MUST(cudaStreamCreate(&stream));
        MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        for (int i = 0; i < 20; i++)
            MUST(v.run(&d.a, stream));
        MUST(cudaStreamEndCapture(stream, &graph));
        MUST(cudaGraphInstantiate(&twenty, graph, 0));
        MUST(cudaMemset(d.a.out.data, 0xff, d.out_bytes));
        std::vector<float> us;
        cudaEvent_t from, to;
        MUST(cudaEventCreate(&from));
        MUST(cudaEventCreate(&to));
        for (int i = 0; i < 13; i++) {
            MUST(cudaEventRecord(from, stream));
            MUST(cudaGraphLaunch(twenty, stream));
            MUST(cudaEventRecord(to, stream));
            MUST(cudaEventSynchronize(to));
            float x;
            MUST(cudaEventElapsedTime(&x, from, to));
            if (i >= 3)
                us.push_back(x * 1000 / 20);
        }
        std::vector<unsigned char> out;
        std::vector<float> lse;
        fetch(d, out, lse, c);
        double lse_error = 0;
        const double e = c.sequences > 1 ? 0 : worst_error(c, out, lse, c.count() > 8 ? 7 : 1, &lse_error);
        printf("  %s %.2f %.1f", v.name, median(us), time_flushed(v, d, 10) * 1000);
        if (!(e < 1e-3))
            printf(" ERROR %.1e", e);
        MUST(cudaGraphExecDestroy(twenty));
        MUST(cudaGraphDestroy(graph));
        MUST(cudaStreamDestroy(stream));
    }
    printf("\n");
}

static void prompt(const char *name, qsa_type type, int pos0, int kind) { // kind 0 random, 1 walk
    attention_case c;
    attention_cache(&c, type, 2048, 64, 1, pos0 + 1984, 21);
    std::vector<int> cells;
    for (int i = 0; i < 1984; i++)
        cells.push_back(pos0 + i + 1);
    attention_rows(&c, cells, {}, 1, QSA_F16, true, 22);
    attention_random random = {23};
    if (kind)
        attention_walk(&c, &random);
    else
        for (int i = 0; i < c.count(); i++)
            attention_select(&c, i, false, &random);
    device_case d;
    d.make(c);
    time_prompt(name, c, d, type == QSA_I8);
}

static void checks(void) {
    for (const variant &v : variants)
        if (!skipped(v))
            check(v, QSA_I8, 64, 1, QSA_F32, false, true);
    if (skipped(variants[0]))
        return;
    check(variants[0], QSA_I8, 256, 2, QSA_F32, true, false);
    check(variants[0], QSA_I8, 64, 4, QSA_F32, false, true);
    check(variants[0], QSA_I8, 64, 1, QSA_BF16, true, true);
    check(variants[0], QSA_F16, 64, 1, QSA_F32, true, true);
    check(variants[0], QSA_F16, 256, 4, QSA_F16, false, true);
    check(variants[0], QSA_BF16, 256, 1, QSA_F32, false, false);
}

static void units(void) {
    check_unit<UNIT_S8_24>("s8 n24 A registers");
    check_unit<UNIT_F16_16>("f16 n16 A registers");
    check_unit<UNIT_S8_48>("s8 n48 A shared");
    check_unit<UNIT_F16_96>("f16 n96 A registers");
    qsa_cuda_cache cache = {};
    cache.geometry = attention_geometry(2048), cache.kv_type = QSA_I8;
    printf("warpgroup kernels: %s; scratch in bytes, 1 row %zu, 64 rows %zu, 2048 rows %zu\n",
           variants[0].wide() ? "yes" : "NO, those for older devices", variants[0].scratch(&cache, 1),
           variants[0].scratch(&cache, 64), variants[0].scratch(&cache, 2048));
}

// [u: products alone | c: checks | t: timings] [variant]; nothing: all of it.
int main(int argc, char **argv) {
    const char mode = argc > 1 ? argv[1][0] : 0;
    only = argc > 2 ? argv[2] : 0;
    MUST(cudaMalloc((void **)&flush_buffer, flush_bytes));
    if (!mode || mode == 'u')
        units();
    if (!mode || mode == 'c')
        checks();
    if (mode && mode != 't')
        return 0;
    prompt("i8 pos0 0", QSA_I8, 0, 0);
    prompt("i8 pos0 30000 random", QSA_I8, 30000, 0);
    prompt("i8 pos0 30000 walk", QSA_I8, 30000, 1);
    if (!skipped(variants[0])) {
        prompt("f16 pos0 30000 random", QSA_F16, 30000, 0);
        prompt("bf16 pos0 30000 random", QSA_BF16, 30000, 0);
    }
    attention_case c;
    attention_cache(&c, QSA_I8, 2048, 64, 1, 131072, 31);
    device_case d;
    attention_rows(&c, {131072}, {}, 1, QSA_F16, true, 32);
    d.make(c, 64);
    const int rows[] = {1, 4, 16, 32, 64, 64};
    for (int i = 0; i < 6; i++) {
        std::vector<int> cells, sequence;
        for (int k = 0; k < rows[i]; k++)
            cells.push_back(131072 - k), sequence.push_back(i == 5 ? k : 0);
        attention_rows(&c, cells, sequence, 1, QSA_F16, true, 33);
        attention_random random = {34};
        for (int k = 0; k < rows[i]; k++)
            attention_select(&c, k, false, &random);
        d.rows(c);
        char name[64];
        snprintf(name, sizeof name, "i8 decode %d%s", rows[i], i == 5 ? " sequences" : "");
        c.sequences = i == 5 ? 64 : 1; // the host has one sequence's pages only: not checked
        time_decode(name, c, d);
    }
    return 0;
}
