/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU's ops over rows say what the reference says: embeddings, norms, rotary positions. Arrays
 * begin where 16 bytes at a time can be read, and where they cannot; what hangs on an order of sums
 * must not hang on that. */
#include "tests/gpu/gpu_kit.h"

BEFORE_ALL
{
    gpu_plugin_or_skip();
}

/* Of numbers that were rounded once from float sums as exact as SINGLE, where the largest of what
 * went into a sum is not larger than LARGEST. */
static void near_rounded(struct gpu_kit *g, const char *what, size_t n, const void *at,
                         const float *wanted, double single, double largest)
{
    const float *is = gpu_down(g, n, at);
    for (size_t i = 0; i < n; i++) {
        double half = g->elem == DT_BF16 ? 0x1.01p-8 * fabs((double)wanted[i]) + 0x1p-133 : 0;
        double error = half + single * fmax(largest, fabs((double)wanted[i]));
        CHECK_ROW("%s [%zu] is %.9g, wanted %.9g", what, i, (double)is[i], (double)wanted[i]);
        CHECK(fabs((double)is[i] - (double)wanted[i]) <= error);
    }
}

struct embedding_row {
    size_t rows, positions, width, vocabulary;
    size_t common; /* one id of so many is 1; 1: all are, 0: as chance has it */
    size_t absent; /* one row of so many has no word; 0: all have */
};

static int32_t *ids_for(struct gpu_kit *g, const struct embedding_row *r)
{
    int32_t *ids = kit_ids(&g->k, r->rows, r->vocabulary);
    for (size_t i = 0; r->common && i < r->rows; i++)
        if (i % r->common == 0)
            ids[i] = 1;
    for (size_t i = 0; r->absent && i < r->rows; i++)
        ids[i] = i % r->absent == 0 ? -1 : i % r->absent == 1 ? (int32_t)r->vocabulary - 1 : ids[i];
    return ids;
}

/* Forward, and backward twice: the same bits. */
static void one_embedding(struct gpu_kit *g, const struct embedding_row *r, bool placed, bool own)
{
    struct dt_embedding e = {r->rows,       r->positions, r->width, r->vocabulary,
                             ids_for(g, r), r->rows % 3,  NULL};
    struct dt_embedding de = e;
    size_t n = e.rows * e.width, words = e.vocabulary * e.width;
    size_t places = (e.first + e.positions) * e.width;
    CHECK_ROW(
        "rows %zu positions %zu from %zu width %zu vocabulary %zu common %zu absent %zu placed %d "
        "own %d shift %zu",
        e.rows, e.positions, e.first, e.width, e.vocabulary, r->common, r->absent, placed, own,
        g->shift);
    de.ids = gpu_up_ids(g, e.rows, e.ids);
    if (own) {
        e.places = kit_ids(&g->k, e.rows, e.positions);
        de.places = gpu_up_ids(g, e.rows, e.places);
    }
    float *token = gpu_numbers(g, words), *place = placed ? gpu_numbers(g, places) : NULL;
    float *dout = gpu_numbers(g, n), *out = gpu_numbers(g, n);
    void *ddout = gpu_up(g, n, dout), *dtoken[2], *dplace[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        dtoken[i] = gpu_up(g, words, token);
        dplace[i] = placed ? gpu_up(g, places, place) : NULL;
    }
    void *dy = gpu_up(g, n, NULL);
    g->ops->embedding_forward(&de, dy, dtoken[0], dplace[0], g->s);
    ref->embedding_forward(&e, out, token, place, NULL);
    gpu_near(g, "out", n, dy, gpu_rounded(g, n, out), 0);
    for (int i = 0; i < 2; i++)
        g->ops->embedding_backward(&de, dtoken[i], dplace[i], ddout, g->s);
    ref->embedding_backward(&e, token, place, dout, NULL);
    /* The reference adds floats one by one; so many of them are the most for one word. */
    size_t most = r->common ? e.rows / r->common : r->absent ? e.rows : e.rows / e.vocabulary + 1;
    near_rounded(g, "dtoken", words, dtoken[0], token, 2e-6, 3 * sqrt((double)most));
    CHECK_BYTES(gpu_down(g, words, dtoken[0]), words * 4, gpu_down(g, words, dtoken[1]), words * 4);
    if (!placed)
        return;
    near_rounded(g, "dposition", places, dplace[0], place, 5e-7, 3);
    CHECK_BYTES(gpu_down(g, places, dplace[0]), places * 4, gpu_down(g, places, dplace[1]),
                places * 4);
}

