/* SPDX-License-Identifier: Apache-2.0 */
/* Texts through tokenizers of all families, and what Hugging Face's library made of them:
 * tests/runtime/tokenizers/make.py recorded that. */
#include "base/fs.h"
#include "base/json.h"
#include "tests/lib/folder.h"
#include "worker_runtime/data/tokenizer/added.h"
#include "worker_runtime/data/tokenizer/bpe.h"
#include "worker_runtime/data/tokenizer/pattern.h"
#include "worker_runtime/data/tokenizer/stage.h"
#include "worker_runtime/data/tokenizer/tokenizer.h"

#include <cjson/cJSON.h>

#define FILE_MAX ((size_t)16 << 20)

static struct dt_json golden;

BEFORE_ALL
{
    folder_make();
}

static void read_file(const char *name, struct dt_buf *out)
{
    struct dt_err err;
    char path[512];
    snprintf(path, sizeof path, "%s/%s", DT_TOKENIZERS_DIR, name);
    CHECK_OK(dt_fs_read(path, FILE_MAX, out, &err), err);
}

static struct dt_tokenizer *tokenizer(const char *name)
{
    struct dt_err err = {0};
    struct dt_buf text = {0};
    char file[64];
    snprintf(file, sizeof file, "%s.json", name);
    read_file(file, &text);
    struct dt_tokenizer *t = dt_tokenizer_read((struct dt_bytes){text.at, text.len}, &err);
    CHECK_STR(err.text, "");
    CHECK(t != NULL);
    dt_buf_finish(&text);
    return t;
}

static void read_golden(void)
{
    struct dt_err err;
    struct dt_buf text = {0};
    read_file("golden.json", &text);
    CHECK_OK(dt_json_parse(&golden, (const char *)text.at, text.len, FILE_MAX, &err), err);
    dt_buf_finish(&text);
}

static void unhex(const char *hex, struct dt_buf *out)
{
    dt_buf_clear(out);
    for (; hex[0] && hex[1]; hex += 2) {
        const char digits[3] = {hex[0], hex[1], '\0'};
        dt_buf_put_u8(out, (uint8_t)strtoul(digits, NULL, 16));
    }
}

static int take(void *arg, const uint32_t *ids, size_t count, struct dt_err *err)
{
    (void)err;
    dt_ids_put(arg, ids, count);
    return 0;
}

/* The tokens of TEXT, given in parts of SLICE bytes. */
static void encode(const struct dt_tokenizer *t, int threads, struct dt_bytes text, size_t slice,
                   struct dt_ids *out)
{
    struct dt_err err;
    out->len = 0;
    struct dt_encoder *e = dt_encoder_create(t, threads, take, out, &err);
    CHECK(e != NULL);
    for (size_t i = 0, n; i < text.len; i += n) {
        n = text.len - i < slice ? text.len - i : slice;
        CHECK_OK(dt_encoder_put(e, (struct dt_bytes){text.at + i, n}, &err), err);
    }
    CHECK_OK(dt_encoder_end(e, DT_TOKEN_NONE, &err), err);
    CHECK_OK(dt_encoder_drain(e, &err), err);
    dt_encoder_destroy(e);
}

static void print_ids(struct dt_buf *out, const struct dt_ids *ids)
{
    dt_buf_clear(out);
    for (size_t i = 0; i < ids->len; i++)
        dt_buf_printf(out, "%s%u", i ? "," : "", ids->at[i]);
}

static void print_wanted(struct dt_buf *out, const struct cJSON *list)
{
    dt_buf_clear(out);
    for (const struct cJSON *id = dt_json_first(list); id; id = dt_json_next(id))
        dt_buf_printf(out, "%s%d", id == list->child ? "" : ",", id->valueint);
}

