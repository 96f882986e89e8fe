// SPDX-License-Identifier: Apache-2.0
//
// `qsa help`: a page per command. docs/qsa.1 says the same at more length.

#include "bench/bench.h"
#include "commands.h"
#include "common.h"

#include <string.h>

typedef struct page {
    const char *command;
    const char *text;
} page;

static const char overview[] =
    "usage: qsa COMMAND [OPTION...] [FILE]\n"
    "\n"
    "  run FILE      runs an attention layer from a safetensors file and compares it with what the file expects\n"
    "  run --checkpoint DIR --layer N --hidden FILE\n"
    "                runs a layer of a model (or of --gguf FILE)\n"
    "  check DUMP --against FILE\n"
    "                says which stage of another engine's dump first goes wrong, and the likely reason\n"
    "  bench CASE    times a part of the step beside the machine's limits\n"
    "  inspect FILE -o PICTURE\n"
    "                draws which cells each row attends\n"
    "  size --ctx N  memory of a cache, to the byte, by what it holds\n"
    "  info          CPU features, backends, kernels and which are picked; or what a model is\n"
    "  make-checkpoint DIR\n"
    "                writes a small random model\n"
    "  version       version of the library\n"
    "  help COMMAND  options of a command\n"
    "\n"
    "exit code: 0 done, 1 compared and different, 2 bad input or usage\n";

static const char run_page[] =
    "usage: qsa run FILE.safetensors [OPTION...]\n"
    "       qsa run --checkpoint DIR --layer N --hidden FILE [OPTION...]\n"
    "       qsa run --gguf FILE --layer N --hidden FILE [OPTION...]\n"
    "\n"
    "Runs every token of every sequence in FILE through the cache and prints geometry, kernels, memory, time per\n"
    "stage, and the error of each tensor that FILE expects (q index_q k v scores selected attn out).\n"
    "\n"
    "  --checkpoint DIR             takes the weights from a model: config.json and safetensors\n"
    "  --gguf FILE                  the same from a GGUF file, of a split model the first\n"
    "  --layer N                    which layer of it, from 0; QSA layers only (qsa info lists them)\n"
    "  --hidden FILE                the input: `hidden` as it enters self_attn; the rest as in FILE, all optional\n"
    "  --kv f32|f16|bf16|i8         format of keys and values in the cache (i8)\n"
    "  --block-keys f32|f16|bf16    format of block keys (f32)\n"
    "  --select official|cut        rule of the selection (official)\n"
    "  --class strict|fast          class of the kernels (strict)\n"
    "  --backend cpu|cuda           where they run (cpu)\n"
    "  --kernel STAGE=NAME          forces kernels of a stage: a where (ref, fma, ...) or a full name; repeatable\n"
    "  --threads N                  threads that work (the machine's cores)\n"
    "  --chunk N                    tokens per call (512)\n"
    "  --all-rows                   all rows attend, not only those in FILE's `rows`\n"
    "  --out FILE                   writes the results as safetensors\n"
    "  --tol X                      relative l2 that attn and out may have (5e-6 f32, 1e-3 f16, 5e-3 bf16, 1.2e-2 i8)\n"
    "  --json                       prints one JSON object and nothing else\n";

static const char check_page[] =
    "usage: qsa check DUMP.safetensors --against FILE.safetensors [OPTION...]\n"
    "\n"
    "Compares tensors that another engine dumped (q index_q k v scores selected attn out; `rows`) with what this\n"
    "library computes from FILE, stage by stage, and says which stage first goes wrong and the likely reason.\n"
    "\n"
    "  --against FILE               the layer and its input, as for `qsa run`\n"
    "  --kv f32|f16|bf16|i8         cache format that the other engine used (f32)\n"
    "  --block-keys f32|f16|bf16    format of its block keys (f32)\n"
    "  --tol X                      relative error up to which a tensor is right (each tensor's own)\n"
    "  --json                       prints one JSON object and nothing else\n";

static const char inspect_page[] =
    "usage: qsa inspect FILE.safetensors [--rows A:B] -o PICTURE\n"
    "\n"
    "Draws which cells each row attends: rows down, cells across, at most 4096 pixels a side.\n"
    "\n"
    "  -o PICTURE.png|.svg          where the picture goes\n"
    "  --rows A:B                   tokens A to B - 1 (FILE's `rows`, else all)\n";

static const char size_page[] =
    "usage: qsa size --ctx N [OPTION...]\n"
    "\n"
    "Prints the memory that a cache of the preset's geometry takes, to the byte, by what it holds.\n"
    "\n"
    "  --ctx N                      cells of a sequence\n"
    "  --layers L                   QSA layers (12)\n"
    "  --kv f32|f16|bf16|i8         format of keys and values (i8)\n"
    "  --block-keys f32|f16|bf16    format of block keys (f32)\n"
    "  --rollback N|all             cells that can be taken back at any length (64)\n"
    "  --screen                     with the copy of the block keys in 8 bits\n"
    "  --sequences S                sequences, each of up to N cells (1)\n"
    "  --page-cells P               cells per page (64)\n"
    "  --json                       prints one JSON object and nothing else\n";

static const char info_page[] =
    "usage: qsa info [--json]\n"
    "       qsa info --checkpoint DIR|--gguf FILE [--json]\n"
    "\n"
    "Prints CPU features, backends and classes, and the kernels of this build; * marks the\n"
    "ones in use. Or the geometry of a model, which of its layers are QSA layers, the types of\n"
    "their weights, and the memory of a cache by context length and format.\n"
    "\n"
    "  --checkpoint DIR             a folder with config.json and safetensors\n"
    "  --gguf FILE                  a GGUF file, of a split model the first\n"
    "  --json                       prints one JSON object and nothing else\n";

static const char make_page[] =
    "usage: qsa make-checkpoint DIR [OPTION...]\n"
    "\n"
    "Writes a random model of which the attention of the QSA layers is there, and an input for it\n"
    "(hidden.safetensors), and prints how to run it. DIR must not exist, or be empty.\n"
    "\n"
    "  --form FORM                  bf16, f16, f32, fp8, or gguf (q8_0), gguf-f32, gguf-f16, gguf-bf16 (bf16)\n"
    "  --geometry preset|tiny       the real geometry, or a small one (tiny)\n"
    "  --layers N                   layers of the model, every 4th a QSA layer (4)\n"
    "  --seed S                     another seed, other weights (1)\n";

static const char version_page[] = "usage: qsa version\n\nPrints the version of the library.\n";

static const char help_page[] = "usage: qsa help [COMMAND]\n\nPrints the commands, or the options of one.\n";

static const page pages[] = {
    {"run", run_page},   {"check", check_page}, {"bench", bench_help},          {"inspect", inspect_page},
    {"size", size_page}, {"info", info_page},   {"make-checkpoint", make_page}, {"version", version_page},
    {"help", help_page},
};

int help_print(const char *command, FILE *to) {
    if (!command) {
        fputs(overview, to);
        return 1;
    }
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        if (strcmp(pages[i].command, command) == 0) {
            fputs(pages[i].text, to);
            return 1;
        }
    }
    return 0;
}

int cmd_help(int argc, char **argv) {
    tool_error error = {""};
    if (argc > 2) {
        tool_fail(&error, "help takes one command, and there is also %s", argv[2]);
        return tool_report(NULL, &error);
    }
    if (!help_print(argc > 1 ? argv[1] : NULL, stdout)) {
        tool_fail(&error, "unknown command %s (qsa help lists them)", argv[1]);
        return tool_report(NULL, &error);
    }
    return TOOL_OK;
}
