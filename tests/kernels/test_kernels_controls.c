// SPDX-License-Identifier: Apache-2.0
//
// Kernels that are wrong on purpose: each protection of support/kernel_case.h must catch its own. All are the reference
// with one fault, run on the same call.
// LABELS: small cross
// RUNNER: plain
#include "num/load.h"
#include "support/kernel_case.h"
#include "support/plain_runner.h"

#include <signal.h>

static kernel_case the_case;

// A case of the kernel that suits the fault; makers are random, so the first that `fits`.
static void find_case(qsa_kernel_number number, bool (*fits)(void)) {
    for (uint64_t seed = 1; seed < 2000; seed++) {
        rng r = rng_make(seed);
        case_make(&the_case, number, &r);
        for (int i = 0; i < the_case.buffers; i++)
            the_case.buffer[i].shift = 0;
        if (fits())
            return;
    }
    PLAIN_CHECK(!"no case fits");
}

static bool gate_plain(void) {
    const qsa_gate_args *args = &the_case.args.gate;
    return args->x_stride == args->dim * 4 && args->gate_stride == args->dim * 4 && args->out_stride == args->dim * 4 &&
           args->out_type == QSA_F32 && the_case.buffers == 3 && strstr(the_case.what, "x f32 normal, gate f32 normal");
}

static bool attend_f32(void) {
    const qsa_attend_args *args = &the_case.args.attend;
    return args->format == QSA_F32 && args->count > 70 && args->heads >= 4 && args->dim >= 64 &&
           strstr(the_case.what, "q normal, k normal, v normal");
}

static const char *learn(void) {
    const qsa_kernel_fn reference =
        the_case.number == QSA_K_gate ? (qsa_kernel_fn)qsa_gate_ref : (qsa_kernel_fn)qsa_attend_ref;
    return case_run_both(&the_case, reference, true);
}

// What the harness says about a kernel that returns.
static const char *verdict(qsa_kernel_fn kernel) {
    PLAIN_CHECK(learn() == NULL);
    return case_run_both(&the_case, kernel, false);
}

// What kills a kernel in a child, per side.
typedef struct {
    qsa_kernel_fn kernel;
    guard_side side;
} job;

static void run_job(void *arg) {
    const job *j = arg;
    case_run(&the_case, j->kernel, j->side, false);
}

static int signal_of(qsa_kernel_fn kernel, guard_side side) {
    job j = {kernel, side};
    return guard_fork(run_job, &j);
}

// ---- The faults ----------------------------------------------------------------------------------

static volatile unsigned char sink;

static void reads_past(const qsa_gate_args *args) {
    qsa_gate_ref(args);
    sink = ((const unsigned char *)args->x)[(size_t)args->heads * (size_t)args->dim * 4];
}

static void reads_before(const qsa_gate_args *args) {
    qsa_gate_ref(args);
    sink = *((const unsigned char *)args->gate - 1);
}

static void writes_past(const qsa_gate_args *args) {
    qsa_gate_ref(args);
    ((unsigned char *)args->out)[(size_t)args->heads * (size_t)args->dim * 4] ^= 1;
}

static void writes_input(const qsa_gate_args *args) {
    qsa_gate_ref(args);
    volatile unsigned char *x = (unsigned char *)(uintptr_t)args->x;
    *x = sink;
}

static void writes_nothing(const qsa_gate_args *args) {
    (void)args;
}

static void skips_last(const qsa_gate_args *args) {
    qsa_gate_args less = *args;
    less.heads--;
    qsa_gate_ref(&less);
    less = *args;
    less.dim--;
    less.x = (const unsigned char *)args->x + (args->heads - 1) * args->x_stride;
    less.gate = (const unsigned char *)args->gate + (args->heads - 1) * args->gate_stride;
    less.out = (unsigned char *)args->out + (args->heads - 1) * args->out_stride;
    less.heads = 1;
    qsa_gate_ref(&less);
}

static void off_by_one_ulp(const qsa_gate_args *args) {
    qsa_gate_ref(args);
    uint32_t bits;
    memcpy(&bits, args->out, sizeof bits);
    bits ^= 1;
    memcpy(args->out, &bits, sizeof bits);
}

static unsigned long changed_control(void) {
#if defined(__aarch64__)
    return fp_control() | 1u << 24; // FZ
#else
    return fp_control() | 0x8000u; // FTZ
#endif
}

static void leaves_flush_to_zero(const qsa_gate_args *args) {
    qsa_gate_ref(args);
    fp_control_set(changed_control());
}

static const float *remembered;

static void caches_by_pointer(const qsa_gate_args *args) {
    if (remembered != args->x)
        qsa_gate_ref(args);
    remembered = args->x;
}

