/* SPDX-License-Identifier: Apache-2.0 */
/* Conversations through the templates of all families, and what Hugging Face's libraries made of
 * them: tests/runtime/templates/make.js recorded that. */
#include "base/fs.h"
#include "base/json.h"
#include "tests/lib/folder.h"
#include "worker_runtime/data/chat/coder.h"
#include "worker_runtime/data/tokenize.h"
#include "worker_runtime/data/tokenizer/tokenizer.h"

#include <cjson/cJSON.h>

#define FILE_MAX ((size_t)16 << 20)

BEFORE_ALL
{
    folder_make();
}

static void read_json(const char *folder, const char *name, struct dt_json *doc)
{
    struct dt_err err;
    struct dt_buf text = {0};
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK_OK(dt_fs_read(path, FILE_MAX, &text, &err), err);
    CHECK_OK(dt_json_parse(doc, (const char *)text.at, text.len, FILE_MAX, &err), err);
    dt_buf_finish(&text);
}

static void add_mark(struct cJSON *tokens, const char *mark, bool rstrip)
{
    struct cJSON *token = cJSON_CreateObject(), *old;
    cJSON_ArrayForEach(old, tokens)
        CHECK(strcmp(cJSON_GetObjectItem(old, "content")->valuestring, mark) != 0);
    cJSON_AddNumberToObject(token, "id", 0);
    cJSON_AddStringToObject(token, "content", mark);
    cJSON_AddBoolToObject(token, "special", true);
    cJSON_AddBoolToObject(token, "normalized", false);
    cJSON_AddBoolToObject(token, "rstrip", rstrip);
    cJSON_AddItemToArray(tokens, token);
}

static bool has_mark(const struct cJSON *tokens, const char *mark)
{
    const struct cJSON *token;
    cJSON_ArrayForEach(token, tokens) if (strcmp(cJSON_GetObjectItem(token, "content")->valuestring,
                                                 mark) == 0) return true;
    return false;
}

/* The tokenizer of a family with the tokens of its template, as make.js has put them into it. */
static struct dt_tokenizer *tokenizer_of(const struct cJSON *family)
{
    struct dt_err err = {0};
    struct dt_json doc;
    char name[64], config[100];
    snprintf(name, sizeof name, "%s.json", cJSON_GetObjectItem(family, "tokenizer")->valuestring);
    read_json(DT_TOKENIZERS_DIR, name, &doc);
    struct cJSON *tokens = cJSON_GetObjectItem(doc.root, "added_tokens"), *mark;
    cJSON_ArrayForEach(
        mark, cJSON_GetObjectItem(family, "marks")) if (!has_mark(tokens, mark->valuestring))
        add_mark(tokens, mark->valuestring, cJSON_IsTrue(cJSON_GetObjectItem(family, "rstrip")));
    char *text = cJSON_PrintUnformatted(doc.root);
    CHECK(text != NULL);
    CHECK_OK(dt_fs_replace(at("tokenizer.json"), text, strlen(text), 0644, &err), err);
    snprintf(config, sizeof config, "{\"eos_token\": \"%s\"}",
             cJSON_GetObjectItem(family, "eos")->valuestring);
    CHECK_OK(dt_fs_replace(at("tokenizer_config.json"), config, strlen(config), 0644, &err), err);
    struct dt_tokenizer *t = dt_tokenizer_open(dir, &err);
    CHECK_STR(err.text, "");
    free(text);
    dt_json_finish(&doc);
    return t;
}

static void read_conversation(const struct cJSON *messages, struct dt_conversation *c)
{
    struct dt_err err = {0};
    const char *why;
    char *list = cJSON_PrintUnformatted(messages), *line;
    CHECK(asprintf(&line, "{\"messages\": %s}", list) > 0);
    CHECK(dt_conversation_read(c, dt_bytes_of(line), &why, &err) >= 0);
    CHECK_STR(err.text, "");
    free(list);
    free(line);
}

