/* SPDX-License-Identifier: Apache-2.0 */
/* Conversations through the templates of all families, and what Hugging Face's libraries made of
 * them: tests/runtime/templates/make.js recorded that. */
#include "base/fs.h"
#include "base/json.h"
#include "tests/lib/folder.h"
#include "worker_runtime/data/chat/coder.h"
#include "worker_runtime/data/detokenize.h"
#include "worker_runtime/data/show.h"
#include "worker_runtime/data/tokenize.h"
#include "worker_runtime/data/tokenize_chats.h"
#include "worker_runtime/data/tokenizer/tokenizer.h"
#include "worker_runtime/data/tokens.h"

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

/* -- what the libraries made ------------------------------------------------------------------ */

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

/* -- what is trained on ----------------------------------------------------------------------- */

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

/* -- files ------------------------------------------------------------------------------------ */

static const char *lines_file(const char *name, const char *text)
{
    struct dt_err err;
    CHECK_OK(dt_fs_replace(at(name), text, strlen(text), 0644, &err), err);
    return at(name);
}

/* The documents of "out", a line each: the first tokens of those that are trained on in brackets.
 */
static const char *documents(void)
{
    static char out[2000];
    struct dt_err err;
    struct dt_buf file = {0};
    int32_t id;
    uint64_t begins[64];
    bool trained;
    size_t n = 0;
    CHECK_OK(dt_fs_read(at("out"), FILE_MAX, &file, &err), err);
    CHECK_OK(dt_tokens_check((struct dt_bytes){file.at, file.len}, 0, &err), err);
    dt_buf_finish(&file);
    struct dt_tokens *t = dt_tokens_open(at("out"), 0, 0, &err);
    CHECK_STR(t ? "" : err.text, "");
    size_t count = dt_tokens_documents(t), next = 0;
    CHECK(count <= 64);
    CHECK_OK(dt_tokens_begins(t, 0, count, begins, &err), err);
    for (size_t i = 0; i < dt_tokens_count(t) && n < sizeof out - 4; i++) {
        if (next < count && begins[next] == i) {
            out[n++] = '|';
            next++;
        }
        CHECK_OK(dt_tokens_read(t, i, 1, &id, &err), err);
        CHECK_OK(dt_tokens_trained(t, i, 1, &trained, &err), err);
        out[n++] = id == DT_BYTE_END ? '#' : id == '\n' ? '/' : (char)id;
        if (trained)
            out[n++] = '*';
    }
    out[n] = '\0';
    CHECK_EQ(next, count);
    dt_tokens_close(t);
    return out;
}

static struct dt_chat_counts tokenize(const struct dt_chat_options *o, const char *text)
{
    struct dt_err err = {0};
    struct dt_chat_counts counts;
    const char *file = lines_file("in.jsonl", text);
    CHECK_OK(dt_tokenize_chats(NULL, o, &file, 1, at("out"), &counts, &err), err);
    return counts;
}

TEST(a_file_keeps_its_documents_and_what_is_trained_on)
{
    struct dt_err err = {0};
    struct dt_chat_options o = {.template = dt_template_find("plain", &err)};
    struct dt_chat_counts n =
        tokenize(&o, "\xef\xbb\xbf{\"instruction\": \"a\", \"output\": \"bc\"}\r\n\n"
                     "{\"messages\": []}\n{\"instruction\": \"d\", \"output\": \"e\"}");
    CHECK_EQ(n.lines, 3);
    CHECK_EQ(n.documents, 2);
    CHECK_EQ(n.trained, 7);
    CHECK_EQ(n.unfit, 1);
    CHECK(strstr(n.first_unfit, "in.jsonl:3: nobody asks anything") != NULL);
    CHECK_STR(documents(), "|Human: a#/Assistant:b*c*#*/*|Human: d#/Assistant:e*#*/*");
}

#define THREE                                                                                      \
    "{\"instruction\": \"e\", \"output\": \"f\", \"history\": [[\"a\", \"b\"], [\"c\", \"d\"]]}\n"

