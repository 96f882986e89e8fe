// SPDX-License-Identifier: Apache-2.0
//
// fork, exec, limits, deadlines.
#define _GNU_SOURCE // MAP_ANONYMOUS, sigabbrev_np
#include "lab/process.h"

#include "bench/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number) {
    (void)number;
    interrupted = 1;
}

bool lab_interrupted(void) {
    return interrupted != 0;
}

void lab_watch_interrupts(void) {
    struct sigaction action = {.sa_handler = on_interrupt}; // no SA_RESTART: waits end
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

double lab_now(void) {
    return bench_now();
}

void lab_outcome_text(const lab_outcome *outcome, char *text, size_t size) {
    switch (outcome->how) {
    case LAB_EXITED:
        snprintf(text, size, "exit code %d", outcome->value);
        break;
    case LAB_KILLED:
        snprintf(text, size, "SIG%s", sigabbrev_np(outcome->value) ? sigabbrev_np(outcome->value) : "?");
        break;
    case LAB_LATE:
        snprintf(text, size, "longer than %.0f s", outcome->seconds);
        break;
    case LAB_STOPPED:
        snprintf(text, size, "interrupted");
        break;
    }
}

// Kills the child and waits for it.
static void kill_child(pid_t child) {
    kill(child, SIGKILL);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        continue;
}

static void nap(double seconds) {
    const struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

// Waits for the child until `end`.
static void wait_until(pid_t child, double start, double deadline, lab_outcome *outcome) {
    double pause = 2e-4;
    for (;;) {
        int status;
        const pid_t got = waitpid(child, &status, WNOHANG);
        outcome->seconds = lab_now() - start;
        if (got == child) {
            outcome->how = WIFSIGNALED(status) ? LAB_KILLED : LAB_EXITED;
            outcome->value = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
            return;
        }
        if (interrupted || outcome->seconds > deadline) {
            kill_child(child);
            outcome->how = interrupted ? LAB_STOPPED : LAB_LATE;
            outcome->seconds = interrupted ? outcome->seconds : deadline;
            return;
        }
        nap(pause);
        pause = pause < 5e-3 ? pause * 1.5 : pause;
    }
}

// In the child: dies with the lab, whose id was `parent`, and does not note interrupts but dies of them.
static void tie_to(pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(99); // the lab was gone before
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
}

bool lab_command(const char *const *argv, const char *folder, double deadline, char *said, size_t room,
                 lab_outcome *outcome, bench_error *error) {
    int ends[2];
    const pid_t parent = getpid();
    const double start = lab_now();
    said[0] = '\0';
    if (pipe(ends) != 0)
        return bench_fail(error, "no pipe: %s", strerror(errno));
    const pid_t child = fork();
    if (child == 0) {
        tie_to(parent);
        const int nowhere = open("/dev/null", O_RDONLY);
        if (nowhere < 0 || dup2(nowhere, 0) < 0 || dup2(ends[1], 1) < 0 || dup2(ends[1], 2) < 0 ||
            (folder && chdir(folder) != 0))
            _exit(98);
        close(ends[0]);
        close(ends[1]);
        setenv("LC_ALL", "C", 1);
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(97);
    }
    close(ends[1]);
    if (child < 0) {
        close(ends[0]);
        return bench_fail(error, "no process for %s: %s", argv[0], strerror(errno));
    }
    size_t used = 0;
    char rest[4096];
    for (;;) { // until it closes its output or its time is over; then waits for its end
        struct pollfd one = {.fd = ends[0], .events = POLLIN};
        const double left = deadline - (lab_now() - start);
        if (left <= 0 || interrupted)
            break;
        if (poll(&one, 1, (int)(left * 1e3) + 1) <= 0)
            continue;
        const bool more = used + 1 < room;
        const ssize_t n = read(ends[0], more ? said + used : rest, more ? room - 1 - used : sizeof rest);
        if (n == 0 || (n < 0 && errno != EINTR))
            break;
        used += more && n > 0 ? (size_t)n : 0;
    }
    close(ends[0]);
    said[used] = '\0';
    wait_until(child, start, deadline, outcome);
    if (outcome->how == LAB_STOPPED)
        return bench_fail(error, "interrupted");
    if (outcome->how == LAB_EXITED && outcome->value == 97)
        return bench_fail(error, "%s cannot be run", argv[0]);
    return true;
}

static void limit(int what, rlim_t most, rlim_t more) {
    struct rlimit now;
    if (getrlimit(what, &now) == 0 && (now.rlim_max == RLIM_INFINITY || now.rlim_max >= most + more)) {
        now.rlim_cur = most;
        now.rlim_max = most + more;
        setrlimit(what, &now);
    }
}

static void cap(double cpu_seconds, bool wide) {
    limit(RLIMIT_CORE, 0, 0);
    limit(RLIMIT_CPU, (rlim_t)cpu_seconds, 2); // SIGXCPU, and SIGKILL two seconds later
    limit(RLIMIT_FSIZE, (rlim_t)(wide ? 1 << 26 : 1 << 16), 0);
#ifndef QSA_SANITIZED // whose shadow is larger than any limit
    if (!wide)
        limit(RLIMIT_AS, (rlim_t)4 << 30, 0);
#endif
}

double lab_cpu_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static bool start_child(void (*run)(void *arg), void *arg, double cpu_seconds, bool wide, lab_outcome *outcome,
                        bench_error *error) {
    const pid_t parent = getpid();
    const double start = lab_now();
    fflush(NULL);
    const pid_t child = fork();
    if (child < 0)
        return bench_fail(error, "no process: %s", strerror(errno));
    if (child == 0) {
        tie_to(parent);
        const int nowhere = open("/dev/null", O_RDWR);
        if (nowhere < 0 || dup2(nowhere, 0) < 0 || dup2(nowhere, 1) < 0 || dup2(nowhere, 2) < 0)
            _exit(98);
        signal(SIGSEGV, SIG_DFL); // a sanitizer's handler would turn it into an exit
        signal(SIGBUS, SIG_DFL);
        signal(SIGFPE, SIG_DFL);
        signal(SIGILL, SIG_DFL);
        signal(SIGXCPU, SIG_DFL);
        cap(cpu_seconds, wide);
        run(arg);
        _exit(0);
    }
    wait_until(child, start, 6 * cpu_seconds + 10, outcome);
    return outcome->how != LAB_STOPPED || bench_fail(error, "interrupted");
}

bool lab_child(void (*run)(void *arg), void *arg, double cpu_seconds, lab_outcome *outcome, bench_error *error) {
    return start_child(run, arg, cpu_seconds, false, outcome, error);
}

bool lab_child_wide(void (*run)(void *arg), void *arg, double cpu_seconds, lab_outcome *outcome, bench_error *error) {
    return start_child(run, arg, cpu_seconds, true, outcome, error);
}

void *lab_share(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void lab_unshare(void *memory, size_t size) {
    if (memory)
        munmap(memory, size);
}
