/* SPDX-License-Identifier: Apache-2.0 */
/* What a run trains on and validates with: opened, told of, and the same on all ranks. */
#include "worker_runtime/coll/agree.h"
#include "worker_runtime/data/tokenize.h"
#include "worker_runtime/train/inside.h"

#include <stdlib.h>
#include <string.h>

/* Programs that generate text stop at such a token, and else at one of Hugging Face's own models.
 */
static void settle_end_token(struct dt_trainer *t)
{
    static const struct dt_token_ids end = {1, {DT_BYTE_END}};
    bool silent = t->shape.bos.count == 0 && t->shape.eos.count == 0;
    if (silent && dt_mixture_are_bytes(t->train) && t->shape.vocabulary > DT_BYTE_END)
        t->shape.bos = t->shape.eos = end;
}

/* What is packed is told of; a document that no sample has room for would be missed in silence. */
static void tell_packing(struct dt_trainer *t, const struct dt_samples *s, const char *key)
{
    struct dt_samples_packing p = dt_samples_packing(s);
    size_t positions = t->config->data.positions;
    if (t->rank == 0 && p.left_out && dt_samples_paired(s))
        dt_buf_printf(&t->warnings,
                      "data.%s: of %zu of %zu pairs both answers together are longer than "
                      "data.sequence_length (%zu), and they are left out; tokenize with "
                      "--max-tokens %zu, or give a greater one\n",
                      key, p.left_out / 2, p.documents / 2, positions, positions / 2 + 1);
    else if (t->rank == 0 && p.left_out)
        dt_buf_printf(&t->warnings,
                      "data.%s: %zu of %zu documents are longer than data.sequence_length (%zu) "
                      "and are left out; tokenize with --max-tokens %zu, or give a greater one\n",
                      key, p.left_out, p.documents, positions, positions + 1);
}

static int open_train(struct dt_trainer *t, struct dt_err *err)
{
    const struct dt_config_data *d = &t->config->data;
    struct dt_mixture_file *files = calloc(d->train_count, sizeof *files);
    if (!files)
        return dt_err_set(err, DT_E_MEMORY, "no memory for data.train");
    for (size_t i = 0; i < d->train_count; i++)
        files[i] = (struct dt_mixture_file){d->train[i].path, d->train[i].weight};
    struct dt_mixture_options o = {.files = files,
                                   .count = d->train_count,
                                   .raw_width = d->raw_width,
                                   .vocabulary = t->config->model.shape.vocabulary,
                                   .positions = d->positions,
                                   .shuffle = d->shuffle,
                                   .alone = !d->packing};
    t->train = dt_mixture_open(&o, err);
    free(files);
    if (!t->train)
        return dt_err_wrap(err, "data.train");
    for (size_t i = 0; i < d->train_count; i++) {
        const struct dt_samples *s = dt_mixture_file(t->train, i);
        if (dt_dpo_check_data(s, t->config->dpo.on, err) < 0)
            return dt_err_wrap(err, "data.train: %s", d->train[i].path);
        tell_packing(t, s, "train");
    }
    return 0;
}

static int open_validation(struct dt_trainer *t, struct dt_err *err)
{
    const struct dt_config_data *d = &t->config->data;
    t->validation =
        dt_tokens_open(d->validation, d->raw_width, t->config->model.shape.vocabulary, err);
    if (!t->validation)
        return dt_err_wrap(err, "data.validation");
    t->validation_samples = dt_samples_open(t->validation, d->positions, !d->packing, err);
    if (!t->validation_samples)
        return dt_err_wrap(err, "data.validation: %s", d->validation);
    if (dt_dpo_check_data(t->validation_samples, t->config->dpo.on, err) < 0)
        return dt_err_wrap(err, "data.validation: %s", d->validation);
    tell_packing(t, t->validation_samples, "validation");
    return 0;
}

int dt_trainer_open_data(struct dt_trainer *t, struct dt_err *err)
{
    if (open_train(t, err) < 0)
        return -1;
    t->shape = t->config->model.shape;
    settle_end_token(t);
    return t->config->data.validation ? open_validation(t, err) : 0;
}

void dt_trainer_note_data(struct dt_trainer *t)
{
    t->state.sequence_length = (int64_t)t->config->data.positions;
    t->state.data_tokens = (int64_t)dt_mixture_tokens(t->train);
    t->state.data_mark = dt_mixture_mark(t->train);
    t->state.shuffled = t->config->data.shuffle ? 1 : -1;
    t->state.packed = dt_trainer_packing(t);
}

/* What ranks count for themselves, each in its own files. No gaps in it. */
struct data_facts {
    uint64_t train_tokens, train_mark, samples;
    uint64_t validation_tokens, validation_mark;
};

static struct data_facts facts_of(const struct dt_trainer *t)
{
    struct data_facts f = {.train_tokens = dt_mixture_tokens(t->train),
                           .train_mark = dt_mixture_mark(t->train),
                           .samples = dt_mixture_samples(t->train)};
    if (t->validation) {
        f.validation_tokens = dt_tokens_count(t->validation);
        f.validation_mark = dt_tokens_mark(t->validation);
    }
    return f;
}

/* With others they would divide by other numbers of targets, and in other numbers of steps they
 * would wait for each other. */
int dt_trainer_check_data(struct dt_trainer *t, struct dt_err *err)
{
    struct data_facts own = facts_of(t), first = own;
    if (dt_coll_broadcast(t->world, &first, sizeof first, DT_U8, 0, err) < 0)
        return -1;
    bool validation = own.train_tokens == first.train_tokens &&
                      own.train_mark == first.train_mark && own.samples == first.samples;
    int rc = 0;
    if (memcmp(&own, &first, sizeof own) != 0)
        rc = dt_err_set(
            err, DT_E_RUNTIME,
            "data.%s is another file here than where rank 0 is (%llu tokens; there "
            "are %llu there); copy the same file to all hosts",
            validation ? "validation" : "train",
            (unsigned long long)(validation ? own.validation_tokens : own.train_tokens),
            (unsigned long long)(validation ? first.validation_tokens : first.train_tokens));
    return dt_agree(t->world, rc, err);
}
