// SPDX-License-Identifier: Apache-2.0
//
// A miniature engine: a model of three layers whose tokens depend on every bit of its attention. Two prompts go in by
// chunks, decode, one is forked, drafts are verified and partly rejected, all is saved and restored into other pages, one
// takes tokens back. Then each sequence is run once more from nothing and must give the same bits. docs/api.md explains it.

#include <qsa/qsa.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LAYERS = 3, WIDTH = 32, VOCABULARY = 12, USERS = 3, MOST = 256, ROWS = 256, CHUNK = 32, DRAFT = 5 };
enum { H = 4, G = 2, D = 32, IH = 2, ID = 16, OUT = H * D, RAW = 2 * OUT + 2 * G * D + (IH + 1) * ID };

typedef struct engine {
    qsa_geometry g;
    qsa_context *context;
    qsa_layer *layers[LAYERS];
    qsa_cache *cache;
    void *workspace;
    size_t bytes;
    float embedding[VOCABULARY][WIDTH], head[VOCABULARY][WIDTH];
    float in[LAYERS][RAW][WIDTH], back[LAYERS][WIDTH][OUT]; // the projections, fused, and o_proj
    float x[ROWS][WIDTH], raw[ROWS][RAW], out[ROWS][OUT];   // of the batch: hidden states, q gate k v iq ik, attention
} engine;

// What the engine knows of a sequence: `count` tokens, the first `cells` of them in the cache.
typedef struct user {
    int32_t sequence, count, cells;
    int32_t tokens[MOST];
    uint32_t bits[MOST]; // of the last hidden state of each cell
} user;

static long drafted, accepted;
static int failed(const char *what) {
    return fprintf(stderr, "%s: %s\n", what, qsa_last_error()), 1;
}

static void made_up(float *x, size_t bytes, float scale) { // stands for weights from a file
    static uint32_t state = 1;
    for (size_t i = 0; i < bytes / sizeof *x; i++)
        x[i] = ((float)((state = state * 1664525u + 1013904223u) >> 16 & 255u) - 127.5f) * scale;
}

static void multiply(const float *w, int rows, int columns, const float *x, float *y, int add) {
    for (int i = 0; i < rows; i++) {
        float sum = add ? y[i] : 0;
        for (int j = 0; j < columns; j++)
            sum += w[i * columns + j] * x[j];
        y[i] = sum;
    }
}

// All layers over a batch: every layer gets the same rows, which stay pending until they are accepted.
static int run(engine *e, int32_t rows, const int32_t *sequences, const int32_t *positions, const int32_t *tokens) {
    const int64_t f = sizeof(float), d = D * f, id = ID * f, row = RAW * f;
    const float *q = e->raw[0], *gate = q + OUT, *k = gate + OUT, *v = k + G * D, *iq = v + G * D, *ik = iq + IH * ID;
    qsa_batch batch = {.size = sizeof batch, .rows = rows, .sequences = sequences, .positions = positions};
    batch.positions_per_row = 1;
    batch.q = (qsa_rows){q, QSA_F32, row, d};
    batch.gate = (qsa_rows){gate, QSA_F32, row, d};
    batch.k = (qsa_rows){k, QSA_F32, row, d};
    batch.v = (qsa_rows){v, QSA_F32, row, d};
    batch.index_q = (qsa_rows){iq, QSA_F32, row, id};
    batch.index_k = (qsa_rows){ik, QSA_F32, row, id};
    const qsa_rows_out out = {e->out, QSA_F32, OUT * f, d};
    for (int32_t i = 0; i < rows; i++)
        memcpy(e->x[i], e->embedding[tokens[i]], sizeof e->x[i]);
    for (int32_t l = 0; l < LAYERS; l++) {
        for (int32_t i = 0; i < rows; i++)
            multiply(e->in[l][0], RAW, WIDTH, e->x[i], e->raw[i], 0);
        if (qsa_forward(e->context, e->layers[l], e->cache, l, &batch, NULL, &out, e->workspace, e->bytes))
            return qsa_cache_discard(e->cache), failed("forward"); // every sequence is as it was
        for (int32_t i = 0; i < rows; i++)
            multiply(e->back[l][0], WIDTH, OUT, e->out[i], e->x[i], 1);
    }
    return 0;
}

