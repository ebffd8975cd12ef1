/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/train/options.h"

#include "base/str.h"
#include "worker_runtime/train/factory_words.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static int read_real(const char *value, double most, double *out, struct dt_err *err)
{
    char *end;
    double x = strtod(value, &end);
    if (end == value || *end || !(x >= 0 && x <= most))
        return dt_err_set(err, DT_E_USAGE, "\"%s\" is no number from 0 to %g", value, most);
    *out = x;
    return 0;
}

static int parse_temperature(const char *value, void *target, struct dt_err *err)
{
    return read_real(value, 100, target, err);
}

static int parse_top_p(const char *value, void *target, struct dt_err *err)
{
    return read_real(value, 1, target, err);
}

static int parse_seed(const char *value, void *target, struct dt_err *err)
{
    int64_t *seed = target;
    if (strcmp(value, "any") != 0)
        return dt_str_to_int(value, 0, INT64_MAX, seed, err);
    *seed = -1;
    return 0;
}

static int parse_word(const char *value, const char *const *words, void *target, struct dt_err *err)
{
    struct dt_buf all = {0};
    for (const char *const *w = words; *w; w++)
        if (strcmp(*w, value) == 0)
            return dt_opt_string(value, target, err);
    for (const char *const *w = words; *w; w++)
        dt_buf_printf(&all, "%s%s", w == words ? "" : ", ", *w);
    dt_err_set(err, DT_E_USAGE, "\"%s\" is none of %s", value, dt_buf_cstr(&all));
    dt_buf_finish(&all);
    return -1;
}

static int parse_format(const char *value, void *target, struct dt_err *err)
{
    return parse_word(value, (const char *const[]){"hf", "gguf", NULL}, target, err);
}

static int parse_dtype(const char *value, void *target, struct dt_err *err)
{
    return parse_word(value, (const char *const[]){"f32", "f16", "bf16", "nf4", "q8_0", NULL},
                      target, err);
}

static int parse_stop(const char *value, void *target, struct dt_err *err)
{
    if (*value)
        return dt_opt_append(value, target, err);
    return dt_err_set(err, DT_E_USAGE, "an empty text stands everywhere; give one to stop at");
}

#define GENERATE "With generate"
#define EXPORT "With export"
#define AT(field) .at = offsetof(struct dt_train_args, field)

static int parse_share(const char *value, void *target, struct dt_err *err)
{
    char *end;
    double share = strtod(value, &end);
    if (end == value || *end || !(share > 0 && share < 1))
        return dt_err_set(err, DT_E_USAGE, "\"%s\" is not a number between 0 and 1", value);
    *(double *)target = share;
    return 0;
}

static int parse_document(const char *value, void *target, struct dt_err *err)
{
    int64_t *document = target;
    *document = -1;
    return strcmp(value, "all") == 0 ? 0 : dt_str_to_int(value, 0, INT64_MAX, document, err);
}

