// SPDX-License-Identifier: Apache-2.0
//
// `qsa-lab layout`: compiles a probe of lab/layouts and runs it, on this machine or under qemu-user.
#include "dispatch/cpu_features.h"
#include "lab/commands.h"
#include "lab/device.h"
#include "lab/process.h"
#include "lab/scratch.h"
#include "lab_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SKIPPED = 77, ROOM = 1 << 20 };

typedef struct layout {
    const char *name, *arch, *flags;
    uint32_t needs; // of the CPU; 0: the probe looks itself
    const char *needed;
} layout;

// The first that fits is taken.
static const layout layouts[] = {
    {"vpmaddubsw", "x86_64", "-mavx2", QSA_CPU_AVX2, "avx2"},
    {"vpdpbusd", "x86_64", "-mavx2 -mavx512vnni -mavx512vl", QSA_CPU_AVX512_VNNI | QSA_CPU_AVX512VL, "avx512_vnni"},
    {"vpdpbusd", "x86_64", "-mavx2 -mavxvnni", QSA_CPU_AVX_VNNI, "avx_vnni"},
    {"sdot", "aarch64", "-march=armv8.2-a+dotprod", 0, "dotprod"},
    {"amx", "x86_64", "-mamx-tile -mamx-int8", 0, "amx_int8"},
};
enum { LAYOUTS = sizeof layouts / sizeof layouts[0] };

static const layout *find(const char *name, bench_error *error) {
    char needed[64] = "";
    size_t used = 0;
    for (int i = 0; i < LAYOUTS; i++) {
        const layout *l = &layouts[i];
        if (strcmp(l->name, name) != 0)
            continue;
        const bool here = strcmp(l->arch, LAB_ARCH) == 0;
        if (!here || (qsa_cpu_detect() & l->needs) == l->needs)
            return l;
        used += (size_t)snprintf(needed + used, sizeof needed - used, "%s%s", used ? " or " : "", l->needed);
    }
    if (used)
        bench_say(error, "layout %s: this machine has no %s", name, needed);
    else
        bench_say(error, "layout %s: expected one of vpmaddubsw, vpdpbusd, sdot, amx, mma, wgmma", name);
    return NULL;
}

static bool compile(const layout *l, const char *program, bool here, bench_error *error) {
    char source[LAB_PATH], file[64], flags[128], said[4096];
    const char *argv[32] = {here ? LAB_CC : "aarch64-linux-gnu-gcc", "-std=c17", "-O1", "-w"};
    int n = 4;
    lab_outcome outcome;
    snprintf(file, sizeof file, "lab/layouts/%s.c", l->name);
    snprintf(flags, sizeof flags, "%s", l->flags);
    if (!lab_join(source, lab_root(), file, error))
        return false;
    for (char *word = strtok(flags, " "); word; word = strtok(NULL, " "))
        argv[n++] = word;
    if (!here)
        argv[n++] = "-static";
    argv[n++] = source;
    argv[n++] = "-o";
    argv[n++] = program;
    argv[n] = NULL;
    if (!lab_command(argv, NULL, 60, said, sizeof said, &outcome, error))
        return false;
    const char *at = strstr(said, "error: ");
    return (outcome.how == LAB_EXITED && outcome.value == 0) ||
           bench_fail(error, "layout %s: the compiler says: %.*s", l->name, (int)strcspn(at ? at : said, "\n"),
                      at ? at : said);
}

static bool run_probe(const layout *l, const char *program, bool here, bool json, char *said, bench_error *error) {
    char how[64];
    const char *argv[5] = {here ? program : "qemu-aarch64"};
    int n = 1;
    lab_outcome outcome;
    if (!here)
        argv[n++] = program;
    if (json)
        argv[n++] = "--json";
    argv[n] = NULL;
    if (!lab_command(argv, NULL, 60, said, ROOM, &outcome, error))
        return false;
    if (outcome.how == LAB_EXITED && outcome.value == 0)
        return true;
    if (outcome.how == LAB_EXITED && outcome.value == SKIPPED)
        return bench_fail(error, "layout %s: this machine has no %s", l->name, l->needed);
    lab_outcome_text(&outcome, how, sizeof how);
    return bench_fail(error, "layout %s: the probe ended with %s", l->name, how);
}

int cmd_layout(const lab_options *o, bench_error *error) {
    static char said[ROOM];
    char program[LAB_PATH];
    if (!lab_one_operand(o, "layout", "NAME", error))
        return LAB_BAD;
    if (strcmp(o->operand[0], "mma") == 0 || strcmp(o->operand[0], "wgmma") == 0) {
        char *text;
        if (!lab_device_probe(o->operand[0], o->json, &text, error))
            return LAB_BAD;
        fputs(text, stdout);
        free(text);
        return LAB_KEEP;
    }
    const layout *l = find(o->operand[0], error);
    if (!l)
        return LAB_BAD;
    const bool here = strcmp(l->arch, LAB_ARCH) == 0;
    if (!here && strcmp(l->arch, "aarch64") != 0) {
        bench_say(error, "layout %s: is an instruction of %s, and there is no emulator for it", l->name, l->arch);
        return LAB_BAD;
    }
    if (!lab_scratch_name(program, "probe", error) || !compile(l, program, here, error) ||
        !run_probe(l, program, here, o->json, said, error))
        return LAB_BAD;
    fputs(said, stdout);
    return LAB_KEEP;
}
