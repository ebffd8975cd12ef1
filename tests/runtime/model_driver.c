/* SPDX-License-Identifier: Apache-2.0 */
/* Trains a model on what another program gives it and tells what came out, for torch_model.py:
 *
 *     model_driver tensors CONFIG
 *         prints name, rank and dimensions of each tensor, a line each, in their order
 *     model_driver train CONFIG WEIGHTS DATA GRADS BATCH POSITIONS STEPS RECOMPUTE
 *         prints each step's mean loss, and writes the gradients of the first step
 *
 * WEIGHTS and GRADS are raw floats, tensor behind tensor. DATA is raw int32: for each step
 * [batch, positions] tokens, then as many targets. */
#include "base/fs.h"
#include "base/json.h"
#include "worker_runtime/inside.h"
#include "worker_runtime/model/transformer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MOST ((size_t)1 << 30)

struct run {
    struct dt_context *context;
    struct dt_shape shape;
    struct dt_tensor *tensors;
    struct dt_unit *units;
    struct dt_param *params;
    struct dt_zero *z;
    struct dt_transformer *t;
    struct dt_buf weights;
};

static void die(const struct dt_err *err)
{
    fprintf(stderr, "model_driver: %s\n", err->text);
    exit(dt_err_exit_status(err));
}

static void check(int rc, const struct dt_err *err)
{
    if (rc < 0)
        die(err);
}

static void open_shape(struct run *r, const char *path)
{
    struct dt_err err = {0};
    struct dt_buf text = {0};
    struct dt_json doc = {0};
    check(dt_fs_read(path, FILE_MOST, &text, &err), &err);
    check(dt_json_parse(&doc, (const char *)text.at, text.len, FILE_MOST, &err), &err);
    check(dt_shape_read(&r->shape, &doc, NULL, NULL, &err), &err);
    dt_json_finish(&doc);
    dt_buf_finish(&text);
    r->tensors = dt_shape_tensors(&r->shape, &err);
    check(r->tensors ? 0 : -1, &err);
}

static void print_tensors(const struct run *r)
{
    for (size_t i = 0; i < dt_shape_tensor_count(&r->shape); i++) {
        const struct dt_tensor *t = &r->tensors[i];
        printf("%s %d %zu %zu\n", t->name, t->rank, t->dims[0], t->dims[1]);
    }
}

static void fill(void *arg, size_t unit, size_t param, size_t first, size_t count, float *out)
{
    const struct run *r = arg;
    const struct dt_tensor *t = r->tensors;
    size_t before = 0;
    for (; t->unit != unit || t->index != param; t++)
        before += t->count;
    memcpy(out, r->weights.at + (before + first) * sizeof *out, count * sizeof *out);
}

/* Of a step whose micro-steps are not all made: at stage 0 their sums lie where more are added. */
static void write_grads(const struct run *r, const char *path)
{
    struct dt_err err = {0};
    FILE *f = fopen(path, "wb");
    bool good = f != NULL;
    for (size_t i = 0; good && i < dt_shape_tensor_count(&r->shape); i++) {
        const struct dt_tensor *t = &r->tensors[i];
        const float *grads = dt_zero_grads(r->z, t->unit, &err);
        check(grads ? 0 : -1, &err);
        good = fwrite(grads + t->offset, sizeof *grads, t->count, f) == t->count;
    }
    if (!good || fclose(f) != 0) {
        perror(path);
        exit(1);
    }
}