static int32_t next_token(const engine *e, const float *x) { // greedy
    float logits[VOCABULARY];
    int32_t best = 0;
    multiply(e->head[0], VOCABULARY, WIDTH, x, logits, 0);
    for (int32_t t = 1; t < VOCABULARY; t++)
        best = logits[t] > logits[best] ? t : best;
    return best;
}

// A draft without a model: what followed this token the last time.
static int32_t guess(const user *u, int32_t token) {
    for (int32_t i = u->count - 2; i >= 0; i--)
        if (u->tokens[i] == token)
            return u->tokens[i + 1];
    return 0;
}

static uint32_t bits_of(const float *x) {
    uint32_t hash = 2166136261u, word;
    for (int i = 0; i < WIDTH; i++, hash = (hash ^ word) * 16777619u)
        memcpy(&word, &x[i], sizeof word);
    return hash;
}

// One step: up to `most` known tokens of every user, and behind the newest a draft, as one ragged batch. What the model
// says itself decides how many rows are accepted. Prompt chunks, decoding and verification are this one call.
static int step(engine *e, user *users, int32_t count, int32_t most, int32_t draft) {
    int32_t sequences[ROWS], positions[ROWS], tokens[ROWS], rows = 0, numbers[USERS], keep[USERS], first[USERS + 1];
    for (int32_t n = 0; n < count; n++) {
        const user *u = &users[n];
        const int32_t all = u->cells + most < u->count ? u->cells + most : u->count + draft;
        first[n] = rows;
        for (int32_t i = u->cells, last = 0; i < all && i < MOST - 1; i++, rows++) {
            sequences[rows] = u->sequence, positions[rows] = i;
            tokens[rows] = last = i < u->count ? u->tokens[i] : guess(u, last);
        }
    }
    first[count] = rows;
    if (run(e, rows, sequences, positions, tokens))
        return 1;
    for (int32_t n = 0; n < count; n++) {
        user *u = &users[n];
        int32_t i = first[n];
        for (int right = 1; right && i < first[n + 1]; i++) {
            u->bits[u->cells++] = bits_of(e->x[i]);
            if (u->cells < u->count)
                continue; // the next token is known already
            u->tokens[u->count++] = next_token(e, e->x[i]);
            right = i + 1 < first[n + 1] && tokens[i + 1] == u->tokens[u->count - 1];
            accepted += right;
        }
        numbers[n] = u->sequence, keep[n] = i - first[n], drafted += draft;
    }
    return qsa_cache_accept(e->cache, count, numbers, keep) ? failed("accept") : 0;
}

static int open_cache(engine *e, int32_t page_cells) {
    qsa_cache_config config;
    qsa_cache_config_init(&config, &e->g, MOST);
    config.layers = LAYERS;
    config.max_sequences = USERS + 1;
    config.page_cells = page_cells;
    config.pages = (USERS + 1) * (MOST / page_cells + 1);
    return qsa_cache_create(e->context, &config, &e->cache) ||
           qsa_workspace_size(e->context, e->cache, QSA_STAGE_FORWARD, ROWS, &e->bytes);
}

static int open_engine(engine *e) {
    static const float zeros[D];
    e->g = (qsa_geometry){sizeof e->g, H, G, D, IH, ID, 8, {2, 1, 1}, 4, 32, 1e-6f, 1e7}; // selects 32 cells
    if (qsa_context_create(NULL, &e->context) || open_cache(e, 16))
        return failed("context and cache");
    const qsa_layer_config config = {sizeof config, e->g, QSA_NORM_ZERO_CENTRED, QSA_F32, zeros, zeros, zeros, zeros};
    for (int l = 0; l < LAYERS; l++)
        if (qsa_layer_create(e->context, &config, &e->layers[l]))
            return failed("layer");
    made_up(e->embedding[0], sizeof e->embedding, 1.0f / 64);
    made_up(e->head[0], sizeof e->head, 1.0f / 64);
    made_up(e->in[0][0], sizeof e->in, 1.0f / 256);
    made_up(e->back[0][0], sizeof e->back, 1.0f / 256);
    e->workspace = malloc(e->bytes); // the same for any page size
    return e->workspace ? 0 : 1;
}

static int write_piece(void *file, const void *data, size_t bytes) {
    return fwrite(data, 1, bytes, file) != bytes;
}
static int read_piece(void *file, void *data, size_t bytes) {
    return fread(data, 1, bytes, file) != bytes;
}

