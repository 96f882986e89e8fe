// SPDX-License-Identifier: Apache-2.0
//
// `qsa make-checkpoint`: a small random model on disk, for tests, examples and people without the weights.

#include "args.h"
#include "commands.h"
#include "io/io_util.h"
#include "make_checkpoint.h"

#include <stdio.h>
#include <string.h>

enum { MAKE_LAYERS = ARGS_OWN, MAKE_SEED, MAKE_GEOMETRY, MAKE_FORM };

enum { PRESET_HIDDEN = 2560, TINY_HIDDEN = 160, MOST_LAYERS = 1024 };

static const struct {
    const char *name;
    bool gguf;
    stored_encoding encoding;
} forms[] = {
    {"bf16", false, STORED_BF16},   {"f16", false, STORED_F16},       {"f32", false, STORED_F32},
    {"fp8", false, STORED_F8_E4M3}, {"gguf", true, STORED_Q8_0},      {"gguf-f32", true, STORED_F32},
    {"gguf-f16", true, STORED_F16}, {"gguf-bf16", true, STORED_BF16},
};

static bool take_form(const char *text, make_plan *plan, tool_error *error) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (strcmp(forms[i].name, text) == 0) {
            plan->gguf = forms[i].gguf;
            plan->encoding = forms[i].encoding;
            plan->form = forms[i].name;
            return true;
        }
    }
    return tool_fail(error, "--form %s: expected one of bf16, f16, f32, fp8, gguf, gguf-f32, gguf-f16, gguf-bf16",
                     text);
}

// tiny is the geometry of the small golden files, with rows that are no multiple of the fp8 form's blocks.
static bool take_geometry(const char *text, make_plan *plan, tool_error *error) {
    if (strcmp(text, "preset") == 0) {
        plan->hidden = PRESET_HIDDEN;
        return qsa_geometry_preset("qwen3.8-flash-next", &plan->geometry) == QSA_OK ||
               tool_fail_qsa(error, "--geometry");
    }
    plan->hidden = TINY_HIDDEN;
    plan->geometry = (qsa_geometry){sizeof plan->geometry, 6, 2, 32, 2, 16, 8, {2, 1, 1}, 4, 16, 1e-6F, 1e7};
    return strcmp(text, "tiny") == 0 || tool_fail(error, "--geometry %s: expected one of preset, tiny", text);
}

static bool take_option(int code, const char *value, make_plan *plan, tool_error *error) {
    int32_t seed = 0;
    switch (code) {
    case MAKE_LAYERS:
        return args_count("--layers", value, MAKE_INTERVAL, MOST_LAYERS, &plan->layers, error);
    case MAKE_SEED:
        if (!args_count("--seed", value, 0, INT32_MAX, &seed, error)) {
            return false;
        }
        plan->seed = (uint64_t)seed;
        return true;
    case MAKE_GEOMETRY:
        return take_geometry(value, plan, error);
    default:
        return take_form(value, plan, error);
    }
}

static bool parse(int argc, char **argv, make_plan *plan, const char **folder, tool_error *error) {
    static const struct option table[] = {
        {"layers", required_argument, NULL, MAKE_LAYERS},
        {"seed", required_argument, NULL, MAKE_SEED},
        {"geometry", required_argument, NULL, MAKE_GEOMETRY},
        {"form", required_argument, NULL, MAKE_FORM},
        {0},
    };
    *plan = (make_plan){.layers = MAKE_INTERVAL, .seed = 1};
    args_start();
    if (!take_geometry("tiny", plan, error) || !take_form("bf16", plan, error)) {
        return false;
    }
    for (int code; (code = args_next(argc, argv, "", table, error)) != -1;) {
        if (code == -2 || !take_option(code, optarg, plan, error)) {
            return false;
        }
    }
    if (optind + 1 != argc) {
        return tool_fail(error, optind < argc ? "one DIR expected, and there is also %s" : "no DIR given (qsa help %s)",
                         optind < argc ? argv[optind + 1] : argv[0]);
    }
    *folder = argv[optind];
    return true;
}

int cmd_make_checkpoint(int argc, char **argv) {
    tool_error error = {""};
    make_plan plan;
    make_result made;
    const char *folder = NULL;
    if (!parse(argc, argv, &plan, &folder, &error)) {
        return tool_report(NULL, &error);
    }
    if (!make_checkpoint(&plan, folder, &made, &error)) {
        return tool_report(folder, &error);
    }
    const io_quoted name = io_quote_string(folder);
    printf("%s: %d layers, of which %d is the first QSA layer, form %s, %d file%s, an input of %d tokens\n", name.text,
           plan.layers, made.qsa_layer, plan.form, made.files, made.files == 1 ? "" : "s", made.tokens);
    printf("qsa run --%s %s%s%s --layer %d --hidden %s/hidden.safetensors\n", plan.gguf ? "gguf" : "checkpoint",
           name.text, plan.gguf ? "/" : "", made.first, made.qsa_layer, name.text);
    return TOOL_OK;
}
