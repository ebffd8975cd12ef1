/* SPDX-License-Identifier: Apache-2.0 */
/* A model that was made by hand: behind each byte it knows one that follows, whatever stood before,
 * so that its texts are known. */
#include "tests/runtime/saved_models.h"
#include "worker_runtime/data/tokenize.h"
#include "worker_runtime/generate/command.h"

#define ROWS(t) (sizeof(t) / sizeof *(t))
#define WORDS DT_BYTE_VOCABULARY
#define POSITIONS 40

static const struct dt_shape shape = {.family = DT_LLAMA,
                                      .layers = 1,
                                      .heads = 2,
                                      .kv_heads = 1,
                                      .width = WORDS,
                                      .head_dim = 4,
                                      .inner = 8,
                                      .positions = POSITIONS,
                                      .vocabulary = WORDS,
                                      .norm_eps = 1e-6f,
                                      .rope_theta = 10000,
                                      .init_std = 0.02f,
                                      .eos = {1, {DT_BYTE_END}}};

/* The alphabet, at whose end is the end; digits, which begin again; an escape and what it asks for;
 * a letter of two bytes. */
static int follower_of(int word)
{
    static const struct {
        const char *from, *to;
    } rows[] = {{"z", ""},     {"9", "0"},       {"\x1b", "["}, {"[", "2"},
                {"X", "\xc3"}, {"\xc3", "\xbc"}, {"\xbc", "X"}};
    for (size_t i = 0; i < ROWS(rows); i++)
        if (word == (uint8_t)*rows[i].from)
            return *rows[i].to ? (uint8_t)*rows[i].to : DT_BYTE_END;
    return word == DT_BYTE_END ? 'a' : word + 1 < WORDS ? word + 1 : 0;
}

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

/* The stream is the embedding, as its blocks add nothing: one place for each word. */
static float value_of(const struct dt_tensor *t, size_t i)
{
    int row = (int)(i / WORDS), column = (int)(i % WORDS);
    if (ends_in(t->name, "embed_tokens.weight"))
        return row == column ? 1.0f : 0.0f;
    if (ends_in(t->name, "lm_head.weight"))
        return row == follower_of(column) ? 1.0f : 0.0f;
    return ends_in(t->name, "norm.weight") ? 1.0f : 0.0f;
}

static const char *model;

BEFORE_ALL
{
    static char folder[600];
    folder_make();
    snprintf(folder, sizeof folder, "%s", at("model"));
    model = folder;
}

struct row {
    const char *prompt;
    size_t most;
    const char *stops[2];
    bool visible;
    const char *text;
    enum dt_generation_end end;
};

static struct dt_generation_options options_of(const struct row *r)
{
    return (struct dt_generation_options){.model = model,
                                          .prompt = dt_bytes_of(r->prompt),
                                          .max_tokens = r->most,
                                          .sampling = {.top_p = 1},
                                          .stops = {r->stops, r->stops[0] != NULL},
                                          .visible = r->visible};
}

static void check_text(const struct row *r, struct dt_device *device)
{
    struct dt_generation_options o = options_of(r);
    struct dt_err err = {0};
    struct dt_buf out = {0};
    enum dt_generation_end end = DT_GENERATION_GOES_ON;
    struct dt_generation *g = dt_generation_open(&o, device, NULL, &err);
    CHECK_OK(g ? 0 : -1, err);
    while (end == DT_GENERATION_GOES_ON)
        CHECK_OK(dt_generation_next(g, &out, &end, &err), err);
    CHECK_STR(dt_buf_cstr(&out), r->text);
    CHECK_EQ(end, r->end);
    dt_generation_close(g);
    dt_buf_finish(&out);
}

TEST(a_text_goes_on_until_it_ends)
{
    static const struct row rows[] = {
        {"u", 99, {NULL}, false, "vwxyz", DT_GENERATION_END_TOKEN},
        {"u", 5, {NULL}, false, "vwxyz", DT_GENERATION_MAX_TOKENS},
        {"u", 3, {NULL}, false, "vwx", DT_GENERATION_MAX_TOKENS},
        {"y", 1, {NULL}, false, "z", DT_GENERATION_MAX_TOKENS},
        {"", 3, {NULL}, false, "abc", DT_GENERATION_MAX_TOKENS},
        {"here a", 99, {"gh"}, false, "bcdef", DT_GENERATION_STOP},
        {"7", 4, {"xy"}, false, "8901", DT_GENERATION_MAX_TOKENS},
        {"X", 5, {NULL}, false, "\xc3\xbcX\xc3\xbc", DT_GENERATION_MAX_TOKENS},
        {"X", 4, {NULL}, false, "\xc3\xbcX\xef\xbf\xbd", DT_GENERATION_MAX_TOKENS},
        {"\x1a", 3, {NULL}, true, "\\x1b[2", DT_GENERATION_MAX_TOKENS},
        {"0123456789012345678901234567890123456",
         99,
         {NULL},
         false,
         "7890",
         DT_GENERATION_POSITIONS},
        {"012345678901234567890123456789012345678",
         99,
         {NULL},
         false,
         "90",
         DT_GENERATION_POSITIONS},
        {"0123456789012345678901234567890123456789",
         99,
         {NULL},
         false,
         "0",
         DT_GENERATION_POSITIONS},
    };
    struct dt_err err = {0};
    struct dt_device *device = dt_device_open_cpu(1, &err);
    CHECK(device != NULL);
    saved_make(model, &shape, DT_F32, value_of);
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("\"%s\", at most %zu", rows[i].prompt, rows[i].most);
        check_text(&rows[i], device);
    }
    dt_device_close(device);
}

TEST(what_cannot_be_gone_on_with_is_refused)
{
    const struct row too_long = {.prompt = "01234567890123456789012345678901234567890", .most = 1};
    struct dt_generation_options o = options_of(&too_long);
    struct dt_err err = {0};
    struct dt_device *device = dt_device_open_cpu(1, &err);
    CHECK(device != NULL);
    saved_make(model, &shape, DT_F32, value_of);
    CHECK(!dt_generation_open(&o, device, NULL, &err));
    CHECK_STR(err.text,
              "the prompt has 41 tokens, and this model takes texts of at most 40; give a "
              "shorter one");
    o.tokenizer = dir;
    CHECK(!dt_generation_open(&o, device, NULL, &err));
    CHECK(strstr(err.text, "tokenizer.json") != NULL);
    o = options_of(&(struct row){.prompt = "a", .most = 1});
    o.model = at("nowhere");
    CHECK(!dt_generation_open(&o, device, NULL, &err));
    CHECK(strstr(err.text, "nowhere: No such file") != NULL);
    dt_device_close(device);
}

TEST(a_prompt_loses_the_newline_at_its_end_and_no_other)
{
    static const struct {
        const char *file, *prompt;
    } rows[] = {{"", ""}, {"a", "a"}, {"a\n", "a"}, {"a\n\n", "a\n"}, {"\na\n", "\na"}};
    struct dt_err err = {0};
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct dt_buf out = {0};
        const char *path = at("prompt");
        CHECK_OK(dt_fs_replace(path, rows[i].file, strlen(rows[i].file), 0644, &err), err);
        CHECK_OK(dt_generate_read_prompt(path, &out, &err), err);
        CHECK_STR(dt_buf_cstr(&out), rows[i].prompt);
        dt_buf_finish(&out);
    }
    struct dt_buf none = {0};
    CHECK(dt_generate_read_prompt(at("no-prompt"), &none, &err) < 0);
    CHECK(strstr(err.text, "cannot open") != NULL);
}
