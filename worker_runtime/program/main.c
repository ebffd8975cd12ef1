/* SPDX-License-Identifier: Apache-2.0 */
/* dtrun-train: one worker of a training run, or all of it. Told to end by SIGTERM or SIGINT, it
 * finishes its step, saves, and dies by that signal. */
#include "base/cgroup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/json_write.h"
#include "base/say.h"
#include "worker_runtime/ops/cpu/blas.h"
#include "worker_runtime/ckpt/checkpoint.h"
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
#include "worker_runtime/llamafactory/llamafactory.h"
#include "worker_runtime/train/depot_commands.h"
#include "worker_runtime/train/estimate.h"
#include "worker_runtime/device/cuda_plugin.h"
#include "worker_runtime/train/options.h"
#include "worker_runtime/train/rescue.h"
#include "worker_runtime/train/suggest.h"
#include "worker_runtime/train/train.h"
#include "worker_runtime/train/trials.h"

#include <dtrun/page.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct failure {
    struct dt_err err;
    bool of_configuration;
    bool met; /* the other ranks: they found out together who says what, see dt_agree() */
};

/* The signal that came; the second one is not caught any more. */
static volatile sig_atomic_t told_to_end;

static void on_signal(int sig)
{
    told_to_end = sig;
}

static void catch_signals(void)
{
    struct sigaction sa = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND | SA_RESTART};
    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGINT, &sa, NULL);
}

/* Between two worlds there is nothing to save. */
static void let_signals_end(void)
{
    signal(SIGTERM, SIG_DFL);
    signal(SIGINT, SIG_DFL);
}

static int die_by(int sig)
{
    fflush(NULL);
    signal(sig, SIG_DFL);
    raise(sig);
    return 128 + sig; /* a signal that is blocked */
}

/* The exit status of having printed: a full disk is no success. */
static int printed(void)
{
    if (fflush(stdout) == 0)
        return 0;
    perror("dtrun-train: standard output");
    return 1;
}

/* Where dtrun and torchrun look for why a worker failed. */
static void leave_error_file(const char *text)
{
    const char *path = getenv("TORCHELASTIC_ERROR_FILE");
    struct dt_buf out = {0};
    if (!path || !*path)
        return;
    struct dt_json_writer w = {.out = &out, .style = DT_JSON_SPACED};
    dt_json_put_object(&w, NULL);
    dt_json_put_text(&w, "message", text);
    dt_json_put_end(&w);
    dt_buf_put_u8(&out, '\n');
    if (!out.bad)
        dt_fs_replace(path, out.at, out.len, 0644, NULL);
    dt_buf_finish(&out);
}

/* A rank that fails because another one is gone knows nothing of why, and one that leaves a
 * sentence to rank 0 says nothing. Such a rank lets the one that speaks be the first to end, so
 * that the launcher takes that one for the cause; most often it is told to end before this second
 * is over. */
static void let_the_first_speak(void)
{
    sigset_t ending, before;
    sigemptyset(&ending);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGINT);
    sigprocmask(SIG_BLOCK, &ending, &before);
    if (!told_to_end) /* a signal that comes from here on ends the wait */
        ppoll(NULL, 0, &(struct timespec){.tv_sec = 1}, &before);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

static int from_environment(const char *name, int fallback)
{
    const char *value = getenv(name);
    int n = value ? atoi(value) : 0;
    return n > 0 ? n : fallback;
}

/* Before the ranks meet, what is wrong with the options or the configuration is wrong on all of
 * them, so rank 0 says it; the others only where no launcher shows what they leave. */
static bool is_said_by_another(const struct failure *f)
{
    if (f->met)
        return f->err.code == DT_E_ELSEWHERE;
    const char *left = getenv("TORCHELASTIC_ERROR_FILE");
    return (f->of_configuration || f->err.code == DT_E_USAGE) && left && *left &&
           from_environment("RANK", 0) != 0;
}

struct last_words {
    char text[sizeof((struct dt_err *)NULL)->text + 64];
};

