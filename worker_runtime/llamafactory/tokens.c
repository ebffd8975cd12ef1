/* SPDX-License-Identifier: Apache-2.0 */
/* Of the processes that share the folder one makes the files, under a lock that the kernel takes
 * away when it dies; the others wait for that lock, and then find the files. */
#include "worker_runtime/llamafactory/tokens.h"

#include "base/auto.h"
#include "base/clock.h"
#include "base/fs.h"
#include "worker_runtime/data/tokenizer/tokenizer.h"
#include "worker_runtime/data/tokens.h"
#include "worker_runtime/llamafactory/datasets.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#define CHUNK ((size_t)256 << 10)
#define TELL_EVERY (10 * DT_SECOND)
#define ROUND_TO 64     /* positions: what GPUs compute in */
#define FORM "tokens 1" /* changes when the same input makes other tokens */

/* -- templates -------------------------------------------------------------------------------- */

/* The names that LLaMA-Factory has for templates, where they are not ours. */
static const struct dt_template *find_template(const char *name, struct dt_err *err)
{
    static const struct {
        const char *theirs, *ours;
    } rows[] = {{"qwen", "qwen2"},    {"qwen2_5", "qwen2"}, {"phi", "phi3"},
                {"default", "plain"}, {"gemma2", "gemma"},  {"gemma3", "gemma"},
                {"smollm2", "smollm"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(name, rows[i].theirs) == 0)
            name = rows[i].ours;
    const struct dt_template *t = dt_template_find(name, err);
    if (!t)
        dt_err_wrap(err, "template");
    return t;
}

/* -- the sum ---------------------------------------------------------------------------------- */

static void sum_text(XXH3_state_t *sum, const char *text)
{
    XXH3_64bits_update(sum, text ? text : "", text ? strlen(text) + 1 : 0);
    XXH3_64bits_update(sum, text ? "+" : "-", 1);
}

/* The bytes of a file; one that is not there may be missing. */
static int sum_file(XXH3_state_t *sum, const char *path, bool needed, struct dt_err *err)
{
    DT_AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
    DT_AUTO_FREE void *room = malloc(CHUNK);
    if (fd < 0 && errno == ENOENT && !needed)
        return 0;
    if (fd < 0)
        return dt_err_errno(err, DT_E_USAGE, errno, "cannot open %s", path);
    if (!room)
        return dt_err_set(err, DT_E_MEMORY, "no memory to read %s", path);
    for (;;) {
        ssize_t n = read(fd, room, CHUNK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return dt_err_errno(err, DT_E_USAGE, errno, "cannot read %s", path);
        if (n == 0)
            return 0;
        XXH3_64bits_update(sum, room, (size_t)n);
    }
}

static int sum_datasets(XXH3_state_t *sum, const struct dt_factory_data *d, const char *names,
                        struct dt_err *err)
{
    struct factory_datasets all;
    int rc = factory_datasets_open(&all, d, names, err);
    for (size_t i = 0; rc == 0 && i < all.count; i++) {
        char *entry = dt_json_text(all.at[i].entry);
        sum_text(sum, entry);
        free(entry);
        rc = sum_file(sum, all.at[i].path, true, err);
    }
    sum_text(sum, NULL);
    factory_datasets_close(&all);
    return rc;
}

static int sum_tokenizer(XXH3_state_t *sum, const char *model, struct dt_err *err)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json",
                                        "special_tokens_map.json"};
    char path[PATH_MAX];
    if (dt_tokenizer_check_folder(model, err) < 0)
        return dt_err_wrap(err, "model_name_or_path");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (snprintf(path, sizeof path, "%s/%s", model, names[i]) >= (int)sizeof path)
            return dt_err_set(err, DT_E_USAGE, "model_name_or_path: it is too long");
        if (sum_file(sum, path, i == 0, err) < 0)
            return dt_err_wrap(err, "model_name_or_path");
        sum_text(sum, names[i]);
    }
    return 0;
}

static int sum_all(XXH3_state_t *sum, const struct dt_factory_data *d, const char *model,
                   struct dt_err *err)
{
    char numbers[160];
    snprintf(numbers, sizeof numbers, "%lld %lld %a %d %d", (long long)d->most,
             (long long)d->cutoff, d->validation, d->train_on_prompt, d->mask_history);
    XXH3_64bits_reset(sum);
    sum_text(sum, FORM);
    sum_text(sum, numbers);
    if (d->pairs)
        sum_text(sum, "pairs");
    sum_text(sum, d->template);
    sum_text(sum, d->system);
    if (sum_tokenizer(sum, model, err) < 0 || sum_datasets(sum, d, d->dataset, err) < 0)
        return -1;
    return d->eval_dataset ? sum_datasets(sum, d, d->eval_dataset, err) : 0;
}

/* -- names ------------------------------------------------------------------------------------ */

