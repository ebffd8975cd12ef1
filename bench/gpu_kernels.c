/* SPDX-License-Identifier: Apache-2.0 */
/* What each op of a GPU costs, at the shapes of a GPT-2 and of a Llama: a line of JSON each, with
 * the bytes that it must move or the operations that it must do. gpu/kernels.py times PyTorch's own
 * at the shapes of these lines, and gpu/table.py lays both beside the bandwidth of a copy ("cast"
 * to the same type).
 *
 * Calls are started one behind the other for long enough that one wait at their end is nothing, and
 * the median of rounds is told. Numbers are random: zeros are faster. Arrays are larger than any L2
 * cache, so that each call finds its input in memory. */
#include "bench/program.h"
#include "worker_runtime/device/device.h"
#include "worker_runtime/ops/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ARRAYS = 12, ROUNDS_MAX = 99, FILL = 1 << 20, SHAPE = 160 };

struct options {
    int elem, only, attention;
    bool toy;
    unsigned long rounds;
};

enum { BFLOAT16, FLOAT };
static const char *const elems[] = {"bfloat16", "float", NULL};
enum { OWN, CUDNN };
static const char *const attention_by[] = {"own", "cudnn", NULL};

/* What stands together: a process can do one of these, so that one that fails costs no other. */
enum {
    ALL,
    COPY,
    EMBEDDING,
    NORM,
    HEAD_NORM,
    ROPE,
    ACTIVATION,
    LINEAR,
    ATTENTION,
    LOSS,
    OPTIMIZER
};
static const char *const groups[] = {"all",       "copy", "embedding",  "norm",
                                     "head_norm", "rope", "activation", "linear",
                                     "attention", "loss", "optimizer",  NULL};

PROGRAM_CHOICE(parse_elem, elems)
PROGRAM_CHOICE(parse_only, groups)
PROGRAM_CHOICE(parse_attention, attention_by)
PROGRAM_NUMBER(parse_rounds, 1, ROUNDS_MAX)

#define AT(MEMBER) .at = offsetof(struct options, MEMBER)

/* clang-format off */
static const struct dt_opt opts[] = {
    {.name = "elem", .arg = "TYPE", .parse = parse_elem, AT(elem), .fallback = "bfloat16", .help = "bfloat16 or float"},
    {.name = "only", .arg = "GROUP", .parse = parse_only, AT(only), .fallback = "all",
     .help = "of these: copy, embedding, norm, head_norm, rope, activation, linear, attention, loss, optimizer"},
    {.name = "attention", .arg = "BY", .parse = parse_attention, AT(attention), .fallback = "own",
     .help = "own or cudnn, which may add up in any order, as PyTorch's does; where cuDNN is not taken a line says so"},
    {.name = "rounds", .arg = "N", .parse = parse_rounds, AT(rounds), .fallback = "5", .help = "of which the median is told"},
    {.name = "toy", AT(toy), .help = "tiny shapes, each op twice: to see that it runs"},
    {0},
};
/* clang-format on */

static const struct dt_opt_program program = {
    .name = "gpu_kernels",
    .usage = "[options]",
    .summary = "Times each op of a GPU, a line of JSON each.",
    .table = opts,
};

struct bench {
    struct options opt;
    struct dt_device *d;
    const struct dt_ops *o;
    struct dt_stream *s;
    size_t size; /* of an element */
    void *arrays[ARRAYS];
    int used;
    uint32_t random;
};

static _Noreturn void give_up(const struct dt_err *err)
{
    fprintf(stderr, "gpu_kernels: %s\n", err->text);
    exit(1);
}

static void sync_or_give_up(const struct bench *b)
{
    struct dt_err err;
    if (dt_device_sync(b->d, &err) < 0)
        give_up(&err);
}

static void *array(struct bench *b, size_t bytes)
{
    struct dt_err err;
    if (b->used == ARRAYS)
        abort();
    void *at = dt_device_alloc(b->d, bytes, "a benchmark", &err);
    if (!at)
        give_up(&err);
    b->arrays[b->used++] = at;
    return at;
}