/* An exchange has 23 tokens. */
TEST(a_conversation_that_is_too_long_loses_exchanges_and_never_an_end)
{
    struct dt_err err = {0};
    struct dt_chat_options o = {.template = dt_template_find("plain", &err), .max_tokens = 68};
    struct dt_chat_counts n = tokenize(&o, THREE);
    CHECK_EQ(n.cut, 1);
    CHECK_STR(documents(), "|Human: a#/Assistant:b*#*/*Human: c#/Assistant:d*#*/*");
    o.max_tokens = 45;
    tokenize(&o, THREE);
    CHECK_STR(documents(), "|Human: a#/Assistant:b*#*/*");
    o.trains.last_answer_only = true; /* of these the last one stays */
    tokenize(&o, THREE);
    CHECK_STR(documents(), "|Human: e#/Assistant:f*#*/*");
    o.max_tokens = 22;
    n = tokenize(&o, THREE "{\"instruction\": \"\", \"output\": \"x\"}");
    CHECK_EQ(n.too_long, 1);
    CHECK_STR(documents(), "|Human: #/Assistant:x*#*/*");
    const char *file = lines_file("in.jsonl", THREE);
    CHECK_FAIL(dt_tokenize_chats(NULL, &o, &file, 1, at("out"), &n, &err), err,
               "nothing is left to train on of 1 examples: 1 are longer than 22 tokens; try a ");
}

/* -- preferences ------------------------------------------------------------------------------ */

static struct dt_chat_options preferences(void)
{
    struct dt_err err = {0};
    return (struct dt_chat_options){.template = dt_template_find("plain", &err),
                                    .preferences = true,
                                    .trains.last_answer_only = true};
}

TEST(each_form_of_a_preference_says_the_same)
{
    static const char *const lines[] = {
        "{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"cd\"}",
        "{\"instruction\": \"a\", \"input\": \"\", \"chosen\": \"b\", \"rejected\": \"cd\"}",
        "{\"prompt\": [{\"role\": \"user\", \"content\": \"a\"}], "
        "\"chosen\": [{\"role\": \"assistant\", \"content\": \"b\"}], "
        "\"rejected\": [{\"role\": \"assistant\", \"content\": \"cd\"}]}",
        "{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}], "
        "\"chosen\": {\"from\": \"gpt\", \"value\": \"b\"}, "
        "\"rejected\": {\"from\": \"gpt\", \"value\": \"cd\"}}",
        "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], "
        "\"chosen\": {\"role\": \"assistant\", \"content\": \"b\"}, \"rejected\": \"cd\"}",
        "{\"chosen\": [{\"role\": \"user\", \"content\": \"a\"}, "
        "{\"role\": \"assistant\", \"content\": \"b\"}], "
        "\"rejected\": [{\"role\": \"user\", \"content\": \"a\"}, "
        "{\"role\": \"assistant\", \"content\": \"cd\"}], \"prompt\": \"a\"}",
    };
    struct dt_chat_options o = preferences();
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        CHECK_ROW("line %zu", i);
        struct dt_chat_counts n = tokenize(&o, lines[i]);
        CHECK_EQ(n.documents, 2);
        CHECK_EQ(n.trained, 7);
        CHECK_STR(documents(), "|Human: a#/Assistant:b*#*/*|Human: a#/Assistant:c*d*#*/*");
    }
}

