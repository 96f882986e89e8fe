// SPDX-License-Identifier: Apache-2.0
//
// The strict CUDA kernels against the CPU's reference, byte for byte, over random geometries, formats, alignments and
// awkward values. One line per failing case, a line per group, and a sum. --small: fewer, for the memory checker.
// --time: times instead.

#include "backend/cuda/launch.h"
#include "cuda_cases.h"
#include "cuda_timing.h"

static void group(const char *name) {
    static int cases, failures;
    printf("%-8s %5d cases, %d differences\n", name, g_cases - cases, g_failures - failures);
    cases = g_cases, failures = g_failures;
    fflush(stdout);
}

// The rows by the lab's numbers of kernels.
static int run_row(int kernel, const void *args) {
    switch (kernel) {
    case LAB_DEVICE_score:
        return qsa_score_cuda((const qsa_cuda_score_args *)args, nullptr);
    case LAB_DEVICE_topk:
        return qsa_topk_cuda((const qsa_cuda_topk_args *)args, nullptr);
    case LAB_DEVICE_attend:
        return qsa_attend_cuda((const qsa_cuda_attend_args *)args, nullptr);
    case LAB_DEVICE_merge:
        return qsa_merge_cuda((const qsa_cuda_merge_args *)args, nullptr);
    case LAB_DEVICE_gate:
        return qsa_gate_cuda((const qsa_cuda_gate_args *)args, nullptr);
    case LAB_DEVICE_prep:
        return qsa_prep_cuda((const qsa_cuda_prep_args *)args, nullptr);
    default:
        return qsa_commit_cuda((const qsa_cuda_commit_args *)args, nullptr);
    }
}

int main(int argc, char **argv) {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        printf("no CUDA device\n");
        return 77;
    }
    g_run = run_row;
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
    for (int i = 0; i < 10 * times; i++)
        test_gate(any_geometry(), pick({0, 20, 1000}), between(1, 9));
    group("gate");
    printf("%d cases, %d failed\n", g_cases, g_failures);
    return g_failures ? 1 : 0;
}
