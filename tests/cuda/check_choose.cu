// SPDX-License-Identifier: Apache-2.0
//
// Checks of qsa_choose_cuda_mma: the selection against the total order of the scores that the kernel itself made, the
// scores against float64, rows alone against rows in a batch.

#include "check_choose.h"
#include "choose_world.cuh"

#include <algorithm>
#include <cmath>
#include <string>

// The keys of a batch that went through scratch in one piece: [count][stride], as they lie.
static std::vector<uint32_t> keys_of(const batch &b, int32_t *stride) {
    const int32_t sub = qsa_choose_mma_sub_rows(4, b.args.count, b.args.most_cells, &b.tuning, 132, stride);
    if (sub != b.args.count)
        printf("FAIL: the keys did not stay\n");
    std::vector<uint32_t> keys((size_t)b.args.count * (size_t)*stride);
    MUST(cudaMemcpy(keys.data(), b.args.scratch, keys.size() * 4, cudaMemcpyDeviceToHost));
    return keys;
}

static int32_t position_of(int32_t block) { // where the key of a block lies
    const int32_t u = block & 15;
    return (block & ~15) + (u >> 1 & 3) * 4 + (u >> 3) * 2 + (u & 1);
}

static std::vector<int32_t> out_of(const batch &b) {
    std::vector<int32_t> out(b.out_count);
    MUST(cudaMemcpy(out.data(), b.out, out.size() * 4, cudaMemcpyDeviceToHost));
    return out;
}

static void choose(const batch &b) {
    MUST(qsa_choose_mma_tuned(&b.args, &b.tuning, nullptr));
    MUST(cudaDeviceSynchronize());
}

// The ids, count and cut of row i as the total order has them.
static bool right(const batch &b, const std::vector<int32_t> &out, const std::vector<uint32_t> &keys, int32_t stride, int32_t i) {
    const qsa_cuda_row &row = b.rows[(size_t)i];
    const size_t n = b.rows.size(), at = (size_t)i;
    const int32_t *ids = &out[at * ID_STRIDE], none = (int32_t)0xeeeeeeee, blocks = row.cells / 4;
    std::vector<int32_t> want((size_t)ID_STRIDE, none);
    int32_t count = none, cut_index = none, cut_cells = none;
    if (row.attends && row.cells <= 2051) {
        count = blocks, cut_index = -1, cut_cells = 0;
        for (int32_t k = 0; b.args.identity && k < blocks; k++)
            want[(size_t)k] = k;
    } else if (row.attends) {
        cut_cells = b.args.rule == QSA_RULE_CUT ? 3 - row.cells % 4 : 0;
        count = 512 + (cut_cells > 0);
        std::vector<uint64_t> order((size_t)blocks);
        for (int32_t k = 0; k < blocks; k++) { // as scores: not the keys' own order
            uint32_t key = keys[at * (size_t)stride + (size_t)position_of(k)];
            float score;
            memcpy(&score, &key, 4);
            score = -score;
            uint32_t rank = 0;
            if (score == score) {
                score += 0.0f;
                memcpy(&rank, &score, 4);
                rank = rank & 0x80000000u ? ~rank : rank | 0x80000000u;
            }
            order[(size_t)k] = (uint64_t)(0xffffffffu - rank) << 32 | (uint32_t)k;
        }
        std::nth_element(order.begin(), order.begin() + count - 1, order.end());
        const int32_t last = (int32_t)(uint32_t)order[(size_t)count - 1];
        for (int32_t k = 0; k < count; k++)
            want[(size_t)k] = (int32_t)(uint32_t)order[(size_t)k];
        std::sort(want.begin(), want.begin() + count);
        cut_index = cut_cells ? (int32_t)(std::find(want.begin(), want.end(), last) - want.begin()) : -1;
    }
    const bool same = memcmp(ids, want.data(), ID_STRIDE * 4) == 0, counted = out[n * ID_STRIDE + at] == count,
               index = out[n * (ID_STRIDE + 1) + at] == cut_index, cut = out[n * (ID_STRIDE + 2) + at] == cut_cells;
    static int shown = 0;
    if (!(same && counted && index && cut) && shown++ < 10) {
        int k = 0;
        while (k < ID_STRIDE - 1 && ids[k] == want[(size_t)k])
            k++;
        printf("  row %d n %d: ids %d (first at %d: %d not %d) count %d (%d not %d) cut_index %d not %d cut_cells %d not %d\n", i,
               row.cells, same, k, ids[k], want[(size_t)k], counted, out[n * ID_STRIDE + at], count,
               out[n * (ID_STRIDE + 1) + at], cut_index, out[n * (ID_STRIDE + 2) + at], cut_cells);
    }
    return same && counted && index && cut;
}

