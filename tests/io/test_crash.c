// SPDX-License-Identifier: Apache-2.0
//
// A snapshot file while it is written: kill -9 at any moment and a full disk leave the old snapshot or the new one, never
// half of one. Control: a writer without a temporary name leaves a broken file, which is refused.
#include "io/snapshot_file.h"
#include "support/fixture.h"
#include "support/unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { OLD = 200, NEW = 300, KILLS = 80 };

static char folder[256], path[300], message[300];
static const io_error err = {message, sizeof message};
static fx_world *world;
static fx_session session[2]; // one cache of OLD cells, one of NEW
static fx_results *cells[2];

static int begin(void **state) {
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/qsa-crash-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/snapshot", folder);
    const qsa_geometry g = fx_geometry_small();
    const int32_t lengths[] = {NEW};
    world = fx_world_make(211, &g, 2, 1, lengths, 1);
    for (int i = 0; i < 2; i++) {
        const int32_t count[FX_MAX_SEQUENCES] = {i ? NEW : OLD};
        fx_options o = fx_options_default();
        session[i] = fx_open(world, &o);
        fx_step(&session[i], count, NULL);
        cells[i] = fx_results_make(&session[i]);
        fx_read(&session[i], cells[i]);
    }
    return 0;
}

static int end(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        fx_results_free(cells[i]);
        fx_close(&session[i]);
    }
    fx_world_free(world);
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command); // NOLINT(cert-env33-c): the folder is mkdtemp's
}

static bool save(int which) {
    return io_snapshot_save(path, session[which].cache, 1, session[which].sequence, err);
}

// 0 for the old snapshot, 1 for the new one, -1 for a file that is refused, -2 for one that is loaded and neither.
static int what_is_there(void) {
    fx_options o = fx_options_default();
    o.page_cells = 12;
    fx_session s = fx_open(world, &o);
    FX_OK(qsa_sequence_destroy(s.cache, s.sequence[0]));
    int32_t count = 0;
    int found = -1;
    if (io_snapshot_load(path, s.cache, 1, s.sequence, &count, err)) {
        fx_results *r = fx_results_make(&s);
        fx_read(&s, r);
        found = -2;
        for (int i = 0; i < 2; i++)
            if (!fx_difference(r, cells[i]))
                found = i;
        fx_results_free(r);
    }
    fx_close(&s);
    return found;
}

static int files_in_folder(void) {
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    int files = 0;
    for (const struct dirent *entry; (entry = readdir(listing)) != NULL;)
        files += entry->d_name[0] != '.';
    closedir(listing);
    return files;
}

static void pause_for(long nanoseconds) {
    const struct timespec time = {0, nanoseconds};
    nanosleep(&time, NULL);
}

// Writes in place, piece by piece: what saving must not do.
static int naive_piece(void *user, const void *data, size_t bytes) {
    const ssize_t n = write(*(const int *)user, data, bytes);
    pause_for(200000);
    return n != (ssize_t)bytes;
}
static void save_naively(int which) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    (void)qsa_snapshot_save(session[which].cache, 1, session[which].sequence, naive_piece, &fd);
    close(fd);
}

// A child that saves the two in turn is killed after a while; returns what is there then.
static int kill_a_writer(bool naive, rng *r) {
    const pid_t child = fork();
    assert_true(child >= 0);
    for (int i = 1; child == 0; i = !i) {
        if (naive)
            save_naively(i);
        else if (!save(i))
            _exit(1);
    }
    pause_for(1000L * rng_range(r, 100, 6000));
    int status;
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return what_is_there();
}

static void killed(void **state) {
    (void)state;
    rng r = rng_make(1);
    int found[2] = {0};
    assert_true(save(0));
    for (int i = 0; i < KILLS; i++) {
        const int there = kill_a_writer(false, &r);
        if (there < 0)
            fail_msg("kill %d left %s: %s", i, there == -1 ? "a broken file" : "other cells", message);
        found[there]++;
    }
    assert_true(found[0] > 0 && found[1] > 0);
    // Files under temporary names of killed writers may be left over; a new save is not disturbed.
    assert_true(save(1));
    assert_int_equal(what_is_there(), 1);
}

