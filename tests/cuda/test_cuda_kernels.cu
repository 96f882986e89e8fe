// SPDX-License-Identifier: Apache-2.0
//
// The strict CUDA kernels against the CPU's reference, byte for byte, over random geometries, formats, alignments and
// awkward values. One line per failing case, a line per group, and a sum. --small: fewer, for the memory checker.
// --time: times instead.

#include "cuda_prep_case.h"
#include "cuda_timing.h"

// Rows that see `cells` of random sequences.
static std::vector<qsa_cuda_row> seeing(const std::vector<int32_t> &cells, int32_t sequences) {
    std::vector<qsa_cuda_row> rows;
    for (int32_t n : cells) {
        qsa_cuda_row r = {};
        r.cells = n, r.sequence = below(sequences), r.attends = !chance(8);
        rows.push_back(r);
    }
    return rows;
}

static void test_score(const qsa_geometry &g, int odd, int32_t most) {
    std::vector<int32_t> cells;
    for (int i = 0; i < 5; i++)
        cells.push_back(i ? below((int64_t)most + 1) : most);
    world w(g, most, 3, odd);
    const auto rows = seeing(cells, 3);
    const int32_t n = (int32_t)rows.size(), stride = most / g.ratio + below(5);
    buffer r, q((size_t)n * g.index_heads * g.index_dim * 4), scores((size_t)n * stride * 4 + 4);
    upload(r, rows);
    for (int64_t i = 0; i < (int64_t)n * g.index_heads * g.index_dim; i++)
        q.host<float>()[i] = number(odd ? 20 * odd : 0);
    q.up(), scores.up();
    const int skip = chance(2);
    const qsa_cuda_score_args a = {w.dev(),        r.dev<qsa_cuda_row>(), n,      most,
                                   q.dev<float>(), scores.dev<float>(),   stride, skip};
    check(qsa_score_cuda(&a, nullptr), "score");
    for (int32_t i = 0; i < n; i++) {
        if (!rows[i].attends || (skip && rows[i].cells <= g.budget + g.ratio - 1))
            continue;
        const qsa_score_args ref = {q.host<float>() + (int64_t)i * g.index_heads * g.index_dim,
                                    g.index_heads,
                                    g.index_dim,
                                    sqrtf((float)g.index_dim),
                                    w.keys.h.data(),
                                    w.key_type,
                                    w.table(rows[i].sequence),
                                    w.page_cells / g.ratio,
                                    0,
                                    rows[i].cells / g.ratio,
                                    scores.host<float>() + (int64_t)i * stride,
                                    nullptr};
        qsa_score_ref(&ref);
    }
    g_case = "score " + w.text();
    scores.same("scores");
    g_cases++;
}

// kind: 0 random, 1 few values (ties), 2 all equal, 3 awkward values, 4 rising, 5 all NaN, 6 falling, 7 half zeros.
static float score_of(int kind, int32_t b) {
    switch (kind) {
    case 1:
        return (float)below(4) - 1.0f;
    case 2:
        return 0.25f;
    case 3:
        return number(2);
    case 4:
        return (float)b + 1.0f;
    case 5:
        return qsa_f32_of_bits(0x7fc00000u | (uint32_t)below(100));
    case 6:
        return -(float)b;
    case 7:
        return chance(2) ? (chance(2) ? 0.0f : -0.0f) : fabsf(number(0));
    default:
        return fabsf(number(0));
    }
}