// Rows by list against `out`; the number of rows that their lists did not serve is added to *failed.
static int check_lists(const batch &b, const std::vector<int32_t> &out, float margin, long *failed) {
    batch lists = b;
    choose_tuning *t = &lists.tuning;
    *t = qsa_choose_mma_defaults();
    t->planes = b.tuning.planes, t->lists = 1, t->margin = margin;
    lists.args.scratch_bytes = qsa_choose_mma_scratch_tuned(&b.args.cache, b.args.count, b.args.most_cells, t);
    lists.args.scratch = on_device<unsigned char>(lists.args.scratch_bytes);
    MUST(cudaMemset(lists.args.scratch, 0xff, lists.args.scratch_bytes));
    MUST(cudaMemset(b.out, 0xee, b.out_count * 4));
    choose(lists);
    int32_t rows = 0;
    MUST(cudaMemcpy(&rows, (char *)lists.args.scratch + qsa_choose_mma_failed_at(&b.args.cache, b.args.count, b.args.most_cells, t),
                    4, cudaMemcpyDeviceToHost));
    *failed += rows;
    cudaFree(lists.args.scratch);
    const std::vector<int32_t> got = out_of(b);
    int32_t wrong = 0, first = -1;
    for (size_t i = 0; i < b.rows.size(); i++) {
        bool same = memcmp(&got[i * ID_STRIDE], &out[i * ID_STRIDE], ID_STRIDE * 4) == 0;
        for (size_t k = 0; k < 3; k++)
            same = same && got[b.rows.size() * (ID_STRIDE + k) + i] == out[b.rows.size() * (ID_STRIDE + k) + i];
        if (!same && first < 0)
            first = (int32_t)i;
        wrong += !same;
    }
    if (wrong)
        printf("  by list, margin %g: %d rows differ, first %d of %d cells; %d rows were not served\n", margin, wrong, first,
               b.rows[(size_t)first].cells, rows);
    return wrong != 0;
}

static int check_all(const batch &b, const char *what, long *failed) {
    int32_t stride;
    choose(b);
    const std::vector<uint32_t> keys = keys_of(b, &stride);
    const std::vector<int32_t> out = out_of(b);
    int wrong = 0;
    for (int32_t i = 0; i < b.args.count; i++)
        wrong += !right(b, out, keys, stride, i);
    // through small scratch, in sub-batches that fit 4 MiB, and of 8 rows; these and the whole by the other selection
    int cut = 0;
    for (int way = 0; way < 4; way++) {
        batch parts = b;
        parts.tuning.keys_bytes = way == 0 ? (size_t)4 << 20 : way == 3 ? b.tuning.keys_bytes : 1;
        parts.tuning.digits = way < 2;
        MUST(cudaMemset(b.out, 0xee, b.out_count * 4));
        choose(parts);
        cut |= (memcmp(out.data(), out_of(b).data(), out.size() * 4) != 0) << way;
    }
    long all = 0;
    int lists = check_lists(b, out, 4.5f, failed);
    lists += check_lists(b, out, -1000.0f, &all);
    lists += check_lists(b, out, 1000.0f, &all);
    if (lists)
        printf("FAIL %s: by list\n", what);
    if (wrong || cut)
        printf("FAIL %s: %d of %d rows wrong, other ways that differ: %x\n", what, wrong, b.args.count, (unsigned)cut);
    return wrong + cut + lists;
}