static void killed_control(void **state) {
    (void)state;
    rng r = rng_make(2);
    int broken = 0;
    for (int i = 0; i < KILLS && !broken; i++) {
        const int there = kill_a_writer(true, &r);
        assert_int_not_equal(there, -2); // half a snapshot is never taken for one
        broken = there == -1;
    }
    assert_true(broken);
}

static void empty_folder(void) {
    char command[300];
    snprintf(command, sizeof command, "rm -f '%s'/*", folder);
    assert_int_equal(system(command), 0); // NOLINT(cert-env33-c): the folder is mkdtemp's
}

// A child that may write files of `limit` bytes only: 0 if it saved, 1 if that failed with a line.
static int save_within(rlim_t limit) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit most = {limit, limit};
        signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &most) != 0)
            _exit(9);
        message[0] = 0;
        const bool saved = save(1);
        _exit(saved ? 0 : message[0] ? 1 : 8);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void full_disk(void **state) {
    (void)state;
    empty_folder();
    struct stat st;
    assert_true(save(1));
    assert_int_equal(stat(path, &st), 0);
    const off_t size = st.st_size;
    assert_true(save(0));
    const off_t limits[] = {0, 1, 4096, size / 2, size - 1};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        assert_int_equal(save_within((rlim_t)limits[i]), 1);
        assert_int_equal(what_is_there(), 0);
        assert_int_equal(files_in_folder(), 1); // nothing is left beside it
    }
    assert_int_equal(save_within((rlim_t)size), 0);
    assert_int_equal(what_is_there(), 1);
}

// A device that is always full: the write function's failure is the call's.
static int write_to(void *user, const void *data, size_t bytes) {
    return write(*(const int *)user, data, bytes) != (ssize_t)bytes;
}
static void full_device(void **state) {
    (void)state;
    int fd = open("/dev/full", O_WRONLY);
    if (fd < 0)
        skip();
    assert_int_equal(qsa_snapshot_save(session[0].cache, 0, NULL, write_to, &fd), QSA_ERR_IO);
    close(fd);
}

// What is no whole snapshot file: refused with the reason, the cache unchanged.
static void refused(void **state) {
    (void)state;
    empty_folder();
    assert_false(io_snapshot_load(path, session[0].cache, 1, session[0].sequence, &(int32_t){0}, err));
    assert_non_null(strstr(message, "cannot open"));
    assert_true(save(0));
    FILE *file = fopen(path, "ab");
    assert_non_null(file);
    assert_int_equal(fputc('x', file), 'x');
    assert_int_equal(fclose(file), 0);
    fx_options o = fx_options_default();
    fx_session s = fx_open(world, &o);
    FX_OK(qsa_sequence_destroy(s.cache, s.sequence[0]));
    qsa_cache_info before = {.size = sizeof before}, after = {.size = sizeof after};
    int32_t count = 0;
    FX_OK(qsa_cache_get_info(s.cache, &before));
    assert_false(io_snapshot_load(path, s.cache, 1, s.sequence, &count, err));
    assert_non_null(strstr(message, "more than a snapshot"));
    FX_OK(qsa_cache_get_info(s.cache, &after));
    assert_memory_equal(&before, &after, sizeof before);
    assert_int_equal(truncate(path, 50), 0);
    assert_false(io_snapshot_load(path, s.cache, 1, s.sequence, &count, err));
    assert_non_null(strstr(message, "ends early"));
    assert_false(io_snapshot_save(folder, s.cache, 0, NULL, err));
    assert_non_null(strstr(message, "directory"));
    fx_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed),      cmocka_unit_test(killed_control), cmocka_unit_test(full_disk),
        cmocka_unit_test(full_device), cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
