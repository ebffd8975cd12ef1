/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/say.h"
#include "worker_runtime/ckpt/adapted.h"
#include "worker_runtime/data/detokenize.h"
#include "worker_runtime/data/show.h"
#include "worker_runtime/data/tokenize.h"
#include "worker_runtime/data/tokenize_chats.h"
#include "worker_runtime/data/tokenizer/tokenizer.h"
#include "worker_runtime/data/tokens.h"
#include "worker_runtime/export/export.h"
#include "worker_runtime/generate/command.h"
#include "worker_runtime/job_env.h"
#include "worker_runtime/program/inside.h"
#include "worker_runtime/train/depot_commands.h"
#include "worker_runtime/train/trials.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void warn_of_end(const struct dt_tokenizer *t)
{
    if (t && dt_tokenizer_end(t) == DT_TOKEN_NONE)
        dt_say(DT_TRAIN_PROGRAM, "no token ends a document: neither tokenizer_config.json nor "
                                 "special_tokens_map.json in that folder has an eos_token");
}

static unsigned vocabulary_of(const struct dt_tokenizer *t)
{
    return t ? dt_tokenizer_vocabulary(t) : DT_BYTE_VOCABULARY;
}

static void print_chats(const struct dt_train_args *a, const struct dt_chat_counts *n,
                        unsigned vocabulary)
{
    const char *what = a->preferences ? "pair" : a->template ? "conversation" : "document";
    unsigned long long of_each = a->preferences ? 2 : 1, all = n->documents / of_each;
    unsigned long long validation = n->validation_documents / of_each;
    printf("%s: %llu %s%s with %llu tokens, of which %llu are trained on; vocabulary %u\n",
           a->output, all, what, all == 1 ? "" : "s", (unsigned long long)n->tokens,
           (unsigned long long)n->trained, vocabulary);
    if (a->validation)
        printf("%s: %llu %s%s with %llu tokens, for validation\n", a->validation, validation, what,
               validation == 1 ? "" : "s", (unsigned long long)n->validation_tokens);
    if (n->cut)
        printf("longer than --max-tokens, and %s: %llu\n",
               a->template ? "without some of their exchanges" : "now several documents",
               (unsigned long long)n->cut);
    if (n->too_long)
        printf("left out, as one exchange alone is longer than --max-tokens: %llu\n",
               (unsigned long long)n->too_long);
    if (n->unfit)
        printf("left out, as there is nothing to train on: %llu; the first is %s\n",
               (unsigned long long)n->unfit, n->first_unfit);
    if (n->mended)
        printf("with half a character (\\ud800 to \\udfff alone), which is now U+FFFD: %llu; the "
               "first is %s\n",
               (unsigned long long)n->mended, n->first_mended);
}

/* T is NULL where a token is a byte. */
static int tokenize_chats(const struct dt_train_args *a, const struct dt_tokenizer *t,
                          struct dt_err *err)
{
    struct dt_chat_counts counts;
    struct dt_chat_options o = {
        .key = a->key,
        .preferences = a->preferences,
        .trains = {.train_on_prompt = a->train_on_prompt,
                   .last_answer_only = a->last_answer_only || a->preferences,
                   .system = a->system},
        .max_tokens = (uint64_t)a->max_tokens,
        .validation = a->validation,
        .share = a->split};
    if (a->template && !(o.template = dt_template_find(a->template, err)))
        return dt_err_wrap(err, "--template");
    if (a->key)
        warn_of_end(t);
    if (dt_tokenize_chats(t, &o, a->files + 1, a->file_count - 1, a->output, &counts, err) < 0)
        return -1;
    print_chats(a, &counts, vocabulary_of(t));
    return 0;
}

/* T is NULL where a token is a byte. */
static int tokenize(const struct dt_train_args *a, const struct dt_tokenizer *t, struct dt_err *err)
{
    uint64_t tokens;
    int files = a->file_count - 1;
    if (a->template || a->key)
        return tokenize_chats(a, t, err);
    warn_of_end(t);
    if (dt_tokenize_files(t, a->files + 1, files, a->output, &tokens, err) < 0)
        return -1;
    printf("%s: %llu tokens of %d file%s; vocabulary %u\n", a->output, (unsigned long long)tokens,
           files, files == 1 ? "" : "s", vocabulary_of(t));
    return 0;
}

static int put_shown(void *arg, struct dt_bytes part, struct dt_err *err)
{
    if (fwrite(part.at, 1, part.len, arg) == part.len)
        return 0;
    return dt_err_set(err, DT_E_RUNTIME, "cannot write standard output");
}

static bool wants_colour(void)
{
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb") != 0 &&
           !(no_color && *no_color);
}

static int show_data(const struct dt_train_args *a, const struct dt_tokenizer *t,
                     struct dt_err *err)
{
    const struct dt_show_options o = {.only = a->document, .colour = wants_colour()};
    struct dt_tokens *tokens = dt_tokenized_open(t, a->files[1], err);
    if (!tokens)
        return -1;
    int rc = dt_show_tokens(tokens, t, &o, put_shown, stdout, err);
    dt_tokens_close(tokens);
    return rc;
}