// 256 rows: a chunk of sequence 0, some of 1, and 64 rows of twelve sequences in turn, around every boundary.
static std::vector<qsa_cuda_row> odd_rows(int32_t cells) {
    static const int32_t edges[] = {0, 1, 7, 2047, 2048, 2051, 2052, 2053, 2054, 2055, 2056, 2100, 4096, 16384, 16388, 16420};
    std::vector<qsa_cuda_row> rows;
    for (int32_t i = 0; i < 256; i++) {
        int32_t n = i < 120 ? cells - 119 + i : i < 192 ? 2040 + i % 32 + i * 8 : cells - i;
        if (i % 5 == 0)
            n = edges[i / 5 % 16];
        rows.push_back(row_of(n < cells ? n : cells, i < 120 ? 0 : i < 192 ? 1 : i % 12));
        rows.back().attends = i % 41 != 40;
    }
    return rows;
}

static choose_tuning in_one_piece(void) {
    choose_tuning t = qsa_choose_mma_defaults();
    t.keys_bytes = (size_t)2 << 30;
    t.lists = 0;
    return t;
}

static int check_modes(void) {
    static const char *const names[MODES] = {"random",  "equal",  "zero",   "few",       "nan and inf",
                                             "rising", "falling", "sparse", "mostly nan"};
    int wrong = 0;
    long failed = 0;
    for (int mode = 0; mode < MODES; mode++) {
        failed = 0;
        for (int variant = 0; variant < 4; variant++) {
            const qsa_type type = variant == 3 ? QSA_BF16 : QSA_F16;
            world w = make_world(22222, 12, variant & 1 ? 256 : 64, type, mode, 11u + (uint32_t)mode);
            batch b = make_batch(w, odd_rows(w.cells), mode >= RISING, 5, in_one_piece(),
                                 variant & 2 ? QSA_RULE_CUT : QSA_RULE_OFFICIAL, variant & 1);
            wrong += check_all(b, (std::string(names[mode]) + " " + std::to_string(variant)).c_str(), &failed);
            free_batch(&b);
            free_world(&w);
        }
        printf("%s%s %ld", mode ? ", " : "of 1024 rows not served by list: ", names[mode], failed);
    }
    for (int32_t cells = 40000; cells <= 1048576; cells = cells * 2 < 1048576 || cells == 1048576 ? cells * 2 : 1048576)
        for (int mode : {RANDOM, ZERO, SPARSE}) {
            world w = make_world(cells, 1, 64, QSA_F16, mode, 3);
            std::vector<qsa_cuda_row> rows;
            for (int32_t i = 0; i < 40; i++)
                rows.push_back(row_of(cells - 39 + i, 0));
            batch b = make_batch(w, rows, mode == SPARSE, 6, in_one_piece(), QSA_RULE_CUT, 0);
            wrong += check_all(b, (std::to_string(cells) + " cells, " + names[mode]).c_str(), &failed);
            free_batch(&b);
            free_world(&w);
        }
    printf("\nselection: exact on %d modes x 4 variants x 256 rows and up to 1,048,576 cells: %s\n", MODES, wrong ? "NO" : "yes");
    return wrong;
}

// Rows that clusters select from, against the selection from memory.
static int check_few(void) {
    int wrong = 0;
    for (int32_t cells : {2052, 2100, 4100, 8192, 32768, 65540, 131072, 262144, 524288, 1048576})
        for (int mode = 0; mode < MODES; mode++)
            for (int32_t count : {1, 33, 50}) {
                world w = make_world(cells, 1, 64, QSA_F16, mode, 3);
                std::vector<qsa_cuda_row> rows;
                for (int32_t i = 0; i < count; i++)
                    rows.push_back(row_of(cells - i, 0));
                choose_tuning t = in_one_piece();
                batch b = make_batch(w, rows, mode >= RISING, 6, t, mode & 1 ? QSA_RULE_CUT : QSA_RULE_OFFICIAL, 0);
                choose(b);
                const std::vector<int32_t> out = out_of(b);
                b.tuning.digits = 0;
                MUST(cudaMemset(b.out, 0xee, b.out_count * 4));
                choose(b);
                if (memcmp(out.data(), out_of(b).data(), out.size() * 4) != 0) {
                    printf("FAIL: %d rows of %d cells, mode %d: the selections differ\n", count, cells, mode);
                    wrong++;
                }
                free_batch(&b);
                free_world(&w);
            }
    printf("few rows: %d of 270 batches differ\n", wrong);
    return wrong;
}