static void embeddings(struct gpu_kit *g)
{
    static const struct embedding_row rows[] = {
        {1, 1, 1, 2, 0, 0},       {6, 3, 5, 7, 0, 0},       {31, 40, 8, 3, 0, 0},
        {514, 257, 65, 11, 0, 0}, {40, 20, 128, 300, 0, 0}, {700, 350, 24, 2, 1, 0},
        {97, 97, 8, 70000, 3, 0}, {33, 33, 1032, 40, 3, 0}, {64, 32, 16, 2, 2, 0},
        {200, 100, 8, 256, 0, 3}, {65, 13, 5, 300, 0, 2},   {70, 70, 12, 7, 0, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] * 4; i++) {
        g->shift = i % 4 == 2;
        one_embedding(g, &rows[i / 4], i % 4 > 0, i % 4 == 3);
        gpu_free(g);
    }
    g->shift = 0;
}

TEST(embeddings_are_looked_up_and_added_up)
{
    gpu_each(embeddings);
}

/* Atomic additions, where any order will do. */
TEST(embeddings_add_up_in_any_order_where_that_is_allowed)
{
    struct gpu_kit g = {.k.state = 7, .elem = DT_F32};
    g.device = gpu_open_device(DT_F32, true);
    g.ops = g.device->ops;
    g.s = g.device->stream;
    enum { ROWS = 150, WIDTH = 33, WORDS = 9 };
    struct dt_embedding e = {ROWS, 50, WIDTH, WORDS, NULL, 0, NULL}, de = e;
    struct embedding_row absent = {ROWS, 50, WIDTH, WORDS, 0, 4};
    e.ids = ids_for(&g, &absent);
    de.ids = gpu_up_ids(&g, ROWS, e.ids);
    float *dtoken = gpu_numbers(&g, WORDS * WIDTH), *dout = gpu_numbers(&g, ROWS * WIDTH);
    void *to = gpu_up(&g, WORDS * WIDTH, dtoken);
    g.ops->embedding_backward(&de, to, NULL, gpu_up(&g, ROWS * WIDTH, dout), g.s);
    ref->embedding_backward(&e, dtoken, NULL, dout, NULL);
    gpu_near(&g, "dtoken", WORDS * WIDTH, to, dtoken, 2e-6);
    gpu_free(&g);
    dt_device_close(g.device);
}

/* More rows than are sorted at once, of a word that goes on behind them; sums are whole numbers, so
 * that their order does not matter. */
TEST(embeddings_add_up_more_rows_than_are_sorted_at_once)
{
    struct gpu_kit g = {.k.state = 7, .elem = DT_F32};
    g.device = gpu_open_device(DT_F32, false);
    g.ops = g.device->ops;
    g.s = g.device->stream;
    enum { ROWS = (1 << 20) + 70, WORDS = 300 };
    struct dt_embedding e = {ROWS, ROWS, 1, WORDS, kit_ids(&g.k, ROWS, WORDS), 0, NULL}, de = e;
    float *dout = kit_alloc(&g.k, ROWS * sizeof *dout), dtoken[WORDS] = {0};
    for (size_t i = 0; i < ROWS; i++)
        dout[i] = 1 + (float)(i % 5);
    de.ids = gpu_up_ids(&g, ROWS, e.ids);
    void *to = gpu_up(&g, WORDS, dtoken);
    g.ops->embedding_backward(&de, to, NULL, gpu_up(&g, ROWS, dout), g.s);
    ref->embedding_backward(&e, dtoken, NULL, dout, NULL);
    CHECK_BYTES(gpu_down(&g, WORDS, to), sizeof dtoken, dtoken, sizeof dtoken);
    gpu_free(&g);
    dt_device_close(g.device);
}

/* One norm on both sides. */
struct norm_case {
    struct dt_norm host, device;
    size_t n;
    bool layer;
    float *x, *more, *dout, *weight;
};

