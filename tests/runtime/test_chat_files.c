/* SPDX-License-Identifier: Apache-2.0 */
/* Files of conversations, of preferences and of texts, and how people are shown what became of
 * them. */
#include "base/fs.h"
#include "tests/lib/folder.h"
#include "worker_runtime/data/detokenize.h"
#include "worker_runtime/data/show.h"
#include "worker_runtime/data/tokenize.h"
#include "worker_runtime/data/tokenize_chats.h"
#include "worker_runtime/data/tokens.h"

#define FILE_MAX ((size_t)16 << 20)

BEFORE_ALL
{
    folder_make();
}

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
