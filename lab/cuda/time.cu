// SPDX-License-Identifier: Apache-2.0
//
// A batch is one launch of a graph of calls between two events. Every call has a slot of its own whose bytes are poison before the
// batch, so a call that finds its outputs written, or that leaves them to another, shows; all slots are compared on the device
// after it. The blocks are those of lab/timed.c: ABBA or BAAB, with blocks of the baseline and the null woven in.

#include "lab/cuda/time.h"

#include "lab/cuda/scenes.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

namespace {

enum { MOST_CALLS = 1024 };
constexpr size_t SLOT_MEMORY = (size_t)6 << 30;

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Bytes of a slot that are not what the reference wrote, or, where it wrote nothing (its two runs differ), not poison.
__global__ void count_different(const uint32_t *slots, const uint32_t *first, const uint32_t *second, size_t words,
                                int calls, int sets, uint32_t poison, unsigned long long *found) {
    const int call = blockIdx.y;
    const uint32_t *slot = slots + call * words, *a = first + call % sets * words, *b = second + call % sets * words;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < words; i += (size_t)gridDim.x * blockDim.x) {
        const uint32_t same = ~(a[i] ^ b[i]);
        uint32_t want = 0;
        for (int k = 0; k < 32; k += 8) {
            const uint32_t mask = 0xffu << k;
            want |= (same & mask) == mask ? a[i] & mask : poison & mask;
        }
        if (slot[i] != want)
            atomicMin(found, (unsigned long long)(call * words + i));
    }
}

struct random {
    uint64_t x;
    uint32_t below(uint32_t n) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        return (uint32_t)((x * 0x2545f4914f6cdd1dull >> 33) % n);
    }
};

class timing {
  public:
    timing(const lab_device_times *plan, lab_device_samples *samples) : plan_(plan), samples_(samples) {
        for (int i = 0; i < 3; i++)
            arm_[i].reset(new lab_module(plan->arm[i], i));
        lab_check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
        lab_check(cudaEventCreate(&from_), "event");
        lab_check(cudaEventCreate(&to_), "event");
        lab_check(cudaMalloc(&found_, 8), "memory");
    }
    void one_case(int number);

  private:
    const lab_device_times *plan_;
    lab_device_samples *samples_;
    std::unique_ptr<lab_module> arm_[3];
    std::unique_ptr<lab_scene> scene_;
    cudaStream_t stream_ = nullptr;
    cudaEvent_t from_ = nullptr, to_ = nullptr;
    cudaGraphExec_t graph_[3] = {};
    unsigned char *slots_ = nullptr, *reference_[2][2] = {}; // [the baseline's or the candidate's own][poison]
    unsigned long long *found_ = nullptr;
    int calls_ = 0;
    unsigned poison_ = 0;
    random random_ = {1};

    void make_reference(int arm, unsigned char *to, int poison);
    void capture(int calls);
    double batch(int arm);
    void check_slots(int arm);
    void size_batch();
    void release();
};

void timing::make_reference(int arm, unsigned char *to, int poison) {
    const size_t bytes = scene_->slot_bytes();
    lab_check(cudaMemsetAsync(to, poison, bytes * scene_->sets(), stream_), "poison");
    for (int i = 0; i < scene_->sets(); i++)
        arm_[arm]->launch(plan_->kernel, scene_->args(i, to + i * bytes), stream_);
    const cudaError_t status = cudaStreamSynchronize(stream_);
    if (status != cudaSuccess)
        throw lab_stop{arm, cudaGetErrorString(status)};
}

void timing::capture(int calls) {
    calls_ = calls;
    for (int arm = 0; arm < 3; arm++) {
        cudaGraph_t graph = nullptr;
        if (graph_[arm])
            cudaGraphExecDestroy(graph_[arm]);
        lab_check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capture");
        for (int i = 0; i < calls; i++)
            arm_[arm]->launch(plan_->kernel, scene_->args(i % scene_->sets(), slots_ + i * scene_->slot_bytes()),
                              stream_);
        lab_check(cudaStreamEndCapture(stream_, &graph), "capture");
        lab_check(cudaGraphInstantiate(&graph_[arm], graph, 0), "graph");
        lab_check(cudaGraphUpload(graph_[arm], stream_), "graph");
        cudaGraphDestroy(graph);
    }
}

void timing::check_slots(int arm) {
    const size_t words = scene_->slot_bytes() / 4;
    const int own = plan_->own_bits && arm == 1 ? 1 : 0;
    unsigned long long found = ~0ull;
    lab_check(cudaMemsetAsync(found_, 0xff, 8, stream_), "compare");
    const dim3 grid((unsigned)std::min<size_t>(64, words / 256 + 1), (unsigned)calls_);
    count_different<<<grid, 256, 0, stream_>>>((const uint32_t *)slots_, (const uint32_t *)reference_[own][0],
                                               (const uint32_t *)reference_[own][1], words, calls_, scene_->sets(),
                                               poison_ * 0x01010101u, found_);
    lab_check(cudaMemcpyAsync(&found, found_, 8, cudaMemcpyDeviceToHost, stream_), "compare");
    lab_check(cudaStreamSynchronize(stream_), "compare");
    if (found == ~0ull)
        return;
    char text[200];
    snprintf(text, sizeof text, "a timed call gave other bytes: word %llu of its outputs, in call %llu of a batch",
             found % words, found / words);
    throw lab_stop{arm, text};
}