static struct norm_case norm_case(struct gpu_kit *g, size_t rows, size_t width, bool layer)
{
    struct norm_case c = {.n = rows * width, .layer = layer};
    c.weight = gpu_numbers(g, width);
    float *bias = layer ? gpu_numbers(g, width) : NULL;
    c.host = (struct dt_norm){
        .rows = rows, .width = width, .eps = 1e-5f, .weight = c.weight, .bias = bias};
    c.host.plus = g->shift ? 1 : 0;
    c.device = c.host;
    c.host.mean = layer ? kit_alloc(&g->k, rows * sizeof(float)) : NULL;
    c.host.rstd = kit_alloc(&g->k, rows * sizeof(float));
    c.device.weight = gpu_up(g, width, c.weight);
    c.device.bias = layer ? gpu_up(g, width, bias) : NULL;
    c.device.mean = layer ? gpu_up_float(g, rows, NULL) : NULL;
    c.device.rstd = gpu_up_float(g, rows, NULL);
    c.x = gpu_numbers(g, c.n);
    c.more = gpu_numbers(g, c.n);
    c.dout = gpu_numbers(g, c.n);
    return c;
}

/* The reference is given the sum as an element holds it: a norm is of what is stored. */
static void norm_forward(struct gpu_kit *g, struct norm_case *c, bool add)
{
    size_t n = c->n, rows = c->host.rows;
    float *sum = kit_copy(&g->k, n, c->x), *out = kit_alloc(&g->k, n * 4);
    if (add)
        ref->add(n, sum, c->more, NULL);
    gpu_rounded(g, n, sum);
    void *dx = gpu_up(g, n, c->x), *dmore = add ? gpu_up(g, n, c->more) : NULL;
    void *dsum = gpu_up(g, n, NULL), *dout = gpu_up(g, n, NULL);
    g->ops->norm_forward(&c->device, dout, dsum, dx, dmore, g->s);
    ref->norm_forward(&c->host, out, NULL, sum, NULL, NULL);
    near_rounded(g, "out", n, dout, out, 3e-6, 3);
    gpu_near(g, "sum", n, dsum, sum, 0);
    gpu_near_float(g, "rstd", rows, c->device.rstd, c->host.rstd, 1e-6);
    if (c->layer)
        gpu_near_float(g, "mean", rows, c->device.mean, c->host.mean, 1e-6);
    void *again = gpu_up(g, n, NULL);
    g->ops->norm_forward(&c->device, again, dx, dx, dmore, g->s);
    CHECK_BYTES(gpu_down(g, n, dx), n * 4, gpu_down(g, n, dsum), n * 4);
    CHECK_BYTES(gpu_down(g, n, again), n * 4, gpu_down(g, n, dout), n * 4);
    g->ops->norm_forward(&c->device, again, NULL, dsum, NULL, g->s);
    CHECK_BYTES(gpu_down(g, n, again), n * 4, gpu_down(g, n, dout), n * 4);
    c->x = sum;
}

static void norm_backward(struct gpu_kit *g, struct norm_case *c)
{
    size_t n = c->n, width = c->host.width;
    double rows = sqrt((double)c->host.rows);
    void *dx = gpu_up(g, n, c->more), *dw = gpu_up(g, width, c->weight);
    void *db = c->layer ? gpu_up(g, width, c->weight) : NULL;
    void *x = gpu_up(g, n, c->x), *dout = gpu_up(g, n, c->dout);
    struct dt_norm d = c->device;
    d.rstd = gpu_up_float(g, c->host.rows, c->host.rstd);
    d.mean = c->layer ? gpu_up_float(g, c->host.rows, c->host.mean) : NULL;
    g->ops->norm_backward(&d, dx, dw, db, x, dout, g->s);
    float *dx2 = kit_copy(&g->k, n, c->more), *dw2 = kit_copy(&g->k, width, c->weight);
    float *db2 = kit_copy(&g->k, width, c->weight);
    ref->norm_backward(&c->host, dx2, dw2, c->layer ? db2 : NULL, c->x, c->dout, NULL);
    near_rounded(g, "dx", n, dx, dx2, 3e-6, 3);
    void *alone = gpu_up(g, n, c->more);
    g->ops->norm_backward(&d, alone, NULL, NULL, x, dout, g->s);
    gpu_near(g, "dx alone", n, alone, gpu_down(g, n, dx), 0);
    near_rounded(g, "dweight", width, dw, dw2, 2e-6, 3 * rows);
    if (c->layer)
        near_rounded(g, "dbias", width, db, db2, 2e-6, 3 * rows);
}

