// SPDX-License-Identifier: Apache-2.0
//
// What the lab asks of a GPU: to compile a unit with NVRTC, and, in a child of the lab, to prove, time and probe. It is a shared
// object of its own (libqsa_cuda_lab), loaded when a .cu file is labelled, so that neither the lab nor the backend's plugin needs
// NVRTC. Everything is plain data, and reports lie in memory that the child shares with the lab.

#ifndef QSA_LAB_CUDA_DEVICE_H
#define QSA_LAB_CUDA_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Raised whenever anything below changes.
#define LAB_DEVICE_ABI    1
#define LAB_DEVICE_SYMBOL "qsa_lab_device"
#define LAB_DEVICE_FILE   "libqsa_cuda_lab.so.0"

// The kernels of kernels/cuda_args.h that can be labelled, in the order of their numbers here.
#define LAB_DEVICE_KERNEL_LIST(X)                                                                                      \
    X(score, score) X(topk, topk) X(attend, attend) X(merge, merge) X(merge, gate) X(prep, prep) X(prep, commit)
enum {
#define LAB_DEVICE_NUMBER(stage, kernel) LAB_DEVICE_##kernel,
    LAB_DEVICE_KERNEL_LIST(LAB_DEVICE_NUMBER)
#undef LAB_DEVICE_NUMBER
        LAB_DEVICE_KERNELS
};

typedef struct lab_device_about {
    char name[128]; // of the device
    int major, minor, multiprocessors;
    int driver, nvrtc; // 13000, 13000
    char why[300];     // that there is no device; else empty
} lab_device_about;

// A source as NVRTC sees it. Results are malloc's.
typedef struct lab_device_source {
    const char *text, *name;
    const char *const *flags;
    int flags_count;
    const char *const *kernels; // name expressions
    int kernels_count;
} lab_device_source;
typedef struct lab_device_code {
    char *bytes;
    size_t size;
    char *lowered[16]; // name of each kernel in it
    char log[4000];    // the first error
} lab_device_code;

// An arm on disk: machine code, and LAUNCH lines with the names in it.
typedef struct lab_device_arm {
    const char *code, *launches;
} lab_device_arm;

typedef struct lab_device_resources {
    char kernel[160], at[48]; // the line that was taken, for which case
    int registers;            // of a thread
    int spill_bytes;          // local memory of a thread
    int shared_static, shared_dynamic;
    int threads; // of a thread block
    int blocks_per_sm;
    char limited_by[24]; // registers, shared memory, threads, thread blocks
} lab_device_resources;

enum { LAB_DEVICE_CASES = 3 };
// A shape that is timed: rows that see `cells` cells. cold: inputs come from memory and not from L2.
typedef struct lab_device_case {
    const char *name;
    int32_t rows, cells;
    bool cold;
} lab_device_case;

typedef struct lab_device_plan {
    int kernel;
    lab_device_arm arm[2]; // baseline, candidate
    uint64_t seed;
    int32_t calls;   // random calls; each with two poisons
    bool boundaries; // the model's geometry beside the budget, too
} lab_device_plan;

typedef struct lab_device_proof {
    bool finished, passed, baseline_failed, differs;
    int32_t calls;
    double used, since; // seconds of the candidate so far; since when it runs, 0 while it does not
    char what[260], complaint[600];
    char field[32], got[40], want[40], got_bits[24], want_bits[24];
    int64_t element;
    lab_device_resources resources[2][LAB_DEVICE_CASES];
} lab_device_proof;

enum { LAB_DEVICE_BLOCKS = 100 };
typedef struct lab_device_block {
    bool turned;
    double ns[4];
    unsigned drop;
} lab_device_block;
typedef struct lab_device_result {
    int32_t calls;
    int blocks;
    lab_device_block block[2][LAB_DEVICE_BLOCKS]; // of the null, of the pair
} lab_device_result;

typedef struct lab_device_times {
    int kernel;
    lab_device_arm arm[3]; // baseline, candidate, null
    lab_device_case cases[LAB_DEVICE_CASES];
    int count, blocks;
    double batch_seconds;
    uint64_t seed;
    bool own_bits;
} lab_device_times;
typedef struct lab_device_samples {
    bool finished;
    double used, since;
    int wrong_arm; // -1: none
    char reason[300];
    lab_device_result of[LAB_DEVICE_CASES];
} lab_device_samples;

typedef struct lab_device_ops {
    uint32_t abi, layout;
    int (*nvrtc)(void); // 13000, or 0 where it cannot be asked
    // Needs no device. False: `log` says why.
    bool (*compile)(const lab_device_source *source, lab_device_code *code);
    // From here on in a child: they start the driver.
    void (*about)(lab_device_about *about);
    void (*prove)(const lab_device_plan *plan, lab_device_proof *proof);
    void (*time)(const lab_device_times *times, lab_device_samples *samples);
    // attend through the contract of the C rows, on host memory, for the bound of class fast: binds an arm, then calls it.
    bool (*bind_attend)(const lab_device_arm *arm, char *why, size_t size);
    void (*call_attend)(const void *args);
    // mma or wgmma, as text of the layout command. False with a line in `why`.
    bool (*probe)(const char *name, bool json, char *said, size_t room, char *why, size_t size);
} lab_device_ops;

#define LAB_DEVICE_LAYOUT                                                                                              \
    (uint32_t)(sizeof(lab_device_ops) + sizeof(lab_device_proof) + sizeof(lab_device_samples) +                        \
               sizeof(lab_device_times) + sizeof(lab_device_about) + sizeof(lab_device_code))

typedef const lab_device_ops *(*lab_device_entry)(void);

#ifdef __cplusplus
}
#endif

#endif
