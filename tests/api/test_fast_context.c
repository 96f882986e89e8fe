// SPDX-License-Identifier: Apache-2.0
//
// Class fast in a context: which rows it picks and takes, that a strict context never has one of them, and what is said where
// no row of class fast runs.
// LABELS: small cross
// RUNNER: plain
#define _DEFAULT_SOURCE // syscall

#include "dispatch/cpu_features.h"
#include "dispatch/table.h"
#include "qsa/qsa.h"
#include "support/plain_runner.h"

#if defined(__linux__) && defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

static qsa_context *make(qsa_class kernel_class, qsa_status want) {
    qsa_context_config config;
    qsa_context_config_init(&config);
    config.kernel_class = kernel_class;
    qsa_context *context = NULL;
    PLAIN_CHECK_INT(qsa_context_create(&config, &context), want);
    return context;
}

static const qsa_kernel_row *row_named(const char *name) {
    for (int32_t i = 0; name && i < qsa_table_rows(); i++)
        if (strcmp(qsa_table_row(i)->name, name) == 0)
            return qsa_table_row(i);
    return NULL;
}

static bool usable(const qsa_kernel_row *row) {
    return !*qsa_table_unusable(row);
}

static bool ready(const qsa_kernel_row *row) {
    return !*qsa_table_ready(row);
}

// Whether Linux has given this process tile registers: bit 18 of ARCH_GET_XCOMP_PERM.
static bool tiles_permitted(void) {
    uint64_t permitted = 0;
#if defined(__linux__) && defined(__x86_64__)
    if (syscall(SYS_arch_prctl, 0x1022, &permitted) != 0)
        permitted = 0;
#endif
    return permitted >> 18 & 1;
}

static bool has_tiles(void) {
    const uint32_t needed = QSA_CPU_AMX_TILE | QSA_CPU_AMX_INT8;
    return (qsa_cpu_detect() & needed) == needed;
}

// Tiles are asked for by the first context that is told to use them, and by no other: not by listing, not by a strict one.
static void permission(void) {
    PLAIN_CHECK(!tiles_permitted());
    for (int32_t i = 0; i < qsa_table_rows(); i++)
        (void)qsa_table_unusable(qsa_table_row(i));
    qsa_context_destroy(make(QSA_CLASS_STRICT, QSA_OK));
    PLAIN_CHECK(!tiles_permitted());
    if (qsa_table_no_fast())
        return;
    qsa_context *context = make(QSA_CLASS_FAST, QSA_OK);
    PLAIN_CHECK(!tiles_permitted()); // every machine with tiles has a faster row
    if (context) {
        PLAIN_CHECK((qsa_context_set_kernel(context, "attend", "attend_amx") == QSA_OK) == has_tiles());
        PLAIN_CHECK((strcmp(qsa_context_kernel(context, "attend"), "attend_amx") == 0) == has_tiles());
    }
    PLAIN_CHECK(tiles_permitted() == has_tiles());
    qsa_context_destroy(context);
}

// The usable row of the highest rank of the classes allowed, found the slow way.
static void picks(qsa_class kernel_class) {
    qsa_context *context = make(kernel_class, QSA_OK);
    for (int32_t i = 0; context && i < qsa_table_rows(); i++) {
        const qsa_kernel_row *row = qsa_table_row(i), *picked = row_named(qsa_context_kernel(context, row->kernel));
        if (!PLAIN_CHECK(picked && ready(picked)))
            continue;
        PLAIN_CHECK(picked->kernel_class == QSA_CLASS_STRICT || kernel_class == QSA_CLASS_FAST);
        if (ready(row) && (row->kernel_class == QSA_CLASS_STRICT || kernel_class == QSA_CLASS_FAST))
            PLAIN_CHECK(row->rank <= picked->rank);
    }
    qsa_context_destroy(context);
}

static void strict(void) {
    picks(QSA_CLASS_STRICT);
    qsa_context *context = make(QSA_CLASS_STRICT, QSA_OK);
    for (int32_t i = 0; context && i < qsa_table_rows(); i++) {
        const qsa_kernel_row *row = qsa_table_row(i);
        if (row->kernel_class != QSA_CLASS_FAST)
            continue;
        const char *names[] = {row->where, row->name};
        for (int n = 0; n < 2; n++) {
            PLAIN_CHECK_INT(qsa_context_set_kernel(context, row->stage, names[n]), QSA_ERR_UNSUPPORTED);
            PLAIN_CHECK(strstr(qsa_last_error(), usable(row) ? "class fast" : qsa_table_unusable(row)) != NULL);
        }
        PLAIN_CHECK(row_named(qsa_context_kernel(context, row->kernel))->kernel_class == QSA_CLASS_STRICT);
    }
    qsa_context_destroy(context);
}

static void fast(void) {
    const char *missing = qsa_table_no_fast();
    if (missing) {
        PLAIN_CHECK(make(QSA_CLASS_FAST, QSA_ERR_UNSUPPORTED) == NULL);
        PLAIN_CHECK(strstr(qsa_last_error(), "class fast") != NULL);
        PLAIN_CHECK(strstr(qsa_last_error(), *missing ? missing : "this build has no") != NULL);
        return;
    }
    picks(QSA_CLASS_FAST);
    qsa_context *context = make(QSA_CLASS_FAST, QSA_OK);
    if (!context)
        return;
    PLAIN_CHECK(row_named(qsa_context_kernel(context, "attend"))->kernel_class == QSA_CLASS_FAST);
    PLAIN_CHECK(row_named(qsa_context_kernel(context, "score"))->kernel_class ==
                QSA_CLASS_STRICT);                   // so is the selection
    for (int32_t i = 0; i < qsa_table_rows(); i++) { // rows of both classes may be forced
        const qsa_kernel_row *row = qsa_table_row(i);
        PLAIN_CHECK_INT(qsa_context_set_kernel(context, row->stage, row->name),
                        ready(row) ? QSA_OK : QSA_ERR_UNSUPPORTED);
        if (ready(row))
            PLAIN_CHECK(row_named(qsa_context_kernel(context, row->kernel)) == row);
    }
    qsa_context_destroy(context);
}

int main(void) {
    PLAIN_RUN(permission); // first: nothing takes a permission back
    PLAIN_RUN(strict);
    PLAIN_RUN(fast);
    return plain_finish();
}