/* The names of datasets, as a part of the name of a file. */
static void shorten(const char *names, char out[33])
{
    size_t n = 0;
    for (; *names && n < 32; names++) {
        bool plain = (*names >= 'a' && *names <= 'z') || (*names >= 'A' && *names <= 'Z') ||
                     (*names >= '0' && *names <= '9');
        out[n++] = plain ? *names : '_';
    }
    out[n] = '\0';
}

int factory_name_tokens(const struct dt_factory_data *d, const char *model, const char *output,
                        struct factory_names *names, struct dt_err *err)
{
    char name[33];
    if (!find_template(d->template, err))
        return -1;
    XXH3_state_t *sum = XXH3_createState();
    if (!sum)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a checksum");
    int rc = sum_all(sum, d, model, err);
    unsigned long long digest = rc == 0 ? XXH3_64bits_digest(sum) : 0;
    XXH3_freeState(sum);
    if (rc < 0)
        return -1;
    shorten(d->dataset, name);
    bool validation = d->eval_dataset || d->validation > 0;
    int n = snprintf(names->train, sizeof names->train, "%s/tokens/%s-%016llx.bin", output, name,
                     digest);
    int m = snprintf(names->validation, sizeof names->validation,
                     "%s/tokens/%s-%016llx-validation.bin", output, name, digest);
    if (n >= PATH_MAX || m >= PATH_MAX)
        return dt_err_set(err, DT_E_USAGE, "output_dir: the path is too long");
    if (!validation)
        names->validation[0] = '\0';
    return 0;
}

/* -- making ----------------------------------------------------------------------------------- */

/* What one file is made from. */
struct making {
    const struct dt_factory_data *data;
    const struct dt_tokenizer *tokenizer;
    dt_factory_say_fn *say;
    dt_ms told; /* when somebody last said something of it */
};

static const char *name_of_examples(const struct dt_factory_data *d)
{
    return d->pairs ? "pairs" : "conversations";
}

/* A rank that waits looks as one that hangs, unless the one that works says so. */
static void tell_progress(void *arg, uint64_t lines)
{
    struct making *m = arg;
    dt_ms now = dt_clock_monotonic();
    char line[120];
    if (now - m->told < TELL_EVERY)
        return;
    m->told = now;
    snprintf(line, sizeof line, "%.40s: %llu %s are tokens by now", m->data->dataset,
             (unsigned long long)lines, name_of_examples(m->data));
    m->say(line);
}

static void tell(const struct making *m, const char *out, const struct dt_chat_counts *n)
{
    struct dt_buf line = {0};
    unsigned long long of_each = m->data->pairs ? 2 : 1; /* documents */
    dt_buf_printf(&line, "%s: %llu %s with %llu tokens, of which %llu are trained on", out,
                  n->documents / of_each, name_of_examples(m->data), (unsigned long long)n->tokens,
                  (unsigned long long)n->trained);
    if (n->validation_documents)
        dt_buf_printf(&line, "; %llu more for validation", n->validation_documents / of_each);
    if (n->cut)
        dt_buf_printf(&line, "; %llu lost exchanges to cutoff_len", (unsigned long long)n->cut);
    if (n->too_long)
        dt_buf_printf(&line, "; %llu are left out, as cutoff_len is less than one exchange",
                      (unsigned long long)n->too_long);
    if (n->unfit)
        dt_buf_printf(&line, "; %llu are left out, as there is nothing to train on, first %s",
                      (unsigned long long)n->unfit, n->first_unfit);
    if (n->mended)
        dt_buf_printf(&line, "; halves of characters are replaced in %llu, first %s",
                      (unsigned long long)n->mended, n->first_mended);
    m->say(dt_buf_cstr(&line));
    dt_buf_finish(&line);
}

/* VALIDATION NULL: none of it is set aside. */
static int tokenize(struct making *m, const struct factory_datasets *d, const char *out,
                    const char *validation, struct dt_err *err)
{
    const struct dt_factory_data *of = m->data;
    const char **files = calloc(d->count, sizeof *files);
    struct dt_chat_source *sources = calloc(d->count, sizeof *sources);
    struct dt_chat_counts counts = {0};
    struct dt_chat_options o = {.template = find_template(of->template, err),
                                .preferences = of->pairs,
                                .trains = {.train_on_prompt = of->train_on_prompt,
                                           .last_answer_only = of->mask_history || of->pairs,
                                           .system = of->system},
                                .max_tokens = (uint64_t)of->cutoff,
                                .sources = sources,
                                .progress = tell_progress,
                                .progress_arg = m,
                                .validation = validation};
    if (of->validation >= 1)
        o.set_aside = (uint64_t)of->validation;
    else
        o.share = of->validation;
    int rc = o.template ? 0 : -1;
    if (rc == 0 && (!files || !sources))
        rc = dt_err_set(err, DT_E_MEMORY, "no memory for the list of datasets");
    for (size_t i = 0; rc == 0 && i < d->count; i++) {
        files[i] = d->at[i].path;
        sources[i] = d->at[i].source;
    }
    if (rc == 0)
        rc = dt_tokenize_chats(m->tokenizer, &o, files, (int)d->count, out, &counts, err);
    if (rc == 0)
        tell(m, out, &counts);
    free(files);
    free(sources);
    return rc;
}