/* TEXT in slices of any size is the same, as what is final does not depend on them. */
static void check_text(const struct dt_tokenizer *t, const char *name, const char *hex,
                       struct dt_bytes text, const struct cJSON *wanted)
{
    static const size_t slices[] = {SIZE_MAX, 1, 2, 3, 7};
    struct dt_ids ids = {0};
    struct dt_buf got = {0}, want = {0};
    print_wanted(&want, wanted);
    for (size_t i = 0; i < sizeof slices / sizeof *slices; i++) {
        CHECK_ROW("%s: text %.60s in slices of %zu", name, hex, slices[i]);
        encode(t, 0, text, slices[i], &ids);
        print_ids(&got, &ids);
        CHECK_STR(dt_buf_cstr(&got), dt_buf_cstr(&want));
    }
    dt_ids_finish(&ids);
    dt_buf_finish(&got);
    dt_buf_finish(&want);
}

static void check_family(const char *name, const struct cJSON *table)
{
    struct dt_tokenizer *t = tokenizer(name);
    struct dt_buf text = {0};
    const struct cJSON *hex = dt_json_first(cJSON_GetObjectItem(golden.root, "texts"));
    const struct cJSON *ids = dt_json_first(cJSON_GetObjectItem(table, "ids"));
    for (; hex && ids; hex = dt_json_next(hex), ids = dt_json_next(ids)) {
        unhex(hex->valuestring, &text);
        check_text(t, name, hex->valuestring, (struct dt_bytes){text.at, text.len}, ids);
    }
    CHECK(!hex && !ids);
    dt_buf_finish(&text);
    dt_tokenizer_close(t);
}

TEST(tokens_are_those_of_the_library)
{
    int families = 0;
    read_golden();
    const struct cJSON *all = cJSON_GetObjectItem(golden.root, "tokenizers");
    for (const struct cJSON *table = all->child; table; table = table->next, families++)
        check_family(table->string, table);
    CHECK(families >= 20);
    dt_json_finish(&golden);
}

static void check_decoded(const struct dt_tokenizer *t, const char *name, const char *hex,
                          const struct cJSON *ids, const struct cJSON *wanted)
{
    struct dt_err err;
    struct dt_buf got = {0}, want = {0};
    struct dt_decoder *d = dt_decoder_create(t, &err);
    CHECK(d != NULL);
    for (const struct cJSON *id = dt_json_first(ids); id; id = dt_json_next(id))
        dt_decoder_put(d, (uint32_t)id->valueint, &got);
    dt_decoder_end(d, &got);
    unhex(cJSON_IsNull(wanted) ? hex : wanted->valuestring, &want);
    CHECK_ROW("%s: text %.60s", name, hex);
    CHECK_BYTES(got.at, got.len, want.at, want.len);
    dt_decoder_destroy(d);
    dt_buf_finish(&got);
    dt_buf_finish(&want);
}

TEST(texts_of_tokens_are_those_of_the_library)
{
    read_golden();
    const struct cJSON *all = cJSON_GetObjectItem(golden.root, "tokenizers");
    for (const struct cJSON *table = all->child; table; table = table->next) {
        struct dt_tokenizer *t = tokenizer(table->string);
        const struct cJSON *hex = dt_json_first(cJSON_GetObjectItem(golden.root, "texts"));
        const struct cJSON *ids = dt_json_first(cJSON_GetObjectItem(table, "ids"));
        const struct cJSON *text = dt_json_first(cJSON_GetObjectItem(table, "decoded"));
        for (; hex; hex = hex->next, ids = ids->next, text = text->next)
            check_decoded(t, table->string, hex->valuestring, ids, text);
        dt_tokenizer_close(t);
    }
    dt_json_finish(&golden);
}

/* What all texts look like behind one another, often enough that it fills many blocks. */
static void put_all_texts(struct dt_buf *out)
{
    struct dt_buf one = {0};
    read_golden();
    for (int i = 0; i < 100; i++)
        for (const struct cJSON *hex = dt_json_first(cJSON_GetObjectItem(golden.root, "texts"));
             hex; hex = dt_json_next(hex)) {
            unhex(hex->valuestring, &one);
            dt_buf_put(out, one.at, one.len);
        }
    dt_json_finish(&golden);
    dt_buf_finish(&one);
}