static void norms_of(struct gpu_kit *g, size_t rows, size_t width)
{
    for (int how = 0; how < 6; how++) {
        bool layer = how & 1, add = how & 2;
        g->shift = how >= 4;
        CHECK_ROW("rows %zu width %zu layer %d add %d shift %zu", rows, width, layer, add,
                  g->shift);
        /* A row of one has no variance to be compared. */
        if (width == 1 && layer)
            continue;
        struct norm_case c = norm_case(g, rows, width, layer);
        norm_forward(g, &c, add);
        norm_backward(g, &c);
        gpu_free(g);
    }
    g->shift = 0;
}

/* A warp a row; blocks of all sizes; rows too wide to be kept; more rows than parts would have at
 * least. */
static void norms(struct gpu_kit *g)
{
    static const size_t shapes[][2] = {{1, 1},     {3, 5},     {17, 33},  {150, 65}, {33, 384},
                                       {9, 512},   {20, 1029}, {9, 2048}, {5, 4104}, {2, 8200},
                                       {1, 16384}, {1, 16400}, {300, 520}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        norms_of(g, shapes[i][0], shapes[i][1]);
}

TEST(norms_of_both_kinds_with_and_without_a_residual)
{
    gpu_each(norms);
}

/* Where arrays lie decides how they are read, but not in which order sums are taken. */
static void alignments(struct gpu_kit *g)
{
    enum { ROWS = 40, WIDTH = 520, N = ROWS * WIDTH };
    float *first[4] = {NULL}, *x = gpu_numbers(g, N), *dout = gpu_numbers(g, N);
    float *weight = gpu_numbers(g, WIDTH);
    static const size_t sizes[] = {N, N, WIDTH, WIDTH};
    for (int i = 0; i < 3; i++) {
        g->shift = i == 1;
        struct dt_norm n = {.rows = ROWS, .width = WIDTH, .eps = 1e-5f};
        n.weight = n.bias = gpu_up(g, WIDTH, weight);
        n.mean = gpu_up_float(g, ROWS, NULL);
        n.rstd = gpu_up_float(g, ROWS, NULL);
        void *d_x = gpu_up(g, N, x), *ddout = gpu_up(g, N, dout);
        void *is[] = {gpu_up(g, N, NULL), gpu_up(g, N, dout), gpu_up(g, WIDTH, weight),
                      gpu_up(g, WIDTH, weight)};
        g->ops->norm_forward(&n, is[0], NULL, d_x, NULL, g->s);
        g->ops->norm_backward(&n, is[1], is[2], is[3], d_x, ddout, g->s);
        for (int a = 0; a < 4; a++) {
            float *now = gpu_down(g, sizes[a], is[a]);
            first[a] = first[a] ? first[a] : now;
            CHECK_BYTES(now, sizes[a] * 4, first[a], sizes[a] * 4);
        }
    }
    g->shift = 0;
}

TEST(norms_have_the_same_bits_wherever_arrays_lie)
{
    gpu_each(alignments);
}

/* Forward, and backward twice, in place: the same bits. What lies between rows stays. */
static void one_head_norm(struct gpu_kit *g, const size_t h[4])
{
    float *weight = gpu_numbers(g, h[2]);
    struct dt_head_norm n = {h[0], h[1], h[2], h[3], 1e-5f, g->shift ? 1 : 0, weight}, dn = n;
    size_t all = n.rows * n.stride, dim = n.head_dim;
    CHECK_ROW("rows %zu heads %zu dim %zu stride %zu shift %zu", h[0], h[1], h[2], h[3], g->shift);
    float *x = gpu_numbers(g, all), *dout = gpu_numbers(g, all), *out = gpu_numbers(g, all);
    float *dweight = gpu_numbers(g, dim);
    void *there = gpu_up(g, all, x), *dx[2], *sums[2], *y = gpu_up(g, all, out);
    dn.weight = gpu_up(g, dim, weight);
    for (int i = 0; i < 2; i++) {
        dx[i] = gpu_up(g, all, dout);
        sums[i] = gpu_up(g, dim, dweight);
    }
    g->ops->head_norm_forward(&dn, y, there, g->s);
    ref->head_norm_forward(&n, out, x, NULL);
    near_rounded(g, "out", all, y, out, 3e-6, 3);
    void *alone = gpu_up(g, all, dout);
    g->ops->head_norm_backward(&dn, alone, NULL, there, alone, g->s);
    for (int i = 0; i < 2; i++)
        g->ops->head_norm_backward(&dn, dx[i], sums[i], there, dx[i], g->s);
    CHECK_BYTES(gpu_down(g, all, alone), all * 4, gpu_down(g, all, dx[0]), all * 4);
    ref->head_norm_backward(&n, dout, dweight, x, dout, NULL);
    near_rounded(g, "dx", all, dx[0], dout, 3e-6, 4);
    near_rounded(g, "dweight", dim, sums[0], dweight, 3e-6, 3 * sqrt((double)(h[0] * h[1])));
    CHECK_BYTES(gpu_down(g, dim, sums[0]), dim * 4, gpu_down(g, dim, sums[1]), dim * 4);
    CHECK_BYTES(gpu_down(g, all, dx[0]), all * 4, gpu_down(g, all, dx[1]), all * 4);
}

static void head_norms(struct gpu_kit *g)
{
    static const size_t shapes[][4] = {{1, 1, 2, 2},      {5, 3, 6, 20},      {65, 2, 33, 70},
                                       {40, 7, 64, 1000}, {300, 3, 128, 640}, {3, 1, 4096, 4100}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        g->shift = i % 2;
        one_head_norm(g, shapes[i]);
        gpu_free(g);
    }
    g->shift = 0;
}

TEST(norms_of_single_heads)
{
    gpu_each(head_norms);
}

static void ropes(struct gpu_kit *g)
{
    static const size_t shapes[][5] = {
        {1, 1, 1, 2, 2}, {6, 3, 2, 6, 17}, {514, 257, 3, 64, 192}, {40, 40, 1, 10, 12},
        {5, 9, 1, 4, 4}, {7, 5, 2, 5, 11}, {20, 10, 3, 32, 104},   {3, 3, 1, 600, 600}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0] * 2; i++) {
        const size_t *h = shapes[i / 2];
        float *speeds = kit_speeds(&g->k, h[3]), scale = i % 2 ? 1 : 1.25f;
        struct dt_rope here = {h[0], h[1], h[2], h[3], h[4], speeds, scale, 3 * i}, r = here;
        size_t n = r.rows * r.stride;
        r.speeds = gpu_up_float(g, h[3] / 2, speeds);
        g->shift = i % 2;
        CHECK_ROW("rows %zu positions %zu heads %zu dim %zu shift %zu", h[0], h[1], h[2], h[3],
                  g->shift);
        float *x = gpu_numbers(g, n);
        void *dx = gpu_up(g, n, x);
        g->ops->rope(&r, dx, false, g->s);
        ref->rope(&here, x, false, NULL);
        near_rounded(g, "turned", n, dx, x, 1e-6, 2);
        x = gpu_down(g, n, dx);
        g->ops->rope(&r, dx, true, g->s);
        ref->rope(&here, x, true, NULL);
        near_rounded(g, "turned back", n, dx, x, 1e-6, 2);
        gpu_free(g);
    }
    g->shift = 0;
}

TEST(rotary_positions_turn_forth_and_back)
{
    gpu_each(ropes);
}

static void nothing(struct gpu_kit *g)
{
    struct dt_embedding e = {0, 4, 8, 5, NULL, 0, NULL};
    struct dt_norm n = {.rows = 0, .width = 8};
    struct dt_rope r = {0, 4, 1, 8, 8, NULL, 1, 0};
    float *x = gpu_numbers(g, 40);
    void *dx = gpu_up(g, 40, x);
    g->ops->embedding_forward(&e, dx, dx, NULL, g->s);
    g->ops->embedding_backward(&e, dx, dx, dx, g->s);
    g->ops->norm_forward(&n, dx, NULL, dx, NULL, g->s);
    g->ops->norm_backward(&n, dx, dx, dx, dx, dx, g->s);
    g->ops->rope(&r, dx, false, g->s);
    struct dt_head_norm heads = {0, 2, 8, 16, 1e-6f, 0, dx};
    g->ops->head_norm_forward(&heads, dx, dx, g->s);
    g->ops->head_norm_backward(&heads, dx, dx, dx, dx, g->s);
    gpu_near(g, "untouched", 40, dx, x, 0);
}

TEST(no_rows_are_no_work)
{
    gpu_each(nothing);
}