TEST(what_stands_before_two_answers_is_their_prompt_and_is_not_trained_on)
{
    struct dt_chat_options o = preferences();
    tokenize(&o, "{\"system\": \"S\", \"instruction\": \"c\", \"history\": [[\"a\", \"b\"]], "
                 "\"chosen\": \"d\", \"rejected\": \"e\"}");
    CHECK_STR(documents(), "|System: S#/Human: a#/Assistant:b#/Human: c#/Assistant:d*#*/*"
                           "|System: S#/Human: a#/Assistant:b#/Human: c#/Assistant:e*#*/*");
    o.max_tokens = 60; /* both lose their first exchange */
    struct dt_chat_counts n =
        tokenize(&o, "{\"instruction\": \"c\", \"history\": [[\"a\", \"b\"]], "
                     "\"chosen\": \"d\", \"rejected\": \"eeeeeeeeeeeeeeeeeeeee\"}");
    CHECK_EQ(n.cut, 1);
    CHECK_STR(documents(), "|Human: c#/Assistant:d*#*/*|Human: c#/Assistant:"
                           "e*e*e*e*e*e*e*e*e*e*e*e*e*e*e*e*e*e*e*e*e*#*/*");
    o.max_tokens = 30;
    n = tokenize(&o, "{\"prompt\": \"c\", \"chosen\": \"dddddddddddd\", \"rejected\": \"e\"}\n"
                     "{\"prompt\": \"c\", \"chosen\": \"d\", \"rejected\": \"eeeeeeeeeeeee\"}\n"
                     "{\"prompt\": \"c\", \"chosen\": \"d\", \"rejected\": \"e\"}");
    CHECK_EQ(n.too_long, 2);
    CHECK_STR(documents(), "|Human: c#/Assistant:d*#*/*|Human: c#/Assistant:e*#*/*");
}

TEST(both_answers_go_to_validation_or_neither)
{
    struct dt_err err = {0};
    struct dt_chat_options o = preferences();
    struct dt_chat_counts n;
    char in[200], out[200];
    snprintf(out, sizeof out, "%s", at("out"));
    lines_file("in.jsonl", "{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"c\"}\n"
                           "{\"prompt\": \"d\", \"chosen\": \"e\", \"rejected\": \"f\"}\n");
    snprintf(in, sizeof in, "%s", at("in.jsonl"));
    const char *file = in;
    o.validation = out;
    o.share = 0.5;
    CHECK_OK(dt_tokenize_chats(NULL, &o, &file, 1, at("train"), &n, &err), err);
    CHECK_EQ(n.documents, 2);
    CHECK_EQ(n.validation_documents, 2);
    CHECK_STR(documents(), "|Human: d#/Assistant:e*#*/*|Human: d#/Assistant:f*#*/*");
}

TEST(lines_that_are_no_preference_are_refused_and_others_left_out)
{
    static const struct {
        const char *line, *words;
        bool refused;
    } rows[] = {
        {"[]", "expected an object", true},
        {"{\"prompt\": \"a\", \"chosen\": \"b\"}", "it has no rejected, so it is no preference",
         true},
        {"{\"prompt\": \"a\", \"rejected\": \"b\"}", "it has no chosen", true},
        {"{\"prompt\": \"a\", \"chosen\": null, \"rejected\": \"b\"}", "it has no chosen", true},
        {"{\"prompt\": 3, \"chosen\": \"b\", \"rejected\": \"c\"}", "prompt: expected", true},
        {"{\"prompt\": \"a\", \"chosen\": 3, \"rejected\": \"c\"}", "chosen: expected", true},
        {"{\"prompt\": \"a\", \"chosen\": {}, \"rejected\": \"c\"}", "role", true},
        {"{\"prompt\": \"a\", \"chosen\": [3], \"rejected\": \"c\"}", "chosen[0]", true},
        {"{\"prompt\": [3], \"chosen\": \"b\", \"rejected\": \"c\"}", "prompt[0]", true},
        {"{\"conversations\": {}, \"chosen\": \"b\", \"rejected\": \"c\"}",
         "conversations: expected", true},
        {"{\"chosen\": \"b\", \"rejected\": \"c\"}", "there is no prompt", false},
        {"{\"chosen\": [], \"rejected\": []}", "there is no prompt", false},
        {"{\"prompt\": [], \"chosen\": \"b\", \"rejected\": \"c\"}", "there is no prompt", false},
        {"{\"prompt\": \"a\", \"chosen\": \"\", \"rejected\": \"c\"}", "an answer is empty", false},
        {"{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"b\"}", "both answers are the same",
         false},
        {"{\"prompt\": \"a\", \"chosen\": {\"from\": \"human\", \"value\": \"b\"}, "
         "\"rejected\": \"c\"}",
         "take turns", false},
        {"{\"chosen\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
         "\"content\": \"b\"}], \"rejected\": [{\"role\": \"user\", \"content\": \"x\"}, "
         "{\"role\": \"assistant\", \"content\": \"c\"}]}",
         "to different prompts", false},
        {"{\"prompt\": \"x\", \"rejected\": \"c\", \"chosen\": [{\"role\": \"user\", "
         "\"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}]}",
         "does not begin with the prompt", false},
        {"{\"chosen\": [{\"role\": \"user\", \"content\": \"a\"}], "
         "\"rejected\": [{\"role\": \"user\", \"content\": \"a\"}]}",
         "ends without an answer", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].line);
        struct dt_err err = {0};
        struct dt_preference p = {0};
        const char *why = NULL;
        int rc = dt_preference_read(&p, dt_bytes_of(rows[i].line), &why, &err);
        CHECK_EQ(rc, rows[i].refused ? -1 : 0);
        CHECK(strstr(rows[i].refused ? err.text : why, rows[i].words) != NULL);
        dt_preference_finish(&p);
    }
}