static struct last_words last_words(const struct dt_err *err)
{
    struct last_words w;
    const char *rank = getenv("RANK");
    if (rank && *rank)
        snprintf(w.text, sizeof w.text, "rank %.12s: %s", rank, err->text);
    else
        snprintf(w.text, sizeof w.text, "%s", err->text);
    return w;
}

static int say(const struct failure *f)
{
    const struct dt_err *err = &f->err;
    struct last_words w = last_words(err);
    if (!is_said_by_another(f))
        dt_say(DT_TRAIN_PROGRAM, w.text);
    if (err->code == DT_E_DISCONNECTED || is_said_by_another(f))
        let_the_first_speak();
    if (!told_to_end)
        leave_error_file(w.text);
    return dt_err_exit_status(err);
}

/* From another thread than the one that trains, which holds what an end in order would wait for. */
static void give_up(void *arg, const struct dt_err *why)
{
    struct last_words w = last_words(why);
    (void)arg;
    dt_say(DT_TRAIN_PROGRAM, w.text);
    if (!told_to_end)
        leave_error_file(w.text);
    _exit(dt_err_exit_status(why));
}

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
        .stop = &told_to_end,
        .visible = isatty(STDOUT_FILENO)};
    int threads;
    if (a->template && !(o.template = dt_template_find(a->template, err)))
        return dt_err_wrap(err, "--template");
    if ((!g->prompt && dt_generate_read_prompt(g->prompt_file, &text, err) < 0) ||
        dt_job_env_threads(g->threads, 1, &threads, err) < 0)
        return -1;
    o.prompt = g->prompt ? dt_bytes_of(g->prompt) : (struct dt_bytes){text.at, text.len};
    struct dt_device *device = dt_device_open_cpu(threads, err);
    int rc = device ? dt_generate(&o, device, catch_signals, err) : -1;
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
                                        .stop = &told_to_end};
    struct dt_buf notes = {0};
    catch_signals();
    int rc = (gguf ? dt_export_gguf : dt_export_hf)(&o, &notes, err);
    dt_say_lines(DT_TRAIN_PROGRAM, dt_buf_cstr(&notes));
    dt_buf_finish(&notes);
    if (rc < 0)
        return -1;
    told_to_end = 0; /* it came when all was done */
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

static int carry_out(const struct dt_train_args *a, struct dt_err *err)
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

/* What the ranks may have: a container's limit, where that is less than there is. */
static void look_at_memory(struct dt_estimate_place *at)
{
    struct dt_cgroup group;
    at->memory = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    dt_cgroup_find(&group, "memory", "");
    int64_t limit = dt_cgroup_memory_limit(&group);
    at->limited = limit > 0 && (uint64_t)limit < at->memory;
    if (at->limited)
        at->memory = (size_t)limit;
}

static int estimate(const struct dt_train_args *a, const struct dt_config *c, struct dt_err *err)
{
    struct dt_estimate_place at = {.world =
                                       a->world > 0 ? a->world : from_environment("WORLD_SIZE", 1)};
    at.local = a->local > 0 ? a->local : from_environment("LOCAL_WORLD_SIZE", at.world);
    struct dt_buf out = {0};
    struct dt_err why = {0};
    look_at_memory(&at);
    if (strcmp(c->train.device, "cpu") != 0)
        at.gpus = dt_device_gpu_memory(at.local, &at.gpu, &why);
    at.on_gpu = at.gpus > 0 || strcmp(c->train.device, "cuda") == 0;
    at.no_gpu = at.gpus < 0 ? why.text : NULL;
    int rc = at.on_gpu ? dt_config_check_gpu(c, err) : 0;
    if (rc == 0)
        rc = dt_estimate_print(c, &at, &out, err);
    fputs(dt_buf_cstr(&out), stdout);
    dt_buf_finish(&out);
    return rc < 0 ? dt_err_wrap(err, "--estimate") : 0;
}

