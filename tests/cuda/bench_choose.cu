// SPDX-License-Identifier: Apache-2.0
//
// Checks and times qsa_choose_cuda_mma on the device at hand. Times are microseconds, medians.

#include "check_choose.h"
#include "choose_world.cuh"

#include <algorithm>

static void *flush_memory;
enum { FLUSH = 256 << 20 };

// One call between events: cold writes 256 MB before each.
static double time_once(const batch &b, int cold, int repeats) {
    cudaEvent_t start, end;
    MUST(cudaEventCreate(&start));
    MUST(cudaEventCreate(&end));
    std::vector<float> times;
    for (int i = 0; i < repeats + 2; i++) {
        if (cold)
            MUST(cudaMemsetAsync(flush_memory, i, FLUSH));
        MUST(cudaEventRecord(start));
        MUST(qsa_choose_mma_tuned(&b.args, &b.tuning, nullptr));
        MUST(cudaEventRecord(end));
        MUST(cudaEventSynchronize(end));
        float ms;
        MUST(cudaEventElapsedTime(&ms, start, end));
        if (i >= 2)
            times.push_back(ms * 1e3f);
    }
    cudaEventDestroy(start);
    cudaEventDestroy(end);
    std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
    return times[(size_t)repeats / 2];
}

// A graph of `calls` calls, replayed 10 times: microseconds a call; cold: graphs of one call after a flush.
static double time_graph(const batch &b, int calls, int cold) {
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaEvent_t start, end;
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < calls; i++)
        MUST(qsa_choose_mma_tuned(&b.args, &b.tuning, stream));
    MUST(cudaStreamEndCapture(stream, &graph));
    MUST(cudaGraphInstantiate(&exec, graph, 0));
    MUST(cudaEventCreate(&start));
    MUST(cudaEventCreate(&end));
    std::vector<float> times;
    for (int i = 0; i < 12; i++) {
        if (cold)
            MUST(cudaMemsetAsync(flush_memory, i, FLUSH, stream));
        MUST(cudaEventRecord(start, stream));
        MUST(cudaGraphLaunch(exec, stream));
        MUST(cudaEventRecord(end, stream));
        MUST(cudaEventSynchronize(end));
        float ms;
        MUST(cudaEventElapsedTime(&ms, start, end));
        if (i >= 2)
            times.push_back(ms * 1e3f / (float)calls);
    }
    MUST(cudaGraphExecDestroy(exec));
    MUST(cudaGraphDestroy(graph));
    MUST(cudaStreamDestroy(stream));
    cudaEventDestroy(start);
    cudaEventDestroy(end);
    std::nth_element(times.begin(), times.begin() + 5, times.end());
    return times[5];
}

static void set_tuning(batch *b, const choose_tuning &t) {
    b->tuning = t;
    cudaFree(b->args.scratch);
    b->args.scratch_bytes = qsa_choose_mma_scratch_tuned(&b->args.cache, b->args.count, b->args.most_cells, &t);
    b->args.scratch = on_device<unsigned char>(b->args.scratch_bytes);
}

static void prompt_line(batch *b, const choose_tuning &t, const char *what) {
    choose_tuning part = t;
    set_tuning(b, t);
    const double cold = time_once(*b, 1, 20), hot = time_once(*b, 0, 20), graph = time_graph(*b, 5, 0);
    int32_t failed = 0;
    if (t.lists == 1)
        MUST(cudaMemcpy(&failed, (char *)b->args.scratch + qsa_choose_mma_failed_at(&b->args.cache, b->args.count, b->args.most_cells, &t),
                        4, cudaMemcpyDeviceToHost));
    double of[3];
    for (int k = 0; k < 3; k++) {
        part.parts = k == 0 ? 4 : k == 1 ? 1 : 2;
        b->tuning = part;
        of[k] = time_graph(*b, 5, 0);
    }
    printf("  %-28s cold %7.1f  hot %7.1f  graph %7.1f  bars %6.1f  scores %7.1f  select %7.1f us  %d not served\n", what, cold, hot,
           graph, of[0], of[1], of[2], failed);
    fflush(stdout);
}