/* The samples, and then a micro-step without any, in between which gradients can be seen. */
static double step(struct run *r, size_t batch, size_t positions, const int32_t *ids,
                   const char *grads)
{
    struct dt_zero_update u = {.lr = 1e-3f, .loss_scale = 1};
    struct dt_zero_updated updated;
    struct dt_err err = {0};
    const int32_t *targets = ids + batch * positions;
    double loss = 0, count = 0;
    for (size_t i = 0; i < batch * positions; i++)
        count += targets[i] >= 0;
    dt_zero_begin(r->z, true, false);
    if (r->shape.balance_experts)
        dt_transformer_balance(r->t, (double)r->shape.balance_share);
    if (r->shape.z_share > 0)
        dt_transformer_z_loss(r->t, (double)r->shape.z_share);
    check(dt_transformer_train(r->t, r->z, batch, ids, targets, (float)(1 / count), &loss, &err),
          &err);
    dt_zero_begin(r->z, true, true);
    if (grads)
        write_grads(r, grads);
    check(dt_transformer_train(r->t, r->z, 0, NULL, NULL, 1, &loss, &err), &err);
    check(dt_zero_step(r->z, &u, &updated, &err), &err);
    return loss / count;
}

static void train(struct run *r, const char *data, const char *grads, size_t batch,
                  size_t positions, int steps)
{
    struct dt_err err = {0};
    struct dt_buf bytes = {0};
    size_t n = 2 * batch * positions;
    check(dt_fs_read(data, FILE_MOST, &bytes, &err), &err);
    if (bytes.len != (size_t)steps * n * sizeof(int32_t))
        check(dt_err_set(&err, DT_E_USAGE, "%s is not as large as %d steps", data, steps), &err);
    const int32_t *at = (const int32_t *)(const void *)bytes.at;
    for (int i = 0; i < steps; i++, at += n)
        printf("%.9g\n", step(r, batch, positions, at, i == 0 ? grads : NULL));
    dt_buf_finish(&bytes);
}

static void open_run(struct run *r, const struct dt_transformer_options *o, const char *weights)
{
    const struct dt_context_options alone = {.device = "cpu", .threads = 2};
    struct dt_zero_options zo;
    struct dt_err err = {0};
    dt_zero_defaults(&zo);
    zo.beta2 = 0.95f;
    zo.weight_decay = 0.1f;
    check(dt_fs_read(weights, FILE_MOST, &r->weights, &err), &err);
    if (r->weights.len != dt_shape_params(&r->shape) * sizeof(float))
        check(dt_err_set(&err, DT_E_USAGE, "%s is not as large as the model", weights), &err);
    r->context = dt_context_open(&alone, &err);
    check(r->context ? 0 : -1, &err);
    check(dt_shape_units(&r->shape, r->tensors, &r->units, &r->params, &err), &err);
    r->z = dt_zero_create(r->context, dt_context_coll(r->context), r->units,
                          dt_shape_unit_count(&r->shape), &zo, &err);
    check(r->z ? 0 : -1, &err);
    check(dt_zero_fill(r->z, fill, r, &err), &err);
    r->t = dt_transformer_create(&r->shape, o, dt_context_device(r->context), &err);
    check(r->t ? 0 : -1, &err);
}

static void close_run(struct run *r)
{
    dt_transformer_destroy(r->t);
    dt_zero_destroy(r->z);
    dt_context_close(r->context);
    free(r->units);
    free(r->params);
    dt_buf_finish(&r->weights);
}

int main(int argc, char **argv)
{
    struct run r = {0};
    if (argc == 3 && strcmp(argv[1], "tensors") == 0) {
        open_shape(&r, argv[2]);
        print_tensors(&r);
    } else if (argc == 10 && strcmp(argv[1], "train") == 0) {
        struct dt_transformer_options o = {.batch = strtoul(argv[6], NULL, 10),
                                           .positions = strtoul(argv[7], NULL, 10),
                                           .recompute = strcmp(argv[9], "0") != 0,
                                           .recompute_every = strtoul(argv[9], NULL, 10)};
        open_shape(&r, argv[2]);
        open_run(&r, &o, argv[3]);
        train(&r, argv[4], argv[5], o.batch, o.positions, atoi(argv[8]));
        close_run(&r);
    } else {
        fprintf(stderr, "usage: see the top of model_driver.c\n");
        return 2;
    }
    free(r.tensors);
    return 0;
}
