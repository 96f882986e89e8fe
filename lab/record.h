// SPDX-License-Identifier: Apache-2.0
//
// Records: what an attempt was, as JSON; the ledger that keeps them.

#ifndef QSA_LAB_RECORD_H
#define QSA_LAB_RECORD_H

#include "lab/judge.h"
#include "lab/pair.h"
#include "lab/prove.h"

#define LAB_PROVE_SECONDS 120.0
enum { LAB_SCHEMA = 1 };

// Prints one line of JSON and gives the reference back.
void lab_print_json(json_t *json);

json_t *lab_proof_json(const lab_pair *pair, const prove_report *report, uint64_t seed, bool bound);

// Everything but plan, proof, samples and judgement.
json_t *lab_record_begin(const lab_pair *pair, const lab_options *options, bench_error *error);

// SHA-256 of a JSON value, keys sorted, without blanks.
void lab_hash_json(char sha[LAB_HASH], json_t *json);

// Reads a record and checks its schema and the hash of its plan.
json_t *lab_record_read(const char *path, bench_error *error);

// Judges the record again; refused where it says another verdict. The exit code, or LAB_BAD.
int lab_record_check(json_t *record, const char *path, bench_error *error);

// The paths of a ledger in order. Freed by lab_ledger_free. Refused where the chain of hashes is broken.
typedef struct lab_ledger {
    char (*path)[LAB_PATH];
    size_t count;
} lab_ledger;
bool lab_ledger_read(lab_ledger *ledger, const char *folder, bench_error *error);
bool lab_ledger_check(const lab_ledger *ledger, bench_error *error);
void lab_ledger_free(lab_ledger *ledger);

// Appends the record: adds attempt, of_kernel and previous, and makes it visible as a whole. path: where it is.
bool lab_ledger_append(const char *folder, json_t *record, char path[LAB_PATH], bench_error *error);

#endif
