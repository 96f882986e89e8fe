// SPDX-License-Identifier: Apache-2.0
//
// A stream of bytes through the caller's function, in pieces, with a checksum. The sum is 64 bits over four lanes of words;
// every step of a lane is invertible, so a change within one word (a flipped bit, a bad byte) always changes it.

#ifndef QSA_API_STREAM_H
#define QSA_API_STREAM_H

#include "api/internal.h"

enum { QSA_PIECE = 8192 }; // bytes per call of the caller's function; on the stack

typedef struct qsa_sum {
    uint64_t lanes[4];
    uint64_t bytes;
    unsigned char rest[32]; // the last bytes % 32
} qsa_sum;
void qsa_sum_init(qsa_sum *sum);
void qsa_sum_add(qsa_sum *sum, const void *data, size_t bytes);
uint64_t qsa_sum_value(const qsa_sum *sum);

// One direction only: write or read is null. After a failure nothing is passed on any more, and what is read is zeros.
typedef struct qsa_stream {
    qsa_write write;
    qsa_read read;
    void *user;
    uint64_t total;  // read: bytes of the whole stream, no more are asked for
    uint64_t passed; // to or from the caller's function
    size_t used;     // of the piece: to be written, or read and taken
    size_t filled;   // read only
    int failed;
    qsa_sum sum; // of what was put or taken since qsa_sum_init
    unsigned char piece[QSA_PIECE];
} qsa_stream;

void qsa_stream_put(qsa_stream *stream, const void *data, size_t bytes);
void qsa_stream_put_sum(qsa_stream *stream); // and begins a new one
void qsa_stream_flush(qsa_stream *stream);

void qsa_stream_take(qsa_stream *stream, void *data, size_t bytes);
int qsa_stream_take_sum(qsa_stream *stream); // 1 if it is the sum of what was taken; begins a new one

#endif