/* clang-format off */
static const struct dt_opt train_opts[] = {
    {.name = "config", .letter = 'c', .arg = "FILE", .completes = DT_OPT_FILE, AT(config), .group = "Training",
     .help = "JSON file that describes the run: DeepSpeed's keys, and the blocks model, lora, dpo, data and train"},
    {.name = "deepspeed", .arg = "FILE", .completes = DT_OPT_FILE, AT(deepspeed), .group = "Training",
     .help = "an unchanged DeepSpeed configuration, whose keys join those of --config"},
    {.name = "llamafactory", .arg = "FILE", .completes = DT_OPT_FILE, AT(llamafactory), .group = "Training",
     .help = "in place of --config: a file of LLaMA-Factory's for the stage sft or dpo, in YAML or JSON, whose datasets "
             "become tokens in its output_dir before the run begins"},
    {.name = "deepspeed-config", .arg = "FILE", .completes = DT_OPT_FILE, AT(deepspeed), .hidden = true},
    {.name = "set", .arg = "KEY=VALUE", .parse = dt_opt_append, .finish = dt_opt_finish_strings, .repeat = true,
     AT(set), .group = "Training",
     .help = "set a key of the configuration to VALUE, such as train.steps=20; with --llamafactory also a key of that file"},
    {.name = "resume", .arg = "auto|none|DIR", .words = "auto none", .fallback = "auto", AT(resume), .group = "Training",
     .help = "continue from the last whole checkpoint in train.save_dir, or from a newer one in train.upload_to, if there "
             "is one (auto), start without a checkpoint (none), or continue from DIR, which is a checkpoint or holds some"},
    {.name = "init-from", .arg = "DIR", .completes = DT_OPT_DIRECTORY, AT(init_from), .group = "Training",
     .help = "start with the weights in DIR, a folder of safetensors in Hugging Face's format; model.weights says "
             "the same. With merge, generate and export of adapters: the model, in place of the one that they name"},

    {.name = "estimate", .arg = "FILE", .completes = DT_OPT_FILE, AT(estimate), .group = "Instead of training",
     .help = "print how much memory a rank of this configuration needs at each ZeRO stage, and what fits on this "
             "host"},
    {.name = "world", .arg = "N", .parse = dt_opt_count, AT(world), .fallback = "0", .group = "Instead of training",
     .help = "with --estimate: number of ranks of the job; 0 means WORLD_SIZE, or 1"},
    {.name = "local-world", .arg = "N", .parse = dt_opt_count, AT(local), .fallback = "0", .group = "Instead of training",
     .help = "with --estimate: number of ranks on this host; 0 means LOCAL_WORLD_SIZE, or all"},
    {.name = "suggest", .arg = "FILE", .completes = DT_OPT_FILE, AT(suggest), .group = "Instead of training",
     .help = "print in which ways the ranks of a machine could share the work of this configuration, how fast each would be by "
             "prediction, and the keys for the one to take"},
    {.name = "machine", .arg = "WORDS", AT(machine), .group = "Instead of training",
     .help = "with --suggest: another machine than this one, as hosts=8,gpus=8,gpu=H100, or hosts=2,ranks=16,memory=64G for "
             "hosts without GPUs; memory is of a GPU or of such a host, and network=3200 the Gbit/s of all ports of a host"},
    {.name = "print-config", AT(print_config), .group = "Instead of training",
     .help = "print the configuration that --config or --llamafactory, --deepspeed and --set come to, as JSON"},
    {.name = "verify", .arg = "DIR", .completes = DT_OPT_DIRECTORY, AT(verify), .group = "Instead of training",
     .help = "compare every byte of the checkpoint DIR, as in runs/a/step-00000100, with its checksums; of a run's train.save_dir "
             "that is its newest one"},
    {.name = "check-nccl", AT(check_nccl), .group = "Instead of training",
     .help = "print what NCCL finds on this host: versions, links between GPUs, networks, and the NCCL_ variables "
             "that are set"},
    {.name = "output", .letter = 'o', .arg = "FILE", .completes = DT_OPT_FILE, AT(output), .group = "Instead of training",
     .help = "with tokenize: the file of tokens to write; with detokenize: the file of text, in place of standard output; "
             "with fetch: the folder to put the checkpoint into; with export: the folder or the file to write; with merge: the "
             "folder of the model to write"},
    {.name = "tokenizer", .arg = "DIR", .completes = DT_OPT_DIRECTORY, AT(tokenizer), .group = "Instead of training",
     .help = "with tokenize, detokenize and show-data: a model's folder with its tokenizer.json; without it a token is a byte. "
             "With generate and export: in place of the one in the model's own folder"},
    {.name = "template", .arg = "NAME", AT(template), .group = "Instead of training",
     .help = "with tokenize: files hold conversations, one as JSON in a line; with generate: the prompt is a question. This is "
             "how models of that family are shown them: llama2, llama3, llama3.1, mistral-v1, mistral, mistral-tekken, chatml, qwen2, qwen3, smollm, "
             "gemma, phi3, or plain, which any tokenizer will do for"},
    {.name = "key", .arg = "NAME", AT(key), .group = "Instead of training",
     .help = "with tokenize: files hold JSON, an object in a line, and this key of it is a text"},
    {.name = "max-tokens", .arg = "N", .parse = dt_opt_count, AT(max_tokens), .fallback = "0", .group = "Instead of training",
     .help = "with --template or --key: the most tokens of a document, of which a sample has room for data.sequence_length and "
             "one more; exchanges that do not fit are left out of a conversation, and a text becomes several documents; 0 "
             "means any number"},
    {.name = "system", .arg = "TEXT", AT(system), .group = "Instead of training",
     .help = "with --template: the system text of conversations that have none, and of the prompt; an empty one leaves "
             "out what the template puts there by itself"},
    {.name = "train-on-prompt", AT(train_on_prompt), .group = "Instead of training",
     .help = "with --template: train on all of a conversation, and not on the answers alone"},
    {.name = "last-answer-only", AT(last_answer_only), .group = "Instead of training",
     .help = "with --template: train on the last answer of a conversation alone"},
    {.name = "preferences", AT(preferences), .group = "Instead of training",
     .help = "with --template: a line holds a prompt and two answers to it, chosen and rejected, which the block dpo trains with"},
    {.name = "validation", .arg = "FILE", .completes = DT_OPT_FILE, AT(validation), .group = "Instead of training",
     .help = "with --template or --key: put a share of the lines into this file of tokens, for data.validation"},
    {.name = "split", .arg = "SHARE", .parse = parse_share, AT(split), .fallback = "0.05", .group = "Instead of training",
     .help = "with --validation: that share, between 0 and 1"},
    {.name = "document", .arg = "N", .parse = parse_document, .words = "all", AT(document), .fallback = "all",
     .group = "Instead of training",
     .help = "with show-data: show document N alone, and not all; the first one is 0"},
    {.name = "device", .arg = "KIND", .words = "auto cpu cuda", AT(device), .group = "Instead of training",
     .help = "with probe: try the processors (cpu), the GPUs (cuda), or GPUs if there are any (auto, the default)"},
    {.name = "limit", .arg = "N", .parse = dt_opt_count, AT(limit), .fallback = "0", .group = "Instead of training",
     .help = "with probe: do not wait for a device for more than N seconds; 0 means 9, and 3 for each, but at most 40"},

    {.name = "prompt", .arg = "TEXT", AT(generate.prompt), .group = GENERATE, .help = "the text to go on with"},
    {.name = "prompt-file", .arg = "FILE", .completes = DT_OPT_FILE, AT(generate.prompt_file), .group = GENERATE,
     .help = "the same from FILE, without the newline at its end; - is standard input, which is read when there is neither"},
    {.name = "max-new-tokens", .arg = "N", .parse = dt_opt_count, .fallback = "256", AT(generate.max_tokens), .group = GENERATE,
     .help = "write at most N tokens"},
    {.name = "temperature", .arg = "X", .parse = parse_temperature, .fallback = "0.8", .later = true, AT(generate.temperature),
     .group = GENERATE, .help = "how much chance there is: at 0 the likeliest token is taken each time, at 1 tokens come as "
     "often as the model says, and above 1 unlikely ones come more often"},
    {.name = "top-k", .arg = "N", .parse = dt_opt_count, .fallback = "40", .later = true, AT(generate.top_k),
     .group = GENERATE, .help = "choose among the N likeliest tokens; 0 means all"},
    {.name = "top-p", .arg = "X", .parse = parse_top_p, .fallback = "0.95", .later = true, AT(generate.top_p),
     .group = GENERATE, .help = "choose among the fewest of them that together have this share of the probability; 1 means all"},
    {.name = "seed", .arg = "N", .words = "any", .parse = parse_seed, .fallback = "any", .later = true, AT(generate.seed),
     .group = GENERATE, .help = "with the same N, and all else as it was, the text is the same; any means another one each time"},
    {.name = "stop", .arg = "TEXT", .parse = parse_stop, .finish = dt_opt_finish_strings, .repeat = true, AT(generate.stops),
     .group = GENERATE, .help = "end in front of TEXT, which is not printed"},
    {.name = "threads", .arg = "N", .parse = dt_opt_count, .fallback = "0", AT(generate.threads), .group = GENERATE,
     .help = "compute with N threads; 0 means OMP_NUM_THREADS, or all processors"},
    {.name = "to", .arg = "hf|gguf", .words = "hf gguf", .parse = parse_format, .finish = dt_opt_finish_string, .later = true,
     AT(to), .group = EXPORT, .help = "write a folder as Hugging Face's programs read it, or a file for llama.cpp"},
    {.name = "dtype", .arg = "TYPE", .words = "f32 f16 bf16 nf4 q8_0", .parse = parse_dtype, .finish = dt_opt_finish_string,
     AT(dtype), .group = EXPORT,
     .help = "f32, f16, bf16; for hf nf4, which has 4 bits a weight in linear layers; for gguf q8_0, which has 8; without it weights keep the type that they are saved in"},
    {.name = "rescue", AT(rescue), .hidden = true}, /* for the agent: rescue.h */
    {.name = "local-rank", .arg = "N", .parse = dt_opt_count, AT(local_rank), .fallback = "0", .hidden = true},
    {0},
};
/* clang-format on */