TEST(threads_make_the_same_tokens)
{
    static const char *const names[] = {"llama3", "qwen2", "llama2"};
    struct dt_buf text = {0};
    struct dt_ids alone = {0}, together = {0};
    put_all_texts(&text);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct dt_tokenizer *t = tokenizer(names[i]);
        CHECK_ROW("%s", names[i]);
        encode(t, 0, (struct dt_bytes){text.at, text.len}, SIZE_MAX, &alone);
        encode(t, 3, (struct dt_bytes){text.at, text.len}, 4099, &together);
        CHECK_BYTES(alone.at, alone.len * sizeof *alone.at, together.at,
                    together.len * sizeof *together.at);
        dt_tokenizer_close(t);
    }
    dt_ids_finish(&alone);
    dt_ids_finish(&together);
    dt_buf_finish(&text);
}

/* Runs that are longer than what a stage looks at with each part. */
static void put_long_runs(struct dt_buf *out)
{
    static const char *const runs[] = {"a",  " ", "<mask>", "1", "\xcc\x81",
                                       "\n", " ", "<mask>", " "};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        for (int k = 0; k < (runs[i][0] == '<' ? 1 : 1500); k++)
            dt_buf_put_str(out, runs[i]);
}

TEST(long_runs_may_be_cut_anywhere)
{
    static const char *const names[] = {"llama3", "qwen2", "llama2", "gemma", "prefix"};
    static const size_t slices[] = {1, 100, 257, 513};
    struct dt_buf text = {0};
    struct dt_ids whole = {0}, sliced = {0};
    put_long_runs(&text);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct dt_tokenizer *t = tokenizer(names[i]);
        encode(t, 0, (struct dt_bytes){text.at, text.len}, SIZE_MAX, &whole);
        for (size_t k = 0; k < sizeof slices / sizeof *slices; k++) {
            CHECK_ROW("%s in slices of %zu", names[i], slices[k]);
            encode(t, 0, (struct dt_bytes){text.at, text.len}, slices[k], &sliced);
            CHECK_BYTES(sliced.at, sliced.len * sizeof *sliced.at, whole.at,
                        whole.len * sizeof *whole.at);
        }
        dt_tokenizer_close(t);
    }
    dt_ids_finish(&whole);
    dt_ids_finish(&sliced);
    dt_buf_finish(&text);
}

static void ignore(struct dt_stage *stage, struct dt_bytes part, bool end)
{
    (void)stage, (void)part, (void)end;
}

/* A stage of STEP gets pairs of bytes that it holds back, four KiB with each part. */
static void check_held(struct dt_step step, const char *two_bytes)
{
    struct dt_err err;
    char part[4097] = "";
    struct dt_flow flow = {.piece_max = (size_t)1 << 20};
    struct dt_stage last = {.push = ignore}, *stage = dt_stage_create(&step, &err);
    CHECK_ROW("%s", two_bytes);
    CHECK(stage != NULL);
    stage->flow = &flow;
    stage->next = &last;
    for (size_t i = 0; i < sizeof part - 1; i++)
        part[i] = two_bytes[i % 2];
    for (int i = 0; i < 256; i++)
        stage->push(stage, dt_bytes_of(part), false);
    CHECK_STR(flow.err.text, "");
    stage->push(stage, dt_bytes_of(part), false);
    CHECK_EQ(flow.err.code, DT_E_LIMIT);
    CHECK_STR(flow.err.text,
              "more than 1 MiB of text in which this tokenizer finds no place to cut");
    stage->destroy(stage);
    dt_step_finish(&step);
}

TEST(stages_hold_back_no_more_than_a_word_may_have)
{
    struct dt_err err;
    struct dt_added *added = dt_added_create(&err);
    CHECK_OK(
        dt_added_put(added, dt_bytes_of("x"), (struct dt_added_token){.eats_before = true}, &err),
        err);
    check_held((struct dt_step){.kind = DT_STEP_ADDED, .added = added}, "  ");
    check_held((struct dt_step){.kind = DT_STEP_SPLIT, .pattern = dt_pattern_regex("a+", &err)},
               "aa");
    check_held((struct dt_step){.kind = DT_STEP_NFC}, "\xcc\x81");
}

