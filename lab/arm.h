// SPDX-License-Identifier: Apache-2.0
//
// An arm: one kernel that is proved or timed, as units, as a shared object, and loaded. Baselines and candidates are made the
// same way.

#ifndef QSA_LAB_ARM_H
#define QSA_LAB_ARM_H

#include "lab/unit.h"

#include "lab/cuda/device.h"

enum { LAB_UNITS = 4 };

typedef struct lab_arm {
    qsa_kernel_number number;
    char label[160]; // the file or the name it was asked for by
    char where[32];  // of unit 0
    bool fast;       // the row is of class fast
    bool lint;
    lab_unit unit[LAB_UNITS]; // unit 0 holds the entry, the others what it calls
    int units;
    char layout[LAB_HASH];
    char id[LAB_HASH];     // over kernel, where and units
    char flags[512];       // of unit 0
    char object[LAB_PATH]; // the shared object; of CUDA machine code, beside which <object>.launch lies
    char object_sha[LAB_HASH];
    char entry[128];
    lab_device_resources resources[LAB_DEVICE_CASES]; // of CUDA, as the proof has found them
} lab_arm;

// From a source file. where NULL: what the file's name says, else `otherwise`.
bool lab_arm_from_file(lab_arm *arm, qsa_kernel_number number, const char *path, const char *where,
                       const char *otherwise, bench_error *error);
bool lab_arm_from_row(lab_arm *arm, const qsa_kernel_row *row, bench_error *error);
void lab_arm_free(lab_arm *arm);

// Refuses an arm whose contract's layout is not the tree's.
bool lab_arm_check_layout(const lab_arm *arm, bench_error *error);

// Compiles, lints and links. Units that other kernels' rows stand in for are taken from the tree where `complete` is false.
// *refused: it was the lint or the compiler that said no, and not the lab that failed.
bool lab_arm_build(lab_arm *arm, bool complete, bool *refused, bench_error *error);
// The same bytes under another path.
bool lab_arm_copy_object(const lab_arm *arm, char path[LAB_PATH], bench_error *error);

// In a child: loads the object and finds the entry. NULL with a line where it cannot be.
qsa_kernel_fn lab_arm_load(const char *object, const char *entry, bench_error *error);

#endif
