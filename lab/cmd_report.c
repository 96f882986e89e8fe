// SPDX-License-Identifier: Apache-2.0
//
// `qsa-lab report`: reads records, judges each again, writes the page as a whole.
#include "io/file_replace.h"
#include "lab/commands.h"
#include "lab/report.h"

#include <stdlib.h>

static bool replace(const char *path, const char *text, size_t size, bench_error *error) {
    io_replacement file;
    const io_error err = {error->text, sizeof error->text};
    if (!io_replace_begin(&file, path, err))
        return false;
    if (!io_replace_write(&file, text, size, err)) {
        io_replace_abandon(&file);
        return false;
    }
    return io_replace_commit(&file, err);
}

static bool read_all(json_t **records, size_t count, const lab_options *o, const lab_ledger *ledger,
                     bench_error *error) {
    for (size_t i = 0; i < count; i++) {
        const char *path = o->operands ? o->operand[i] : ledger->path[i];
        records[i] = lab_record_read(path, error);
        if (!records[i] || lab_record_check(records[i], path, error) == LAB_BAD)
            return false;
    }
    return true;
}

int cmd_report(const lab_options *o, bench_error *error) {
    lab_ledger ledger = {NULL, 0};
    if (!o->out) {
        bench_say(error, "report needs -o FILE.html");
        return LAB_BAD;
    }
    if (o->operands == 0 && (!lab_ledger_read(&ledger, o->ledger, error) || !lab_ledger_check(&ledger, error))) {
        lab_ledger_free(&ledger);
        return LAB_BAD;
    }
    const size_t count = o->operands ? (size_t)o->operands : ledger.count;
    json_t **records = calloc(count + 1, sizeof(json_t *));
    char *text = NULL;
    size_t size = 0;
    bool right = records && (count > 0 || bench_fail(error, "%s: there are no records", o->ledger)) &&
                 read_all(records, count, o, &ledger, error);
    FILE *memory = right ? open_memstream(&text, &size) : NULL;
    if (memory) {
        report_page(memory, records, count);
        right = fclose(memory) == 0 && replace(o->out, text, size, error);
    } else if (right) {
        right = bench_fail(error, "no memory for a page");
    }
    for (size_t i = 0; records && i < count; i++)
        json_decref(records[i]);
    free(records);
    free(text);
    lab_ledger_free(&ledger);
    if (right && o->json)
        lab_print_json(json_pack("{s:s, s:i}", "page", o->out, "records", (int)count));
    else if (right)
        printf("%s: %zu record%s\n", o->out, count, count == 1 ? "" : "s");
    return right ? LAB_KEEP : LAB_BAD;
}
