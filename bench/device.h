// SPDX-License-Identifier: Apache-2.0
//
// A world on a GPU: its arrays moved there, its cases called on a stream and timed by events.

#ifndef QSA_BENCH_DEVICE_H
#define QSA_BENCH_DEVICE_H

#include "bench/measure.h"

// Copies batch, selections and results' room to the device of the world's context; the world's pointers then lie there.
bool device_move(bench_world *world, bench_error *error);
void device_free(bench_world *world);
// `count` floats of the world in host memory: the array itself, or a copy that world_close frees.
const float *device_values(bench_world *world, const float *array, size_t count, bench_error *error);

// One call of a case on the device, with the rows appended; nothing is taken back.
qsa_status device_call(bench_world *world, bench_id id);

// bench_measure's samples and roofs by events.
bool device_measure(bench_result *result, bench_world *world, bench_error *error);

#endif