const struct dt_opt_program dt_train_program = {
    .name = "dtrun-train",
    .summary = "Trains a transformer whose state is spread over the workers of a job.",
    .example = "dtrun --nproc-per-node 2 dtrun-train --config examples/tiny.json",
    .usage =
        "--config FILE [options]\n"
        "       dtrun-train --llamafactory FILE [options]\n"
        "       dtrun-train llamafactory [FILE] [KEY=VALUE...] [--KEY VALUE...]\n"
        "       dtrun-train --estimate FILE [options]\n"
        "       dtrun-train --suggest FILE [--machine WORDS] [options]\n"
        "       dtrun-train --verify DIR\n"
        "       dtrun-train --check-nccl\n"
        "       dtrun-train tokenize [--tokenizer DIR] FILE... -o OUT\n"
        "       dtrun-train tokenize [--tokenizer DIR] --template NAME|--key NAME FILE... -o OUT\n"
        "       dtrun-train detokenize [--tokenizer DIR] FILE [-o OUT]\n"
        "       dtrun-train show-data [--tokenizer DIR] [--document N] FILE\n"
        "       dtrun-train generate DIR [options]\n"
        "       dtrun-train export DIR --to hf|gguf -o OUT [options]\n"
        "       dtrun-train merge DIR -o OUT [--init-from MODEL]\n"
        "       dtrun-train ls URL\n"
        "       dtrun-train fetch URL -o DIR\n"
        "       dtrun-train rm URL...\n"
        "       dtrun-train probe [--device KIND] [--limit N]",
    .version = DT_VERSION,
    .table = train_opts,
    .commands = (const char *const[]){"llamafactory FILE", "tokenize FILE", "detokenize FILE",
                                      "show-data FILE", "generate FILE", "export FILE",
                                      "merge FILE", "ls", "fetch", "rm", "probe", NULL},
    .takes_operands = true,
};