// Takes a cell that is not selected with weight zero: right until its memory holds a NaN.
static void multiplies_unselected(const qsa_attend_args *args) {
    int32_t low = args->cells[0], other = -1;
    for (int32_t i = 0; i < args->count; i++)
        low = args->cells[i] < low ? args->cells[i] : low;
    for (int32_t row = low + 1; other < 0; row++) {
        bool selected = false;
        for (int32_t i = 0; i < args->count; i++)
            selected |= args->cells[i] == row;
        other = selected ? -1 : row;
    }
    qsa_attend_ref(args);
    for (int32_t d = 0; d < args->dim; d++)
        args->records[2 + d] += 0.0f * qsa_load(args->v, QSA_F32, other * args->dim + d);
}

// Rounds every product and then the sum, where the contract has one rounding: the first chunk's maxima of all heads.
static void contracts_nothing(const qsa_attend_args *args) {
    qsa_attend_ref(args);
    for (int32_t h = 0; h < args->heads; h++) {
        float highest = -INFINITY;
        for (int32_t i = 0; i < QSA_CHUNK; i++) {
            float sum = 0;
            for (int32_t d = 0; d < args->dim; d++)
                sum = sum + args->q[h * args->dim + d] * qsa_load(args->k, QSA_F32, args->cells[i] * args->dim + d);
            highest = sum * args->scale > highest ? sum * args->scale : highest;
        }
        args->records[h * (2 + args->dim)] = highest;
    }
}

// ---- What must be said ---------------------------------------------------------------------------

static void honest(void) {
    find_case(QSA_K_gate, gate_plain);
    PLAIN_CHECK(verdict((qsa_kernel_fn)qsa_gate_ref) == NULL);
    PLAIN_CHECK_INT(signal_of((qsa_kernel_fn)qsa_gate_ref, GUARD_END), 0);
    PLAIN_CHECK_INT(signal_of((qsa_kernel_fn)qsa_gate_ref, GUARD_START), 0);
    find_case(QSA_K_attend, attend_f32);
    PLAIN_CHECK(verdict((qsa_kernel_fn)qsa_attend_ref) == NULL);
}

static void guard_pages(void) {
    find_case(QSA_K_gate, gate_plain);
    PLAIN_CHECK(learn() == NULL);
    PLAIN_CHECK_INT(signal_of((qsa_kernel_fn)reads_past, GUARD_END), SIGSEGV);
    PLAIN_CHECK_INT(signal_of((qsa_kernel_fn)reads_before, GUARD_START), SIGSEGV);
    PLAIN_CHECK_INT(signal_of((qsa_kernel_fn)writes_past, GUARD_END), SIGSEGV);
    PLAIN_CHECK_INT(signal_of((qsa_kernel_fn)writes_input, GUARD_END), SIGSEGV);
}

static void said(const char *complaint, const char *words) {
    char text[600];
    snprintf(text, sizeof text, "'%s' does not contain '%s'", complaint ? complaint : "no complaint", words);
    plain_check(complaint && strstr(complaint, words), __FILE__, __LINE__, text);
}

static void poison(void) {
    find_case(QSA_K_gate, gate_plain);
    said(verdict((qsa_kernel_fn)writes_nothing), "buffer 2, byte 0 of");
    said(verdict((qsa_kernel_fn)skips_last), "buffer 2, byte");
    said(verdict((qsa_kernel_fn)off_by_one_ulp), "buffer 2, byte 0 of");
    PLAIN_CHECK(learn() == NULL);
    said(case_run(&the_case, (qsa_kernel_fn)writes_past, GUARD_START, false), "is no output and was written");
    PLAIN_CHECK(learn() == NULL);
    remembered = NULL;
    PLAIN_CHECK(case_run(&the_case, (qsa_kernel_fn)caches_by_pointer, GUARD_END, false) == NULL);
    said(case_run(&the_case, (qsa_kernel_fn)caches_by_pointer, GUARD_END, false), "buffer 2, byte 0 of");
}

static void fp_environment(void) {
    const unsigned long before = fp_control();
    PLAIN_CHECK(changed_control() != before);
    find_case(QSA_K_gate, gate_plain);
    said(verdict((qsa_kernel_fn)leaves_flush_to_zero), "FP control word");
    PLAIN_CHECK(fp_control() == before);
}

static void unselected_cells(void) {
    find_case(QSA_K_attend, attend_f32);
    bool caught = false;
    for (int i = 0; i < 16; i++) // one pair of poisons in two is NaN
        caught |= verdict((qsa_kernel_fn)multiplies_unselected) != NULL;
    PLAIN_CHECK(caught);
}

static void two_roundings(void) {
    find_case(QSA_K_attend, attend_f32);
    said(verdict((qsa_kernel_fn)contracts_nothing), "byte");
}

int main(void) {
    case_open(&the_case);
    PLAIN_RUN(honest);
    PLAIN_RUN(guard_pages);
    PLAIN_RUN(poison);
    PLAIN_RUN(fp_environment);
    PLAIN_RUN(unselected_cells);
    PLAIN_RUN(two_roundings);
    case_close(&the_case);
    return plain_finish();
}