// Nanoseconds of one call.
double timing::batch(int arm) {
    float ms = 0;
    poison_ = poison_ % 251 + 1;
    lab_check(cudaMemsetAsync(slots_, (int)poison_, calls_ * scene_->slot_bytes(), stream_), "poison");
    samples_->since = arm == 1 ? now() : 0;
    lab_check(cudaEventRecord(from_, stream_), "event");
    lab_check(cudaGraphLaunch(graph_[arm], stream_), "graph");
    lab_check(cudaEventRecord(to_, stream_), "event");
    const cudaError_t status = cudaEventSynchronize(to_);
    samples_->used += arm == 1 ? now() - samples_->since : 0;
    samples_->since = 0;
    if (status != cudaSuccess)
        throw lab_stop{arm, cudaGetErrorString(status)};
    lab_check(cudaEventElapsedTime(&ms, from_, to_), "event");
    check_slots(arm);
    return (double)ms * 1e6 / calls_;
}

// Found with the baseline, the same for all arms.
void timing::size_batch() {
    const int most = (int)std::min<size_t>(MOST_CALLS, SLOT_MEMORY / scene_->slot_bytes());
    capture(std::min(most, 16));
    batch(0);
    const double ns = std::min(batch(0), batch(0));
    const double wanted = plan_->batch_seconds * 1e9 / std::max(ns, 1.0) + 1;
    capture(wanted > most ? most : std::max((int)wanted, 1));
}

void timing::release() {
    for (cudaGraphExec_t &graph : graph_) {
        if (graph)
            cudaGraphExecDestroy(graph);
        graph = nullptr;
    }
    cudaFree(slots_);
    for (auto &own : reference_)
        for (unsigned char *&r : own) {
            cudaFree(r);
            r = nullptr;
        }
    slots_ = nullptr;
    scene_.reset();
}

void timing::one_case(int number) {
    lab_device_result *result = &samples_->of[number];
    random_.x = plan_->seed * 0x9e3779b97f4a7c15ull + (uint64_t)number + 1;
    scene_.reset(new lab_scene(plan_->kernel, plan_->cases[number], plan_->seed + (uint64_t)number, false));
    const size_t bytes = scene_->slot_bytes(), most = std::min<size_t>(MOST_CALLS, SLOT_MEMORY / bytes);
    lab_check(cudaMalloc(&slots_, bytes * most), "memory for slots");
    for (int own = 0; own < (plan_->own_bits ? 2 : 1); own++)
        for (int p = 0; p < 2; p++) {
            lab_check(cudaMalloc(&reference_[own][p], bytes * scene_->sets()), "memory for slots");
            make_reference(own, reference_[own][p], p ? 0x5a : 0xa5);
        }
    size_batch();
    result->calls = calls_;
    for (int arm = 0; arm < 3; arm++) // a common warm-up
        batch(arm);
    std::vector<bool> turned[2];
    for (auto &list : turned) {
        for (int b = 0; b < plan_->blocks; b++)
            list.push_back(b % 2);
        for (int b = plan_->blocks - 1; b > 0; b--) {
            const int other = (int)random_.below((uint32_t)b + 1);
            const bool t = list[b];
            list[b] = list[other], list[other] = t;
        }
    }
    for (int b = 0; b < plan_->blocks; b++) {
        const int first = (int)random_.below(2);
        for (int k = 0; k < 2; k++) {
            const int kind = k == first ? 0 : 1, other = kind == 0 ? 2 : 1;
            lab_device_block *block = &result->block[kind][b];
            *block = lab_device_block{turned[kind][b], {0, 0, 0, 0}, 0};
            for (int i = 0; i < 4; i++)
                block->ns[i] = batch((i == 1 || i == 2) != block->turned ? other : 0);
        }
        result->blocks++;
    }
    release();
}

} // namespace

void lab_cuda_time(const lab_device_times *times, lab_device_samples *samples) {
    samples->wrong_arm = -1;
    try {
        timing t(times, samples);
        for (int i = 0; i < times->count; i++)
            t.one_case(i);
        samples->finished = true;
    } catch (const lab_stop &stop) {
        samples->wrong_arm = stop.arm;
        snprintf(samples->reason, sizeof samples->reason, "%.290s", stop.why.c_str());
    } catch (const std::exception &e) {
        snprintf(samples->reason, sizeof samples->reason, "%.290s", e.what());
    }
}