/* An argument that is no option ends them, and people write some behind it: so each such word is
 * taken out of ARGS, and the rest read again. */
static int read_words(struct dt_train_args *a, int argc, char **args, struct dt_opt_result *result,
                      struct dt_err *err)
{
    for (;;) {
        struct dt_train_args fresh = {.files = a->files, .file_count = a->file_count};
        dt_opt_finish(&dt_train_program, a);
        *a = fresh;
        if (dt_opt_parse(&dt_train_program, argc, args, NULL, a, result, err) < 0)
            return -1;
        if (result->help || result->version || result->operands == argc)
            return 0;
        a->files[a->file_count++] = args[result->operands];
        memmove(args + result->operands, args + result->operands + 1,
                (size_t)(argc - result->operands) * sizeof *args);
        argc--;
    }
}

/* To scripts for DeepSpeed --deepspeed is a flag beside --deepspeed_config, which says all we need.
 */
static bool is_bare_deepspeed(const char *arg, const char *next)
{
    return strcmp(arg, "--deepspeed") == 0 && (!next || next[0] == '-');
}

static const struct {
    const char *name, *what; /* WHAT it has to be told */
    int most;                /* words behind it; 0: any number */
    bool alone;              /* there are none */
    const char *one;         /* what that one word is */
    const char *output;      /* what -o is then; NULL: there is no such */
    bool may_print;          /* without -o it goes to standard output */
    bool has_tokenizer;      /* --tokenizer goes with it */
} commands[DT_TRAIN_COMMANDS] = {
    [DT_TRAIN_TOKENIZE] = {.name = "tokenize",
                           .what = "which files? - is standard input",
                           .output = "FILE",
                           .has_tokenizer = true},
    [DT_TRAIN_DETOKENIZE] = {.name = "detokenize",
                             .what = "which file of tokens?",
                             .most = 1,
                             .one = "file",
                             .output = "FILE",
                             .may_print = true,
                             .has_tokenizer = true},
    [DT_TRAIN_SHOW_DATA] = {.name = "show-data",
                            .what = "which file of tokens?",
                            .most = 1,
                            .one = "file",
                            .has_tokenizer = true},
    [DT_TRAIN_GENERATE] = {.name = "generate",
                           .what = "with which model? Its folder, or a checkpoint's",
                           .most = 1,
                           .one = "folder",
                           .has_tokenizer = true},
    [DT_TRAIN_EXPORT] = {.name = "export",
                         .what = "which model? Its folder, or a checkpoint's",
                         .most = 1,
                         .one = "folder",
                         .output = "OUT",
                         .has_tokenizer = true},
    [DT_TRAIN_MERGE] = {.name = "merge",
                        .what = "which adapters? Their folder, or a run's train.save_dir",
                        .most = 1,
                        .one = "folder",
                        .output = "DIR"},
    [DT_TRAIN_LS] = {.name = "ls",
                     .what = "of which URL? s3://BUCKET/PREFIX, or file:///FOLDER",
                     .most = 1,
                     .one = "URL"},
    [DT_TRAIN_FETCH] = {.name = "fetch",
                        .what = "from which URL? s3://BUCKET/PREFIX, or file:///FOLDER",
                        .most = 1,
                        .one = "URL",
                        .output = "DIR"},
    [DT_TRAIN_RM] = {.name = "rm", .what = "which checkpoint? s3://BUCKET/PREFIX/step-00000100"},
    [DT_TRAIN_PROBE] = {.name = "probe", .alone = true},
};

