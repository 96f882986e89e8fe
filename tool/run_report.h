// SPDX-License-Identifier: Apache-2.0
//
// What `qsa run` hands out: the digest of the gated rows, a table for people, one JSON object for programs, and a
// safetensors file of the results.

#ifndef QSA_TOOL_RUN_REPORT_H
#define QSA_TOOL_RUN_REPORT_H

#include "compare.h"

#define RUN_SHA256_TEXT 65

typedef struct run_report {
    const char *path;
    const char *model; // the checkpoint or GGUF file that the weights came from, or NULL: the file itself
    bool gguf;
    int32_t layer; // of the model
    const pipeline *run;
    const comparison *result;
    double tolerance;
    bool ok;
    char attn_sha256[RUN_SHA256_TEXT];
} run_report;

// SHA-256 of the attended gated rows as little-endian float32, sequences in order, rows ascending. False when libcrypto
// fails.
bool run_digest(const pipeline *run, char text[static RUN_SHA256_TEXT], tool_error *error);

void run_print_table(const run_report *report);
bool run_print_json(const run_report *report, tool_error *error);

// Writes q index_q k v scores selected attn out rows, shaped like the golden files; NaN, -inf (scores) or 0 (selected)
// where there is no value. Everything must have been kept.
bool run_save(const run_report *report, const char *path, tool_error *error);

#endif