/* This machine, as far as MACHINE says nothing else. Of its GPUs the fullest counts. */
static int see_machine(const struct dt_config *c, struct dt_machine *m, struct dt_err *err)
{
    struct dt_estimate_place at = {.local = 1};
    int processors = 0, threads = c->train.threads > 0 ? c->train.threads : 1, gpus = 0;
    if (dt_job_env_threads(0, 1, &processors, err) < 0)
        return -1;
    look_at_memory(&at);
    dt_machine_init(m, processors / threads > 0 ? processors / threads : 1, threads, at.memory);
    if (strcmp(c->train.device, "cpu") != 0)
        gpus = dt_device_gpu_memory(INT_MAX, &at.gpu, NULL);
    if (gpus > 0)
        dt_machine_see(m, gpus, &at.gpu);
    return 0;
}

static int suggest(const struct dt_train_args *a, const struct dt_config *c, struct dt_err *err)
{
    struct dt_machine machine;
    struct dt_buf out = {0};
    if (see_machine(c, &machine, err) < 0)
        return dt_err_wrap(err, "--suggest");
    if (a->machine && dt_machine_read(&machine, a->machine, err) < 0)
        return dt_err_wrap(err, "--machine");
    int rc = dt_suggest_print(c, &machine, &out, err);
    fputs(dt_buf_cstr(&out), stdout);
    dt_buf_finish(&out);
    return rc < 0 ? dt_err_wrap(err, "--suggest") : 0;
}

static void print_check(void *arg, enum dt_check_level level, const char *line)
{
    static const char *const marks[] = {
        [DT_CHECK_FINE] = "   ", [DT_CHECK_ADVICE] = " * ", [DT_CHECK_PROBLEM] = " ! "};
    (void)arg;
    printf("%s%s\n", marks[level], line);
}

static int check_nccl(struct dt_err *err)
{
    const struct dt_cuda_plugin *p = dt_cuda_plugin_load(err);
    if (!p)
        return dt_err_wrap(err, "--check-nccl");
    int problems = p->check_nccl(print_check, NULL);
    if (problems == 0)
        return 0;
    return dt_err_set(err, DT_E_RUNTIME, "--check-nccl: %d problem%s, marked with ! above",
                      problems, problems == 1 ? "" : "s");
}

static int verify(const struct dt_train_args *a, struct dt_err *err)
{
    if (dt_ckpt_verify(a->verify, err) < 0) {
        err->code = DT_E_RUNTIME; /* damage, also where it makes a header that cannot be */
        return dt_err_wrap(err, "--verify");
    }
    printf("%s: every byte is as it was written\n", a->verify);
    return 0;
}

/* What this rank has lost, while it stays; the one that failed says its own reason. */
static void say_waiting(const struct dt_context *context, const struct dt_err *why)
{
    char text[sizeof why->text + 64];
    snprintf(text, sizeof text, "rank %d: %s; waits for the next world", dt_context_rank(context),
             why->text);
    if (why->code != DT_E_ELSEWHERE)
        dt_say(DT_TRAIN_PROGRAM, text);
}

/* Whether CONTEXT has found no world behind that of EPOCH, whose round has not ended. */
static bool waits_in_vain(struct dt_context *context, int64_t epoch)
{
    return dt_context_epoch(context) == epoch && !dt_page_round_over(dt_context_page(context));
}

/* After a failed run: whether this process is in a next world now. A rank that tells the reason may
 * take long to end, and its round does not end before it. The rank that waited for that then ends
 * with the same reason: with one of its own it would be blamed. */
static bool reenter(struct dt_context *context, struct failure *f)
{
    const struct failure before = *f;
    int64_t left = dt_context_epoch(context);
    if (!dt_context_may_reenter(context, &f->err))
        return false;
    let_signals_end();
    if (told_to_end)
        return false;
    say_waiting(context, &f->err);
    fflush(NULL);
    f->met = false;
    if (dt_context_reenter(context, &f->err) < 0) {
        if (before.err.code == DT_E_ELSEWHERE && waits_in_vain(context, left))
            *f = before;
        return false;
    }
    f->met = true;
    catch_signals();
    return true;
}