static enum dt_train_command command_of(const char *word)
{
    for (int c = DT_TRAIN_NONE + 1; c < DT_TRAIN_COMMANDS; c++)
        if (strcmp(word, commands[c].name) == 0)
            return c;
    return DT_TRAIN_NONE;
}

/* What is about conversations and texts in JSON. */
static int check_documents(const struct dt_train_args *a, struct dt_err *err)
{
    bool tokenize = a->command == DT_TRAIN_TOKENIZE;
    bool documents = tokenize && (a->template || a->key);
    if (a->template && !tokenize && a->command != DT_TRAIN_GENERATE)
        return dt_err_set(err, DT_E_USAGE, "--template goes with tokenize and generate");
    if (a->key && !tokenize)
        return dt_err_set(err, DT_E_USAGE, "--key goes with tokenize");
    if (a->template && a->key)
        return dt_err_set(err, DT_E_USAGE,
                          "--template reads conversations and --key reads texts: give one of them");
    if (a->max_tokens && a->command == DT_TRAIN_GENERATE)
        return dt_err_set(err, DT_E_USAGE,
                          "--max-tokens goes with tokenize; --max-new-tokens says how long an "
                          "answer may become");
    if (a->max_tokens && !documents)
        return dt_err_set(err, DT_E_USAGE, "--max-tokens goes with --template and --key");
    if (a->max_tokens == 1)
        return dt_err_set(err, DT_E_USAGE,
                          "--max-tokens 1: there is nothing to learn in a document of one token");
    if (a->validation && !documents)
        return dt_err_set(err, DT_E_USAGE, "--validation goes with --template and --key");
    if (a->system && !a->template)
        return dt_err_set(err, DT_E_USAGE, "--system goes with --template");
    if ((a->train_on_prompt || a->last_answer_only) && !(documents && a->template))
        return dt_err_set(err, DT_E_USAGE, "--%s goes with --template",
                          a->train_on_prompt ? "train-on-prompt" : "last-answer-only");
    if (a->preferences && !(documents && a->template))
        return dt_err_set(err, DT_E_USAGE, "--preferences goes with tokenize --template");
    if (a->preferences && (a->train_on_prompt || a->last_answer_only))
        return dt_err_set(err, DT_E_USAGE,
                          "--%s says what is trained on; of --preferences it is the answers that "
                          "are chosen and rejected: drop one",
                          a->train_on_prompt ? "train-on-prompt" : "last-answer-only");
    if (a->train_on_prompt && a->last_answer_only)
        return dt_err_set(err, DT_E_USAGE,
                          "--train-on-prompt trains on everything, --last-answer-only on the last "
                          "answer: give one of them");
    return 0;
}

