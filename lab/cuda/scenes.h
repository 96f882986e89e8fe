// SPDX-License-Identifier: Apache-2.0
//
// What is timed: some sets of random inputs on the device, and the arguments of a call with its outputs in a slot of its own.

#ifndef QSA_LAB_CUDA_SCENES_H
#define QSA_LAB_CUDA_SCENES_H

#include "lab/cuda/module.h"

#include <vector>

class lab_scene {
  public:
    // dry: nothing is allocated, for a look at a launch.
    lab_scene(int kernel, const lab_device_case &what, uint64_t seed, bool dry);
    ~lab_scene();
    lab_scene(const lab_scene &) = delete;
    int sets() const {
        return sets_;
    }
    size_t slot_bytes() const {
        return slot_bytes_;
    }
    // The argument struct of a call on a set with its outputs at `slot`; until the next call of this.
    const void *args(int set, unsigned char *slot);

  private:
    int kernel_, sets_ = 3;
    bool dry_;
    int32_t rows_, cells_;
    uint64_t seed_;
    size_t slot_bytes_ = 0;
    std::vector<void *> memory_;
    qsa_cuda_cache cache_ = {};
    qsa_cuda_row *row_list_ = nullptr;
    int32_t *counts_ = nullptr, *cut_index_ = nullptr, *cut_cells_ = nullptr, *spans_ = nullptr;
    float *factor_ = nullptr, *inv_freq_ = nullptr;
    uint8_t *axis_ = nullptr;
    struct set {
        void *a, *b;
        int32_t *ids;
    };
    std::vector<set> set_;
    union {
        qsa_cuda_score_args score;
        qsa_cuda_topk_args topk;
        qsa_cuda_attend_args attend;
        qsa_cuda_merge_args merge;
        qsa_cuda_gate_args gate;
        qsa_cuda_prep_args prep;
        qsa_cuda_commit_args commit;
    } args_;

    void *take(size_t bytes);
    void *random_floats(size_t count);
    void *random_bytes(size_t count);
    template <class T> T *copy_of(const std::vector<T> &x);
    void make_cache();
    void make_rows();
    void make_set(int number);
    int32_t *make_ids(int number);
    int64_t record_stride() const;
};

// What each line of the kernel's cases takes of the device.
void lab_scene_resources(lab_module *module, int kernel, lab_device_resources out[LAB_DEVICE_CASES]);

#endif