static void free_arrays(struct bench *b)
{
    while (b->used > 0)
        dt_device_free(b->d, b->arrays[--b->used]);
}

static float next_number(struct bench *b)
{
    b->random = b->random * 1664525 + 1013904223;
    return (float)(b->random >> 8) * 0x1p-23f - 1;
}

/* N floats from -1 to 1. They repeat after FILL. */
static float *floats(struct bench *b, size_t n)
{
    float *at = array(b, n * sizeof *at), *host = malloc(FILL * sizeof *host);
    if (!host)
        abort();
    for (size_t i = 0; i < FILL; i++)
        host[i] = next_number(b);
    for (size_t i = 0; i < n; i += FILL) {
        size_t some = n - i < FILL ? n - i : FILL;
        b->d->table->from_host(b->d, at + i, host, some * sizeof *host);
    }
    free(host);
    return at;
}

static dt_elem *elements(struct bench *b, size_t n)
{
    if (b->o->elem == DT_F32)
        return floats(b, n);
    float *from = floats(b, n);
    dt_elem *at = array(b, n * b->size);
    b->o->cast(n, at, b->o->elem, from, DT_F32, b->s);
    sync_or_give_up(b);
    b->arrays[b->used - 2] = at;
    b->used--;
    dt_device_free(b->d, from);
    return at;
}