/* A part may have one letter alone. */
TEST(a_letter_is_final_when_the_next_one_comes)
{
    struct dt_err err;
    const struct dt_step nfc = {.kind = DT_STEP_NFC};
    struct dt_flow flow = {.piece_max = 2};
    struct dt_stage last = {.push = ignore}, *stage = dt_stage_create(&nfc, &err);
    stage->flow = &flow;
    stage->next = &last;
    for (const char *at = "abc"; *at; at++)
        stage->push(stage, (struct dt_bytes){(const uint8_t *)at, 1}, false);
    CHECK_STR(flow.err.text, "");
    stage->destroy(stage);
}

/* A tokenizer with PARTS in place of its own. */
static const char *with_parts(const char *parts, const char *model)
{
    static char text[2048];
    snprintf(text, sizeof text, "{\"version\": \"1.0\", %s%s\"model\": {\"type\": \"BPE\", %s}}",
             parts, *parts ? ", " : "", model);
    return text;
}

#define VOCAB "\"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, \"merges\": [\"a b\"]"
#define GAP "\"vocab\": {\"a\": 0, \"b\": 3}, \"merges\": []"
#define PATTERN(regex)                                                                             \
    "\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"" regex "\"}, "           \
    "\"behavior\": \"Isolated\", \"invert\": false}"
#define METASPACE(mark)                                                                            \
    "\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"" mark "\"}"
#define EIGHT(text) text text text text text text text text
#define SINGLE(parts)                                                                              \
    "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [" parts "]"
#define TEMPLATE(ids)                                                                              \
    SINGLE("{\"SpecialToken\": {\"id\": \"s\"}}, {\"Sequence\": {}}")                              \
    ", \"special_tokens\": {\"s\": {\"ids\": [" ids "]}}}"
#define TIMES_16                                                                                   \
    "{\"type\": \"Replace\", \"pattern\": {\"String\": \"0\"}, \"content\": \"0000000000000000\"}"
#define TIMES_65536 TIMES_16 ", " TIMES_16 ", " TIMES_16 ", " TIMES_16
#define DECODERS(list) "\"decoder\": {\"type\": \"Sequence\", \"decoders\": [" list "]}"
#define NORMALIZERS(list) "\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [" list "]}"