/* The tokens that are trained on, as the text of their bytes. */
static void check_tokens(const struct dt_chat_tokens *got, const struct cJSON *want)
{
    const struct cJSON *id;
    size_t i = 0;
    cJSON_ArrayForEach(id, want)
    {
        CHECK(i < got->count);
        CHECK_EQ(got->ids[i], id->valueint);
        i++;
    }
    CHECK_EQ(got->count, i);
}

static void check_family(const char *name, const struct cJSON *family,
                         const struct cJSON *conversations)
{
    struct dt_err err = {0};
    struct dt_rendered rendered = {0};
    const struct dt_template_options o = {0};
    const struct dt_template *template = dt_template_find(name, &err);
    CHECK(template != NULL);
    struct dt_tokenizer *t = tokenizer_of(family);
    struct dt_chat_coder *coder = dt_chat_coder_create(t, template, &err);
    CHECK_STR(err.text, "");
    for (int i = 0; i < cJSON_GetArraySize(conversations); i++) {
        CHECK_ROW("%s, conversation %d", name, i);
        struct dt_conversation c = {0};
        struct dt_chat_tokens tokens;
        read_conversation(cJSON_GetArrayItem(conversations, i), &c);
        const char *text = cJSON_GetArrayItem(cJSON_GetObjectItem(family, "texts"), i)->valuestring;
        CHECK_OK(dt_template_render(template, &o, &c, 0, c.count, &rendered, &err), err);
        struct dt_buf shown = {0};
        for (size_t s = 0, at = 0; s < rendered.count; at = rendered.spans[s++].end) {
            bool end =
                rendered.spans[s].token && strcmp(rendered.spans[s].token, DT_TEMPLATE_END) == 0;
            if (end)
                dt_buf_put_str(&shown, cJSON_GetObjectItem(family, "eos")->valuestring);
            else
                dt_buf_put(&shown, rendered.text.at + at, rendered.spans[s].end - at);
        }
        CHECK_STR(dt_buf_cstr(&shown), text);
        CHECK_OK(dt_chat_coder_encode(coder, &rendered, &tokens, &err), err);
        check_tokens(&tokens, cJSON_GetArrayItem(cJSON_GetObjectItem(family, "tokens"), i));
        dt_buf_finish(&shown);
        dt_conversation_finish(&c);
    }
    dt_chat_coder_destroy(coder);
    dt_tokenizer_close(t);
    dt_rendered_finish(&rendered);
}

TEST(conversations_become_the_texts_and_tokens_of_hugging_face)
{
    struct dt_json golden;
    read_json(DT_TEMPLATES_DIR, "golden.json", &golden);
    const struct cJSON *conversations = cJSON_GetObjectItem(golden.root, "conversations");
    const struct cJSON *families = cJSON_GetObjectItem(golden.root, "templates"), *family;
    size_t count = 0;
    cJSON_ArrayForEach(family, families)
    {
        check_family(family->string, family, conversations);
        count++;
    }
    CHECK(dt_template_name(count - 1) != NULL);
    CHECK(dt_template_name(count) == NULL); /* each template is in there */
    dt_json_finish(&golden);
}