static void test_topk(qsa_geometry g, int kind, int32_t most_blocks, int32_t n, qsa_rule rule) {
    const int32_t most = most_blocks * g.ratio + g.ratio - 1, width = g.budget + g.ratio - 1;
    std::vector<int32_t> cells;
    for (int32_t i = 0; i < n; i++)
        cells.push_back(i == 0 ? most : chance(4) ? std::min(most, width - 2 + below(5)) : below((int64_t)most + 1));
    const auto rows = seeing(cells, 1);
    const int32_t stride = most_blocks + below(6), room = g.budget / g.ratio + 1 + below(3);
    buffer r, scores((size_t)n * stride * 4 + 4), ids((size_t)n * room * 4), counts((size_t)n * 4),
        index((size_t)n * 4), cut((size_t)n * 4);
    upload(r, rows);
    for (int32_t i = 0; i < n; i++)
        for (int32_t b = 0; b < cells[i] / g.ratio; b++)
            scores.host<float>()[(int64_t)i * stride + b] = score_of(kind, b);
    for (buffer *b : {&scores, &ids, &counts, &index, &cut})
        b->up();
    const int identity = chance(2), cuts = rule == QSA_RULE_CUT || chance(2);
    const qsa_cuda_selection s = {ids.dev<int32_t>(), room, counts.dev<int32_t>(),
                                  cuts ? index.dev<int32_t>() : nullptr, cuts ? cut.dev<int32_t>() : nullptr};
    const qsa_cuda_topk_args a = {g, r.dev<qsa_cuda_row>(), n, most, rule, scores.dev<float>(), stride, s, identity};
    check(qsa_topk_cuda(&a, nullptr), "topk");
    for (int32_t i = 0; i < n; i++) {
        if (!rows[i].attends)
            continue;
        const int32_t blocks = cells[i] / g.ratio;
        int32_t *out = ids.host<int32_t>() + (int64_t)i * room, last = 0, take = blocks, part = 0;
        if (cells[i] <= width) {
            for (int32_t b = 0; identity && b < blocks; b++)
                out[b] = b;
        } else {
            part = rule == QSA_RULE_CUT ? g.ratio - 1 - cells[i] % g.ratio : 0;
            take = g.budget / g.ratio + (part > 0);
            const qsa_topk_args ref = {scores.host<float>() + (int64_t)i * stride, blocks, take, out, &last};
            qsa_topk_ref(&ref);
        }
        counts.host<int32_t>()[i] = take;
        if (cuts) {
            index.host<int32_t>()[i] = part ? last : -1;
            cut.host<int32_t>()[i] = part;
        }
    }
    g_case = "topk kind " + std::to_string(kind) + " blocks " + std::to_string(most_blocks) + " rows " +
             std::to_string(n) + " budget " + std::to_string(g.budget) + " ratio " + std::to_string(g.ratio) +
             " rule " + std::to_string(rule);
    ids.same("ids"), counts.same("counts"), index.same("cut_index"), cut.same("cut_cells");
    g_cases++;
}

// A random valid selection of a row, and the cells that it selects.
static std::vector<int32_t> choose(const qsa_geometry &g, qsa_rule rule, int32_t n, int32_t *ids, int32_t *count,
                                   int32_t *index, int32_t *part) {
    std::vector<int32_t> cells;
    *index = -1, *part = 0;
    if (n <= g.budget + g.ratio - 1) {
        for (int32_t c = 0; c < n; c++)
            cells.push_back(c);
        return cells; // the selection stays poisoned: it is not read
    }
    const int32_t blocks = n / g.ratio;
    int32_t rest = rule == QSA_RULE_CUT ? g.ratio - 1 - n % g.ratio : 0, take = g.budget / g.ratio + (rest > 0);
    if (chance(4)) // fewer were given
        take = below((int64_t)g.budget / g.ratio + 1), rest = 0;
    *count = take;
    for (int32_t b = 0, k = 0; b < blocks && k < take; b++)
        if (below(blocks - b) < take - k)
            ids[k++] = b;
    if (rest)
        *index = below(take), *part = rest;
    for (int32_t k = 0; k < take; k++)
        for (int32_t c = 0; c < (k == *index ? *part : g.ratio); c++)
            cells.push_back(ids[k] * g.ratio + c);
    for (int32_t c = n - n % g.ratio; c < n; c++)
        cells.push_back(c);
    return cells;
}