TEST(what_would_change_tokens_is_refused_by_name)
{
    static const struct {
        const char *parts, *model, *words;
    } rows[] = {
        {"", "\"vocab\": {\"a\": 0}, \"merges\": [\"a b\"]", "\"b\" is not in the vocabulary"},
        {"", "\"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": [\"a b\"]", "\"ab\" is not in the"},
        {"", "\"vocab\": {\"a\": 0}, \"merges\": [\"a b c\"]", "model.merges[0]: a merge is"},
        {"", "\"vocab\": {\"a\": 0}, \"merges\": [[\"a\"]]", "a merge is"},
        {"", "\"vocab\": {\"a\": -1}, \"merges\": []", "model.vocab.a: a token's id"},
        {"", "\"vocab\": {\"a\": 1e9}, \"merges\": []", "a token's id is a whole number"},
        {"", "\"vocab\": {\"a\": 1, \"b\": 1}, \"merges\": []", "another token has the id 1"},
        {"", "\"vocab\": []", "model.vocab: expected an object"},
        {"", VOCAB ", \"dropout\": 0.1", "a matter of chance"},
        {"", VOCAB ", \"end_of_word_suffix\": \"</w>\"", "only models without one"},
        {"", VOCAB ", \"unk_token\": \"x\"", "\"x\" is not in the vocabulary"},
        {"\"normalizer\": {\"type\": \"Lowercase\"}", VOCAB, "\"Lowercase\" is not known"},
        {"\"pre_tokenizer\": {\"type\": \"Whitespace\"}", VOCAB, "\"Whitespace\" is not known"},
        {METASPACE(""), VOCAB, "its replacement is not one character"},
        {METASPACE("__"), VOCAB, "its replacement is not one character"},
        {METASPACE("\xe2\x96\x81_"), VOCAB, "its replacement is not one character"},
        {"\"decoder\": {\"type\": \"WordPiece\"}", VOCAB, "\"WordPiece\" is not known"},
        {DECODERS(TIMES_65536), VOCAB,
         "decoders[3]: the decoder makes more than 4096 bytes of one"},
        {"\"post_processor\": {\"type\": \"BertProcessing\"}", VOCAB, "\"BertProcessing\""},
        {TEMPLATE("1.5"), VOCAB, "special_tokens.s.ids[0]: it is no token"},
        {TEMPLATE("0, 2"), GAP, "special_tokens.s.ids[1]: it is no token"},
        {TEMPLATE("-1"), VOCAB, "it is no token"},
        {TEMPLATE("3"), VOCAB, "it is no token"},
        {TEMPLATE("1e300"), VOCAB, "it is no token"},
        {TEMPLATE(EIGHT(EIGHT("0, ")) "0"), VOCAB, "more than 64 tokens around a text"},
        {SINGLE(EIGHT(EIGHT("{}, ")) "{}") "}", VOCAB, "post_processor.single: more than 64 parts"},
        {"\"added_tokens\": [{\"content\": \"x\", \"single_word\": true}]", VOCAB, "single_word"},
        {PATTERN("\\\\h+"), VOCAB, "its pattern has \"\\h\""},
        {PATTERN("[a&&b]"), VOCAB, "its pattern has \"&&\""},
        {PATTERN("(?<=a)b"), VOCAB, "its pattern has \"(?<\""},
        {PATTERN("a{2}+"), VOCAB, "its pattern has \"}+\""},
        {PATTERN("a{2}?"), VOCAB, "its pattern has \"}?\""},
        {PATTERN("a*"), VOCAB, "matches where nothing is"},
        {PATTERN("(a"), VOCAB, "its pattern cannot be read"},
        {PATTERN("\\\\p{Greek}"), VOCAB, "its pattern has \"\\p{Greek}\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_err err = {0};
        const char *text = with_parts(rows[i].parts, rows[i].model);
        CHECK_ROW("%s", text);
        CHECK(dt_tokenizer_read(dt_bytes_of(text), &err) == NULL);
        if (!strstr(err.text, rows[i].words))
            CHECK_STR(err.text, rows[i].words);
    }
}

/* COUNT added tokens of LEN zeros, and NORMALIZERS. */
static void check_too_much(int count, int len, const char *normalizers, const char *words)
{
    struct dt_err err = {0};
    struct dt_buf text = {0};
    dt_buf_printf(&text, "{\"version\": \"1.0\", %s, \"added_tokens\": [", normalizers);
    for (int i = 0; i < count; i++)
        dt_buf_printf(&text, "%s{\"normalized\": true, \"content\": \"%0*d\"}", i ? ", " : "", len,
                      0);
    dt_buf_put_str(&text, "], \"model\": {\"type\": \"BPE\", " VOCAB "}}");
    CHECK(dt_tokenizer_read((struct dt_bytes){text.at, text.len}, &err) == NULL);
    CHECK_STR(err.text, words);
    dt_buf_finish(&text);
}

TEST(added_tokens_have_limits)
{
    check_too_much(1, 65537, NORMALIZERS(""), "added_tokens[0]: a token of more than 65536 bytes");
    check_too_much(1, 1, NORMALIZERS(TIMES_65536 ", " TIMES_16),
                   "added_tokens[0]: the normalizer makes more than 65536 bytes of it");
    check_too_much(257, 1, NORMALIZERS(TIMES_65536),
                   "added_tokens[256]: added tokens of more than 16 MiB");
}

TEST(few_bytes_do_not_become_words_without_end)
{
    struct dt_err err = {0};
    struct dt_ids ids = {0};
    const char *text = with_parts(NORMALIZERS(TIMES_65536 ", " TIMES_65536), VOCAB);
    struct dt_tokenizer *t = dt_tokenizer_read(dt_bytes_of(text), &err);
    struct dt_encoder *e = dt_encoder_create(t, 0, take, &ids, &err);
    CHECK_EQ(dt_encoder_put(e, dt_bytes_of("00"), &err), -1);
    CHECK_STR(err.text, "this tokenizer makes more than 4096 bytes of each one of the text");
    dt_encoder_destroy(e);
    dt_tokenizer_close(t);
    dt_ids_finish(&ids);
}

/* The library drops characters that are no tokens where there is no unk_token. */
TEST(a_model_may_say_nothing_but_its_merges)
{
    struct dt_err err;
    struct dt_ids ids = {0};
    struct dt_tokenizer *t = dt_tokenizer_read(dt_bytes_of(with_parts("", VOCAB)), &err);
    CHECK(t != NULL);
    encode(t, 0, dt_bytes_of("abxaab"), SIZE_MAX, &ids);
    static const uint32_t want[] = {2, 0, 2};
    CHECK_BYTES(ids.at, ids.len * sizeof *ids.at, want, sizeof want);
    CHECK_EQ(dt_tokenizer_vocabulary(t), 3);
    dt_ids_finish(&ids);
    dt_tokenizer_close(t);
}

/* A few huge words at once, each in its own thread, would take all memory. */
TEST(a_huge_word_is_encoded_before_others_come)
{
    struct dt_err err;
    struct dt_buf text = {0};
    struct dt_ids ids = {0};
    struct dt_tokenizer *t = dt_tokenizer_read(dt_bytes_of(with_parts("", VOCAB)), &err);
    struct dt_encoder *e = dt_encoder_create(t, 3, take, &ids, &err);
    for (int i = 0; i < 5 << 20; i++)
        dt_buf_put_u8(&text, 'a');
    for (size_t words = 1; words <= 2; words++) {
        CHECK_OK(dt_encoder_put(e, (struct dt_bytes){text.at, text.len}, &err), err);
        CHECK_OK(dt_encoder_end(e, 1, &err), err);
        CHECK_EQ(ids.len, words * text.len + words - 1); /* what ends the last one waits */
    }
    CHECK_OK(dt_encoder_drain(e, &err), err);
    CHECK_EQ(ids.len, 2 * text.len + 2);
    dt_encoder_destroy(e);
    dt_tokenizer_close(t);
    dt_ids_finish(&ids);
    dt_buf_finish(&text);
}

static void write_file(const char *name, const char *text)
{
    struct dt_err err;
    CHECK_OK(dt_fs_replace(at(name), text, strlen(text), 0644, &err), err);
}

TEST(the_folder_names_the_end_of_a_document)
{
    static const struct {
        const char *file, *text;
        uint32_t end; /* DT_TOKEN_NONE: an error */
    } rows[] = {
        {"special_tokens_map.json", "{\"eos_token\": {\"content\": \"b\"}}", 1},
        {"tokenizer_config.json", "{\"eos_token\": \"ab\"}", 2},
        {"tokenizer_config.json", "{\"eos_token\": \"none\"}", DT_TOKEN_NONE},
        {"tokenizer.json", "version https://git-lfs.github.com/spec/v1\n", DT_TOKEN_NONE},
    };
    write_file("tokenizer.json", with_parts("", VOCAB));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_err err = {0};
        write_file(rows[i].file, rows[i].text);
        struct dt_tokenizer *t = dt_tokenizer_open(dir, &err);
        CHECK_ROW("%s: %s", rows[i].file, rows[i].text);
        CHECK_EQ(t ? dt_tokenizer_end(t) : DT_TOKEN_NONE, rows[i].end);
        if (!t)
            CHECK(strstr(err.text, i == 2 ? "eos_token: \"none\" is no token" : "git-lfs") != NULL);
        dt_tokenizer_close(t);
    }
}

TEST(an_added_token_may_stand_behind_the_words_of_the_model)
{
    static const struct {
        const char *config;
        uint32_t vocabulary;
    } rows[] = {
        {"{\"vocab_size\": 3}", 3}, {"{\"vocab_size\": 4}", 4},  {"{\"vocab_size\": 9}", 4},
        {"{\"vocab_size\": 2}", 4}, {"{\"vocab_size\": -1}", 4}, {"no JSON", 4},
    };
    write_file("tokenizer_config.json", "{}");
    write_file("tokenizer.json", with_parts("\"added_tokens\": [{\"content\": \"<x>\"}]", VOCAB));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_err err = {0};
        write_file("config.json", rows[i].config);
        struct dt_tokenizer *t = dt_tokenizer_open(dir, &err);
        CHECK_ROW("%s", rows[i].config);
        CHECK_EQ(dt_tokenizer_vocabulary(t), rows[i].vocabulary);
        dt_tokenizer_close(t);
    }
}

