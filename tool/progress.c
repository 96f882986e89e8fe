// SPDX-License-Identifier: Apache-2.0
//
// One line, drawn again at most ten times a second, with the rate so far and the time that is left at this rate.

#include "progress.h"

#include <stdio.h>
#include <unistd.h>

#define BAR_WIDTH 30
#define SHOW_MS   1000.0
#define DRAW_MS   100.0

void progress_start(progress *bar) {
    *bar = (progress){.terminal = isatty(STDERR_FILENO) == 1, .started_ms = tool_now_ms()};
}

void progress_update(void *user, int64_t done, int64_t total) {
    progress *bar = user;
    const double now = tool_now_ms();
    const double elapsed = now - bar->started_ms;
    if (!bar->terminal || elapsed < SHOW_MS || now - bar->drawn_ms < DRAW_MS || done <= 0) {
        return;
    }
    static const char full[BAR_WIDTH + 1] = "##############################";
    const double rate = (double)done / elapsed * 1e3;
    const int filled = (int)((double)done / (double)total * BAR_WIDTH);
    const double left = (double)(total - done) / rate;
    fprintf(stderr, "\r[%-*.*s] %3d%%  %lld / %lld tokens  %.0f tokens/s  %d:%02d left\033[K", BAR_WIDTH, filled, full,
            (int)((double)done / (double)total * 100), (long long)done, (long long)total, rate, (int)(left / 60),
            (int)left % 60);
    fflush(stderr);
    bar->shown = true;
    bar->drawn_ms = now;
}

void progress_end(progress *bar) {
    if (bar->shown) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
}