TEST(a_text_under_a_key_is_trained_on_whole)
{
    struct dt_chat_options o = {.key = "text"};
    struct dt_chat_counts n = tokenize(&o, "{\"text\": \"abcd\"}\n{\"text\": \"\"}\n");
    CHECK_EQ(n.documents, 1);
    CHECK_EQ(n.unfit, 1);
    CHECK_STR(documents(), "|ab*c*d*#*");
    o.max_tokens = 2;
    n = tokenize(&o, "{\"text\": \"abcd\"}\n{\"text\": \"xyz\", \"other\": 1}\n");
    CHECK_EQ(n.cut, 2);
    CHECK_EQ(n.documents, 4); /* an end alone teaches nothing */
    CHECK_STR(documents(), "|ab*|cd*|xy*|z#*");
}

TEST(a_file_of_another_kind_is_told_what_it_has)
{
    static const struct {
        const char *file, *words;
    } rows[] = {
        {"{\"content\": \"a\", \"meta\": 1}\n",
         "in:1: there is no \"text\" in it; it has \"content\", \"meta\""},
        {"{}\n", "in:1: there is no \"text\" in it; it has nothing"},
        {"instruction,output\na,b\n", "in: it is no JSON Lines, where each line is an object"},
        {"  \xef\xbb\xbf{}\n", "in: it is no JSON Lines"},
        {"\xef\xbb\xbf {}\n", "it has nothing"},
        {"PAR1", "in: it is a Parquet file"},
    };
    const struct dt_chat_options o = {.key = "text"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_err err = {0};
        struct dt_chat_counts n;
        const char *in = at("in");
        CHECK_ROW("%s", rows[i].file);
        CHECK_OK(dt_fs_replace(in, rows[i].file, strlen(rows[i].file), 0644, &err), err);
        CHECK_FAIL(dt_tokenize_chats(NULL, &o, &in, 1, at("out"), &n, &err), err, rows[i].words);
    }
}

TEST(half_a_character_is_told_of_and_replaced)
{
    static const struct {
        const char *json, *is; /* IS: of the text, where it is not as it was */
    } rows[] = {
        {"a\\ud83dz", "a\xef\xbf\xbdz"},
        {"\\uDE00z", "\xef\xbf\xbdz"},
        {"\\ud83d", "\xef\xbf\xbd"},
        {"\\ud83d\\ud83d\\ude00", "\xef\xbf\xbd\xf0\x9f\x98\x80"},
        {"\\ud83d\\n\\ude00", "\xef\xbf\xbd\n\xef\xbf\xbd"},
        {"\\uD83D\\uDE00", NULL},
        {"\\\\ud83d", NULL}, /* a backslash, and letters */
        {"\\u00e9\\t", NULL},
    };
    const struct dt_chat_options o = {.key = "text"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char lines[200];
        CHECK_ROW("%s", rows[i].json);
        snprintf(lines, sizeof lines, "{\"text\": \"ok\"}\n{\"text\": \"%s\"}\n", rows[i].json);
        struct dt_chat_counts n = tokenize(&o, lines);
        CHECK_EQ(n.documents, 2);
        CHECK_EQ(n.mended, rows[i].is != NULL);
        if (!rows[i].is)
            continue;
        CHECK_STR(strrchr(n.first_mended, ':'), ":2");
        struct dt_err err = {0};
        struct dt_buf text = {0};
        CHECK_OK(dt_detokenize_file(NULL, at("out"), at("text"), &err), err);
        CHECK_OK(dt_fs_read(at("text"), 100, &text, &err), err);
        CHECK(strstr(dt_buf_cstr(&text), rows[i].is));
        dt_buf_finish(&text);
    }
}