/* Each added token here is looked for as what the normalizer makes of it, and keeps its name. */
#define CHANGED                                                                                    \
    "\"normalizer\": {\"type\": \"Prepend\", \"prepend\": \"_\"}, \"added_tokens\": ["             \
    "{\"content\": \"x\", \"normalized\": true}, {\"content\": \"x\", \"normalized\": true}, "     \
    "{\"content\": \"_x\", \"normalized\": true}]"

TEST(a_name_of_the_hub_is_no_folder)
{
    struct dt_err err;
    CHECK(!dt_tokenizer_open("Qwen/Qwen3-0.6B", &err));
    CHECK(strstr(err.text, "there is no folder Qwen/Qwen3-0.6B; nothing is downloaded here"));
    CHECK(!dt_tokenizer_open("nowhere", &err));
    CHECK_STR(err.text, "there is no folder nowhere");
    CHECK(!dt_tokenizer_open(".", &err));
    CHECK(strstr(err.text, ". has no tokenizer.json; copy that of the model that it comes from"));
}

TEST(a_token_that_the_normalizer_changes_keeps_its_name)
{
    static const struct {
        const char *text, *shown;
        uint32_t id;
    } rows[] = {{"x", "_x", 3}, {"_x", "__x", 4}};
    struct dt_err err = {0};
    write_file("tokenizer.json", with_parts(CHANGED, VOCAB));
    write_file("tokenizer_config.json", "{\"eos_token\": \"x\"}");
    struct dt_tokenizer *t = dt_tokenizer_open(dir, &err);
    CHECK_STR(err.text, "");
    CHECK_EQ(dt_tokenizer_end(t), 3);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_ids ids = {0};
        struct dt_buf shown = {0};
        struct dt_decoder *d = dt_decoder_create(t, &err);
        CHECK_ROW("%s", rows[i].text);
        encode(t, 0, dt_bytes_of(rows[i].text), SIZE_MAX, &ids);
        CHECK_BYTES(ids.at, ids.len * sizeof *ids.at, &rows[i].id, sizeof rows[i].id);
        dt_decoder_put(d, rows[i].id, &shown);
        CHECK_STR(dt_buf_cstr(&shown), rows[i].shown);
        dt_decoder_destroy(d);
        dt_ids_finish(&ids);
        dt_buf_finish(&shown);
    }
    dt_tokenizer_close(t);
}

TEST(white_space_is_trimmed_and_bytes_that_are_no_character_are_not)
{
    static const struct {
        const char *text;
        size_t left;
    } rows[] = {
        {"", 0},
        {"a \t\n", 1},
        {" \xc2\xa0\xe3\x80\x80", 0},
        {"b\xa0", 2}, /* of Latin-1 */
        {"a\xc0\xa0", 3},
        {"\x80\x80 ", 2},
        {"a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80"
         "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80",
         41},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("row %zu", i);
        CHECK_EQ(dt_added_trim_end(dt_bytes_of(rows[i].text)).len, rows[i].left);
    }
}