static const char *name_of(const struct dt_train_args *a)
{
    return a->config ? a->config : a->deepspeed ? a->deepspeed : a->llamafactory;
}

/* Where the model's weights are; NULL: nowhere. */
static const char *weights_of(const struct dt_train_args *a, const struct dt_config *c)
{
    const char *weights = a->init_from ? a->init_from : c->model.weights;
    return weights && *weights ? weights : NULL;
}

static void say_of_device(void *arg, const char *line)
{
    (void)arg;
    dt_say(DT_TRAIN_PROGRAM, line);
}

static int train(const struct dt_train_args *a, const struct dt_config *c, struct failure *f)
{
    struct dt_err *err = &f->err;
    struct dt_context_options o = {.device = c->train.device,
                                   .elem = dt_config_gpu_elem(c),
                                   .wide_sums = c->train.wide_sums,
                                   .fast = !c->train.deterministic,
                                   .threads = c->train.threads,
                                   .coll_timeout_ms = c->train.collective_timeout_ms,
                                   .can_stay = true,
                                   .cudnn = c->train.attention == DT_ATTENTION_CUDNN,
                                   .say = say_of_device,
                                   .give_up = give_up};
    int64_t batch_before = 0;
    struct dt_train_options t = {.config = c,
                                 .resume = a->resume,
                                 .init_from = weights_of(a, c),
                                 .console = stdout,
                                 .terminal = isatty(STDOUT_FILENO),
                                 .stop = &told_to_end,
                                 .batch_before = &batch_before};
    enum dt_train_end end = DT_TRAIN_DONE;
    if (!c->has_model || !c->has_data)
        return dt_err_set(err, DT_E_USAGE, "%s: %s; see dtrun-train(1)", name_of(a),
                          c->has_model
                              ? "there is no data.train, which names the tokens to train on"
                              : "there is neither model.config nor model.weights, nor "
                                "--init-from: one of them names the model");
    if (c->train.steps == 0 && c->train.epochs == 0)
        return dt_err_set(err, DT_E_USAGE,
                          "train.steps: how many? It is 0, or not written, and "
                          "neither is train.epochs");
    if (c->lora.r > 0 && !t.init_from)
        return dt_err_set(err, DT_E_USAGE,
                          "lora: which model is adapted? Name its folder by model.weights, or by "
                          "--init-from");
    if (c->dpo.on && !t.init_from)
        return dt_err_set(
            err, DT_E_USAGE,
            "dpo: which model are answers compared with? Name the folder of the one to "
            "begin with by model.weights, or by --init-from");
    signal(SIGPIPE, SIG_IGN); /* who looks at a run may go away; it goes on */
    struct dt_context *context = dt_context_open(&o, err);
    if (!context)
        return -1;
    f->met = true;
    catch_signals(); /* not before: who waits for ranks that never come has nothing to save */
    if (dt_blas_advice() && dt_context_local_rank(context) == 0)
        dt_say(DT_TRAIN_PROGRAM, dt_blas_advice());
    int rc;
    do
        rc = dt_train_run(context, &t, &end, err);
    while (rc < 0 && reenter(context, f));
    dt_context_close(context);
    if (rc == 0 && end == DT_TRAIN_DONE)
        told_to_end = 0; /* it came when all was done */
    return rc;
}