// By list against the other way, as large as they come.
static int check_large(void) {
    static const struct {
        int32_t count, cells;
        int mode;
    } of[] = {{128, 32768, RANDOM}, {777, 9000, RANDOM}, {2048, 32768, RANDOM}, {2048, 131072, RANDOM}, {2048, 131072, RISING},
              {2048, 262144, RANDOM}, {1100, 1048576, RANDOM}, {300, 262144, FEW}};
    int wrong = 0;
    for (const auto &o : of) {
        world w = make_world(o.cells, 1, 64, QSA_F16, o.mode, 5);
        std::vector<qsa_cuda_row> rows;
        for (int32_t i = 0; i < o.count; i++)
            rows.push_back(row_of(o.cells - o.count + 1 + i, 0));
        choose_tuning t = qsa_choose_mma_defaults();
        t.lists = 0;
        batch b = make_batch(w, rows, o.mode == RISING, 7, t, QSA_RULE_OFFICIAL, 0);
        choose(b);
        const std::vector<int32_t> out = out_of(b);
        long failed = 0;
        const int bad = check_lists(b, out, 4.5f, &failed);
        if (bad || (failed > 0) != (o.mode == FEW))
            printf("by list, %d rows of %d cells, mode %d: %s; %ld rows not served\n", o.count, o.cells, o.mode,
                   bad ? "DIFFERENT" : "equal", failed);
        wrong += bad;
        free_batch(&b);
        free_world(&w);
    }
    return wrong;
}

// Row alone (through either kernel) against the row in a batch of 192 of so many sequences: bits of keys, ids.
static int check_alone(int mode, int32_t sequences, int rows_path, int planes, qsa_type type) {
    world w = make_world(30003, sequences, 64, type, mode, 21);
    choose_tuning t = in_one_piece();
    t.planes = planes;
    std::vector<qsa_cuda_row> rows;
    for (int32_t i = 0; i < 192; i++)
        rows.push_back(row_of(w.cells - 191 + i, i % sequences));
    batch b = make_batch(w, rows, 0, 9, t, QSA_RULE_OFFICIAL, 0);
    int32_t stride;
    choose(b);
    const std::vector<uint32_t> keys = keys_of(b, &stride);
    const std::vector<int32_t> out = out_of(b);
    long differ = 0, ids = 0, most = 0;
    for (int32_t i = 1; i < 192; i += 19) {
        t.rows_path = rows_path;
        batch one = make_batch(w, {rows[(size_t)i]}, 0, 9, t, QSA_RULE_OFFICIAL, 0);
        MUST(cudaMemcpy((void *)one.args.index_q, b.args.index_q + i * 512, 2048, cudaMemcpyDeviceToDevice));
        choose(one);
        int32_t own;
        const std::vector<uint32_t> alone = keys_of(one, &own);
        for (int32_t k = 0; k < rows[(size_t)i].cells / 4; k++) {
            const long d = labs((long)alone[(size_t)position_of(k)] - (long)keys[(size_t)i * (size_t)stride + (size_t)position_of(k)]);
            differ += d != 0;
            most = d > most ? d : most;
        }
        ids += memcmp(out_of(one).data(), &out[(size_t)i * ID_STRIDE], 512 * 4) != 0;
        free_batch(&one);
    }
    free_batch(&b);
    free_world(&w);
    if (differ || ids)
        printf("alone and in a batch, %s, planes %d, alone %s, %d sequences%s: %ld keys differ, at most %ld ulp; %ld of 11 rows "
               "have other ids\n",
               type == QSA_BF16 ? "bf16" : "f16", planes, rows_path ? "mma.sync" : "wgmma", sequences,
           mode == ODD ? ", nan and inf" : "", differ, most, ids);
    return differ != 0;
}

static __global__ void exact_scores(double *to, const float *q, const uint16_t *keys, const int32_t *table, int32_t page_blocks,
                                    int32_t blocks, int bf16) {
    const int32_t b = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x), row = (int32_t)blockIdx.y;
    if (b >= blocks)
        return;
    const uint16_t *key = keys + ((int64_t)table[b / page_blocks] * page_blocks + b % page_blocks) * 128;
    double sum = 0.0;
    for (int h = 0; h < 4; h++) {
        double dot = 0.0;
        for (int d = 0; d < 128; d++)
            dot += (double)q[(row * 4 + h) * 128 + d] *
                   (double)(bf16 ? __bfloat162float(__ushort_as_bfloat16(key[d])) : __half2float(__ushort_as_half(key[d])));
        sum += dot > 0.0 ? dot : 0.0;
    }
    to[(int64_t)row * blocks + b] = sum / sqrt(128.0);
}

