// SPDX-License-Identifier: Apache-2.0
//
// Other processes: the compiler, and children in which candidates run. Every one dies with the lab, has a deadline, and is
// killed by its own id. An interrupt (SIGINT, SIGTERM, SIGHUP) ends the wait and is told.

#ifndef QSA_LAB_PROCESS_H
#define QSA_LAB_PROCESS_H

#include "lab/lab.h"

// Whether an interrupt has come. Commands then clean up and end.
bool lab_interrupted(void);
// Notes interrupts instead of dying. Once, at the start.
void lab_watch_interrupts(void);

typedef enum lab_end { LAB_EXITED, LAB_KILLED, LAB_LATE, LAB_STOPPED } lab_end;

typedef struct lab_outcome {
    lab_end how; // exited, killed by a signal, too late (cap of time), interrupted
    int value;   // exit code or signal
    double seconds;
} lab_outcome;

// "exit code 3", "SIGSEGV", "longer than 30 s".
void lab_outcome_text(const lab_outcome *outcome, char *text, size_t size);

// Runs argv[0] in `folder` (NULL: here) and keeps the first bytes of what it says.
bool lab_command(const char *const *argv, const char *folder, double deadline, char *said, size_t room,
                 lab_outcome *outcome, bench_error *error);

// Runs run(arg) in a child with caps: address space, CPU time, file size, no core. Its standard output and error go
// nowhere. What it finds it leaves in memory from lab_share. A child that has used up its CPU time is killed by SIGXCPU; one that
// takes six times as long by the clock is too late, which a busy machine does to any.
bool lab_child(void (*run)(void *arg), void *arg, double cpu_seconds, lab_outcome *outcome, bench_error *error);

// The same for a child that drives a GPU or NVRTC: they map more address space than any cap leaves, and write larger files.
bool lab_child_wide(void (*run)(void *arg), void *arg, double cpu_seconds, lab_outcome *outcome, bench_error *error);

// Seconds of CPU time of this process.
double lab_cpu_now(void);

// Zeroed memory that children share; NULL when there is none.
void *lab_share(size_t size);
void lab_unshare(void *memory, size_t size);

// Seconds of a clock that only goes forward.
double lab_now(void);

#endif
