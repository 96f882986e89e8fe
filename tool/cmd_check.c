// SPDX-License-Identifier: Apache-2.0
//
// `qsa check`: another engine's dump against what the library computes from a layer file.

#include "args.h"
#include "check_report.h"
#include "commands.h"
#include "progress.h"

#include <stdlib.h>
#include <string.h>

enum { CHECK_AGAINST = ARGS_OWN, CHECK_TOL, CHECK_JSON };

typedef struct check_args {
    pipeline_options options;
    const char *dump;
    const char *against;
    double tolerance; // negative: each tensor's own
    bool json;
    bool kv; // the option was given
    bool block_keys;
} check_args;

static bool parse(int argc, char **argv, check_args *args, tool_error *error) {
    static const struct option table[] = {
        {"against", required_argument, NULL, CHECK_AGAINST},
        {"tol", required_argument, NULL, CHECK_TOL},
        {"json", no_argument, NULL, CHECK_JSON},
        {"kv", required_argument, NULL, ARGS_KV},
        {"block-keys", required_argument, NULL, ARGS_BLOCK_KEYS},
        {0},
    };
    *args = (check_args){.tolerance = -1};
    pipeline_options_init(&args->options);
    args->options.kv = QSA_F32;
    args_start();
    for (int code; (code = args_next(argc, argv, "", table, error)) != -1;) {
        if (code == -2) {
            return false;
        }
        if (code == CHECK_AGAINST) {
            args->against = optarg;
        } else if (code == CHECK_JSON) {
            args->json = true;
        } else if (code == CHECK_TOL) {
            if (!args_real("--tol", optarg, &args->tolerance, error)) {
                return false;
            }
        } else if (!args_pipeline(code, optarg, &args->options, error)) {
            return false;
        }
        args->kv = args->kv || code == ARGS_KV;
        args->block_keys = args->block_keys || code == ARGS_BLOCK_KEYS;
    }
    if (!args_one_file(argc, argv, &args->dump, error)) {
        return false;
    }
    return args->against || tool_fail(error, "no --against FILE given (qsa help check)");
}

// What `qsa run --out` says about its cache, where no option does. Words that it never writes are left alone.
static void take_formats(check_args *args, const st_file *dump) {
    tool_error ignored;
    const char *kv = st_metadata(dump, "kv");
    const char *block_keys = st_metadata(dump, "block_keys");
    if (kv && !args->kv) {
        args_pipeline(ARGS_KV, kv, &args->options, &ignored);
    }
    if (block_keys && !args->block_keys) {
        args_pipeline(ARGS_BLOCK_KEYS, block_keys, &args->options, &ignored);
    }
}

// Lets the layer's attending rows be the dump's.
static bool take_rows(layer_file *file, const expected *dump, tool_error *error) {
    int32_t *rows = tool_array((size_t)dump->n_rows, sizeof *rows, false, error);
    if (!rows) {
        return false;
    }
    memcpy(rows, dump->rows, (size_t)dump->n_rows * sizeof *rows);
    free(file->rows);
    file->rows = rows;
    file->n_rows = dump->n_rows;
    return true;
}

static int compare(check_args *args, const layer_file *file, const expected *dump, const st_file *dump_file) {
    tool_error error;
    pipeline run;
    progress bar;
    check_result result;
    args->options.progress = progress_update;
    args->options.progress_user = &bar;
    if (!pipeline_open(&run, file, &args->options, &error)) {
        return tool_report(args->against, &error);
    }
    progress_start(&bar);
    const bool ran = pipeline_run(&run, &error);
    progress_end(&bar);
    int code = TOOL_BAD;
    if (!ran || !check_compare(&result, &run, dump, dump_file, args->tolerance, &error)) {
        tool_report(args->against, &error);
    } else {
        const check_report report = {args->dump, args->against, &run, &result};
        code = result.first < 0 ? TOOL_OK : TOOL_DIFFERENT;
        if (!args->json) {
            check_print_table(&report);
        } else if (!check_print_json(&report, &error)) {
            code = tool_report(NULL, &error);
        }
    }
    pipeline_close(&run);
    return code;
}

static int check_files(check_args *args, layer_file *file, const st_file *dump_file) {
    tool_error error;
    expected dump;
    int code = TOOL_BAD;
    if (!expected_load(&dump, dump_file, file, &error)) {
        return tool_report(args->dump, &error);
    }
    if (!expected_any(&dump)) {
        tool_fail(&error, "none of the tensors q, index_q, k, v, scores, selected, attn, out");
        tool_report(args->dump, &error);
    } else if (!take_rows(file, &dump, &error)) {
        tool_report(args->dump, &error);
    } else {
        code = compare(args, file, &dump, dump_file);
    }
    expected_free(&dump);
    return code;
}

int cmd_check(int argc, char **argv) {
    tool_error error;
    check_args args;
    layer_file file;
    char reason[ST_ERR_SIZE];
    if (!parse(argc, argv, &args, &error)) {
        return tool_report(NULL, &error);
    }
    st_file *dump = st_open(args.dump, reason, sizeof reason);
    if (!dump) {
        tool_fail(&error, "%.1000s", reason);
        return tool_report(args.dump, &error);
    }
    int code = TOOL_BAD;
    if (!layer_file_open(&file, args.against, &error)) {
        tool_report(args.against, &error);
    } else {
        take_formats(&args, dump);
        code = check_files(&args, &file, dump);
        layer_file_close(&file);
    }
    st_close(dump);
    return code;
}