static int check_device(const struct dt_train_args *a, struct dt_err *err)
{
    const char *kind = a->device;
    if (kind && a->command != DT_TRAIN_PROBE)
        return dt_err_set(err, DT_E_USAGE, "--device goes with probe; a run has train.device");
    if (a->limit && a->command != DT_TRAIN_PROBE)
        return dt_err_set(err, DT_E_USAGE, "--limit goes with probe");
    if (kind && strcmp(kind, "auto") != 0 && strcmp(kind, "cpu") != 0 && strcmp(kind, "cuda") != 0)
        return dt_err_set(err, DT_E_USAGE, "--device: \"%s\" is not auto, cpu or cuda", kind);
    return 0;
}

static int check_options(const struct dt_train_args *a, struct dt_err *err)
{
    if (check_device(a, err) < 0)
        return -1;
    if (a->output && !commands[a->command].output)
        return dt_err_set(err, DT_E_USAGE,
                          "--output goes with tokenize, detokenize, export, merge and fetch");
    if (a->tokenizer && !commands[a->command].has_tokenizer)
        return dt_err_set(
            err, DT_E_USAGE,
            "--tokenizer goes with tokenize, detokenize, show-data, generate and export");
    if (a->document >= 0 && a->command != DT_TRAIN_SHOW_DATA)
        return dt_err_set(err, DT_E_USAGE, "--document goes with show-data");
    return check_documents(a, err);
}

static int check_command(struct dt_train_args *a, struct dt_err *err)
{
    if (a->file_count == 0)
        return check_options(a, err);
    a->command = command_of(a->files[0]);
    const char *name = commands[a->command].name;
    if (!name)
        return dt_err_set(err, DT_E_USAGE,
                          "what is \"%s\"? A configuration is given as --config %s; the commands "
                          "are llamafactory, tokenize, detokenize, show-data, generate, export, "
                          "merge, ls, fetch, rm "
                          "and probe",
                          a->files[0], a->files[0]);
    if (a->file_count == 1 && !commands[a->command].alone)
        return dt_err_set(err, DT_E_USAGE, "%s: %s", name, commands[a->command].what);
    if (a->file_count > 1 && commands[a->command].alone)
        return dt_err_set(err, DT_E_USAGE, "%s: what is \"%s\"? It takes options alone", name,
                          a->files[1]);
    if (commands[a->command].most && a->file_count > commands[a->command].most + 1)
        return dt_err_set(err, DT_E_USAGE, "%s: what is \"%s\"? It takes one %s", name, a->files[2],
                          commands[a->command].one);
    if (!a->output && commands[a->command].output && !commands[a->command].may_print)
        return dt_err_set(err, DT_E_USAGE, "%s: where to? Give -o %s", name,
                          commands[a->command].output);
    return check_options(a, err);
}

/* Some options are of one command alone: those of its group. */
static int check_groups(const struct dt_train_args *a, const struct dt_opt_result *result,
                        struct dt_err *err)
{
    static const struct {
        const char *group;
        enum dt_train_command command;
    } groups[] = {{GENERATE, DT_TRAIN_GENERATE}, {EXPORT, DT_TRAIN_EXPORT}};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        for (const struct dt_opt *o = train_opts; o->name; o++)
            if (a->command != groups[i].command && strcmp(dt_opt_group(o), groups[i].group) == 0 &&
                dt_opt_source_of(&dt_train_program, result, o->name) == DT_OPT_FROM_ARGS)
                return dt_err_set(err, DT_E_USAGE, "--%s goes with %s", o->name,
                                  commands[groups[i].command].name);
    return 0;
}

static int check_generate(const struct dt_generate_args *g, struct dt_err *err)
{
    if (g->prompt && g->prompt_file)
        return dt_err_set(err, DT_E_USAGE, "--prompt and --prompt-file: give one of them");
    if (g->max_tokens < 1)
        return dt_err_set(err, DT_E_USAGE, "--max-new-tokens: give 1 or more");
    return 0;
}