// A crash at any moment leaves the old file or the new one: another name, synced, then renamed.
static int save(const engine *e, const char *path, const char *temporary) {
    FILE *file = fopen(temporary, "wb");
    int bad = !file || qsa_snapshot_save(e->cache, 0, NULL, write_piece, file) || fflush(file) || fsync(fileno(file));
    bad |= file && fclose(file);
    return (bad || rename(temporary, path)) ? failed("save") : 0;
}

// A new cache of other pages; all sequences come back, in ascending order of their old numbers.
static int restore(engine *e, const char *path, int32_t page_cells, user *users) {
    int32_t numbers[USERS], count = 0;
    FILE *file = fopen(path, "rb");
    qsa_cache_destroy(e->cache);
    e->cache = NULL;
    const int bad = !file || open_cache(e, page_cells) ||
                    qsa_snapshot_load(e->cache, read_piece, file, USERS, numbers, &count) || count != USERS;
    for (int32_t n = 0; !bad && n < USERS; n++)
        users[n].sequence = numbers[n];
    if (file)
        fclose(file);
    return bad ? failed("restore") : 0;
}

// All of a user's cells once more, from nothing and in one batch.
static int differs_from_fresh_run(engine *e, const user *u, int number) {
    int32_t sequences[ROWS], positions[ROWS], fresh, differ = 0;
    int bad = qsa_sequence_create(e->cache, &fresh) != QSA_OK;
    for (int32_t i = 0; !bad && i < u->cells; i++)
        sequences[i] = fresh, positions[i] = i;
    bad = bad || run(e, u->cells, sequences, positions, u->tokens) || qsa_cache_commit(e->cache);
    for (int32_t i = 0; !bad && i < u->cells; i++)
        differ += bits_of(e->x[i]) != u->bits[i];
    printf("sequence %d: %d cells, %s its fresh run\n", number, u->cells, bad || differ ? "DIFFERS FROM" : "equals");
    return bad || qsa_sequence_destroy(e->cache, fresh) || differ;
}

static int serve(engine *e, user *users, const char *path, const char *temporary) {
    int bad = 0;
    for (int32_t n = 0; n < 2; n++) {
        for (int32_t i = 0; i < (n ? 37 : 90); i++)
            users[n].tokens[users[n].count++] = (i * (7 + n) + i / 5) % VOCABULARY;
        bad |= qsa_sequence_create(e->cache, &users[n].sequence) != QSA_OK;
    }
    while (!bad && users[0].cells < 90) // chunks; the shorter prompt decodes meanwhile
        bad = step(e, users, 2, CHUNK, 0);
    users[2] = users[0]; // another answer to the same prompt: its newest token, not in the cache yet, is another
    users[2].tokens[users[2].count - 1] ^= 1;
    bad = bad || qsa_sequence_fork(e->cache, users[0].sequence, &users[2].sequence);
    for (int i = 0; !bad && i < 15; i++)
        bad = step(e, users, USERS, 1, i % 3 ? DRAFT : 0);
    bad = bad || save(e, path, temporary) || restore(e, path, 24, users);
    for (int i = 0; !bad && i < 15; i++)
        bad = step(e, users, USERS, 1, DRAFT);
    const user before = users[1]; // takes 9 tokens back, and says the same again
    users[1].cells -= 9, users[1].count = users[1].cells + 1;
    bad = bad || qsa_sequence_truncate(e->cache, users[1].sequence, users[1].cells);
    while (!bad && users[1].count < before.count)
        bad = step(e, &users[1], 1, 1, 0);
    bad = bad || memcmp(users[1].tokens, before.tokens, (size_t)before.count * sizeof(int32_t)) != 0;
    for (int32_t n = 0; !bad && n < USERS; n++)
        bad = differs_from_fresh_run(e, &users[n], n);
    printf("%ld of %ld draft tokens were accepted\n", accepted, drafted);
    return bad || accepted == 0 || accepted == drafted;
}

int main(void) {
    static engine e;
    static user users[USERS];
    const int bad = open_engine(&e) || serve(&e, users, "engine.snapshot", "engine.snapshot.tmp");
    remove("engine.snapshot");
    qsa_cache_destroy(e.cache);
    for (int l = 0; l < LAYERS; l++)
        qsa_layer_destroy(e.layers[l]);
    qsa_context_destroy(e.context);
    free(e.workspace);
    return bad;
}
