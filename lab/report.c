// SPDX-License-Identifier: Apache-2.0
//
// The page: verdict first, then why, then the numbers.
#include "lab/report.h"

#include <math.h>
#include <string.h>

static const char style[] =
    ":root{--ink:#1d2430;--soft:#5d6778;--line:#dfe3ea;--paper:#fbfcfd;--card:#fff;--keep:#12784a;--reject:#b3261e;"
    "--open:#8a6100;--null:#8b94a3;--pair:#2458c5;--band:#f2f4f8}"
    "@media "
    "(prefers-color-scheme:dark){:root{--ink:#e6e9ef;--soft:#9aa4b5;--line:#333b48;--paper:#14181f;--card:#1b2029;"
    "--keep:#4cc38a;--reject:#ff7b72;--open:#e2b341;--null:#808a9a;--pair:#7aa2ff;--band:#20262f}}"
    "*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif}"
    "main{max-width:960px;margin:0 auto;padding:28px 20px 60px}h1{font-size:26px;margin:0 0 4px}"
    "h2{font-size:19px;margin:0}h3{font-size:15px;margin:22px 0 6px;color:var(--soft);font-weight:600}"
    "p{margin:6px 0}.soft{color:var(--soft)}section{background:var(--card);border:1px solid "
    "var(--line);border-radius:10px;"
    "padding:20px 22px;margin-top:22px}.badge{display:inline-block;border-radius:999px;padding:2px 12px;color:#fff;"
    "font-weight:600;font-size:13px;margin-right:10px;vertical-align:3px}.badge.keep{background:#12784a}"
    ".badge.reject{background:#b3261e}.badge.open{background:#8a6100}table{border-collapse:collapse;width:100%;"
    "font-variant-numeric:tabular-nums}th,td{text-align:left;padding:5px 10px 5px 0;border-bottom:1px solid "
    "var(--line);"
    "vertical-align:top}th{color:var(--soft);font-weight:500}td.n,th.n{text-align:right}code{font:13px "
    "ui-monospace,monospace;"
    "overflow-wrap:anywhere}svg{width:100%;height:auto;display:block;margin:6px 0}.grid{stroke:var(--line)}"
    ".zero{stroke:var(--soft)}.tick{fill:var(--soft);font:11px system-ui,sans-serif}.tick.end{text-anchor:end}"
    ".tick.middle{text-anchor:middle}.tick.good{fill:var(--keep)}.tick.bad{fill:var(--reject)}.band{fill:var(--band)}"
    ".floor{stroke-dasharray:5 4}.floor.good{stroke:var(--keep)}.floor.bad{stroke:var(--reject)}"
    ".dot.null{fill:var(--null)}.dot.pair{fill:var(--pair)}.dot.dropped{fill:none;stroke:var(--null);opacity:.45}"
    ".interval{stroke-width:3}.interval.null,.middle.null{stroke:var(--null);fill:var(--null)}"
    ".interval.pair,.middle.pair{stroke:var(--pair);fill:var(--pair)}.interval.keep,.middle.keep{stroke:var(--keep);"
    "fill:var(--keep)}.interval.reject,.middle.reject{stroke:var(--reject);fill:var(--reject)}"
    ".interval.open,.middle.open{stroke:var(--open);fill:var(--open)}.cross{font-size:18px;text-anchor:middle}"
    ".cross.reject{fill:var(--reject)}.cross.open{fill:var(--open)}.key{font-size:13px;color:var(--soft)}"
    ".key b{font-weight:600}.key .k{display:inline-block;width:10px;height:10px;border-radius:50%;margin:0 5px 0 14px}"
    "pre{background:var(--band);border-radius:8px;padding:12px;overflow:auto;max-height:420px;font:12px "
    "ui-monospace,monospace}"
    "summary{cursor:pointer;color:var(--soft)}";

void report_text(FILE *to, const char *text) {
    for (; text && *text; text++) {
        if (*text == '<')
            fputs("&lt;", to);
        else if (*text == '>')
            fputs("&gt;", to);
        else if (*text == '&')
            fputs("&amp;", to);
        else if (*text == '"')
            fputs("&quot;", to);
        else
            fputc(*text, to);
    }
}