static int check_export(const struct dt_train_args *a, struct dt_err *err)
{
    if (a->command != DT_TRAIN_EXPORT)
        return 0;
    if (!a->to)
        return dt_err_set(err, DT_E_USAGE, "export: as what? Give --to hf or --to gguf");
    if (a->dtype && strcmp(a->dtype, "q8_0") == 0 && strcmp(a->to, "hf") == 0)
        return dt_err_set(err, DT_E_USAGE, "--dtype q8_0 goes with --to gguf");
    if (a->dtype && strcmp(a->dtype, "nf4") == 0 && strcmp(a->to, "gguf") == 0)
        return dt_err_set(err, DT_E_USAGE, "--dtype nf4 goes with --to hf");
    return 0;
}

static int check_whole(struct dt_train_args *a, const struct dt_opt_result *result,
                       struct dt_err *err)
{
    if (check_command(a, err) < 0 || check_groups(a, result, err) < 0 ||
        check_generate(&a->generate, err) < 0 || check_export(a, err) < 0)
        return -1;
    if (a->machine && !a->suggest)
        return dt_err_set(err, DT_E_USAGE, "--machine goes with --suggest");
    if (a->suggest && (a->config || a->estimate || a->llamafactory))
        return dt_err_set(err, DT_E_USAGE, "--suggest names the configuration itself: drop %s",
                          a->config     ? "--config"
                          : a->estimate ? "--estimate"
                                        : "--llamafactory");
    if (a->llamafactory && (a->config || a->deepspeed || a->estimate))
        return dt_err_set(err, DT_E_USAGE,
                          "--llamafactory goes with %s: the file is a whole configuration; its key "
                          "deepspeed names a DeepSpeed file, and --set changes any key",
                          a->config      ? "no --config"
                          : a->deepspeed ? "no --deepspeed"
                                         : "no --estimate");
    if (a->print_config && !a->config && !a->deepspeed && !a->llamafactory)
        return dt_err_set(
            err, DT_E_USAGE,
            "--print-config: of which configuration? Give --config or --llamafactory");
    if (!a->command && !a->config && !a->deepspeed && !a->llamafactory && !a->estimate &&
        !a->suggest && !a->verify && !a->check_nccl)
        return dt_err_set(
            err, DT_E_USAGE,
            "which configuration? Give --config FILE; dtrun-train(1) says what stands in it");
    if (!a->validation && dt_opt_source_of(&dt_train_program, result, "split") == DT_OPT_FROM_ARGS)
        return dt_err_set(err, DT_E_USAGE, "--split goes with --validation, which names the file");
    if ((a->world || a->local) && !a->estimate)
        return dt_err_set(err, DT_E_USAGE, "--world and --local-world go with --estimate");
    if (a->resume && a->resume[0] == '\0')
        return dt_err_set(err, DT_E_USAGE, "--resume: auto, none, or a folder");
    return 0;
}

static int read_line(struct dt_train_args *a, int argc, char *const *argv,
                     struct dt_opt_result *result, struct dt_err *err)
{
    char **args = calloc((size_t)argc + 1, sizeof *args);
    *a = (struct dt_train_args){.files = calloc((size_t)argc + 1, sizeof *a->files)};
    if (!args || !a->files) {
        free(args);
        return dt_err_set(err, DT_E_MEMORY, "no memory for the command line");
    }
    int count = 0;
    for (int i = 0; i < argc; i++)
        if (i == 0 || !is_bare_deepspeed(argv[i], i + 1 < argc ? argv[i + 1] : NULL))
            args[count++] = argv[i];
    int rc = read_words(a, count, args, result, err);
    free(args);
    if (rc < 0 || result->help || result->version)
        return rc;
    return check_whole(a, result, err);
}

int dt_train_args_read(struct dt_train_args *a, int argc, char *const *argv,
                       struct dt_opt_result *result, struct dt_err *err)
{
    struct dt_opt_strings words = {0};
    if (argc < 2 || strcmp(argv[1], DT_FACTORY_COMMAND) != 0)
        return read_line(a, argc, argv, result, err);
    *a = (struct dt_train_args){0};
    int rc = dt_factory_words(&dt_train_program, argc, argv, &words, err);
    if (rc == 0)
        rc = read_line(a, (int)words.len, words.at, result, err);
    dt_opt_finish_strings(&words);
    return rc;
}

void dt_train_args_finish(struct dt_train_args *a)
{
    dt_opt_finish(&dt_train_program, a);
    free(a->files);
    a->files = NULL;
}
