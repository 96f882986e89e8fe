// SPDX-License-Identifier: Apache-2.0
//
// The lab's half of libqsa_cuda_lab (lab/cuda/device.h): finds it, and runs each of its functions in a child. Only the children
// start a driver, so a device that one of them has broken is gone with it.

#ifndef QSA_LAB_DEVICE_H
#define QSA_LAB_DEVICE_H

#include "lab/arm.h"
#include "lab/pair.h"
#include "lab/prove.h"
#include "lab/timed.h"

#include <jansson.h>

// NULL with one line that says what is missing.
const lab_device_ops *lab_device_load(bench_error *error);

// What there is, asked for once. False: the library is missing; no device is told in about->why.
bool lab_device_tell(lab_device_about *about, bench_error *error);
// Refuses a machine without a device.
bool lab_device_need(bench_error *error);

// lab_arm_build for CUDA: NVRTC, lint. Needs no device: it compiles for the one that is there, else for compute capability 9.0.
bool lab_device_build(lab_arm *arm, bool *refused, bench_error *error);

// lab_prove for CUDA; also finds the resources of both arms.
bool lab_device_prove(prove_report *report, const prove_plan *plan, lab_device_resources resources[2][LAB_DEVICE_CASES],
                      bench_error *error);

// The same for a pair, whose arms keep the resources.
bool lab_prove_pair(lab_pair *pair, prove_report *report, const prove_plan *plan, bench_error *error);
// "registers 64 -> 60, ..." of case i; nothing where there is none.
void lab_print_resources(const lab_arm *baseline, const lab_arm *candidate, int i);

// The cases of a kernel of CUDA, with the floors of the C ones.
int lab_device_cases_of(timed_case cases[TIMED_CASES], qsa_kernel_number number, double floor);
// timed_run for CUDA, in the child; then, in the lab, what it left becomes the report.
void lab_device_take(const timed_plan *plan, timed_report *report);
void lab_device_time(const timed_plan *plan, timed_report *report);

// Device and library, for a record; null where there is none.
json_t *lab_device_json(void);
json_t *lab_resources_json(const lab_arm *arm);

// qsa-lab layout mma, wgmma: the text is malloc's.
bool lab_device_probe(const char *name, bool json, char **said, bench_error *error);

#endif
