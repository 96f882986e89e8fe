// SPDX-License-Identifier: Apache-2.0
//
// A progress bar on stderr: only on a terminal, and only for what takes longer than a second.

#ifndef QSA_TOOL_PROGRESS_H
#define QSA_TOOL_PROGRESS_H

#include "common.h"

typedef struct progress {
    bool terminal; // stderr is one
    bool shown;
    double started_ms;
    double drawn_ms;
} progress;

void progress_start(progress *bar);
// The callback of pipeline_options, with the bar as `user`.
void progress_update(void *bar, int64_t done, int64_t total);
// Wipes the bar off the line.
void progress_end(progress *bar);

#endif