static int32_t *ids(struct bench *b, size_t n, size_t below)
{
    int32_t *host = malloc(n * sizeof *host), *at = array(b, n * sizeof *at);
    if (!host)
        abort();
    for (size_t i = 0; i < n; i++)
        host[i] = (int32_t)((next_number(b) + 1) * 0.4999f * (float)below);
    b->d->table->from_host(b->d, at, host, n * sizeof *host);
    free(host);
    return at;
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Calls in a round: a tenth of a second of them. */
static int calls_for(const struct bench *b, double ms)
{
    double calls = 100 / (ms > 1e-3 ? ms : 1e-3);
    if (b->opt.toy)
        return 1;
    return calls < 3 ? 3 : calls > 2000 ? 2000 : (int)calls;
}

/* What a call must at least do: BYTES moved or OPERATIONS of a matrix product; the other is 0. */
struct work {
    double bytes, operations;
};

/* SHAPE: more members of the line. */
static void tell(const struct bench *b, const char *op, const char *shape, double ms, struct work w)
{
    printf("{\"op\": \"%s\", \"elem\": \"%s\", %s, \"ms\": %.6f, \"bytes\": %.0f, "
           "\"operations\": %.0f}\n",
           op, elems[b->opt.elem], shape, ms, w.bytes, w.operations);
    fflush(stdout);
}

/* Milliseconds of EXPR. */
#define MEASURE(b, expr)                                                                           \
    ({                                                                                             \
        double rounds_[ROUNDS_MAX], from_;                                                         \
        int calls_ = 1, of_ = (b)->opt.toy ? 1 : (int)(b)->opt.rounds;                             \
        for (int round_ = -2; round_ < of_; round_++) {                                            \
            sync_or_give_up(b);                                                                    \
            from_ = now_ms();                                                                      \
            for (int call_ = 0; call_ < calls_; call_++)                                           \
                expr;                                                                              \
            sync_or_give_up(b);                                                                    \
            double ms_ = (now_ms() - from_) / calls_;                                              \
            rounds_[round_ < 0 ? 0 : round_] = ms_;                                                \
            calls_ = calls_for(b, ms_);                                                            \
        }                                                                                          \
        qsort(rounds_, (size_t)of_, sizeof *rounds_, by_size);                                     \
        rounds_[of_ / 2];                                                                          \
    })

static void copies(struct bench *b, size_t n)
{
    char shape[SHAPE];
    dt_elem *x = elements(b, n), *y = elements(b, n);
    float *f = floats(b, n);
    double bytes = (double)(n * b->size);
    snprintf(shape, sizeof shape, "\"n\": %zu", n);
    double ms = MEASURE(b, b->o->cast(n, y, b->o->elem, x, b->o->elem, b->s));
    tell(b, "copy", shape, ms, (struct work){.bytes = 2 * bytes});
    ms = MEASURE(b, b->o->cast(n, y, b->o->elem, f, DT_F32, b->s));
    tell(b, "cast", shape, ms, (struct work){.bytes = bytes + 4 * (double)n});
    ms = MEASURE(b, b->o->add(n, y, x, b->s));
    tell(b, "add", shape, ms, (struct work){.bytes = 3 * bytes});
    free_arrays(b);
}

static void norms(struct bench *b, size_t rows, size_t width, bool layer)
{
    char shape[SHAPE];
    size_t n = rows * width;
    struct dt_norm norm = {rows, width, 1e-5f, 0, elements(b, width), NULL, NULL, floats(b, rows)};
    dt_elem *x = elements(b, n), *add = elements(b, n), *sum = array(b, n * b->size);
    dt_elem *out = array(b, n * b->size), *dweight = array(b, width * b->size), *dbias = NULL;
    double bytes = (double)(n * b->size);
    if (layer) {
        norm.bias = elements(b, width);
        norm.mean = floats(b, rows);
        dbias = array(b, width * b->size);
    }
    snprintf(shape, sizeof shape, "\"kind\": \"%s\", \"rows\": %zu, \"width\": %zu",
             layer ? "layer_norm" : "rms_norm", rows, width);
    double ms = MEASURE(b, b->o->norm_forward(&norm, out, sum, x, add, b->s));
    tell(b, "norm_forward", shape, ms, (struct work){.bytes = 4 * bytes});
    ms = MEASURE(b, b->o->norm_backward(&norm, sum, dweight, dbias, x, add, b->s));
    tell(b, "norm_backward", shape, ms, (struct work){.bytes = 4 * bytes});
    free_arrays(b);
}

static void embeddings(struct bench *b, size_t rows, size_t positions, size_t width,
                       size_t vocabulary)
{
    char shape[SHAPE];
    struct dt_embedding e = {rows, positions, width, vocabulary, ids(b, rows, vocabulary), 0, NULL};
    dt_elem *token = elements(b, vocabulary * width), *position = elements(b, positions * width);
    dt_elem *out = elements(b, rows * width);
    double bytes = (double)(rows * width * b->size);
    snprintf(shape, sizeof shape,
             "\"rows\": %zu, \"positions\": %zu, \"width\": %zu, \"vocabulary\": %zu", rows,
             positions, width, vocabulary);
    double ms = MEASURE(b, b->o->embedding_forward(&e, out, token, position, b->s));
    tell(b, "embedding_forward", shape, ms, (struct work){.bytes = 2 * bytes});
    ms = MEASURE(b, b->o->embedding_backward(&e, token, position, out, b->s));
    tell(b, "embedding_backward", shape, ms, (struct work){.bytes = 3 * bytes});
    free_arrays(b);
}

static void head_norms(struct bench *b, size_t rows, size_t heads, size_t head_dim)
{
    char shape[SHAPE];
    size_t n = rows * heads * head_dim;
    struct dt_head_norm norm = {
        rows, heads, head_dim, heads * head_dim, 1e-6f, 0, elements(b, head_dim)};
    dt_elem *x = elements(b, n), *dout = elements(b, n), *out = array(b, n * b->size);
    dt_elem *dweight = array(b, head_dim * b->size);
    double bytes = (double)(n * b->size);
    snprintf(shape, sizeof shape, "\"rows\": %zu, \"heads\": %zu, \"head_dim\": %zu", rows, heads,
             head_dim);
    double ms = MEASURE(b, b->o->head_norm_forward(&norm, out, x, b->s));
    tell(b, "head_norm_forward", shape, ms, (struct work){.bytes = 2 * bytes});
    ms = MEASURE(b, b->o->head_norm_backward(&norm, out, dweight, x, dout, b->s));
    tell(b, "head_norm_backward", shape, ms, (struct work){.bytes = 3 * bytes});
    free_arrays(b);
}

static void rotations(struct bench *b, size_t rows, size_t positions, size_t heads, size_t head_dim)
{
    char shape[SHAPE];
    size_t n = rows * heads * head_dim;
    dt_elem *x = elements(b, n);
    const float *speeds = floats(b, head_dim / 2);
    struct dt_rope r = {rows, positions, heads, head_dim, heads * head_dim, speeds, 1, 0};
    snprintf(shape, sizeof shape,
             "\"rows\": %zu, \"positions\": %zu, \"heads\": %zu, \"head_dim\": %zu", rows,
             positions, heads, head_dim);
    double ms = MEASURE(b, b->o->rope(&r, x, false, b->s));
    tell(b, "rope", shape, ms, (struct work){.bytes = 2.0 * (double)(n * b->size)});
    free_arrays(b);
}

static void activations(struct bench *b, size_t n)
{
    char shape[SHAPE];
    dt_elem *gate = elements(b, n), *up = elements(b, n), *dout = elements(b, n);
    dt_elem *out = array(b, n * b->size), *dup = array(b, n * b->size);
    const struct dt_gate packed = {1, n, 0};
    double bytes = (double)(n * b->size);
    snprintf(shape, sizeof shape, "\"n\": %zu", n);
    double ms = MEASURE(b, b->o->gelu_forward(n, out, gate, b->s));
    tell(b, "gelu_forward", shape, ms, (struct work){.bytes = 2 * bytes});
    ms = MEASURE(b, b->o->gelu_backward(n, out, gate, dout, b->s));
    tell(b, "gelu_backward", shape, ms, (struct work){.bytes = 3 * bytes});
    ms = MEASURE(b, b->o->swiglu_forward(&packed, out, gate, up, b->s));
    tell(b, "swiglu_forward", shape, ms, (struct work){.bytes = 3 * bytes});
    ms = MEASURE(b, b->o->swiglu_backward(&packed, out, dup, gate, up, dout, b->s));
    tell(b, "swiglu_backward", shape, ms, (struct work){.bytes = 5 * bytes});
    free_arrays(b);
}

/* From row to row, as the head has them. */
static size_t head_stride(const struct bench *b, size_t vocabulary)
{
    size_t to = b->d->head_stride;
    return to ? (vocabulary + to - 1) / to * to : vocabulary;
}

static void linears(struct bench *b, size_t rows, size_t in, size_t out, enum dt_weight_layout w,
                    bool bias, bool gelu)
{
    char shape[SHAPE];
    size_t stride = gelu ? out : head_stride(b, out);
    struct dt_linear l = {rows, in, out, stride, w, elements(b, in * out), NULL};
    dt_elem *x = elements(b, rows * in), *y = elements(b, rows * stride), *dbias = NULL;
    dt_elem *dx = array(b, rows * in * b->size), *dweight = array(b, in * out * b->size);
    dt_elem *pre = array(b, rows * out * b->size);
    double once = 2.0 * (double)rows * (double)in * (double)out;
    if (bias) {
        l.bias = elements(b, out);
        dbias = array(b, out * b->size);
    }
    snprintf(shape, sizeof shape, "\"rows\": %zu, \"in\": %zu, \"out\": %zu, \"bias\": %s", rows,
             in, out, bias ? "true" : "false");
    double ms = MEASURE(b, b->o->linear_forward(&l, y, x, b->s));
    tell(b, "linear_forward", shape, ms, (struct work){.operations = once});
    if (gelu) {
        ms = MEASURE(b, b->o->linear_gelu_forward(&l, y, pre, x, b->s));
        tell(b, "linear_gelu_forward", shape, ms, (struct work){.operations = once});
    }
    ms = MEASURE(b, b->o->linear_backward(&l, dx, false, dweight, dbias, x, y, b->s));
    tell(b, "linear_backward", shape, ms, (struct work){.operations = 2 * once});
    if (stride == out) {
        ms = MEASURE(b, b->o->linear_gelu_backward(&l, dx, dweight, dbias, x, x, y, b->s));
        tell(b, "linear_gelu_backward", shape, ms, (struct work){.operations = 2 * once});
    }
    free_arrays(b);
}

static void attentions(struct bench *b, size_t batch, size_t positions, size_t heads,
                       size_t kv_heads, size_t head_dim)
{
    char shape[SHAPE];
    size_t rows = batch * positions, wide = heads * head_dim, narrow = kv_heads * head_dim;
    dt_elem *q = elements(b, rows * wide), *k = elements(b, rows * narrow);
    dt_elem *v = elements(b, rows * narrow), *out = elements(b, rows * wide);
    dt_elem *dq = array(b, rows * wide * b->size), *dk = array(b, rows * narrow * b->size);
    dt_elem *dv = array(b, rows * narrow * b->size), *dout = elements(b, rows * wide);
    float *logsum = floats(b, batch * heads * positions);
    struct dt_attention a = {.batch = batch,
                             .queries = positions,
                             .keys = positions,
                             .heads = heads,
                             .kv_heads = kv_heads,
                             .head_dim = head_dim,
                             .q_stride = wide,
                             .k_stride = narrow,
                             .v_stride = narrow,
                             .out_stride = wide,
                             .q = q,
                             .k = k,
                             .v = v,
                             .logsum = logsum};
    /* Two products over half of all pairs; backward has five. */
    double pair = 2.0 * (double)(rows * wide) * (double)positions / 2;
    snprintf(
        shape, sizeof shape,
        "\"batch\": %zu, \"positions\": %zu, \"heads\": %zu, \"kv_heads\": %zu, \"head_dim\": %zu",
        batch, positions, heads, kv_heads, head_dim);
    /* cuDNN's are compared with ours once, which is not to be timed. */
    b->o->attention_forward(&a, out, b->s);
    b->o->attention_backward(&a, dq, dk, dv, out, dout, b->s);
    double ms = MEASURE(b, b->o->attention_forward(&a, out, b->s));
    tell(b, "attention_forward", shape, ms, (struct work){.operations = 2 * pair});
    ms = MEASURE(b, b->o->attention_backward(&a, dq, dk, dv, out, dout, b->s));
    tell(b, "attention_backward", shape, ms, (struct work){.operations = 5 * pair});
    free_arrays(b);
}

static void losses(struct bench *b, size_t rows, size_t vocabulary)
{
    char shape[SHAPE];
    size_t stride = head_stride(b, vocabulary);
    struct dt_cross_entropy c = {rows,  vocabulary, stride, ids(b, rows, vocabulary),
                                 1e-3f, 0,          NULL};
    dt_elem *logits = elements(b, rows * stride);
    float *loss = floats(b, rows);
    snprintf(shape, sizeof shape, "\"rows\": %zu, \"vocabulary\": %zu", rows, vocabulary);
    double ms = MEASURE(b, b->o->cross_entropy(&c, loss, logits, true, b->s));
    tell(b, "cross_entropy", shape, ms,
         (struct work){.bytes = 2.0 * (double)(rows * vocabulary * b->size)});
    free_arrays(b);
}

static void optimizer(struct bench *b, size_t n)
{
    char shape[SHAPE];
    struct dt_adamw a = {.beta1 = 0.9f,
                         .beta2 = 0.95f,
                         .eps = 1e-8f,
                         .bias1 = 0.1f,
                         .bias2 = 0.05f,
                         .grad_scale = 1,
                         .decoupled = true,
                         .model_type = b->o->elem};
    struct dt_adamw_part p = {n,
                              floats(b, n),
                              floats(b, n),
                              array(b, n * sizeof(float)),
                              array(b, n * b->size),
                              elements(b, n),
                              1e-4f,
                              0.1f,
                              0,
                              0};
    struct dt_squares_part grads = {n, p.grads};
    double sum;
    snprintf(shape, sizeof shape, "\"n\": %zu", n);
    double ms = MEASURE(b, b->o->adamw(&a, 1, &p, b->s));
    tell(b, "adamw", shape, ms, (struct work){.bytes = (double)n * (6 * 4 + 2 * (double)b->size)});
    ms = MEASURE(b, b->o->sum_squares(b->o->elem, 1, &sum, &grads, b->s));
    tell(b, "sum_squares", shape, ms, (struct work){.bytes = (double)(n * b->size)});
    free_arrays(b);
}

static bool wants(const struct bench *b, int group)
{
    return b->opt.only == ALL || b->opt.only == group;
}

static void gpt2_and_llama(struct bench *b)
{
    if (wants(b, COPY))
        copies(b, 256u << 20);
    if (wants(b, EMBEDDING))
        embeddings(b, 65536, 1024, 768, 50257);
    if (wants(b, NORM)) {
        norms(b, 65536, 768, true);
        norms(b, 32768, 2048, false);
    }
    if (wants(b, HEAD_NORM))
        head_norms(b, 65536, 16, 128);
    if (wants(b, ROPE))
        rotations(b, 65536, 4096, 32, 64);
    if (wants(b, ACTIVATION))
        activations(b, 128u << 20);
    if (wants(b, LINEAR)) {
        linears(b, 16384, 768, 2304, DT_WEIGHT_IN_OUT, true, false);
        linears(b, 16384, 768, 3072, DT_WEIGHT_IN_OUT, true, true);
        linears(b, 16384, 3072, 768, DT_WEIGHT_IN_OUT, true, false);
        linears(b, 8192, 768, 50257, DT_WEIGHT_OUT_IN, false, false);
        linears(b, 8192, 2048, 5632, DT_WEIGHT_OUT_IN, false, false);
        linears(b, 8192, 2048, 11264, DT_WEIGHT_OUT_IN, false, false); /* gate and up at once */
        linears(b, 8192, 5632, 2048, DT_WEIGHT_OUT_IN, false, false);
    }
    if (wants(b, ATTENTION)) {
        attentions(b, 16, 1024, 12, 12, 64);
        attentions(b, 4, 4096, 12, 12, 64);
        attentions(b, 2, 4096, 32, 4, 64);
        attentions(b, 2, 4096, 32, 8, 128);
    }
    if (wants(b, LOSS)) {
        losses(b, 8192, 50257);
        losses(b, 8192, 32000);
    }
    if (wants(b, OPTIMIZER))
        optimizer(b, 124u << 20);
}

static void toys(struct bench *b)
{
    if (wants(b, COPY))
        copies(b, 1000);
    if (wants(b, EMBEDDING))
        embeddings(b, 24, 8, 16, 40);
    if (wants(b, NORM)) {
        norms(b, 20, 32, true);
        norms(b, 20, 32, false);
    }
    if (wants(b, HEAD_NORM))
        head_norms(b, 16, 2, 8);
    if (wants(b, ROPE))
        rotations(b, 16, 8, 2, 8);
    if (wants(b, ACTIVATION))
        activations(b, 1000);
    if (wants(b, LINEAR)) {
        linears(b, 16, 24, 32, DT_WEIGHT_IN_OUT, true, true);
        linears(b, 16, 24, 33, DT_WEIGHT_OUT_IN, false, false);
    }
    if (wants(b, ATTENTION))
        attentions(b, 1, 16, 2, 1, 64);
    if (wants(b, LOSS))
        losses(b, 8, 333);
    if (wants(b, OPTIMIZER))
        optimizer(b, 1000);
}

static void say(void *arg, const char *line)
{
    (void)arg;
    fprintf(stderr, "%s\n", line);
}

int main(int argc, char **argv)
{
    struct bench b = {.random = 1};
    struct dt_device_wish wish = {.kind = "cuda", .local_world = 1, .say = say};
    struct dt_err err;
    int rc = program_read(&program, argc, argv, &b.opt, &err);
    if (rc != 0)
        return program_end(&program, rc, &err);
    wish.elem = b.opt.elem == FLOAT ? DT_F32 : DT_BF16;
    wish.cudnn = wish.fast = b.opt.attention == CUDNN;
    b.d = dt_device_open(&wish, &err);
    if (!b.d)
        give_up(&err);
    b.o = b.d->ops;
    b.s = b.d->stream;
    b.size = dt_dtype_size(b.o->elem);
    fprintf(stderr, "%s\n", b.d->description);
    if (b.opt.toy)
        toys(&b);
    else
        gpt2_and_llama(&b);
    dt_device_close(b.d);
    return 0;
}