static void time_prompt(int32_t cells, int32_t count) {
    world w = make_world(cells, 1, 64, QSA_F16, RANDOM, 1);
    std::vector<qsa_cuda_row> rows;
    for (int32_t i = 0; i < count; i++)
        rows.push_back(row_of(cells - count + 1 + i, 0));
    choose_tuning t = qsa_choose_mma_defaults();
    batch b = make_batch(w, rows, 0, 2, t, QSA_RULE_OFFICIAL, 0);
    printf("%d rows x %d cells, scratch %.1f MiB\n", count, cells, (double)b.args.scratch_bytes / 1048576.0);
    t.lists = 1;
    prompt_line(&b, t, "by list");
    t.lists = 0;
    prompt_line(&b, t, "all keys");
    if (count == 2048 && (cells == 16384 || cells == 32768)) {
        t.keys_bytes = (size_t)1 << 30;
        prompt_line(&b, t, "all keys, all rows at once");
    }
    free_batch(&b);
    free_world(&w);
}

static void decode_line(const world &w, const std::vector<qsa_cuda_row> &rows, const choose_tuning &t, const char *what) {
    batch b = make_batch(w, rows, 0, 2, t, QSA_RULE_OFFICIAL, 0);
    const double hot = time_graph(b, 20, 0), cold = time_graph(b, 1, 1);
    b.tuning.parts = 5;
    const double scores = time_graph(b, 20, 0);
    b.tuning.parts = 2;
    const double selects = time_graph(b, 20, 0);
    printf("  %-36s hot %7.2f  cold %7.2f  scores %7.2f  select %7.2f us\n", what, hot, cold, scores, selects);
    fflush(stdout);
    free_batch(&b);
}

static void time_decode(int32_t cells) {
    world w = make_world(cells, 1, 64, QSA_F16, RANDOM, 1);
    char what[96];
    printf("decode at %d cells, one sequence, by graph\n", cells);
    for (int count : {1, 8, 16, 64}) {
        std::vector<qsa_cuda_row> rows;
        for (int i = 0; i < count; i++)
            rows.push_back(row_of(cells - count + 1 + i, 0));
        choose_tuning t = qsa_choose_mma_defaults();
        snprintf(what, sizeof what, "%d row(s)", count);
        decode_line(w, rows, t, what);
        if (count == 1) {
            t.digits = 0;
            decode_line(w, rows, t, "  selection from memory");
            t.digits = 1, t.chained = 0;
            decode_line(w, rows, t, "  not chained");
        }
    }
    free_world(&w);
}

static void time_sequences(int32_t cells) {
    world w = make_world(cells, 64, 64, QSA_F16, RANDOM, 1);
    printf("64 sequences at %d cells, by graph\n", cells);
    for (int count : {4, 16, 32, 64}) {
        std::vector<qsa_cuda_row> rows;
        for (int i = 0; i < count; i++)
            rows.push_back(row_of(cells - i, i));
        char what[64];
        snprintf(what, sizeof what, "%d rows of as many sequences", count);
        decode_line(w, rows, qsa_choose_mma_defaults(), what);
    }
    free_world(&w);
}

int main(int argc, char **argv) {
    MUST(cudaMalloc(&flush_memory, FLUSH));
    const int wrong = argc > 1 && !strcmp(argv[1], "time") ? 0 : check_choose();
    if (argc > 1 && !strcmp(argv[1], "check"))
        return wrong != 0;
    for (int32_t cells : {32768, 131072, 262144})
        time_decode(cells);
    time_sequences(32768);
    for (int32_t cells : {8192, 16384, 32768, 65536, 131072})
        time_prompt(cells, 2048);
    time_prompt(32768, 512);
    time_prompt(131072, 512);
    time_prompt(131072, 128);
    return wrong != 0;
}
