// SPDX-License-Identifier: Apache-2.0
//
// The rows of kernels.tbl as data, and the choice among them.

#ifndef QSA_DISPATCH_TABLE_H
#define QSA_DISPATCH_TABLE_H

#include "kernels/kernels.h"
#include "qsa/qsa.h"

typedef void (*qsa_kernel_fn)(void); // cast to the kernel's own type before a call

typedef struct qsa_kernel_row {
    const char *stage, *kernel, *where, *name;
    int32_t rank;
    qsa_class kernel_class;
    qsa_kernel_number number;
    qsa_kernel_fn function;
} qsa_kernel_row;

// Rows of this build, in the table's order.
int32_t qsa_table_rows(void);
const qsa_kernel_row *qsa_table_row(int32_t i);
// "" if this machine runs the row, else why not. Static storage.
const char *qsa_table_unusable(const qsa_kernel_row *row);
// "" if the row may be called from here on, else why not. Where a usable row needs the system's permission, this asks for it.
const char *qsa_table_ready(const qsa_kernel_row *row);
// Ready row of the highest rank; strict rows only unless fast. There always is one: the reference.
const qsa_kernel_row *qsa_table_best(qsa_kernel_number number, qsa_class kernel_class);
// NULL if this machine runs a row of class fast; else why not the first of them, "" if this build has none.
const char *qsa_table_no_fast(void);
// Puts a row's function into its field.
void qsa_table_pick(qsa_kernel_set *set, const qsa_kernel_row *row);

#endif
