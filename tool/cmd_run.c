// SPDX-License-Identifier: Apache-2.0
//
// `qsa run`: a layer file, or a layer of a model with its input, through the library, compared with the tensors that the
// file expects.

#include "args.h"
#include "commands.h"
#include "model.h"
#include "progress.h"
#include "run_report.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { RUN_OUT = ARGS_OWN, RUN_TOL, RUN_JSON, RUN_CHECKPOINT, RUN_GGUF, RUN_LAYER, RUN_HIDDEN };

typedef struct run_args {
    pipeline_options options;
    const char *file;
    const char *checkpoint; // or NULL
    const char *gguf;       // or NULL
    int32_t layer;          // of the model; negative where none was given
    const char *out;        // or NULL
    double tolerance;       // negative: the cache format's own
    bool json;
} run_args;

static bool take_option(int code, const char *value, run_args *args, tool_error *error) {
    switch (code) {
    case RUN_OUT:
        args->out = value;
        return true;
    case RUN_JSON:
        args->json = true;
        return true;
    case RUN_TOL:
        return args_real("--tol", value, &args->tolerance, error);
    case RUN_CHECKPOINT:
        args->checkpoint = value;
        return true;
    case RUN_GGUF:
        args->gguf = value;
        return true;
    case RUN_LAYER:
        return args_count("--layer", value, 0, MODEL_MAX_LAYERS - 1, &args->layer, error);
    case RUN_HIDDEN:
        args->file = value;
        return true;
    default:
        return args_pipeline(code, value, &args->options, error);
    }
}

// FILE alone, or a model with --layer and --hidden.
static bool check_input(int argc, char **argv, run_args *args, tool_error *error) {
    const char *source = args->checkpoint ? "--checkpoint" : "--gguf";
    if (!args->checkpoint && !args->gguf) {
        if (args->file || args->layer >= 0) {
            return tool_fail(error, "%s needs --checkpoint or --gguf", args->file ? "--hidden" : "--layer");
        }
        return args_one_file(argc, argv, &args->file, error);
    }
    if (args->checkpoint && args->gguf) {
        return tool_fail(error, "--checkpoint and --gguf: one model expected");
    }
    if (args->layer < 0 || !args->file) {
        return tool_fail(error, "%s needs %s", source, args->layer < 0 ? "--layer N" : "--hidden FILE");
    }
    return optind >= argc ||
           tool_fail(error, "%s takes its input from --hidden, and there is also %s", source, argv[optind]);
}

static bool parse(int argc, char **argv, run_args *args, tool_error *error) {
    static const struct option table[] = {
        ARGS_PIPELINE_OPTIONS,
        {"checkpoint", required_argument, NULL, RUN_CHECKPOINT},
        {"gguf", required_argument, NULL, RUN_GGUF},
        {"layer", required_argument, NULL, RUN_LAYER},
        {"hidden", required_argument, NULL, RUN_HIDDEN},
        {"out", required_argument, NULL, RUN_OUT},
        {"tol", required_argument, NULL, RUN_TOL},
        {"json", no_argument, NULL, RUN_JSON},
        {0},
    };
    *args = (run_args){.tolerance = -1, .layer = -1};
    pipeline_options_init(&args->options);
    args_start();
    for (int code; (code = args_next(argc, argv, "", table, error)) != -1;) {
        if (code == -2 || !take_option(code, optarg, args, error)) {
            return false;
        }
    }
    return check_input(argc, argv, args, error);
}

// What has to be kept for the comparison, the digest and the file of results.
static unsigned wanted(const run_args *args, const expected *tensors) {
    static const struct {
        result_tensor tensor;
        unsigned keep;
    } needs[] = {
        {RESULT_Q, PIPELINE_KEEP_Q},
        {RESULT_INDEX_Q, PIPELINE_KEEP_INDEX_Q},
        {RESULT_K, PIPELINE_KEEP_KV},
        {RESULT_V, PIPELINE_KEEP_KV},
        {RESULT_SCORES, PIPELINE_KEEP_SCORES},
        {RESULT_ATTN, PIPELINE_KEEP_ATTN | PIPELINE_KEEP_Q},
        {RESULT_OUT, PIPELINE_KEEP_OUT | PIPELINE_KEEP_ATTN | PIPELINE_KEEP_Q},
    };
    unsigned keep = PIPELINE_KEEP_GATED;
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        keep |= tensors->values[needs[i].tensor] ? needs[i].keep : 0;
    }
    return args->out ? PIPELINE_KEEP_ALL : keep;
}

