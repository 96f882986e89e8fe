// SPDX-License-Identifier: Apache-2.0
//
// One process of timing: inputs, slots, batches, blocks. It runs in a child and leaves its samples in shared memory.

#ifndef QSA_LAB_TIMED_H
#define QSA_LAB_TIMED_H

#include "lab/arm.h"
#include "lab/cases/parts.h"

enum { TIMED_CASES = 3, TIMED_ROWS = 16, TIMED_BLOCKS = 100, TIMED_NAME = 48 };

// What is timed: rows of these numbers of cells, in turn.
typedef struct timed_case {
    char name[TIMED_NAME];
    int32_t cells[TIMED_ROWS];
    int rows;
    case_edge edge;
    bool cold;
    int32_t least_calls; // of a batch
    double effect_floor, harm_floor;
} timed_case;

enum { ARM_A, ARM_B, ARM_NULL, ARMS };
enum { KIND_NULL, KIND_PAIR, KINDS }; // blocks of A and the null, of A and B

// Why a block is dropped: bits.
enum { DROP_SWITCH = 1, DROP_MOVED = 2, DROP_FAULT = 4, DROP_STEAL = 8 };

typedef struct timed_block {
    bool turned;  // BAAB instead of ABBA
    double ns[4]; // of one call, in the order they were run
    unsigned drop;
} timed_block;

typedef struct timed_result {
    int32_t calls; // of a batch
    int blocks;    // that are whole, of each kind
    timed_block block[KINDS][TIMED_BLOCKS];
} timed_result;

typedef struct timed_plan {
    qsa_kernel_number number;
    const char *object[ARMS];
    const char *entry[ARMS];
    timed_case cases[TIMED_CASES];
    int n_cases;
    int blocks;           // of each kind
    double batch_seconds; // of a batch at least
    uint64_t seed;        // of this process
    bool own_bits;        // the candidate is compared with its own first outputs (class fast, held to the bound)
} timed_plan;

typedef struct timed_report {
    bool finished;
    double used, since; // CPU seconds of the candidate so far; since when it runs, 0 while it does not
    int wrong_arm;      // ARM_B: a timed call gave other bytes; other arms: the lab is wrong; -1: none
    char reason[300];
    timed_result of[TIMED_CASES];
    lab_device_samples device; // what the child of a GPU left
} timed_report;

// In the child.
void timed_run(const timed_plan *plan, timed_report *report);

#endif