static void note_lines(void *arg, uint64_t lines)
{
    *(uint64_t *)arg = *(uint64_t *)arg * 1000 + lines;
}

TEST(it_is_told_how_far_a_long_file_is)
{
    struct dt_buf text = {0};
    uint64_t told = 0;
    for (int i = 0; i < 600; i++)
        dt_buf_put_str(&text, "{\"t\": \"aa\"}\n");
    const struct dt_chat_options o = {.key = "t", .progress = note_lines, .progress_arg = &told};
    struct dt_chat_counts n = tokenize(&o, dt_buf_cstr(&text));
    CHECK_EQ(n.lines, 600);
    CHECK_EQ(told, 256512);
    dt_buf_finish(&text);
}

TEST(a_share_of_the_lines_is_for_validation)
{
    struct dt_err err = {0};
    char out[200], in[200], again[400];
    snprintf(out, sizeof out, "%s", at("out"));
    struct dt_chat_options o = {.key = "t", .max_tokens = 3, .validation = out, .share = 0.4};
    struct dt_chat_counts n;
    lines_file("in.jsonl", "{\"t\": \"aa\"}\n{\"t\": \"bb\"}\n{\"t\": \"\"}\n"
                           "{\"t\": \"cccc\"}\n{\"t\": \"dd\"}\n"
                           "{\"t\": \"ee\"}\n");
    snprintf(in, sizeof in, "%s", at("in.jsonl"));
    const char *file = in;
    CHECK_OK(dt_tokenize_chats(NULL, &o, &file, 1, at("train"), &n, &err), err);
    CHECK_EQ(n.documents, 3); /* a, b, d */
    CHECK_EQ(n.validation_documents, 3);
    CHECK_EQ(n.tokens + n.validation_tokens, 17);
    CHECK_STR(documents(), "|cc*c*|c#*|ee*#*");
    o.share = 0.1;
    CHECK_FAIL(dt_tokenize_chats(NULL, &o, &file, 1, at("train"), &n, &err), err,
               "5 lines are too few for a share of 0.1 for validation");
    CHECK_FAIL(dt_tokenize_chats(NULL, &o, &file, 1, out, &n, &err), err,
               "is the file to write and that for validation");
    snprintf(again, sizeof again, "%s/./%s", dir, strrchr(out, '/') + 1);
    CHECK_FAIL(dt_tokenize_chats(NULL, &o, &file, 1, again, &n, &err), err,
               "is the file to write and that for validation");
}

TEST(bad_lines_are_named_with_their_file_and_number)
{
    static const struct {
        const char *text, *words;
    } rows[] = {
        {"{\"text\": \"a\"}\n\n{\"text\": 3}\n", "in.jsonl:3: text: expected"},
        {"{\"text\": \"a\"}\n{\"text\"\n", "in.jsonl:2: line 1, column"},
        {"[{\"text\": \"a\"}, 3]", "in.jsonl, element 2: expected an object"},
        {"[{\"text\": \"a\"}\n", "in.jsonl: it ends behind element 1 of its array"},
        {"[{\"text\": \"]\\\"}", "in.jsonl: it ends within element 1 of its array"},
        {"[{\"text\": \"a\"} {}]", "neither a comma nor a bracket follows element 1"},
        {"PAR1\x15\x04", "in.jsonl: it is a Parquet file"},
        {"\x1f\x8b\x08\n", "in.jsonl: it is compressed by gzip"},
        {"{\"text\": \"\\u0000\"}", "in.jsonl:1: "},
        {"", "in.jsonl: there are no examples in it"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].text);
        struct dt_err err = {0};
        struct dt_chat_counts counts;
        const struct dt_chat_options o = {.key = "text"};
        const char *file = lines_file("in.jsonl", rows[i].text);
        CHECK_FAIL(dt_tokenize_chats(NULL, &o, &file, 1, at("none"), &counts, &err), err,
                   rows[i].words);
        CHECK(access(at("none"), F_OK) < 0);
    }
}

