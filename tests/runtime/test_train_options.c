/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines of dtrun-train. */
#include "tests/lib/check.h"
#include "worker_runtime/train/options.h"

#define WORDS 16

static int read_line(const char *line, struct dt_train_args *a, struct dt_opt_result *result,
                     struct dt_err *err)
{
    static char text[400];
    char *argv[WORDS + 1] = {text};
    int argc = 0;
    snprintf(text, sizeof text, "dtrun-train %s", line);
    for (char *rest, *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        CHECK(argc < WORDS);
        argv[argc++] = word;
    }
    return dt_train_args_read(a, argc, argv, result, err);
}

struct good {
    const char *line;
    const char *config, *deepspeed, *resume, *init_from, *estimate, *verify, *output;
    int world, local, local_rank, sets, files;
    enum dt_train_command command;
};

TEST(good_lines_are_taken)
{
    static const struct good rows[] = {
        {.line = "--config a.json", .config = "a.json"},
        {.line = "-c a.json", .config = "a.json"},
        {.line = "--config=a.json --resume none", .config = "a.json", .resume = "none"},
        {.line = "--config a --resume old --init-from gpt2",
         .config = "a",
         .resume = "old",
         .init_from = "gpt2"},
        {.line = "-c a --set train.steps=3 --set x=", .config = "a", .sets = 2},
        {.line = "--estimate a --world 8 --local-world 4", .estimate = "a", .world = 8, .local = 4},
        {.line = "--verify ckpt/step-00000100", .verify = "ckpt/step-00000100"},
        {.line = "tokenize a b -o out", .output = "out", .files = 3, .command = DT_TRAIN_TOKENIZE},
        {.line = "detokenize a --tokenizer b", .files = 2, .command = DT_TRAIN_DETOKENIZE},
        {.line = "merge a -o out --init-from b",
         .output = "out",
         .init_from = "b",
         .files = 2,
         .command = DT_TRAIN_MERGE},
        {.line = "-o out tokenize -", .output = "out", .files = 2, .command = DT_TRAIN_TOKENIZE},
        {.line = "tokenize --output=out a",
         .output = "out",
         .files = 2,
         .command = DT_TRAIN_TOKENIZE},
        {.line = "tokenize -o out -- -a",
         .output = "out",
         .files = 2,
         .command = DT_TRAIN_TOKENIZE},
        {.line = "show-data a --document 3", .files = 2, .command = DT_TRAIN_SHOW_DATA},
        {.line = "generate d --prompt a --stop b --stop c",
         .files = 2,
         .command = DT_TRAIN_GENERATE},
        {.line = "generate d --template qwen2 --prompt a --system b",
         .files = 2,
         .command = DT_TRAIN_GENERATE},
        {.line = "--top-p 0.5 generate d --tokenizer t --seed 7 --top-k 0",
         .files = 2,
         .command = DT_TRAIN_GENERATE},
        {.line = "export d --to gguf -o out --dtype q8_0",
         .output = "out",
         .files = 2,
         .command = DT_TRAIN_EXPORT},
        {.line = "ls s3://b/p", .files = 2, .command = DT_TRAIN_LS},
        {.line = "fetch s3://b/p -o d", .output = "d", .files = 2, .command = DT_TRAIN_FETCH},
        {.line = "rm s3://b/p/step-1 s3://b/p/step-2", .files = 3, .command = DT_TRAIN_RM},
        {.line = "probe", .files = 1, .command = DT_TRAIN_PROBE},
        {.line = "probe --device cpu --limit 60", .files = 1, .command = DT_TRAIN_PROBE},
        /* As people come from DeepSpeed: its launchers and their scripts. */
        {.line = "--deepspeed ds.json --config a", .config = "a", .deepspeed = "ds.json"},
        {.line = "--deepspeed ds.json", .deepspeed = "ds.json"},
        {.line = "--deepspeed_config ds.json -c a", .config = "a", .deepspeed = "ds.json"},
        {.line = "--deepspeed_config=ds.json -c a", .config = "a", .deepspeed = "ds.json"},
        {.line = "--deepspeed --deepspeed_config ds.json -c a",
         .config = "a",
         .deepspeed = "ds.json"},
        {.line = "-c a --deepspeed_config ds.json --deepspeed",
         .config = "a",
         .deepspeed = "ds.json"},
        {.line = "--local_rank=3 --deepspeed ds.json --config a",
         .config = "a",
         .deepspeed = "ds.json",
         .local_rank = 3},
        {.line = "--local-rank 1 -c a", .config = "a", .local_rank = 1},
        {.line = "-c a --local_rank=0", .config = "a"},
        {.line = "--llamafactory a.yaml --set lora_rank=8 --set train.steps=2", .sets = 2},
        {.line = "--llamafactory a.yaml --resume none --print-config", .resume = "none"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct good *r = &rows[i];
        struct dt_train_args a;
        struct dt_opt_result result;
        struct dt_err err = {0};
        CHECK_ROW("%s", r->line);
        CHECK_OK(read_line(r->line, &a, &result, &err), err);
        CHECK_STR(a.config, r->config);
        CHECK_STR(a.deepspeed, r->deepspeed);
        CHECK_STR(a.resume, r->resume ? r->resume : "auto");
        CHECK_STR(a.init_from, r->init_from);
        CHECK_STR(a.estimate, r->estimate);
        CHECK_STR(a.verify, r->verify);
        CHECK_STR(a.output, r->output);
        CHECK_EQ(a.world, r->world);
        CHECK_EQ(a.local, r->local);
        CHECK_EQ(a.local_rank, r->local_rank);
        CHECK_EQ(a.set.len, r->sets);
        CHECK_EQ(a.file_count, r->files);
        CHECK_EQ(a.command, r->command);
        dt_train_args_finish(&a);
    }
}

TEST(a_command_of_llamafactory_s_is_a_file_and_keys)
{
    static const struct {
        const char *line, *file, *sets[6], *resume;
    } rows[] = {
        {"llamafactory a.yaml", "a.yaml", {NULL}, "auto"},
        {"llamafactory train a.yaml", "a.yaml", {NULL}, "auto"},
        {"llamafactory train ./train", "./train", {NULL}, "auto"},
        {"llamafactory a.yaml --print-config", "a.yaml", {NULL}, "auto"},
        {"llamafactory --stage sft --do_train --lora_target q_proj,v_proj --max_steps -1",
         "",
         {"stage=sft", "do_train=true", "lora_target=q_proj,v_proj", "max_steps=-1"},
         "auto"},
        {"llamafactory dir/a.yaml learning_rate=1e-4 --lora-rank=16 --template llama2 --fp16",
         "dir/a.yaml",
         {"learning_rate=1e-4", "lora_rank=16", "template=llama2", "fp16=true"},
         "auto"},
        {"llamafactory a --seed 3 --resume none --set train.steps=2 --local-rank=1",
         "a",
         {"seed=3", "train.steps=2"},
         "none"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_train_args a;
        struct dt_opt_result result;
        struct dt_err err = {0};
        size_t n = 0;
        CHECK_ROW("%s", rows[i].line);
        CHECK_OK(read_line(rows[i].line, &a, &result, &err), err);
        CHECK_STR(a.llamafactory, rows[i].file);
        CHECK_STR(a.resume, rows[i].resume);
        for (; rows[i].sets[n]; n++)
            CHECK_STR(n < a.set.len ? a.set.at[n] : "", rows[i].sets[n]);
        CHECK_EQ(a.set.len, n);
        CHECK_EQ(a.command, DT_TRAIN_NONE);
        dt_train_args_finish(&a);
    }
    struct dt_train_args a;
    struct dt_opt_result result;
    struct dt_err err = {0};
    CHECK_FAIL(read_line("llamafactory a b", &a, &result, &err), err, "what is \"b\"?");
    dt_train_args_finish(&a);
    CHECK_OK(read_line("llamafactory -h", &a, &result, &err), err);
    CHECK(result.help);
    dt_train_args_finish(&a);
}

TEST(generate_has_its_numbers)
{
    static const struct {
        const char *line;
        double temperature, top_p;
        int max_tokens, top_k, threads;
        int64_t seed;
        size_t stops;
    } rows[] = {
        {"generate d", 0.8, 0.95, 256, 40, 0, -1, 0},
        {"generate d --temperature 0 --top-p 1e-3 --max-new-tokens 7", 0, 1e-3, 7, 40, 0, -1, 0},
        {"generate d --seed 0 --top-k 0 --threads 2 --stop a --stop b", 0.8, 0.95, 256, 0, 2, 0, 2},
        {"generate d --seed any --stop a", 0.8, 0.95, 256, 40, 0, -1, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_train_args a;
        struct dt_opt_result result;
        struct dt_err err = {0};
        CHECK_ROW("%s", rows[i].line);
        CHECK_OK(read_line(rows[i].line, &a, &result, &err), err);
        CHECK(a.generate.temperature == rows[i].temperature);
        CHECK(a.generate.top_p == rows[i].top_p);
        CHECK_EQ(a.generate.max_tokens, rows[i].max_tokens);
        CHECK_EQ(a.generate.top_k, rows[i].top_k);
        CHECK_EQ(a.generate.threads, rows[i].threads);
        CHECK_EQ(a.generate.seed, rows[i].seed);
        CHECK_EQ(a.generate.stops.len, rows[i].stops);
        dt_train_args_finish(&a);
    }
}

TEST(bad_lines_are_refused_with_a_sentence)
{
    static const struct {
        const char *line, *words;
    } rows[] = {
        {"", "which configuration? Give --config FILE"},
        {"-c a --world 2", "--world and --local-world go with --estimate"},
        {"--deepspeed", "which configuration?"},
        {"--print-config", "--print-config: of which configuration?"},
        {"--llamafactory a --config b", "--llamafactory goes with no --config"},
        {"--llamafactory a --deepspeed b", "--llamafactory goes with no --deepspeed"},
        {"--llamafactory a --estimate b", "--llamafactory goes with no --estimate"},
        {"a.json", "what is \"a.json\"? A configuration is given as --config a.json"},
        {"-c a b", "what is \"b\"?"},
        {"tokenize", "tokenize: which files? - is standard input"},
        {"tokenize -o out", "tokenize: which files?"},
        {"tokenize a", "tokenize: where to? Give -o FILE"},
        {"detokenize", "detokenize: which file of tokens?"},
        {"detokenize a b", "detokenize: what is \"b\"? It takes one file"},
        {"-c a --template qwen2", "--template goes with tokenize and generate"},
        {"detokenize a --key text", "--key goes with tokenize"},
        {"generate a --key text", "--key goes with tokenize"},
        {"generate a --template x --max-tokens 5", "--max-new-tokens says how long"},
        {"generate a --template x --last-answer-only", "--last-answer-only goes with --template"},
        {"tokenize a -o b --template x --key y", "give one of them"},
        {"tokenize a -o b --validation c", "--validation goes with --template and --key"},
        {"tokenize a -o b --key x --validation c --split 1", "is not a number between 0 and 1"},
        {"tokenize a -o b --key x --split 0.1", "--split goes with --validation"},
        {"-c a --split 0.1", "--split goes with --validation"},
        {"tokenize a -o b --key x --system y", "--system goes with --template"},
        {"generate a --system y", "--system goes with --template"},
        {"tokenize a -o b --max-tokens 5", "--max-tokens goes with --template and --key"},
        {"tokenize a -o b --key x --max-tokens 1", "nothing to learn in a document of one token"},
        {"tokenize a -o b --key x --train-on-prompt", "--train-on-prompt goes with --template"},
        {"tokenize a -o b --last-answer-only", "--last-answer-only goes with --template"},
        {"tokenize a -o b --template x --last-answer-only --train-on-prompt", "give one of them"},
        {"tokenize a -o b --preferences", "--preferences goes with tokenize --template"},
        {"tokenize a -o b --key x --preferences", "--preferences goes with tokenize --template"},
        {"generate a --template x --preferences", "--preferences goes with tokenize --template"},
        {"tokenize a -o b --template x --preferences --train-on-prompt",
         "--train-on-prompt says what is trained on"},
        {"tokenize a -o b --document 1", "--document goes with show-data"},
        {"show-data a b", "show-data: what is \"b\"? It takes one file"},
        {"show-data a --document -1", "--document"},
        {"show-data a -o b", "--output goes with tokenize"},
        {"-c a --tokenizer b",
         "--tokenizer goes with tokenize, detokenize, show-data, generate and export"},
        {"ls s3://a --tokenizer b",
         "--tokenizer goes with tokenize, detokenize, show-data, generate and export"},
        {"-c a -o out", "--output goes with tokenize, detokenize, export, merge and fetch"},
        {"generate", "generate: with which model? Its folder, or a checkpoint's"},
        {"generate a b", "generate: what is \"b\"? It takes one folder"},
        {"generate a -o b", "--output goes with tokenize, detokenize, export, merge and fetch"},
        {"generate a --prompt b --prompt-file c", "--prompt and --prompt-file: give one of them"},
        {"generate a --max-new-tokens 0", "--max-new-tokens: give 1 or more"},
        {"generate a --temperature -1", "--temperature: \"-1\" is no number from 0 to 100"},
        {"generate a --temperature nan", "\"nan\" is no number from 0 to 100"},
        {"generate a --top-p 1.1", "--top-p: \"1.1\" is no number from 0 to 1"},
        {"generate a --top-p=", "\"\" is no number"},
        {"generate a --seed x", "--seed:"},
        {"generate a --stop=", "--stop: an empty text stands everywhere"},
        {"-c a --prompt b", "--prompt goes with generate"},
        {"-c a --seed 3", "--seed goes with generate"},
        {"tokenize a -o b --top-p 1", "--top-p goes with generate"},
        {"export", "export: which model? Its folder, or a checkpoint's"},
        {"export a --to hf", "export: where to? Give -o OUT"},
        {"export a -o b", "export: as what? Give --to hf or --to gguf"},
        {"export a -o b --to onnx", "--to: \"onnx\" is none of hf, gguf"},
        {"export a -o b --to hf --dtype q8_0", "--dtype q8_0 goes with --to gguf"},
        {"export a -o b --to gguf --dtype nf4", "--dtype nf4 goes with --to hf"},
        {"export a -o b --to hf --dtype q4",
         "--dtype: \"q4\" is none of f32, f16, bf16, nf4, q8_0"},
        {"-c a --to hf", "--to goes with export"},
        {"generate a --dtype f32", "--dtype goes with export"},
        {"merge", "merge: which adapters? Their folder, or a run's train.save_dir"},
        {"merge a", "merge: where to? Give -o DIR"},
        {"merge a b -o c", "merge: what is \"b\"? It takes one folder"},
        {"ls", "ls: of which URL? s3://BUCKET/PREFIX"},
        {"ls s3://a s3://b", "ls: what is \"s3://b\"? It takes one URL"},
        {"ls s3://a -o b", "--output goes with tokenize, detokenize, export, merge and fetch"},
        {"fetch s3://a", "fetch: where to? Give -o DIR"},
        {"rm", "rm: which checkpoint? s3://BUCKET/PREFIX/step-00000100"},
        {"probe a", "probe: what is \"a\"? It takes options alone"},
        {"-c a --limit 5", "--limit goes with probe"},
        {"probe --device tpu", "--device: \"tpu\" is not auto, cpu or cuda"},
        {"-c a --device cpu", "--device goes with probe; a run has train.device"},
        {"-c a --resume=", "--resume: auto, none, or a folder"},
        {"--config", "--config"},
        {"-c a --set", "--set"},
        {"-c a --steps 3", "--steps"},
        {"-c a --local_rank=x", "local"},
        {"--estimate a --world -1", "--world"},
        {"--estimate a --world 8x", "--world"},
        {"--estimate a --local-world", "--local-world"},
        {"-c a --machine gpus=8", "--machine goes with --suggest"},
        {"--suggest a -c b", "--suggest names the configuration itself: drop --config"},
        {"--suggest a --estimate b", "--suggest names the configuration itself: drop --estimate"},
        {"--suggest a --llamafactory b", "drop --llamafactory"},
        {"--suggest a --world 8", "--world and --local-world go with --estimate"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_train_args a;
        struct dt_opt_result result;
        struct dt_err err = {0};
        CHECK_ROW("%s", rows[i].line);
        CHECK_FAIL(read_line(rows[i].line, &a, &result, &err), err, rows[i].words);
        CHECK_EQ(err.code, DT_E_USAGE);
        dt_train_args_finish(&a);
    }
}

TEST(help_and_version_need_nothing_else)
{
    struct dt_train_args a;
    struct dt_opt_result result;
    struct dt_err err = {0};
    CHECK_OK(read_line("--help", &a, &result, &err), err);
    CHECK(result.help);
    dt_train_args_finish(&a);
    CHECK_OK(read_line("tokenize --version", &a, &result, &err), err);
    CHECK(result.version);
    dt_train_args_finish(&a);
}