static bool same_file(const char *a, const char *b) {
    struct stat of_a;
    struct stat of_b;
    return stat(a, &of_a) == 0 && stat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

// Prints and saves. The exit code.
static int report(const run_args *args, pipeline *run, const comparison *result) {
    tool_error error = {""};
    run_report all = {.path = args->file, .run = run, .result = result, .tolerance = args->tolerance};
    all.model = args->checkpoint ? args->checkpoint : args->gguf;
    all.gguf = args->gguf != NULL;
    all.layer = args->layer;
    if (all.tolerance < 0) {
        all.tolerance = compare_tolerance(run->options.kv);
    }
    all.ok = compare_ok(result, run->options.block_keys, all.tolerance);
    if (!run_digest(run, all.attn_sha256, &error)) {
        return tool_report(NULL, &error);
    }
    if (args->out && !run_save(&all, args->out, &error)) {
        return tool_report(args->out, &error);
    }
    if (!args->json) {
        run_print_table(&all);
    } else if (!run_print_json(&all, &error)) {
        return tool_report(NULL, &error);
    }
    return all.ok ? TOOL_OK : TOOL_DIFFERENT;
}

static int run_file(run_args *args, const layer_file *file, const expected *tensors) {
    tool_error error = {""};
    pipeline run;
    comparison result;
    progress bar;
    args->options.keep = wanted(args, tensors);
    args->options.progress = progress_update;
    args->options.progress_user = &bar;
    if (!pipeline_open(&run, file, &args->options, &error)) {
        return tool_report(args->file, &error);
    }
    progress_start(&bar);
    const bool ran = pipeline_run(&run, &error);
    progress_end(&bar);
    int code = TOOL_BAD;
    if (!ran || !compare_run(&result, &run, tensors, &error)) {
        tool_report(args->file, &error);
    } else {
        code = report(args, &run, &result);
        comparison_free(&result);
    }
    pipeline_close(&run);
    return code;
}

// Everything after the layer was opened, of the file or of a model. The exit code.
static int run_layer(run_args *args, const layer_file *file, const model *from) {
    tool_error error = {""};
    expected tensors;
    if (args->out && (same_file(args->out, args->file) || (from && model_owns(from, args->out)))) {
        tool_fail(&error, "--out %s would replace the input", args->out);
        return tool_report(args->file, &error);
    }
    if (!expected_load(&tensors, file->st, file, &error)) {
        return tool_report(args->file, &error);
    }
    const int code = run_file(args, file, &tensors);
    expected_free(&tensors);
    return code;
}

static int run_model(run_args *args) {
    const char *path = args->checkpoint ? args->checkpoint : args->gguf;
    const char *blame = path;
    tool_error error = {""};
    layer_file file;
    model from;
    if (!model_open(&from, path, args->gguf != NULL, &error)) {
        return tool_report(path, &error);
    }
    int code = TOOL_BAD;
    if (!model_config_check_layer(&from.config, args->layer, &error) ||
        !layer_file_open_model(&file, args->file, &from, args->layer, &blame, &error)) {
        tool_report(blame, &error);
    } else {
        code = run_layer(args, &file, &from);
        layer_file_close(&file);
    }
    model_close(&from);
    return code;
}

int cmd_run(int argc, char **argv) {
    tool_error error = {""};
    run_args args;
    if (!parse(argc, argv, &args, &error)) {
        return tool_report(NULL, &error);
    }
    // A context is cheap: a backend, class or kernel that is not there is refused before the file is read.
    qsa_context *context = pipeline_context(&args.options, &error);
    if (!context) {
        return tool_report(NULL, &error);
    }
    qsa_context_destroy(context);
    if (args.checkpoint || args.gguf) {
        return run_model(&args);
    }
    layer_file file;
    if (!layer_file_open(&file, args.file, &error)) {
        return tool_report(args.file, &error);
    }
    const int code = run_layer(&args, &file, NULL);
    layer_file_close(&file);
    return code;
}