static int with_tokenizer(const struct dt_train_args *a, struct dt_err *err)
{
    struct dt_tokenizer *t = a->tokenizer ? dt_tokenizer_open(a->tokenizer, err) : NULL;
    int rc;
    if (!t && a->tokenizer)
        return -1;
    if (a->command == DT_TRAIN_TOKENIZE)
        rc = tokenize(a, t, err);
    else if (a->command == DT_TRAIN_SHOW_DATA)
        rc = show_data(a, t, err);
    else
        rc = dt_detokenize_file(t, a->files[1], a->output, err);
    dt_tokenizer_close(t);
    return rc;
}

/* The same seed is the same text, so one that is not given is drawn, and told at the end. */
static uint64_t seed_of(const struct dt_generate_args *g)
{
    return g->seed >= 0 ? (uint64_t)g->seed : (uint64_t)dt_clock_wall_us() % 1000000;
}

static int generate(const struct dt_train_args *a, struct dt_err *err)
{
    const struct dt_generate_args *g = &a->generate;
    struct dt_buf text = {0};
    struct dt_generation_options o = {
        .model = a->files[1],
        .base = a->init_from,
        .tokenizer = a->tokenizer,
        .system = a->system,
        .max_tokens = (size_t)g->max_tokens,
        .sampling = {.temperature = g->temperature, .top_p = g->top_p, .top_k = (size_t)g->top_k},
        .seed = seed_of(g),
        .stops = {(const char *const *)g->stops.at, g->stops.len},
        .stop = &program_told_to_end,
        .visible = isatty(STDOUT_FILENO)};
    int threads;
    if (a->template && !(o.template = dt_template_find(a->template, err)))
        return dt_err_wrap(err, "--template");
    if ((!g->prompt && dt_generate_read_prompt(g->prompt_file, &text, err) < 0) ||
        dt_job_env_threads(g->threads, 1, &threads, err) < 0)
        return -1;
    o.prompt = g->prompt ? dt_bytes_of(g->prompt) : (struct dt_bytes){text.at, text.len};
    struct dt_device *device = dt_device_open_cpu(threads, err);
    int rc = device ? dt_generate(&o, device, program_catch_signals, err) : -1;
    dt_device_close(device);
    dt_buf_finish(&text);
    return rc;
}

static enum dt_export_type export_type(const char *name)
{
    static const char *const names[] = {[DT_EXPORT_F32] = "f32",
                                        [DT_EXPORT_F16] = "f16",
                                        [DT_EXPORT_BF16] = "bf16",
                                        [DT_EXPORT_NF4] = "nf4",
                                        [DT_EXPORT_Q8_0] = "q8_0"};
    for (int i = DT_EXPORT_F32; name && i <= DT_EXPORT_Q8_0; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return DT_EXPORT_AS_IT_IS;
}

static int write_model(const struct dt_train_args *a, enum dt_export_type type, bool gguf,
                       struct dt_err *err)
{
    const struct dt_export_options o = {.model = a->files[1],
                                        .base = a->init_from,
                                        .tokenizer = a->tokenizer,
                                        .out = a->output,
                                        .type = type,
                                        .stop = &program_told_to_end};
    struct dt_buf notes = {0};
    program_catch_signals();
    int rc = (gguf ? dt_export_gguf : dt_export_hf)(&o, &notes, err);
    dt_say_lines(DT_TRAIN_PROGRAM, dt_buf_cstr(&notes));
    dt_buf_finish(&notes);
    if (rc < 0)
        return -1;
    program_told_to_end = 0; /* it came when all was done */
    printf("%s: written\n", a->output);
    return 0;
}

/* What export makes of adapters, too. */
static int merge(const struct dt_train_args *a, struct dt_err *err)
{
    char room[PATH_MAX];
    const char *folder = dt_ckpt_weights_folder(a->files[1], room);
    if (!dt_ckpt_has_adapters(folder))
        return dt_err_set(err, DT_E_USAGE,
                          "merge: %s has no adapters: there is no adapter_config.json", folder);
    return write_model(a, DT_EXPORT_AS_IT_IS, false, err);
}

int program_carry_out(const struct dt_train_args *a, struct dt_err *err)
{
    const char *url = a->files[1];
    int rc = 0;
    switch (a->command) {
    case DT_TRAIN_TOKENIZE:
    case DT_TRAIN_DETOKENIZE:
    case DT_TRAIN_SHOW_DATA:
        return with_tokenizer(a, err);
    case DT_TRAIN_GENERATE:
        return generate(a, err);
    case DT_TRAIN_EXPORT:
        return write_model(a, export_type(a->dtype), strcmp(a->to, "gguf") == 0, err);
    case DT_TRAIN_MERGE:
        return merge(a, err);
    case DT_TRAIN_LS:
        return dt_depot_ls(url, stdout, err);
    case DT_TRAIN_FETCH:
        return dt_depot_fetch(url, a->output, stdout, err);
    case DT_TRAIN_RM:
        for (int i = 1; i < a->file_count && rc == 0; i++)
            rc = dt_depot_rm(a->files[i], stdout, err);
        return rc;
    case DT_TRAIN_PROBE:
        return dt_trials_run(a->device ? a->device : "auto", a->limit, stdout, err);
    case DT_TRAIN_NONE:
    case DT_TRAIN_COMMANDS:
        break;
    }
    return 0;
}