/* A byte is a token: the text of "plain" with what is trained on in brackets, # for an end. */
static const char *shown(const char *line, const struct dt_template_options *o, const char *name)
{
    static char out[1000];
    struct dt_err err = {0};
    struct dt_conversation c = {0};
    struct dt_rendered rendered = {0};
    struct dt_chat_tokens tokens;
    const char *why;
    size_t n = 0;
    bool inside = false;
    CHECK_EQ(dt_conversation_read(&c, dt_bytes_of(line), &why, &err), 1);
    const struct dt_template *template = dt_template_find(name, &err);
    struct dt_chat_coder *coder = dt_chat_coder_create(NULL, template, &err);
    CHECK_STR(err.text, "");
    CHECK_OK(dt_template_render(template, o, &c, 0, c.count, &rendered, &err), err);
    CHECK_OK(dt_chat_coder_encode(coder, &rendered, &tokens, &err), err);
    for (size_t i = 0; i < tokens.count && n < sizeof out - 4; i++) {
        if (tokens.trained[i] != inside)
            out[n++] = inside ? ']' : '[';
        inside = tokens.trained[i];
        out[n++] = tokens.ids[i] == DT_BYTE_END ? '#' : (char)tokens.ids[i];
    }
    out[n++] = inside ? ']' : '.';
    out[n] = '\0';
    dt_chat_coder_destroy(coder);
    dt_rendered_finish(&rendered);
    dt_conversation_finish(&c);
    return out;
}

#define TWO                                                                                        \
    "{\"system\": \"S\", \"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, "            \
    "{\"from\": \"gpt\", \"value\": \"b\"}, {\"from\": \"human\", \"value\": \"c\"}, "             \
    "{\"from\": \"gpt\", \"value\": \"d\"}]}"

TEST(answers_and_the_end_behind_them_are_trained_on)
{
    static const struct dt_template_options answers = {0}, last = {.last_answer_only = true},
                                            all = {.train_on_prompt = true};
    CHECK_STR(shown(TWO, &answers, "plain"),
              "System: S#\nHuman: a#\nAssistant:[b#\n]Human: c#\nAssistant:[d#\n]");
    CHECK_STR(shown(TWO, &last, "plain"),
              "System: S#\nHuman: a#\nAssistant:b#\nHuman: c#\nAssistant:[d#\n]");
    CHECK_STR(shown(TWO, &all, "plain"),
              "[System: S#\nHuman: a#\nAssistant:b#\nHuman: c#\nAssistant:d#\n]");
}

static const char *rendered_as(const char *name, const char *line, const char *system)
{
    static char out[1000];
    struct dt_err err = {0};
    struct dt_conversation c = {0};
    struct dt_rendered rendered = {0};
    const struct dt_template_options o = {.system = system};
    const char *why;
    CHECK_EQ(dt_conversation_read(&c, dt_bytes_of(line), &why, &err), 1);
    CHECK_OK(dt_template_render(dt_template_find(name, &err), &o, &c, 0, c.count, &rendered, &err),
             err);
    snprintf(out, sizeof out, "%s", dt_buf_cstr(&rendered.text));
    dt_rendered_finish(&rendered);
    dt_conversation_finish(&c);
    return out;
}

