// SPDX-License-Identifier: Apache-2.0
//
// Arrays of one call that exist twice, in host memory and on the device.

#ifndef QSA_HOST_HOST_COPIES_H
#define QSA_HOST_HOST_COPIES_H

#include "qsa/qsa.h"

enum { HOST_COPIES = 32 };

typedef struct host_copies {
    qsa_context *context;
    qsa_status status; // of the first copy that failed; then every address is null
    int count;
    struct {
        void *device;
        void *host; // what comes back goes here; null: nothing does
        size_t bytes;
    } copy[HOST_COPIES];
} host_copies;

// A device copy of `bytes` bytes; null for a null array or no bytes. host_both comes back with host_finish.
void *host_in(host_copies *copies, const void *array, size_t bytes);
void *host_both(host_copies *copies, void *array, size_t bytes);
// Device memory alone.
void *host_room(host_copies *copies, size_t bytes);
// Rows with strides: all that lies between their first and last byte.
qsa_rows host_rows_in(host_copies *copies, const qsa_rows *rows, int32_t count, int32_t heads, int32_t dim);
qsa_rows_out host_rows_both(host_copies *copies, const qsa_rows_out *rows, int32_t count, int32_t heads, int32_t dim);
qsa_selection host_selection(host_copies *copies, const qsa_selection *selection, int32_t rows);
// Brings results back if `status` is QSA_OK, frees, and returns the first error.
qsa_status host_finish(host_copies *copies, qsa_status status);

#endif