/* Told to end are all processes of a job at once, and this one has just begun. */
static int rescue(const struct dt_train_args *a, const struct dt_config *c, struct dt_err *err)
{
    struct dt_rescue_options o = {.config = c, .init_from = weights_of(a, c)};
    signal(SIGTERM, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    return dt_rescue_run(&o, err);
}

/* Once for the job: all ranks read the same configuration. */
static void warn(const struct dt_train_args *a, struct dt_buf *warnings)
{
    if (from_environment("RANK", 0) == 0 && !a->rescue)
        dt_say_lines(DT_TRAIN_PROGRAM, dt_buf_cstr(warnings));
}

/* The words of --set, and behind them --init-from as the key that it stands for, written into INIT:
 * so a configuration without a model.config has the model of that folder. A rescue opens no data,
 * so it waits for no sum of datasets, which may be large, or gone. Free the result. */
static const char **overrides_of(const struct dt_train_args *a, struct dt_buf *init)
{
    struct dt_json_writer w = {.out = init};
    const char **all = calloc(a->set.len + 4, sizeof *all); /* ends with NULL */
    size_t count = 0;
    while (all && count < a->set.len) {
        all[count] = a->set.at[count];
        count++;
    }
    if (all && a->rescue && a->llamafactory) {
        all[count++] = "data.train=\"none\"";
        all[count++] = "data.validation=\"none\""; /* some keys want one */
    }
    if (all && a->init_from && *a->init_from) {
        dt_buf_put_str(init, "model.weights=");
        dt_json_put_text(&w, NULL, a->init_from);
        all[count] = dt_buf_cstr(init);
    }
    return all;
}

static const char *read_from(const struct dt_train_args *a)
{
    return a->estimate ? a->estimate : a->suggest ? a->suggest : a->config;
}

/* F is an empty one where the configuration is no file of LLaMA-Factory's. */
static int load(const struct dt_train_args *a, struct dt_factory *f, struct dt_config *c,
                struct dt_err *err)
{
    struct dt_buf warnings = {0}, init = {0};
    const char **overrides = overrides_of(a, &init);
    if (!overrides)
        return dt_err_set(err, DT_E_MEMORY, "no memory for --set");
    int rc = a->llamafactory
                 ? dt_factory_load(f, c, a->llamafactory, overrides, &warnings, err)
                 : dt_config_load(c, read_from(a), a->deepspeed, overrides, &warnings, err);
    free(overrides);
    dt_buf_finish(&init);
    warn(a, &warnings);
    dt_buf_finish(&warnings);
    return rc;
}

static void say_line(const char *line)
{
    dt_say(DT_TRAIN_PROGRAM, line);
}

/* Data first, by any one of the ranks: what is wrong with them is said by the one that meets it. */
static int train_on(const struct dt_train_args *a, const struct dt_factory *factory,
                    struct dt_config *c, struct failure *f)
{
    struct dt_train_args of_file = *a;
    if (dt_factory_make_tokens(factory, c, say_line, &f->err) < 0) {
        f->err.code = DT_E_RUNTIME;
        return -1;
    }
    if (factory->resume && strcmp(a->resume, "auto") == 0)
        of_file.resume = factory->resume;
    return train(&of_file, c, f);
}

static int run(const struct dt_train_args *a, struct failure *f)
{
    struct dt_err *err = &f->err;
    struct dt_config config = {0};
    struct dt_factory factory = {0};
    if (a->command)
        return carry_out(a, err);
    if (a->verify)
        return verify(a, err);
    if (a->check_nccl)
        return check_nccl(err);
    int rc = load(a, &factory, &config, err);
    f->of_configuration = rc < 0;
    if (rc == 0 && a->print_config)
        puts(config.document);
    else if (rc == 0)
        rc = a->estimate  ? estimate(a, &config, err)
             : a->suggest ? suggest(a, &config, err)
             : a->rescue  ? rescue(a, &config, err)
                          : train_on(a, &factory, &config, f);
    dt_config_finish(&config);
    dt_factory_finish(&factory);
    return rc;
}

int main(int argc, char **argv)
{
    struct dt_train_args args;
    struct dt_opt_result result;
    struct failure failure = {0};
    int status = 0;
    dt_fs_fill_standard_fds();
    if (dt_train_args_read(&args, argc, argv, &result, &failure.err) < 0)
        status = say(&failure);
    else if (result.help)
        dt_opt_help(&dt_train_program, stdout);
    else if (result.version)
        puts("dtrun-train " DT_VERSION);
    else if (run(&args, &failure) < 0)
        status = say(&failure);
    dt_train_args_finish(&args);
    if (told_to_end)
        return die_by(told_to_end);
    int failed = printed();
    return status ? status : failed;
}
