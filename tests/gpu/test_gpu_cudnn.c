/* SPDX-License-Identifier: Apache-2.0 */
/* A device whose attention is to be cuDNN's beside one with our own kernels. What cuDNN computes a
 * host with a GPU and cuDNN shows; a mock GPU has none, and shows that the line is said and our
 * kernels are taken. */
#include "tests/gpu/gpu_kit.h"

#include "cuda/cudnn/compare.h"

static char said[8][700];
static int lines;

static void say(void *arg, const char *line)
{
    (void)arg;
    printf("# %s\n", line);
    snprintf(said[lines % 8], sizeof said[0], "%s", line);
    lines++;
}

static struct gpu_kit open_kit(enum dt_dtype elem, bool cudnn, bool fast)
{
    struct dt_err err = {0};
    struct dt_device_wish w = {
        .kind = "cuda", .local_world = 1, .elem = elem, .fast = fast, .cudnn = cudnn, .say = say};
    struct gpu_kit g = {.k.state = 7, .elem = elem};
    g.device = gpu_plugin_or_skip()->open(&w, &err);
    CHECK_OK(g.device ? 0 : -1, err);
    g.ops = g.device->ops;
    g.s = g.device->stream;
    return g;
}

static void close_kit(struct gpu_kit *g)
{
    gpu_free(g);
    dt_device_close(g->device);
}

struct results {
    size_t n_q, n_kv, n_logsum;
    uint16_t *out, *dq, *dk, *dv;
    float *logsum;
};

static void *down(struct gpu_kit *g, size_t bytes, const void *at)
{
    void *to = malloc(bytes);
    gpu_to_host(g, to, at, bytes);
    return to;
}

struct row {
    size_t batch, positions, heads, kv_heads, dim;
    size_t window;
    bool packed;
};

/* Each sequence is two documents, the first of a third of its positions. */
static const int32_t *pack(struct gpu_kit *g, const struct row *x)
{
    size_t n = x->batch * x->positions, begins = x->positions / 3;
    int32_t *documents = calloc(n, sizeof *documents);
    for (size_t i = 0; i < n; i++)
        documents[i] = i % x->positions < begins ? 0 : (int32_t)begins;
    const int32_t *there = gpu_up_ids(g, n, documents);
    free(documents);
    return there;
}

/* The third time: the first is compared, the second might be recorded. */
static struct results attend(struct gpu_kit *g, const struct row *x)
{
    size_t batch = x->batch, positions = x->positions, heads = x->heads;
    size_t kv_heads = x->kv_heads, dim = x->dim;
    struct results r = {.n_q = batch * positions * heads * dim,
                        .n_kv = batch * positions * kv_heads * dim,
                        .n_logsum = batch * heads * positions};
    g->k.state = 11;
    void *q = gpu_up(g, r.n_q, gpu_numbers(g, r.n_q));
    void *k = gpu_up(g, r.n_kv, gpu_numbers(g, r.n_kv));
    void *v = gpu_up(g, r.n_kv, gpu_numbers(g, r.n_kv));
    void *dout = gpu_up(g, r.n_q, gpu_numbers(g, r.n_q));
    void *out = gpu_up(g, r.n_q, NULL), *dq = gpu_up(g, r.n_q, NULL);
    void *dk = gpu_up(g, r.n_kv, NULL), *dv = gpu_up(g, r.n_kv, NULL);
    float *logsum = gpu_bytes(g, r.n_logsum * sizeof *logsum, NULL, 0);
    struct dt_attention a = {.batch = batch,
                             .queries = positions,
                             .keys = positions,
                             .window = x->window,
                             .documents = x->packed ? pack(g, x) : NULL,
                             .heads = heads,
                             .kv_heads = kv_heads,
                             .head_dim = dim,
                             .q_stride = heads * dim,
                             .k_stride = kv_heads * dim,
                             .v_stride = kv_heads * dim,
                             .out_stride = heads * dim,
                             .q = q,
                             .k = k,
                             .v = v,
                             .logsum = logsum};
    for (int i = 0; i < 3; i++) {
        g->ops->attention_forward(&a, out, g->s);
        g->ops->attention_backward(&a, dq, dk, dv, out, dout, g->s);
    }
    r.out = down(g, r.n_q * 2, out);
    r.dq = down(g, r.n_q * 2, dq);
    r.dk = down(g, r.n_kv * 2, dk);
    r.dv = down(g, r.n_kv * 2, dv);
    r.logsum = down(g, r.n_logsum * sizeof *logsum, logsum);
    return r;
}