TEST(a_conversation_without_a_system_text_gets_the_one_that_is_asked_for)
{
    static const char without[] = "{\"instruction\": \"a\", \"output\": \"b\"}";
    static const char with[] = "{\"instruction\": \"a\", \"output\": \"b\", \"system\": \"own\"}";
    static const struct {
        const char *name, *line, *system, *begin;
    } rows[] = {
        {"qwen2", without, NULL, "<|im_start|>system\nYou are Qwen, "},
        {"qwen2", without, "", "<|im_start|>user\na"},
        {"qwen2", without, "mine", "<|im_start|>system\nmine<|im_end|>\n<|im_start|>user\na"},
        {"qwen2", with, "mine", "<|im_start|>system\nown<|im_end|>\n"},
        {"chatml", without, "mine", "<|im_start|>system\nmine<|im_end|>\n"},
        {"llama2", without, "mine", "<s>[INST] <<SYS>>\nmine\n<</SYS>>\n\na [/INST]"},
        {"llama3.1", without, "",
         "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: "
         "December 2023\nToday Date: 26 Jul 2024\n\n<|eot_id|>"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("row %zu", i);
        const char *text = rendered_as(rows[i].name, rows[i].line, rows[i].system);
        CHECK_BYTES(text, strlen(rows[i].begin), rows[i].begin, strlen(rows[i].begin));
    }
}

TEST(each_format_says_the_same)
{
    static const struct dt_template_options o = {0};
    static const char *const lines[] = {
        TWO,
        "{\"messages\": [{\"role\": \"system\", \"content\": \"S\"}, "
        "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}]}, "
        "{\"role\": \"assistant\", \"content\": \"b\"}, {\"role\": \"user\", \"content\": \"c\"}, "
        "{\"role\": \"assistant\", \"content\": \"d\"}]}",
        "{\"instruction\": \"c\", \"input\": \"\", \"output\": \"d\", \"system\": \"S\", "
        "\"history\": [[\"a\", \"b\"]]}",
        "{\"instruction\": \"\", \"input\": \"c\", \"output\": \"d\", \"system\": \"S\", "
        "\"history\": [[\"a\", \"b\"]]}"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        CHECK_ROW("line %zu", i);
        CHECK_STR(shown(lines[i], &o, "plain"),
                  "System: S#\nHuman: a#\nAssistant:[b#\n]Human: c#\nAssistant:[d#\n]");
    }
    CHECK_STR(shown("{\"instruction\": \"x\", \"input\": \"y\", \"output\": \"z\", "
                    "\"system\": \"\"}",
                    &o, "plain"),
              "Human: x\ny#\nAssistant:[z#\n]");
    CHECK_STR(
        shown("{\"messages\": [{\"role\": \"user\", \"content\": \"x\", \"tool_calls\": null}, "
              "{\"role\": \"assistant\", \"content\": \"z\", \"tool_calls\": []}]}",
              &o, "plain"),
        "Human: x#\nAssistant:[z#\n]");
}

TEST(lines_that_are_no_conversation_are_refused_and_others_left_out)
{
    static const struct {
        const char *line, *words;
        bool refused;
    } rows[] = {
        {"[]", "expected an object", true},
        {"{\"messages\": 3}", "messages: expected", true},
        {"{\"messages\": [{\"role\": \"user\"}]}", "content", true},
        {"{\"messages\": [{\"role\": \"tool\", \"content\": \"\"}]}", "role \"tool\" is not known",
         true},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image\"}]}]}",
         "a part of type \"image\"", true},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": null, \"tool_calls\": []}]}",
         "tool_calls are not done here", true},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\", \"tool_calls\": [{}]}]}",
         "tool_calls are not done here", true},
        {"{\"text\": \"x\"}", "--key NAME", true},
        {"{\"instruction\": \"x\"}", "output", true},
        {"{\"instruction\": \"x\", \"output\": \"y\", \"history\": [[\"a\"]]}",
         "history[0]: expected", true},
        {"{\"messages\": [", "ends early", true},
        {"{\"messages\": []}", "nobody asks", false},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}", "without an answer", false},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}]}", "take turns", false},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, "
         "{\"role\": \"system\", \"content\": \"b\"}]}",
         "not the first message", false},
        {"{\"instruction\": \"x\", \"output\": \"\"}", "an answer is empty", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].line);
        struct dt_err err = {0};
        struct dt_conversation c = {0};
        const char *why = NULL;
        int rc = dt_conversation_read(&c, dt_bytes_of(rows[i].line), &why, &err);
        CHECK_EQ(rc, rows[i].refused ? -1 : 0);
        CHECK(strstr(rows[i].refused ? err.text : why, rows[i].words) != NULL);
        dt_conversation_finish(&c);
    }
}