static void test_attend(const qsa_geometry &g, int odd, std::vector<int32_t> cells, qsa_rule rule, bool broken) {
    const int32_t n = (int32_t)cells.size(), most = *std::max_element(cells.begin(), cells.end()), D = g.head_dim;
    world w(g, most, 2, odd);
    auto rows = seeing(cells, 2);
    const int32_t room = g.budget / g.ratio + 1, chunks = (g.budget + g.ratio - 1 + 63) / 64,
                  group = g.heads / g.kv_heads;
    const int32_t first = n > 2 ? below(2) : 0, count = n - first;
    const int64_t chunk_stride = (int64_t)g.heads * (2 + D), row_stride = chunks * chunk_stride + below(4);
    buffer r, q((size_t)n * g.heads * D * 4), ids((size_t)n * room * 4), counts((size_t)n * 4), index((size_t)n * 4),
        part((size_t)n * 4), records((size_t)(count * row_stride) * 4), written((size_t)count * 4),
        lse((size_t)n * g.heads * 4);
    upload(r, rows);
    for (int64_t i = 0; i < (int64_t)n * g.heads * D; i++)
        q.host<float>()[i] = number(odd ? 50 * odd : 0) * (chance(3) ? 8.0f : 1.0f);
    std::vector<std::vector<int32_t>> lists(n);
    for (int32_t i = 0; i < n; i++)
        lists[i] = choose(g, rule, cells[i], ids.host<int32_t>() + (int64_t)i * room, counts.host<int32_t>() + i,
                          index.host<int32_t>() + i, part.host<int32_t>() + i);
    if (broken) // ids and counts that no row has: nothing may be followed (the memory checker looks)
        for (int32_t i = 0; i < n; i++) {
            ids.host<int32_t>()[(int64_t)i * room + below(room)] = (int32_t)rnd();
            counts.host<int32_t>()[i] = chance(2) ? (int32_t)rnd() : room;
            index.host<int32_t>()[i] = (int32_t)rnd(), part.host<int32_t>()[i] = (int32_t)rnd();
        }
    for (buffer *b : {&q, &ids, &counts, &index, &part, &records, &written, &lse})
        b->up();
    const bool cuts = rule == QSA_RULE_CUT || chance(2);
    const qsa_cuda_selection s = {ids.dev<int32_t>(), room, counts.dev<int32_t>(),
                                  cuts ? index.dev<int32_t>() : nullptr, cuts ? part.dev<int32_t>() : nullptr};
    const qsa_cuda_attend_args a = {
        w.dev(),    r.dev<qsa_cuda_row>(), first, count, q.dev<float>(), s, records.dev<float>(),
        row_stride, written.dev<int32_t>()};
    check(qsa_attend_cuda(&a, nullptr), "attend");
    for (int32_t i = first; i < n && !broken; i++) {
        written.host<int32_t>()[i - first] = rows[i].attends ? (int32_t)(lists[i].size() + 63) / 64 : 0;
        if (!rows[i].attends || lists[i].empty())
            continue;
        std::vector<int32_t> at;
        for (int32_t c : lists[i])
            at.push_back((int32_t)w.cell_row(rows[i].sequence, c));
        for (int32_t h = 0; h < g.kv_heads; h++) {
            const size_t rows_before = (size_t)h * w.page_cells;
            const bool i8 = w.kv_type == QSA_I8;
            const qsa_attend_args ref = {q.host<float>() + ((int64_t)i * g.heads + (int64_t)h * group) * D,
                                         group,
                                         D,
                                         1.0f / sqrtf((float)D),
                                         w.kv_type,
                                         w.k.h.data() + rows_before * w.kv_bytes,
                                         w.v.h.data() + rows_before * w.kv_bytes,
                                         i8 ? w.k_scales.host<uint16_t>() + rows_before * w.groups : nullptr,
                                         i8 ? w.v_scales.host<uint16_t>() + rows_before * w.groups : nullptr,
                                         at.data(),
                                         (int32_t)at.size(),
                                         records.host<float>() + (i - first) * row_stride +
                                             (int64_t)h * group * (2 + D),
                                         chunk_stride};
            qsa_attend_ref(&ref);
        }
    }
    g_case = "attend " + w.text() + " rows " + std::to_string(n) + " n0 " + std::to_string(cells[0]);
    g_cases++;
    if (!broken)
        records.same("records"), written.same("chunks");
    raw_rows gate, out;
    gate.make(n, g.heads, D, odd, false);
    out.make(n, g.heads, D, 0, false);
    const bool gated = chance(2), counted = chance(2);
    const qsa_cuda_merge_args m = {g,
                                   r.dev<qsa_cuda_row>(),
                                   first,
                                   count,
                                   s,
                                   records.dev<float>(),
                                   row_stride,
                                   counted ? written.dev<int32_t>() : nullptr,
                                   gated ? gate.dev() : qsa_rows{},
                                   out.dev_out(),
                                   lse.dev<float>()};
    check(qsa_merge_cuda(&m, nullptr), "merge");
    if (broken) {
        check(cudaDeviceSynchronize(), "broken ids");
        return;
    }
    for (int32_t i = first; i < n; i++) {
        if (!rows[i].attends)
            continue;
        const qsa_merge_args ref = {records.host<float>() + (i - first) * row_stride,
                                    chunk_stride,
                                    (int32_t)(lists[i].size() + 63) / 64,
                                    g.heads,
                                    D,
                                    gated ? gate.at(i, 0) : nullptr,
                                    gate.type,
                                    gate.head_stride,
                                    out.at(i, 0),
                                    out.type,
                                    out.head_stride,
                                    lse.host<float>() + (int64_t)i * g.heads};
        qsa_merge_ref(&ref);
    }
    g_case =
        "merge " + w.text() + " gate " + std::to_string(gated ? gate.type : 0) + " out " + std::to_string(out.type);
    out.b.same("out"), lse.same("lse");
    raw_rows x; // the gate alone
    x.make(n, g.heads, D, odd, false);
    const qsa_cuda_gate_args alone = {g, n, x.dev(), gate.dev(), out.dev_out()};
    check(qsa_gate_cuda(&alone, nullptr), "gate");
    for (int32_t i = 0; i < n; i++) {
        const qsa_gate_args ref = {x.at(i, 0),   x.type,   x.head_stride,   gate.at(i, 0), gate.type, gate.head_stride,
                                   out.at(i, 0), out.type, out.head_stride, g.heads,       D};
        qsa_gate_ref(&ref);
    }
    g_case = "gate " + w.text();
    out.b.same("out");
}

