// SPDX-License-Identifier: Apache-2.0
//
// The last stage as separate calls: records to outputs, and the gate alone.

#include "api/device.h"

typedef struct output_job {
    const qsa_context *context;
    const qsa_geometry *geometry;
    const float *records;
    int64_t row_stride;
    const int32_t *chunks;
    const qsa_rows *x, *gate;
    const qsa_rows_out *out;
    float *lse;
} output_job;

static unsigned char *out_at(const qsa_rows_out *out, int32_t row) {
    return (unsigned char *)out->data + row * out->row_stride;
}

static void merge_row(void *arg, int32_t i) {
    const output_job *job = arg;
    const qsa_geometry *g = job->geometry;
    const qsa_rows *gate = job->gate;
    qsa_merge_args args = {.records = job->records + i * job->row_stride,
                           .chunk_stride = (int64_t)g->heads * (2 + g->head_dim),
                           .chunks = job->chunks[i],
                           .heads = g->heads,
                           .dim = g->head_dim,
                           .gate = gate ? qsa_row_at(gate, i, 0) : NULL,
                           .gate_type = gate ? gate->type : QSA_F32,
                           .gate_stride = gate ? gate->head_stride : 0,
                           .out = out_at(job->out, i),
                           .out_type = job->out->type,
                           .out_stride = job->out->head_stride,
                           .lse = job->lse ? job->lse + (int64_t)i * g->heads : NULL};
    job->context->kernels.merge(&args);
}

qsa_status qsa_merge(qsa_context *context, const qsa_geometry *geometry, int32_t rows, const float *records,
                     int64_t row_stride, const int32_t *chunks, const qsa_rows *gate, const qsa_rows_out *out,
                     float *lse) {
    QSA_REQUIRE_ARG(context, "qsa_merge: context is null");
    QSA_TRY(qsa_check_geometry("qsa_merge", geometry));
    QSA_REQUIRE_ARG(rows >= 0, "qsa_merge: rows is %d, must not be negative", (int)rows);
    if (rows == 0)
        return QSA_OK;
    QSA_REQUIRE_ARG(records, "qsa_merge: records is null");
    QSA_REQUIRE_ARG(chunks, "qsa_merge: chunks is null");
    QSA_REQUIRE_ARG(out, "qsa_merge: out is null");
    QSA_TRY(qsa_check_rows("qsa_merge", "out", out->data, out->type));
    gate = gate && gate->data ? gate : NULL;
    if (gate)
        QSA_TRY(qsa_check_rows("qsa_merge", "gate", gate->data, gate->type));
    if (context->device)
        return qsa_device_merge(context, geometry, rows, records, row_stride, chunks, gate, out, lse);
    for (int32_t i = 0; i < rows; i++) {
        QSA_REQUIRE_ARG(chunks[i] >= 0, "qsa_merge: chunks[%d] is %d, must not be negative", (int)i, (int)chunks[i]);
        const int64_t floats = (int64_t)chunks[i] * geometry->heads * (2 + geometry->head_dim);
        QSA_REQUIRE_ARG(row_stride >= floats || rows == 1,
                        "qsa_merge: row_stride is %lld floats, the %d chunks of row %d take %lld",
                        (long long)row_stride, (int)chunks[i], (int)i, (long long)floats);
    }
    output_job job = {.context = context,
                      .geometry = geometry,
                      .records = records,
                      .row_stride = row_stride,
                      .chunks = chunks,
                      .gate = gate,
                      .out = out,
                      .lse = lse};
    qsa_context_run(context, rows, merge_row, &job);
    return QSA_OK;
}

static void gate_row(void *arg, int32_t i) {
    const output_job *job = arg;
    qsa_gate_args args = {.x = qsa_row_at(job->x, i, 0),
                          .x_type = job->x->type,
                          .x_stride = job->x->head_stride,
                          .gate = qsa_row_at(job->gate, i, 0),
                          .gate_type = job->gate->type,
                          .gate_stride = job->gate->head_stride,
                          .out = out_at(job->out, i),
                          .out_type = job->out->type,
                          .out_stride = job->out->head_stride,
                          .heads = job->geometry->heads,
                          .dim = job->geometry->head_dim};
    job->context->kernels.gate(&args);
}

qsa_status qsa_gate(qsa_context *context, const qsa_geometry *geometry, int32_t rows, const qsa_rows *x,
                    const qsa_rows *gate, const qsa_rows_out *out) {
    QSA_REQUIRE_ARG(context, "qsa_gate: context is null");
    QSA_TRY(qsa_check_geometry("qsa_gate", geometry));
    QSA_REQUIRE_ARG(rows >= 0, "qsa_gate: rows is %d, must not be negative", (int)rows);
    if (rows == 0)
        return QSA_OK;
    QSA_REQUIRE_ARG(x, "qsa_gate: x is null");
    QSA_REQUIRE_ARG(gate, "qsa_gate: gate is null");
    QSA_REQUIRE_ARG(out, "qsa_gate: out is null");
    QSA_TRY(qsa_check_rows("qsa_gate", "x", x->data, x->type));
    QSA_TRY(qsa_check_rows("qsa_gate", "gate", gate->data, gate->type));
    QSA_TRY(qsa_check_rows("qsa_gate", "out", out->data, out->type));
    if (context->device)
        return qsa_device_gate(context, geometry, rows, x, gate, out);
    output_job job = {.context = context, .geometry = geometry, .x = x, .gate = gate, .out = out};
    qsa_context_run(context, rows, gate_row, &job);
    return QSA_OK;
}