static const char *word(json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static double number(json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

static void row(FILE *to, const char *name, const char *value) {
    fprintf(to, "<tr><th>%s</th><td><code>", name);
    report_text(to, value);
    fputs("</code></td></tr>\n", to);
}

static void arm_row(FILE *to, const char *name, json_t *arm) {
    fprintf(to, "<tr><th>%s</th><td><code>", name);
    report_text(to, word(arm, "label"));
    fprintf(to, "</code> <span class=\"soft\">unit %.12s, object %.12s, ", word(arm, "id"), word(arm, "object"));
    report_text(to, word(arm, "where"));
    fputs("</span></td></tr>\n", to);
}

// Registers, spills, shared memory and thread blocks of both arms, of a record from a GPU.
static void resources_table(FILE *to, json_t *record) {
    static const char *const arms[] = {"baseline", "candidate"};
    size_t i;
    json_t *one;
    if (!json_object_get(json_object_get(record, "candidate"), "resources"))
        return;
    fputs("<h3>Resources</h3><table><tr><th>arm</th><th>case</th><th class=\"n\">registers</th><th class=\"n\">spilled "
          "bytes</th><th class=\"n\">shared bytes, static + dynamic</th><th class=\"n\">threads</th><th "
          "class=\"n\">thread blocks per multiprocessor</th><th>limited by</th></tr>\n",
          to);
    for (int arm = 0; arm < 2; arm++)
        json_array_foreach(json_object_get(json_object_get(record, arms[arm]), "resources"), i, one) {
            fprintf(to, "<tr><td>%s</td><td>", arms[arm]);
            report_text(to, word(one, "case"));
            fprintf(to,
                    "</td><td class=\"n\">%d</td><td class=\"n\">%d</td><td class=\"n\">%d + %d</td><td "
                    "class=\"n\">%d</td><td class=\"n\">%d</td><td>",
                    (int)number(one, "registers"), (int)number(one, "spill_bytes"), (int)number(one, "shared_static"),
                    (int)number(one, "shared_dynamic"), (int)number(one, "threads"), (int)number(one, "blocks_per_sm"));
            report_text(to, word(one, "limited_by"));
            fputs("</td></tr>\n", to);
        }
    fputs("</table>\n", to);
}

static void device_row(FILE *to, json_t *device) {
    char text[200];
    if (!json_is_object(device))
        return;
    const int driver = (int)number(device, "driver"), nvrtc = (int)number(device, "nvrtc");
    snprintf(text, sizeof text, "%.120s, driver %d.%d, NVRTC %d.%d", word(device, "name"), driver / 1000,
             driver % 1000 / 10, nvrtc / 1000, nvrtc % 1000 / 10);
    row(to, "device", text);
}

static void proof_table(FILE *to, json_t *proof, bool cuda) {
    char text[64];
    fputs("<h3>Proof</h3><table>\n", to);
    row(to, "result", json_is_true(json_object_get(proof, "passed")) ? "passed" : word(proof, "complaint"));
    row(to, "held to",
        strcmp(word(proof, "held_to"), "bound") == 0 ? "a bound against float64" : "memcmp with the baseline");
    snprintf(text, sizeof text, "%d, each at both guard pages", (int)number(proof, "calls"));
    if (cuda)
        snprintf(text, sizeof text, "%d, each between guards, two poisons", (int)number(proof, "calls"));
    row(to, "calls", text);
    snprintf(text, sizeof text, "%lld", (long long)json_integer_value(json_object_get(proof, "seed")));
    row(to, "seed", text);
    if (json_object_get(proof, "call"))
        row(to, "failed in", word(proof, "call"));
    json_t *d = json_object_get(proof, "difference");
    if (d) {
        fprintf(to, "<tr><th>first difference</th><td><code>%s[%lld]</code>: <code>", word(d, "field"),
                (long long)json_integer_value(json_object_get(d, "element")));
        report_text(to, word(d, "got"));
        fprintf(to, "</code> (%s), baseline <code>", word(d, "got_bits"));
        report_text(to, word(d, "want"));
        fprintf(to, "</code> (%s)</td></tr>\n", word(d, "want_bits"));
    }
    fputs("</table>\n", to);
}

static void series_row(FILE *to, const char *name, json_t *s) {
    fprintf(to, "<tr><th>%s</th>", name);
    if (json_object_get(s, "estimate"))
        fprintf(to,
                "<td class=\"n\">%+.2f&#8201;%%</td><td class=\"n\">%+.2f to %+.2f&#8201;%%</td><td class=\"n\">%d of "
                "%d</td>"
                "<td class=\"n\">%.4g &#8594; %.4g</td><td class=\"n\">%.4g &#8594; %.4g</td>",
                report_percent(number(s, "estimate")), report_percent(number(s, "low")),
                report_percent(number(s, "high")), (int)number(s, "faster"), (int)number(s, "processes"),
                number(s, "median_a") * 1e-6, number(s, "median_b") * 1e-6, number(s, "min_a") * 1e-6,
                number(s, "min_b") * 1e-6);
    else
        fputs("<td colspan=\"5\">too few blocks were undisturbed</td>", to);
    fprintf(to, "<td class=\"n\">%d of %d</td></tr>\n", (int)number(s, "dropped"), (int)number(s, "blocks"));
}

static void cases(FILE *to, json_t *record) {
    size_t i;
    json_t *one, *judged = json_object_get(json_object_get(record, "judgement"), "cases");
    json_array_foreach(judged, i, one) {
        json_t *plan_case = json_array_get(json_object_get(json_object_get(record, "plan"), "cases"), i);
        fputs("<h3>", to);
        report_text(to, word(one, "name"));
        fprintf(to, "%s</h3>\n", json_is_true(json_object_get(plan_case, "cold")) ? " (inputs from memory)" : "");
        report_blocks(to, plan_case, json_array_get(json_object_get(record, "samples"), i), one);
        fputs(
            "<p class=\"key\"><span class=\"k\" style=\"background:var(--null)\"></span>null, the same bytes twice"
            "<span class=\"k\" style=\"background:var(--pair)\"></span>candidate against baseline; a dot is a block, a "
            "column a process; hollow: dropped. Below 0 the candidate takes less time.</p>\n",
            to);
        fputs("<table><tr><th></th><th class=\"n\">change of time</th><th class=\"n\">95&#8201;% interval</th><th "
              "class=\"n\">"
              "processes faster</th><th class=\"n\">median &#956;s</th><th class=\"n\">minimum &#956;s</th><th "
              "class=\"n\">blocks "
              "dropped</th></tr>\n",
              to);
        series_row(to, "null", json_object_get(one, "null"));
        series_row(to, "candidate", json_object_get(one, "pair"));
        fprintf(to,
                "</table><p class=\"soft\">effect floor %.3g&#8201;%%, harm floor %.3g&#8201;%%; the null %s.</p>\n",
                number(plan_case, "effect_floor"), number(plan_case, "harm_floor"),
                json_is_true(json_object_get(one, "fits")) ? "fits" : "does not fit: the machine is unfit");
    }
}

static void attempt(FILE *to, json_t *record) {
    json_t *judgement = json_object_get(record, "judgement"), *machine = json_object_get(record, "machine");
    const char *verdict = word(judgement, "verdict");
    char text[400];
    fprintf(to, "<section id=\"a%d\"><h2><span class=\"badge %s\">%s</span>", (int)number(record, "attempt"),
            report_class(verdict), verdict);
    report_text(to, word(record, "kernel"));
    fprintf(to, " <span class=\"soft\">attempt %d, number %d on this baseline</span></h2><p>",
            (int)number(record, "attempt"), (int)number(record, "of_kernel"));
    report_text(to, word(judgement, "reason"));
    fputs("</p>\n<table>\n", to);
    arm_row(to, "baseline", json_object_get(record, "baseline"));
    arm_row(to, "candidate", json_object_get(record, "candidate"));
    snprintf(text, sizeof text, "%.160s, %d cores, %.80s", word(machine, "cpu"), (int)number(machine, "cores"),
             word(machine, "release"));
    row(to, "machine", text);
    device_row(to, json_object_get(record, "device"));
    row(to, "compiler", word(record, "compiler"));
    row(to, "flags", word(json_object_get(record, "candidate"), "flags"));
    row(to, "plan", word(record, "plan_sha256"));
    fputs("</table>\n", to);
    resources_table(to, record);
    proof_table(to, json_object_get(record, "proof"), json_is_object(json_object_get(record, "device")));
    cases(to, record);
    fputs("<details><summary>the candidate, preprocessed</summary><pre>", to);
    report_text(to, word(json_object_get(record, "candidate"), "source"));
    fputs("</pre></details></section>\n", to);
}

static void overview(FILE *to, json_t *const *records, size_t count) {
    fputs("<section><h2>Attempts over time</h2>\n", to);
    report_ledger(to, records, count);
    fputs("<p class=\"key\">Change of time of the first case with its interval; &#215;: nothing was timed.</p><table>"
          "<tr><th>attempt</th><th>kernel</th><th>verdict</th><th>why</th></tr>\n",
          to);
    for (size_t i = 0; i < count; i++) {
        json_t *judgement = json_object_get(records[i], "judgement");
        const int n = (int)number(records[i], "attempt");
        fprintf(to, "<tr><td><a href=\"#a%d\">%d</a></td><td>", n, n);
        report_text(to, word(records[i], "kernel"));
        fprintf(to, "</td><td><span class=\"badge %s\">%s</span></td><td>", report_class(word(judgement, "verdict")),
                word(judgement, "verdict"));
        report_text(to, word(judgement, "reason"));
        fputs("</td></tr>\n", to);
    }
    fputs("</table></section>\n", to);
}

void report_page(FILE *to, json_t *const *records, size_t count) {
    fprintf(
        to,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
        "content=\"width=device-width\"><title>qsa-lab report</title><style>%s</style></head>\n<body><main><h1>Kernel "
        "lab</h1><p class=\"soft\">Proved by bytes, timed in pairs against a frozen baseline, judged by floors that "
        "were "
        "set before the first sample. Every verdict here was computed again from its record.</p>\n",
        style);
    overview(to, records, count);
    for (size_t i = count; i-- > 0;)
        attempt(to, records[i]);
    fputs("</main></body></html>\n", to);
}
