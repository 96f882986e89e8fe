// SPDX-License-Identifier: Apache-2.0
//
// `qsa info` and `qsa version`: what this build and this machine can run, and what would be picked; or what a model is.

#include "args.h"
#include "commands.h"
#include "info_model.h"
#include "kernel_list.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { INFO_JSON = ARGS_OWN, INFO_CHECKPOINT, INFO_GGUF };

// Whether a context of the backend and class can be made; `reason` when not.
static bool available(qsa_backend backend, qsa_class kernel_class, const char **reason) {
    qsa_context_config config;
    qsa_context_config_init(&config);
    config.backend = backend;
    config.kernel_class = kernel_class;
    qsa_context *context = NULL;
    const bool made = qsa_context_create(&config, &context) == QSA_OK;
    *reason = made ? "" : qsa_last_error();
    qsa_context_destroy(context);
    return made;
}

static bool picked(const qsa_context *context, const qsa_kernel_info *info) {
    const char *name = qsa_context_kernel(context, info->kernel);
    return name && strcmp(name, info->name) == 0;
}

static void print_table(const qsa_context *context, int32_t threads) {
    printf("qsa %s\n", qsa_version_string());
    printf("cpu features  %s\n", *qsa_cpu_features() ? qsa_cpu_features() : "none that a kernel uses");
    printf("cores         %d\n", threads);
    printf("OpenBLAS core %s\n", projection_core());
    const qsa_backend backends[] = {QSA_BACKEND_CPU, QSA_BACKEND_CUDA};
    const qsa_class classes[] = {QSA_CLASS_STRICT, QSA_CLASS_FAST};
    for (size_t b = 0; b < 2; b++) {
        for (size_t c = 0; c < 2; c++) {
            const char *reason = "";
            const bool there = available(backends[b], classes[c], &reason);
            printf("%s %-9s %s%s%s\n", b ? "cuda" : "cpu ", tool_class_name(classes[c]), there ? "yes" : "no",
                   there ? "" : ": ", reason);
        }
    }
    printf("\nstage   kernel     where       class   rank  kernel in use\n");
    for (int32_t i = 0; i < qsa_kernel_count(); i++) {
        const qsa_kernel_info info = kernel_row(i);
        printf("%-7s %-10s %-11s %-7s %4d  %s%s%s\n", info.stage, info.kernel, info.where,
               tool_class_name(info.kernel_class), info.rank, picked(context, &info) ? "* " : "  ", info.name,
               info.usable ? "" : " (cannot run here)");
        if (!info.usable) {
            printf("%-43s  %s\n", "", info.reason);
        }
    }
}

static bool print_json(const qsa_context *context, int32_t threads, tool_error *error) {
    json_t *backends = json_array();
    json_t *kernels = json_array();
    const qsa_backend all[] = {QSA_BACKEND_CPU, QSA_BACKEND_CUDA};
    for (size_t i = 0; i < 4; i++) {
        const qsa_class kernel_class = i % 2 ? QSA_CLASS_FAST : QSA_CLASS_STRICT;
        const char *reason = "";
        const bool there = available(all[i / 2], kernel_class, &reason);
        json_array_append_new(backends,
                              json_pack("{s:s, s:s, s:b, s:s}", "backend", tool_backend_name(all[i / 2]), "class",
                                        tool_class_name(kernel_class), "available", there, "reason", reason));
    }
    for (int32_t i = 0; i < qsa_kernel_count(); i++) {
        const qsa_kernel_info info = kernel_row(i);
        json_array_append_new(kernels, json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:b, s:s, s:b}", "stage", info.stage,
                                                 "kernel", info.kernel, "where", info.where, "name", info.name, "class",
                                                 tool_class_name(info.kernel_class), "rank", info.rank, "usable",
                                                 info.usable, "reason", info.reason, "picked", picked(context, &info)));
    }
    json_t *object =
        json_pack("{s:s, s:s, s:i, s:s, s:o, s:o}", "version", qsa_version_string(), "cpu_features", qsa_cpu_features(),
                  "cores", threads, "blas_core", projection_core(), "backends", backends, "kernels", kernels);
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    if (!text) {
        return tool_fail(error, "no memory for the JSON object");
    }
    puts(text);
    free(text);
    return true;
}

int cmd_info(int argc, char **argv) {
    static const struct option table[] = {{"json", no_argument, NULL, INFO_JSON},
                                          {"checkpoint", required_argument, NULL, INFO_CHECKPOINT},
                                          {"gguf", required_argument, NULL, INFO_GGUF},
                                          {0}};
    tool_error error = {""};
    bool json = false;
    const char *checkpoint = NULL;
    const char *gguf = NULL;
    args_start();
    for (int code; (code = args_next(argc, argv, "", table, &error)) != -1;) {
        if (code == -2) {
            return tool_report(NULL, &error);
        }
        json = json || code == INFO_JSON;
        checkpoint = code == INFO_CHECKPOINT ? optarg : checkpoint;
        gguf = code == INFO_GGUF ? optarg : gguf;
    }
    if (optind < argc) {
        tool_fail(&error, "info takes no operand, and there is %s", argv[optind]);
        return tool_report(NULL, &error);
    }
    if (checkpoint && gguf) {
        tool_fail(&error, "--checkpoint and --gguf: one model expected");
        return tool_report(NULL, &error);
    }
    if (checkpoint || gguf) {
        return info_model(checkpoint ? checkpoint : gguf, gguf != NULL, json);
    }
    pipeline_options options;
    pipeline_options_init(&options);
    const int32_t threads = options.threads;
    options.threads = 1;
    qsa_context *context = pipeline_context(&options, &error);
    if (!context) {
        return tool_report(NULL, &error);
    }
    bool printed = true;
    if (json) {
        printed = print_json(context, threads, &error);
    } else {
        print_table(context, threads);
    }
    qsa_context_destroy(context);
    return printed ? TOOL_OK : tool_report(NULL, &error);
}

int cmd_version(int argc, char **argv) {
    if (argc > 1) {
        tool_error error = {""};
        tool_fail(&error, "version takes no argument, and there is %s", argv[1]);
        return tool_report(NULL, &error);
    }
    printf("qsa %s\n", qsa_version_string());
    return TOOL_OK;
}