static void finish(struct results *r)
{
    free(r->out);
    free(r->dq);
    free(r->dk);
    free(r->dv);
    free(r->logsum);
}

static void near(const char *what, enum dt_dtype type, size_t n, const void *ours,
                 const void *theirs)
{
    const struct dt_cudnn_array a = {.type = type, .rows = 1, .width = n};
    double apart = dt_cudnn_apart(&a, ours, theirs);
    printf("# %s: %.2g apart\n", what, apart);
    CHECK_ROW("%s: %g apart", what, apart);
    CHECK(apart >= 0 && apart < (type == DT_F32 ? 1e-3 : 0.02));
}

static bool is_mock(void)
{
    const char *plugin = getenv("DTRUN_CUDA_PLUGIN");
    return plugin && strstr(plugin, "emulated");
}

/* On a mock GPU both are our kernels: one row is enough. */
static void beside_ours(bool fast)
{
    static const struct row rows[] = {{1, 200, 2, 1, 128, 70, true}, {2, 128, 4, 4, 64, 0, false},
                                      {1, 200, 4, 1, 128, 0, false}, {2, 77, 2, 2, 64, 0, false},
                                      {1, 130, 4, 2, 80, 0, false},  {2, 200, 1, 1, 64, 50, false},
                                      {2, 300, 1, 1, 64, 0, true}};
    size_t count = is_mock() ? 1 : sizeof rows / sizeof *rows;
    for (size_t i = 0; i < count; i++) {
        const struct row *x = &rows[i];
        CHECK_ROW("batch %zu positions %zu heads %zu/%zu dim %zu window %zu%s", x->batch,
                  x->positions, x->heads, x->kv_heads, x->dim, x->window,
                  x->packed ? " documents" : "");
        struct gpu_kit own = open_kit(DT_BF16, false, fast), g = open_kit(DT_BF16, true, fast);
        struct results ours = attend(&own, x);
        struct results theirs = attend(&g, x);
        near("out", DT_BF16, ours.n_q, ours.out, theirs.out);
        near("logsum", DT_F32, ours.n_logsum, ours.logsum, theirs.logsum);
        near("dq", DT_BF16, ours.n_q, ours.dq, theirs.dq);
        near("dk", DT_BF16, ours.n_kv, ours.dk, theirs.dk);
        near("dv", DT_BF16, ours.n_kv, ours.dv, theirs.dv);
        finish(&ours);
        finish(&theirs);
        close_kit(&own);
        close_kit(&g);
    }
}

/* What a line says is told by it; that cuDNN's was wrong is a failure. */
static void look_at_lines(void)
{
    for (int i = 0; i < lines && i < 8; i++) {
        CHECK_ROW("%s", said[i]);
        CHECK(strstr(said[i], "of its norm apart") == NULL);
    }
}

TEST(cudnn_gives_what_our_kernels_give)
{
    lines = 0;
    beside_ours(true);
    look_at_lines();
}

TEST(and_so_it_does_where_bits_have_to_repeat)
{
    lines = 0;
    beside_ours(false);
    look_at_lines();
}

TEST(a_run_in_float_is_told_that_its_attention_is_our_own)
{
    lines = 0;
    struct gpu_kit g = open_kit(DT_F32, true, false);
    close_kit(&g);
    CHECK_EQ(lines, 1);
    CHECK_STR(said[0], "train.attention \"cudnn\": attention is computed by dtrun's own kernels: "
                       "it computes in bfloat16, and this run does not");
}

TEST(a_mock_gpu_has_no_cudnn_and_says_so)
{
    if (!is_mock())
        SKIP("this is for the mock GPU");
    lines = 0;
    struct gpu_kit g = open_kit(DT_BF16, true, false);
    close_kit(&g);
    CHECK_EQ(lines, 1);
    CHECK_STR(said[0], "train.attention \"cudnn\": attention is computed by dtrun's own kernels: a "
                       "mock GPU has no cuDNN");
}

BEFORE_ALL
{
    gpu_plugin_or_skip();
}
