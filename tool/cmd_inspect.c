// SPDX-License-Identifier: Apache-2.0
//
// `qsa inspect`: a picture of which cells each row of a layer file attends.

#include "args.h"
#include "commands.h"
#include "inspect_picture.h"
#include "io/io_util.h"
#include "progress.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { INSPECT_ROWS = ARGS_OWN };

typedef struct inspect_args {
    const char *file;
    const char *out;
    inspect_format format;
    const char *rows; // "A:B" or NULL
    int32_t first, end;
} inspect_args;

static bool parse_format(const char *path, inspect_format *format, tool_error *error) {
    const char *dot = strrchr(path, '.');
    if (dot && strcmp(dot, ".png") == 0) {
        *format = INSPECT_PNG;
    } else if (dot && strcmp(dot, ".svg") == 0) {
        *format = INSPECT_SVG;
    } else {
        return tool_fail(error, "-o %s: expected a name that ends in .png or .svg", io_quote_string(path).text);
    }
    return true;
}

static bool parse_rows(inspect_args *args, tool_error *error) {
    char *end = NULL;
    errno = 0;
    const long long first = strtoll(args->rows, &end, 10);
    const bool colon = end != args->rows && *end == ':';
    const char *rest = colon ? end + 1 : "";
    const long long last = strtoll(rest, &end, 10);
    if (!colon || end == rest || *end || errno || first < 0 || last <= first || last > INT32_MAX) {
        return tool_fail(error, "--rows %s: expected A:B, tokens A to B - 1 with 0 <= A < B",
                         io_quote_string(args->rows).text);
    }
    args->first = (int32_t)first;
    args->end = (int32_t)last;
    return true;
}

static bool parse(int argc, char **argv, inspect_args *args, tool_error *error) {
    static const struct option table[] = {
        {"rows", required_argument, NULL, INSPECT_ROWS},
        {"out", required_argument, NULL, 'o'},
        {0},
    };
    *args = (inspect_args){0};
    args_start();
    for (int code; (code = args_next(argc, argv, "o:", table, error)) != -1;) {
        if (code == -2) {
            return false;
        }
        if (code == INSPECT_ROWS) {
            args->rows = optarg;
        } else {
            args->out = optarg;
        }
    }
    if (!args_one_file(argc, argv, &args->file, error)) {
        return false;
    }
    if (!args->out) {
        return tool_fail(error, "no -o PICTURE given (qsa help inspect)");
    }
    return parse_format(args->out, &args->format, error) && (!args->rows || parse_rows(args, error));
}

// Lets tokens first..end-1 attend.
static bool take_rows(layer_file *file, const inspect_args *args, tool_error *error) {
    if (args->end > file->tokens) {
        return tool_fail(error, "--rows %d:%d: the file has %d tokens", args->first, args->end, file->tokens);
    }
    const int32_t count = args->end - args->first;
    int32_t *rows = tool_array((size_t)count, sizeof *rows, false, error);
    if (!rows) {
        return false;
    }
    for (int32_t i = 0; i < count; i++) {
        rows[i] = args->first + i;
    }
    free(file->rows);
    file->rows = rows;
    file->n_rows = count;
    return true;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static int inspect_file(const inspect_args *args, const layer_file *file) {
    tool_error error;
    pipeline_options options;
    pipeline run;
    progress bar;
    pipeline_options_init(&options);
    options.keep = 0; // the selection alone
    options.progress = progress_update;
    options.progress_user = &bar;
    if (!pipeline_open(&run, file, &options, &error)) {
        return tool_report(args->file, &error);
    }
    progress_start(&bar);
    const bool ran = pipeline_run(&run, &error);
    progress_end(&bar);
    int code = TOOL_BAD;
    inspect_layout layout;
    if (!ran || !inspect_layout_make(&layout, &run, &error)) {
        tool_report(args->file, &error);
    } else {
        code = inspect_draw(&layout, &run, io_quote_string(base_name(args->file)).text, args->format, args->out, &error)
                   ? TOOL_OK
                   : tool_report(args->out, &error);
        inspect_layout_free(&layout);
    }
    pipeline_close(&run);
    return code;
}

int cmd_inspect(int argc, char **argv) {
    tool_error error;
    inspect_args args;
    layer_file file;
    if (!parse(argc, argv, &args, &error)) {
        return tool_report(NULL, &error);
    }
    if (!layer_file_open(&file, args.file, &error)) {
        return tool_report(args.file, &error);
    }
    const int code =
        args.rows && !take_rows(&file, &args, &error) ? tool_report(args.file, &error) : inspect_file(&args, &file);
    layer_file_close(&file);
    return code;
}