// Records that no attention makes: empty ones full of anything, infinities, NaN.
static void test_merge_records(const qsa_geometry &g, int32_t chunks) {
    const int32_t D = g.head_dim;
    std::vector<qsa_cuda_row> rows = seeing({1, 1, 1}, 1);
    const int64_t chunk_stride = (int64_t)g.heads * (2 + D), row_stride = chunks * chunk_stride;
    buffer r, records((size_t)(3 * row_stride) * 4), counts(12), lse((size_t)3 * g.heads * 4);
    upload(r, rows);
    for (int64_t i = 0; i < 3 * chunks * (int64_t)g.heads; i++) {
        float *record = records.host<float>() + i * (2 + D);
        for (int32_t d = 0; d < 2 + D; d++)
            record[d] = number(40);
        record[0] = number(30), record[1] = chance(3) ? 0.0f : fabsf(number(30)) * 9.0f;
    }
    for (int i = 0; i < 3; i++)
        counts.host<int32_t>()[i] = i ? below((int64_t)chunks + 1) : chunks;
    raw_rows gate, out;
    gate.make(3, g.heads, D, 20, false);
    out.make(3, g.heads, D, 0, false);
    records.up(), counts.up(), lse.up();
    const qsa_cuda_merge_args m = {g,
                                   r.dev<qsa_cuda_row>(),
                                   0,
                                   3,
                                   {},
                                   records.dev<float>(),
                                   row_stride,
                                   counts.dev<int32_t>(),
                                   gate.dev(),
                                   out.dev_out(),
                                   lse.dev<float>()};
    check(qsa_merge_cuda(&m, nullptr), "merge");
    for (int32_t i = 0; i < 3; i++) {
        if (!rows[i].attends)
            continue;
        const qsa_merge_args ref = {records.host<float>() + i * row_stride,
                                    chunk_stride,
                                    counts.host<int32_t>()[i],
                                    g.heads,
                                    D,
                                    gate.at(i, 0),
                                    gate.type,
                                    gate.head_stride,
                                    out.at(i, 0),
                                    out.type,
                                    out.head_stride,
                                    lse.host<float>() + (int64_t)i * g.heads};
        qsa_merge_ref(&ref);
    }
    g_case =
        "merge records, chunks " + std::to_string(chunks) + " H" + std::to_string(g.heads) + " D" + std::to_string(D);
    out.b.same("out"), lse.same("lse");
    g_cases++;
}

