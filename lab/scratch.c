// SPDX-License-Identifier: Apache-2.0
//
// Scratch folders are named qsa-lab.<pid>.<random>: what no living process owns is nobody's.
#define _GNU_SOURCE // nftw
#include "lab/scratch.h"

#include "lab/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char folder[LAB_PATH];
static pid_t owner;
static int names, lock = -1;

static const char *temporary(void) {
    const char *path = getenv("TMPDIR");
    return path && *path ? path : "/tmp";
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk) {
    (void)status, (void)kind, (void)walk;
    remove(path);
    return 0;
}

static void remove_tree(const char *path) {
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void sweep(void) {
    DIR *list = opendir(temporary());
    if (!list)
        return;
    for (struct dirent *entry; (entry = readdir(list));) {
        char *rest = NULL, path[LAB_PATH];
        if (strncmp(entry->d_name, "qsa-lab.", 8) != 0)
            continue;
        const long pid = strtol(entry->d_name + 8, &rest, 10);
        struct stat status;
        bench_error ignored;
        if (pid <= 0 || *rest != '.' || (kill((pid_t)pid, 0) == 0 || errno != ESRCH) ||
            !lab_join(path, temporary(), entry->d_name, &ignored))
            continue;
        if (lstat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == getuid())
            remove_tree(path);
    }
    closedir(list);
}

bool lab_scratch(char path[LAB_PATH], bench_error *error) {
    if (!folder[0]) {
        char name[64];
        sweep();
        snprintf(name, sizeof name, "qsa-lab.%ld.XXXXXX", (long)getpid());
        if (!lab_join(folder, temporary(), name, error)) {
            folder[0] = '\0';
            return false;
        }
        if (!mkdtemp(folder)) {
            bench_say(error, "%s: %s", folder, strerror(errno));
            folder[0] = '\0';
            return false;
        }
        owner = getpid();
    }
    memcpy(path, folder, LAB_PATH);
    return true;
}

bool lab_scratch_name(char path[LAB_PATH], const char *name, bench_error *error) {
    char here[LAB_PATH], numbered[256];
    snprintf(numbered, sizeof numbered, "%d-%s", names++, name);
    return lab_scratch(here, error) && lab_join(path, here, numbered, error);
}

void lab_scratch_remove(void) {
    if (folder[0] && owner == getpid())
        remove_tree(folder);
    folder[0] = '\0';
}

bool lab_lock(double seconds, bench_error *error) {
    char path[LAB_PATH], name[64];
    snprintf(name, sizeof name, "qsa-lab-%ld.lock", (long)getuid());
    if (!lab_join(path, temporary(), name, error))
        return false;
    lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (lock < 0)
        return bench_fail(error, "%s: %s", path, strerror(errno));
    const double start = lab_now();
    while (flock(lock, LOCK_EX | LOCK_NB) != 0) {
        const struct timespec pause = {0, 100000000};
        if (lab_now() - start > seconds || lab_interrupted()) {
            lab_unlock();
            return bench_fail(error, "another lab measures on this machine (waited %.0f s)", seconds);
        }
        nanosleep(&pause, NULL);
    }
    return true;
}

void lab_unlock(void) {
    if (lock >= 0)
        close(lock);
    lock = -1;
}
