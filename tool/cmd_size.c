// SPDX-License-Identifier: Apache-2.0
//
// `qsa size`: the memory of a cache, to the byte what its creation takes from the allocator, by what it holds. The geometry
// is the preset's.

#include "args.h"
#include "commands.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE_CTX = ARGS_OWN, SIZE_LAYERS, SIZE_SEQUENCES, SIZE_PAGE_CELLS, SIZE_ROLLBACK, SIZE_SCREEN, SIZE_JSON };

enum { MOST_CELLS = INT32_MAX - QSA_MAX_RATIO, MOST_LAYERS = 65536, MOST_SEQUENCES = 1 << 20 };

typedef struct size_options {
    pipeline_options types; // kv and block_keys of it
    int32_t ctx, layers, sequences, page_cells, rollback;
    bool screen, json;
} size_options;

static const struct option table[] = {{"ctx", required_argument, NULL, SIZE_CTX},
                                      {"layers", required_argument, NULL, SIZE_LAYERS},
                                      {"kv", required_argument, NULL, ARGS_KV},
                                      {"block-keys", required_argument, NULL, ARGS_BLOCK_KEYS},
                                      {"rollback", required_argument, NULL, SIZE_ROLLBACK},
                                      {"screen", no_argument, NULL, SIZE_SCREEN},
                                      {"sequences", required_argument, NULL, SIZE_SEQUENCES},
                                      {"page-cells", required_argument, NULL, SIZE_PAGE_CELLS},
                                      {"json", no_argument, NULL, SIZE_JSON},
                                      {0}};

static bool take_option(int code, const char *value, size_options *o, tool_error *error) {
    switch (code) {
    case SIZE_CTX:
        return args_count("--ctx", value, 1, MOST_CELLS, &o->ctx, error);
    case SIZE_LAYERS:
        return args_count("--layers", value, 1, MOST_LAYERS, &o->layers, error);
    case SIZE_SEQUENCES:
        return args_count("--sequences", value, 1, MOST_SEQUENCES, &o->sequences, error);
    case SIZE_PAGE_CELLS:
        return args_count("--page-cells", value, 1, MOST_CELLS, &o->page_cells, error);
    case SIZE_ROLLBACK:
        if (strcmp(value, "all") == 0) {
            o->rollback = QSA_ROLLBACK_ALL;
            return true;
        }
        return args_count("--rollback", value, 0, MOST_CELLS, &o->rollback, error);
    case SIZE_SCREEN:
        return o->screen = true;
    case SIZE_JSON:
        return o->json = true;
    default:
        return args_pipeline(code, value, &o->types, error);
    }
}

static bool take_options(int argc, char **argv, size_options *o, tool_error *error) {
    pipeline_options_init(&o->types);
    args_start();
    for (int code; (code = args_next(argc, argv, "", table, error)) != -1;) {
        if (code == -2 || !take_option(code, optarg, o, error)) {
            return false;
        }
    }
    if (optind < argc) {
        return tool_fail(error, "size takes no operand, and there is %s", argv[optind]);
    }
    return o->ctx > 0 || tool_fail(error, "no --ctx given (qsa help size)");
}

static bool make_config(const size_options *o, qsa_cache_config *config, tool_error *error) {
    qsa_geometry geometry;
    qsa_geometry_preset("qwen3.8-flash-next", &geometry);
    qsa_cache_config_init(config, &geometry, o->ctx);
    config->layers = o->layers;
    config->kv_type = o->types.kv;
    config->block_key_type = o->types.block_keys;
    config->page_cells = o->page_cells ? o->page_cells : config->page_cells;
    config->max_sequences = o->sequences;
    config->rollback = o->rollback;
    config->screen = o->screen;
    const int64_t pages = ((int64_t)o->ctx + config->page_cells - 1) / config->page_cells * o->sequences;
    if (pages > INT32_MAX) {
        return tool_fail(error, "%d sequences of %d cells are %lld pages, more than %d", (int)o->sequences, (int)o->ctx,
                         (long long)pages, INT32_MAX);
    }
    config->pages = (int32_t)pages;
    return true;
}

static void print_line(const char *name, size_t bytes, const size_options *o) {
    const double cells = (double)o->ctx * o->sequences * o->layers;
    printf("%-16s %16zu %10.3f %12.1f\n", name, bytes, (double)bytes / (1 << 30), (double)bytes / cells);
}

static void print_table(const size_options *o, const qsa_cache_config *c, const qsa_cache_parts *parts) {
    printf("cache   %d sequence%s of %d cells, %d layers, %s keys and values, %s block keys\n", (int)o->sequences,
           o->sequences == 1 ? "" : "s", (int)o->ctx, (int)o->layers, tool_type_name(c->kv_type),
           tool_type_name(c->block_key_type));
    printf("pages   %d of %d cells\n", (int)c->pages, (int)c->page_cells);
    printf("%-16s %16s %10s %12s\n", "", "bytes", "GiB", "a cell+layer");
    print_line("keys and values", parts->keys, o);
    print_line("scales", parts->scales, o);
    print_line("block keys", parts->block_keys, o);
    print_line("screening", parts->screen, o);
    print_line("raw index keys", parts->index_keys, o);
    print_line("tables", parts->tables, o);
    print_line("all", parts->bytes, o);
}

static bool print_json(const size_options *o, const qsa_cache_config *c, const qsa_cache_parts *parts,
                       tool_error *error) {
    json_t *object = json_pack(
        "{s:i, s:i, s:i, s:s, s:s, s:i, s:b, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "ctx", (int)o->ctx,
        "layers", (int)o->layers, "sequences", (int)o->sequences, "kv", tool_type_name(c->kv_type), "block_keys",
        tool_type_name(c->block_key_type), "rollback", (int)c->rollback, "screen", (int)c->screen, "page_cells",
        (int)c->page_cells, "pages", (int)c->pages, "keys_bytes", (json_int_t)parts->keys, "scales_bytes",
        (json_int_t)parts->scales, "block_keys_bytes", (json_int_t)parts->block_keys, "screen_bytes",
        (json_int_t)parts->screen, "index_keys_bytes", (json_int_t)parts->index_keys, "tables_bytes",
        (json_int_t)parts->tables, "bytes", (json_int_t)parts->bytes);
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    if (!text) {
        return tool_fail(error, "no memory for the JSON object");
    }
    puts(text);
    free(text);
    return true;
}

int cmd_size(int argc, char **argv) {
    size_options options = {.layers = 12, .sequences = 1, .rollback = 64};
    tool_error error = {""};
    qsa_cache_config config;
    qsa_cache_parts parts = {.size = sizeof parts};
    if (!take_options(argc, argv, &options, &error) || !make_config(&options, &config, &error)) {
        return tool_report(NULL, &error);
    }
    if (qsa_cache_get_parts(&config, &parts) != QSA_OK) {
        tool_fail_qsa(&error, "no such cache");
        return tool_report(NULL, &error);
    }
    if (options.json) {
        return print_json(&options, &config, &parts, &error) ? TOOL_OK : tool_report(NULL, &error);
    }
    print_table(&options, &config, &parts);
    return TOOL_OK;
}