static void group(const char *name) {
    static int cases, failures;
    printf("%-8s %5d cases, %d differences\n", name, g_cases - cases, g_failures - failures);
    cases = g_cases, failures = g_failures;
    fflush(stdout);
}

int main(int argc, char **argv) {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        printf("no CUDA device\n");
        return 77;
    }
    const bool small = argc > 1 && strcmp(argv[1], "--small") == 0;
    if (argc > 1 && strcmp(argv[1], "--time") == 0)
        return time_all();
    const int times = small ? 1 : 8;
    const qsa_geometry model = preset();
    for (int i = 0; i < 15 * times; i++) {
        test_prep(any_geometry(), pick({0, 5, 50, 1000}), false, between(1, 12));
        test_prep(model, pick({0, 5, 50, 1000}), chance(2), between(1, 8));
        test_prep(wide_geometry(), pick({0, 5, 50, 1000, 100000}), raw_rows::WHOLE, between(1, 40));
    }
    group("prep");
    for (int i = 0; i < 15 * times; i++) {
        test_score(any_geometry(), pick({0, 100, 3000}), between(0, 3000));
        test_score(model, pick({0, 100, 10000}), between(0, small ? 3000 : 20000));
    }
    group("score");
    for (int i = 0; i < 10 * times; i++)
        for (int kind = 0; kind < 8; kind++) {
            qsa_geometry g = chance(2) ? model : any_geometry();
            if (!small && chance(6))
                g.budget = g.ratio * between(1, 9000);
            const qsa_rule rule = pick({QSA_RULE_OFFICIAL, QSA_RULE_CUT});
            const int32_t blocks =
                std::max(g.budget / g.ratio + 2, pick({600, 3000, 8192, 8193, small ? 9000 : 70000}));
            test_topk(g, kind, blocks + below(9), between(1, 3), rule);
        }
    if (!small) {
        for (int kind = 0; kind < 8; kind++) {
            test_topk(model, kind, 200000 + below(9), 1, QSA_RULE_CUT);
            test_topk(model, kind, 4000 + below(9), 140, QSA_RULE_CUT);
        }
    }
    group("topk");
    for (int i = 0; i < 15 * times; i++) {
        const qsa_geometry g = any_geometry();
        std::vector<int32_t> cells;
        for (int n = between(1, 4); n > 0; n--)
            cells.push_back(chance(8) ? 0 : chance(2) ? g.budget + between(-1, 2 * g.ratio) : below(3 * g.budget + 9));
        test_attend(g, pick({0, 2000, 100000}), cells, pick({QSA_RULE_OFFICIAL, QSA_RULE_CUT}), chance(8));
    }
    for (int i = 0; i < (small ? 1 : 12); i++)
        test_attend(model, pick({0, 100000}), {2048, 2049, 2050, 2051, 2052, 2053, 2054, 2055, 3001, 65, 4000},
                    pick({QSA_RULE_OFFICIAL, QSA_RULE_CUT}), false);
    test_attend(model, 0, {3000, 4000, 2051}, QSA_RULE_CUT, true);
    group("attend");
    for (int i = 0; i < 5 * times; i++)
        test_merge_records(any_geometry(), between(1, i % 3 ? 20 : 300));
    group("merge");
    printf("%d cases, %d failed\n", g_cases, g_failures);
    return g_failures ? 1 : 0;
}