/* -- what people see -------------------------------------------------------------------------- */

static int keep_shown(void *arg, struct dt_bytes part, struct dt_err *err)
{
    (void)err;
    dt_buf_put(arg, part.at, part.len);
    return 0;
}

static const char *shown_file(const struct dt_show_options *o)
{
    static struct dt_buf out;
    struct dt_err err = {0};
    dt_buf_clear(&out);
    struct dt_tokens *t = dt_tokenized_open(NULL, at("out"), &err);
    CHECK_STR(t ? "" : err.text, "");
    CHECK_OK(dt_show_tokens(t, NULL, o, keep_shown, &out, &err), err);
    dt_tokens_close(t);
    return dt_buf_cstr(&out);
}

TEST(what_is_trained_on_stands_in_brackets_or_has_a_colour)
{
    struct dt_err err = {0};
    struct dt_chat_options o = {.template = dt_template_find("plain", &err)};
    tokenize(&o, "{\"instruction\": \"a\", \"output\": \"b\"}\n"
                 "{\"instruction\": \"\\u001b[2Jc\", \"output\": \"\xc3\xa9\\u202e\"}\n");
    CHECK_STR(shown_file(&(struct dt_show_options){.only = -1}),
              "document 0: 23 tokens, 3 trained on\nHuman: a<end>\nAssistant:[[b<end>\n]]\n"
              "document 1: 31 tokens, 7 trained on\nHuman: \\x1b[2Jc<end>\nAssistant:[[\xc3\xa9"
              "\\u202e<end>\n]]\n");
    CHECK_STR(shown_file(&(struct dt_show_options){.only = 0, .colour = true}),
              "\033[1mdocument 0: 23 tokens, 3 trained on\033[0m\nHuman: a<end>\nAssistant:"
              "\033[32mb<end>\n\033[0m\n");
    struct dt_tokens *t = dt_tokenized_open(NULL, at("out"), &err);
    CHECK_FAIL(
        dt_show_tokens(t, NULL, &(struct dt_show_options){.only = 2}, keep_shown, NULL, &err), err,
        "there is no document 2; there are 2, from 0 on");
    dt_tokens_close(t);
}

TEST(answers_of_a_pair_say_which_they_are)
{
    struct dt_chat_options o = preferences();
    tokenize(&o, "{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"c\"}");
    CHECK_STR(shown_file(&(struct dt_show_options){.only = -1}),
              "document 0, chosen: 23 tokens, 3 trained on\nHuman: a<end>\nAssistant:[[b<end>\n]]\n"
              "document 1, rejected: 23 tokens, 3 trained on\nHuman: a<end>\nAssistant:[[c<end>\n]]"
              "\n");
}

/* Characters of three bytes, which no number of tokens that are shown at once is a multiple of. */
TEST(a_long_text_is_shown_whole)
{
    enum { COUNT = 3000 };
    struct dt_err err = {0};
    struct dt_buf text = {0};
    for (int i = 0; i < COUNT; i++)
        dt_buf_put_str(&text, i % 100 == 50 ? "a\xe4\xbd\xa0" : "\xe4\xbd\xa0");
    dt_buf_put_u8(&text, 0);
    dt_buf_put_str(&text, "z");
    CHECK_OK(dt_fs_replace(at("text"), text.at, text.len, 0644, &err), err);
    const char *file = at("text"), *const files[] = {file};
    CHECK_OK(dt_tokenize_files(NULL, files, 1, at("out"), NULL, &err), err);
    const char *out = shown_file(&(struct dt_show_options){.only = -1});
    const char *begin = strstr(out, "trained on\n[[");
    CHECK(begin != NULL);
    begin += strlen("trained on\n[[");
    CHECK_BYTES(begin, text.len - 2, text.at, text.len - 2);
    CHECK_STR(begin + text.len - 2, "\\x00z<end>]]\n");
    dt_buf_finish(&text);
}