static int check_error(qsa_type type, int planes, int rows_path, double bound) {
    const int32_t count = 64, cells = 131072, blocks = cells / 4;
    world w = make_world(cells, 1, 64, type, RANDOM, 31);
    choose_tuning t = in_one_piece();
    t.planes = planes, t.rows_path = rows_path;
    batch b = make_batch(w, std::vector<qsa_cuda_row>((size_t)count, row_of(cells, 0)), 0, 17, t, QSA_RULE_OFFICIAL, 0);
    choose(b);
    int32_t stride;
    const std::vector<uint32_t> keys = keys_of(b, &stride);
    const std::vector<int32_t> out = out_of(b);
    double *device = on_device<double>((size_t)count * (size_t)blocks);
    exact_scores<<<dim3((unsigned)blocks / 256, (unsigned)count), 256>>>(
        device, b.args.index_q, (const uint16_t *)w.cache.block_keys, w.cache.tables, 16, blocks, type == QSA_BF16);
    std::vector<double> exact((size_t)count * (size_t)blocks);
    MUST(cudaMemcpy(exact.data(), device, exact.size() * 8, cudaMemcpyDeviceToHost));
    cudaFree(device);
    double worst = 0.0, squares = 0.0;
    long other = 0;
    for (int32_t i = 0; i < count; i++) {
        const double *x = &exact[(size_t)i * (size_t)blocks];
        double largest = 0.0, most = 0.0;
        std::vector<std::pair<double, int32_t>> order((size_t)blocks);
        for (int32_t k = 0; k < blocks; k++) {
            float key;
            memcpy(&key, &keys[(size_t)i * (size_t)stride + (size_t)position_of(k)], 4);
            const double d = fabs(-(double)key - x[k]);
            largest = x[k] > largest ? x[k] : largest;
            most = d > most ? d : most;
            squares += d * d / (double)count / (double)blocks;
            order[(size_t)k] = {-x[k], k};
        }
        std::nth_element(order.begin(), order.begin() + 511, order.end());
        for (int k = 0; k < 512; k++)
            other += !std::binary_search(&out[(size_t)i * ID_STRIDE], &out[(size_t)i * ID_STRIDE] + 512, order[(size_t)k].second);
        worst = most / largest > worst ? most / largest : worst;
    }
    printf("error, %s keys, %d plane(s), %s: largest %.2e of the row's largest score, rms %.2e; %ld of %d ids differ from float64's\n",
           type == QSA_BF16 ? "bf16" : "f16", planes, rows_path ? "mma.sync" : "wgmma", worst, sqrt(squares), other, count * 512);
    free_batch(&b);
    free_world(&w);
    return !(worst <= bound);
}

int check_choose(void) {
    int wrong = check_error(QSA_F16, 1, 0, 5e-4);
    wrong += check_error(QSA_F16, 1, 64, 5e-4);
    wrong += check_error(QSA_F16, 2, 0, 2e-5);
    wrong += check_error(QSA_F16, 2, 64, 2e-5);
    wrong += check_error(QSA_BF16, 2, 0, 1e-4);
    wrong += check_error(QSA_BF16, 2, 64, 1e-4);
    wrong += check_alone(RANDOM, 1, 0, 1, QSA_F16);
    for (int32_t sequences : {1, 4, 12}) { // 12: by mma.sync in the batch too
        wrong += check_alone(RANDOM, sequences, 16, 1, QSA_F16);
        wrong += check_alone(RANDOM, sequences, 16, 2, QSA_F16);
    }
    wrong += check_alone(RANDOM, 1, 16, 2, QSA_BF16);
    wrong += check_alone(ODD, 1, 16, 1, QSA_F16);
    wrong += check_modes();
    wrong += check_few();
    wrong += check_large();
    printf("checks: %s\n", wrong ? "FAILED" : "passed");
    fflush(stdout);
    return wrong;
}