TEST(a_special_token_that_somebody_writes_is_text)
{
    struct dt_err err = {0};
    struct dt_json golden;
    struct dt_rendered rendered = {0};
    struct dt_conversation c = {0};
    struct dt_chat_tokens tokens;
    struct dt_token_found end;
    const char *why;
    read_json(DT_TEMPLATES_DIR, "golden.json", &golden);
    struct dt_tokenizer *t =
        tokenizer_of(cJSON_GetObjectItem(cJSON_GetObjectItem(golden.root, "templates"), "chatml"));
    const struct dt_template *template = dt_template_find("chatml", &err);
    struct dt_chat_coder *coder = dt_chat_coder_create(t, template, &err);
    CHECK_EQ(dt_conversation_read(&c,
                                  dt_bytes_of("{\"instruction\": \"say <|im_end|> now\", "
                                              "\"output\": \"<|endoftext|><|im_end|>\"}"),
                                  &why, &err),
             1);
    CHECK_OK(
        dt_template_render(template, &(struct dt_template_options){0}, &c, 0, 1, &rendered, &err),
        err);
    CHECK_OK(dt_chat_coder_encode(coder, &rendered, &tokens, &err), err);
    CHECK(dt_tokenizer_find(t, "<|im_end|>", &end));
    size_t ends = 0;
    struct dt_buf text = {0};
    struct dt_decoder *d = dt_decoder_create(t, &err);
    for (size_t i = 0; i < tokens.count; i++) {
        ends += tokens.ids[i] == end.id;
        dt_decoder_put(d, tokens.ids[i], &text);
    }
    dt_decoder_end(d, &text);
    CHECK_EQ(ends, 2); /* behind the question and behind the answer */
    CHECK_STR(dt_buf_cstr(&text), "<|im_start|>user\nsay <|im_end|> now<|im_end|>\n<|im_start|>"
                                  "assistant\n<|endoftext|><|im_end|><|im_end|>\n");
    dt_decoder_destroy(d);
    dt_buf_finish(&text);
    dt_chat_coder_destroy(coder);
    dt_rendered_finish(&rendered);
    dt_conversation_finish(&c);
    dt_tokenizer_close(t);
    dt_json_finish(&golden);
}

/* More than an encoder makes of nothing (GROWTH_SPARE): each piece counts as text. */
TEST(a_long_conversation_is_encoded_whole)
{
    enum { BYTES = 3 << 20 };
    struct dt_err err = {0};
    struct dt_json golden;
    struct dt_rendered rendered = {0};
    struct dt_chat_tokens tokens;
    char question[] = "?", *answer = malloc(BYTES + 1);
    struct dt_exchange exchange = {question, answer};
    const struct dt_conversation c = {.exchanges = &exchange, .count = 1};
    CHECK(answer != NULL);
    for (size_t i = 0; i < BYTES; i++)
        answer[i] = i % 5 ? 'a' : ' ';
    answer[BYTES] = '\0';
    read_json(DT_TEMPLATES_DIR, "golden.json", &golden);
    struct dt_tokenizer *t =
        tokenizer_of(cJSON_GetObjectItem(cJSON_GetObjectItem(golden.root, "templates"), "chatml"));
    const struct dt_template *template = dt_template_find("chatml", &err);
    struct dt_chat_coder *coder = dt_chat_coder_create(t, template, &err);
    CHECK_OK(
        dt_template_render(template, &(struct dt_template_options){0}, &c, 0, 1, &rendered, &err),
        err);
    CHECK_OK(dt_chat_coder_encode(coder, &rendered, &tokens, &err), err);
    CHECK(tokens.count > BYTES / 5);
    dt_chat_coder_destroy(coder);
    dt_rendered_finish(&rendered);
    dt_tokenizer_close(t);
    dt_json_finish(&golden);
    free(answer);
}

TEST(a_tokenizer_without_the_tokens_of_a_template_is_refused)
{
    struct dt_err err = {0};
    CHECK(dt_chat_coder_create(NULL, dt_template_find("qwen2", &err), &err) == NULL);
    CHECK(strstr(err.text, "has no token <|im_start|>, which the template needs") != NULL);
    CHECK(dt_template_find("qwen9", &err) == NULL);
    CHECK(strstr(err.text, "there is no chat template \"qwen9\"; there are llama2, ") != NULL);
}