static int make_one(struct making *m, const char *names, const char *out, const char *validation,
                    struct dt_err *err)
{
    struct factory_datasets d;
    int rc = factory_datasets_open(&d, m->data, names, err);
    if (rc == 0)
        rc = tokenize(m, &d, out, validation, err);
    factory_datasets_close(&d);
    return rc;
}

/* The file to train on comes last: where it is there, the other one is, too. */
static int make_all(const struct dt_factory_data *d, const struct dt_config *c,
                    dt_factory_say_fn *say, struct dt_err *err)
{
    struct dt_tokenizer *t = dt_tokenizer_open(c->model.weights, err);
    struct making m = {d, t, say, dt_clock_monotonic()};
    const char *train = c->data.train[0].path, *validation = c->data.validation;
    if (!t)
        return dt_err_wrap(err, "model_name_or_path");
    int rc = 0;
    if (d->eval_dataset)
        rc = make_one(&m, d->eval_dataset, validation, NULL, err);
    if (rc == 0)
        rc = make_one(&m, d->dataset, train, d->eval_dataset ? NULL : validation, err);
    dt_tokenizer_close(t);
    return rc;
}

/* A file system without locks lets each host make its own, of which the last one stays: they are
 * the same. */
static int make_under_lock(const struct dt_factory_data *d, const struct dt_config *c,
                           dt_factory_say_fn *say, struct dt_err *err)
{
    const char *path = c->data.train[0].path;
    char lock[PATH_MAX], folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    if (snprintf(lock, sizeof lock, "%s/.lock", folder) >= (int)sizeof lock)
        return dt_err_set(err, DT_E_USAGE, "output_dir: the path is too long");
    if (dt_fs_mkdir_p(folder, 0777, err) < 0)
        return dt_err_wrap(err, "output_dir");
    DT_AUTO_FD fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot open %s", lock);
    while (flock(fd, LOCK_EX) < 0 && errno == EINTR)
        ;
    return dt_fs_exists(path) ? 0 : make_all(d, c, say, err);
}

/* -- samples ---------------------------------------------------------------------------------- */

/* What one example after the other takes. */
struct lengths {
    size_t of_each;   /* documents */
    size_t documents; /* so far */
    uint64_t example; /* tokens of the one at hand */
    uint64_t longest;
};

static void note_document(struct lengths *l, uint64_t tokens)
{
    l->example = l->documents++ % l->of_each ? l->example + tokens : tokens;
    l->longest = l->example > l->longest ? l->example : l->longest;
}

/* .longest becomes no less than tokens of the longest example in PATH. */
static int find_longest(struct lengths *l, const char *path, struct dt_err *err)
{
    uint64_t begins[512], last = 0;
    struct dt_tokens *t = dt_tokens_open(path, 0, 0, err);
    int rc = t ? 0 : -1;
    size_t documents = t ? dt_tokens_documents(t) : 0;
    for (size_t at = 0, n; rc == 0 && at < documents; at += n) {
        n = documents - at < 512 ? documents - at : 512;
        rc = dt_tokens_begins(t, at, n, begins, err);
        for (size_t i = 0; rc == 0 && i < n; i++) {
            if (at + i > 0)
                note_document(l, begins[i] - last);
            last = begins[i];
        }
    }
    if (rc == 0 && documents > 0)
        note_document(l, dt_tokens_count(t) - last);
    dt_tokens_close(t);
    return rc;
}

/* Where each example is a sample of its own, none is longer than the longest of them. */
static int fit_samples(const struct dt_factory_data *d, struct dt_config *c, struct dt_err *err)
{
    struct lengths l = {.of_each = d->pairs ? 2 : 1};
    if (c->data.packing)
        return 0;
    if (find_longest(&l, c->data.train[0].path, err) < 0 ||
        (c->data.validation && find_longest(&l, c->data.validation, err) < 0))
        return -1;
    size_t need = ((size_t)l.longest + ROUND_TO - 1) / ROUND_TO * ROUND_TO;
    if (need < c->data.positions)
        c->data.positions = need;
    return 0;
}

int dt_factory_make_tokens(const struct dt_factory *f, struct dt_config *c, dt_factory_say_fn *say,
                           struct dt_err *err)
{
    if (!f->makes_tokens)
        return 0;
    if (!dt_fs_exists(c->data.train[0].path) && make_under_lock(&f->data, c, say, err) < 0)
        return -1;
    return fit_samples(&f->data, c, err);
}
