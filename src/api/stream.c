// SPDX-License-Identifier: Apache-2.0
//
// Pieces and checksums of snapshots.

#include "api/stream.h"

#include <string.h>

static const uint64_t odd = 0x9e3779b97f4a7c15u;

static uint64_t rotate(uint64_t x, int by) {
    return x << by | x >> (64 - by);
}

void qsa_sum_init(qsa_sum *sum) {
    *sum = (qsa_sum){.lanes = {1, 2, 3, 4}};
}

// The rotation brings the high bits down: without it, the same flipped top bit in two words of a lane would cancel.
static void add_stripe(qsa_sum *sum, const unsigned char *stripe) {
    for (int i = 0; i < 4; i++) {
        uint64_t word;
        memcpy(&word, stripe + 8 * i, sizeof word);
        sum->lanes[i] = rotate((sum->lanes[i] ^ word) * odd, 31);
    }
}

void qsa_sum_add(qsa_sum *sum, const void *data, size_t bytes) {
    const unsigned char *from = data;
    size_t used = (size_t)(sum->bytes % 32);
    sum->bytes += bytes;
    while (bytes > 0) {
        if (used == 0 && bytes >= 32) {
            add_stripe(sum, from);
            from += 32;
            bytes -= 32;
            continue;
        }
        const size_t part = bytes < 32 - used ? bytes : 32 - used;
        memcpy(sum->rest + used, from, part);
        from += part;
        bytes -= part;
        used += part;
        if (used == 32) {
            add_stripe(sum, sum->rest);
            used = 0;
        }
    }
}

uint64_t qsa_sum_value(const qsa_sum *sum) {
    qsa_sum last = *sum;
    memset(last.rest + sum->bytes % 32, 0, 32 - (size_t)(sum->bytes % 32));
    add_stripe(&last, last.rest);
    uint64_t value = sum->bytes;
    for (int i = 0; i < 4; i++)
        value = rotate((value ^ last.lanes[i]) * odd, 29);
    return value ^ value >> 32;
}

void qsa_stream_flush(qsa_stream *stream) {
    if (stream->used && !stream->failed)
        stream->failed = stream->write(stream->user, stream->piece, stream->used) != 0;
    stream->passed += stream->used;
    stream->used = 0;
}

static void put(qsa_stream *stream, const unsigned char *from, size_t bytes) {
    while (bytes > 0) {
        const size_t room = QSA_PIECE - stream->used, part = bytes < room ? bytes : room;
        memcpy(stream->piece + stream->used, from, part);
        stream->used += part;
        from += part;
        bytes -= part;
        if (stream->used == QSA_PIECE)
            qsa_stream_flush(stream);
    }
}

void qsa_stream_put(qsa_stream *stream, const void *data, size_t bytes) {
    qsa_sum_add(&stream->sum, data, bytes);
    put(stream, data, bytes);
}

void qsa_stream_put_sum(qsa_stream *stream) {
    const uint64_t value = qsa_sum_value(&stream->sum);
    put(stream, (const unsigned char *)&value, sizeof value);
    qsa_sum_init(&stream->sum);
}

static void fill(qsa_stream *stream) {
    const uint64_t left = stream->total > stream->passed ? stream->total - stream->passed : 0;
    const size_t bytes = left < QSA_PIECE ? (size_t)left : QSA_PIECE;
    stream->failed = stream->failed || bytes == 0 || stream->read(stream->user, stream->piece, bytes) != 0;
    if (stream->failed)
        memset(stream->piece, 0, sizeof stream->piece);
    stream->used = 0;
    stream->filled = stream->failed ? QSA_PIECE : bytes;
    stream->passed += stream->failed ? 0 : bytes;
}

static void take(qsa_stream *stream, unsigned char *to, size_t bytes) {
    while (bytes > 0) {
        if (stream->used == stream->filled)
            fill(stream);
        const size_t there = stream->filled - stream->used, part = bytes < there ? bytes : there;
        memcpy(to, stream->piece + stream->used, part);
        stream->used += part;
        to += part;
        bytes -= part;
    }
}

void qsa_stream_take(qsa_stream *stream, void *data, size_t bytes) {
    take(stream, data, bytes);
    qsa_sum_add(&stream->sum, data, bytes);
}

int qsa_stream_take_sum(qsa_stream *stream) {
    const uint64_t value = qsa_sum_value(&stream->sum);
    uint64_t there = 0;
    take(stream, (unsigned char *)&there, sizeof there);
    qsa_sum_init(&stream->sum);
    return there == value;
}
