/* SPDX-License-Identifier: Apache-2.0 */
/* Each row was compared with what the templates of the family's models make of conversations: see
 * tests/runtime/templates. Where such a template drops a system text or refuses one, as those of
 * Mistral and Gemma do, it stands in front of the first question instead. */
#include "worker_runtime/data/chat/template.h"

#include "worker_runtime/data/tokenizer/added.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum system_place {
    IN_ITS_BLOCK,
    IN_FIRST_QUESTION,
};

enum trimming {
    TRIM_NOTHING,
    TRIM_ANSWERS,
    TRIM_ALL,
    TRIM_TURNS, /* a question only together with the system text in it */
};

struct dt_template {
    const char *name;
    const char *begin; /* in front of all */
    enum system_place place;
    const char *system[2];      /* in front of the system text and behind it */
    const char *default_system; /* where a conversation has none; NULL: no block */
    const char *question[2];
    const char *answer;  /* what stands in front of an answer, and is not the model's to say */
    const char *said[2]; /* what is, in front of it and behind it */
    const char *end;     /* behind all */
    enum trimming trim;
    bool thinks; /* as Qwen3: the last answer has a place for thoughts, and others have none */
    const char *marks[6]; /* NULL ends them */
};

/* clang-format off */
static const struct dt_template templates[] = {
    {.name = "llama2", .begin = "", .place = IN_FIRST_QUESTION, .system = {"<<SYS>>\n", "\n<</SYS>>\n\n"},
     .question = {"<s>[INST] ", " [/INST]"}, .answer = "", .said = {" ", " </s>"}, .end = "",
     .trim = TRIM_TURNS, .marks = {"<s>", "</s>"}},
    {.name = "llama3", .begin = "<|begin_of_text|>",
     .system = {"<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>"},
     .question = {"<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>"},
     .answer = "<|start_header_id|>assistant<|end_header_id|>\n\n", .said = {"", "<|eot_id|>"}, .end = "",
     .trim = TRIM_ALL, .marks = {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}},
    {.name = "llama3.1", .begin = "<|begin_of_text|>",
     .system = {"<|start_header_id|>system<|end_header_id|>\n\n"
                "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n", "<|eot_id|>"},
     .default_system = "",
     .question = {"<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>"},
     .answer = "<|start_header_id|>assistant<|end_header_id|>\n\n", .said = {"", "<|eot_id|>"}, .end = "",
     .trim = TRIM_ALL, .marks = {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}},
    {.name = "mistral-v1", .begin = "<s>", .place = IN_FIRST_QUESTION, .system = {"", "\n\n"},
     .question = {" [INST] ", " [/INST]"}, .answer = "", .said = {" ", "</s>"}, .end = "",
     .marks = {"<s>", "</s>"}},
    {.name = "mistral", .begin = "<s>", .place = IN_FIRST_QUESTION, .system = {"", "\n\n"},
     .question = {"[INST] ", "[/INST]"}, .answer = "", .said = {" ", "</s>"}, .end = "",
     .trim = TRIM_ANSWERS, .marks = {"<s>", "</s>", "[INST]", "[/INST]"}},
    {.name = "mistral-tekken", .begin = "<s>", .place = IN_FIRST_QUESTION, .system = {"", "\n\n"},
     .question = {"[INST]", "[/INST]"}, .answer = "", .said = {"", "</s>"}, .end = "",
     .marks = {"<s>", "</s>", "[INST]", "[/INST]"}},
    {.name = "chatml", .begin = "", .system = {"<|im_start|>system\n", "<|im_end|>\n"},
     .question = {"<|im_start|>user\n", "<|im_end|>\n"},
     .answer = "<|im_start|>assistant\n", .said = {"", "<|im_end|>\n"}, .end = "",
     .marks = {"<|im_start|>", "<|im_end|>"}},
    {.name = "qwen2", .begin = "", .system = {"<|im_start|>system\n", "<|im_end|>\n"},
     .default_system = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
     .question = {"<|im_start|>user\n", "<|im_end|>\n"},
     .answer = "<|im_start|>assistant\n", .said = {"", "<|im_end|>\n"}, .end = "",
     .marks = {"<|im_start|>", "<|im_end|>"}},
    {.name = "qwen3", .begin = "", .system = {"<|im_start|>system\n", "<|im_end|>\n"},
     .question = {"<|im_start|>user\n", "<|im_end|>\n"},
     .answer = "<|im_start|>assistant\n", .said = {"", "<|im_end|>\n"}, .end = "",
     .thinks = true, .marks = {"<|im_start|>", "<|im_end|>"}},
    {.name = "smollm", .begin = "", .system = {"<|im_start|>system\n", "<|im_end|>\n"},
     .default_system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face",
     .question = {"<|im_start|>user\n", "<|im_end|>\n"},
     .answer = "<|im_start|>assistant\n", .said = {"", "<|im_end|>\n"}, .end = "",
     .marks = {"<|im_start|>", "<|im_end|>"}},
    {.name = "gemma", .begin = "<bos>", .place = IN_FIRST_QUESTION, .system = {"", "\n\n"},
     .question = {"<start_of_turn>user\n", "<end_of_turn>\n"},
     .answer = "<start_of_turn>model\n", .said = {"", "<end_of_turn>\n"}, .end = "",
     .trim = TRIM_ALL, .marks = {"<bos>", "<start_of_turn>", "<end_of_turn>"}},
    {.name = "phi3", .begin = "", .system = {"<|system|>\n", "<|end|>\n"},
     .question = {"<|user|>\n", "<|end|>\n"},
     .answer = "<|assistant|>\n", .said = {"", "<|end|>\n"}, .end = DT_TEMPLATE_END,
     .marks = {"<|system|>", "<|user|>", "<|assistant|>", "<|end|>", DT_TEMPLATE_END}},
    {.name = "plain", .begin = "", .system = {"System: ", DT_TEMPLATE_END "\n"},
     .question = {"Human: ", DT_TEMPLATE_END "\n"},
     .answer = "Assistant:", .said = {"", DT_TEMPLATE_END "\n"}, .end = "",
     .marks = {DT_TEMPLATE_END}},
};
/* clang-format on */

#define TEMPLATES (sizeof templates / sizeof *templates)

const char *dt_template_name(size_t i)
{
    return i < TEMPLATES ? templates[i].name : NULL;
}

const struct dt_template *dt_template_find(const char *name, struct dt_err *err)
{
    char names[200] = "";
    for (size_t i = 0, n = 0; i < TEMPLATES && n < sizeof names; i++) {
        if (strcmp(name, templates[i].name) == 0)
            return &templates[i];
        n +=
            (size_t)snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", templates[i].name);
    }
    dt_err_set(err, DT_E_USAGE, "there is no chat template \"%.40s\"; there are %s", name, names);
    return NULL;
}

const char *const *dt_template_marks(const struct dt_template *t)
{
    return t->marks;
}

void dt_rendered_finish(struct dt_rendered *r)
{
    dt_buf_finish(&r->text);
    free(r->spans);
    *r = (struct dt_rendered){0};
}

/* -- texts ------------------------------------------------------------------------------------ */

static void put_span(struct dt_rendered *r, struct dt_bytes text, const char *token, bool trained)
{
    struct dt_span *last = r->count ? &r->spans[r->count - 1] : NULL;
    dt_buf_put(&r->text, text.at, text.len);
    if (last && !last->token && !token && last->trained == trained) {
        last->end = r->text.len;
        return;
    }
    if (r->count == r->room) {
        size_t room = r->room ? 2 * r->room : 64;
        struct dt_span *spans = realloc(r->spans, room * sizeof *spans);
        r->bad = r->bad || !spans;
        if (!spans)
            return;
        r->spans = spans;
        r->room = room;
    }
    r->spans[r->count++] = (struct dt_span){.end = r->text.len, .token = token, .trained = trained};
}

/* What a conversation says: text, whatever stands in it. */
static void put_text(struct dt_rendered *r, struct dt_bytes text, bool trained)
{
    if (text.len)
        put_span(r, text, NULL, trained);
}

static const char *mark_at(const struct dt_template *t, const char *text)
{
    for (size_t i = 0; t->marks[i]; i++)
        if (strncmp(text, t->marks[i], strlen(t->marks[i])) == 0)
            return t->marks[i];
    return NULL;
}

/* What the template says, in which its marks are tokens. */
static void put_fixed(struct dt_rendered *r, const struct dt_template *t, const char *text,
                      bool trained)
{
    const char *from = text;
    while (*text) {
        const char *mark = mark_at(t, text);
        text += !mark;
        if (mark || !*text)
            put_text(r, (struct dt_bytes){(const uint8_t *)from, (size_t)(text - from)}, trained);
        if (mark) {
            put_span(r, dt_bytes_of(mark), mark, trained);
            text += strlen(mark);
            from = text;
        }
    }
}

static struct dt_bytes trim(struct dt_bytes text)
{
    return dt_added_trim_end(dt_added_trim_start(text));
}

static struct dt_bytes trim_if(bool trims, const char *text)
{
    return trims ? trim(dt_bytes_of(text)) : dt_bytes_of(text);
}

static void put_system(struct dt_rendered *r, const struct dt_template *t, const char *text,
                       bool trained)
{
    put_fixed(r, t, t->system[0], trained);
    put_text(r, trim_if(t->trim == TRIM_ALL && t->place == IN_ITS_BLOCK, text), trained);
    put_fixed(r, t, t->system[1], trained);
}

/* SYSTEM: the text that stands in front of it; NULL: none does. */
static void put_question(struct dt_rendered *r, const struct dt_template *t, const char *text,
                         const char *system, bool trained)
{
    struct dt_bytes question = trim_if(t->trim == TRIM_ALL, text);
    put_fixed(r, t, t->question[0], trained);
    if (system)
        put_system(r, t, system, trained);
    if (t->trim == TRIM_TURNS)
        question = system ? dt_added_trim_end(question) : trim(question);
    put_text(r, question, trained);
    put_fixed(r, t, t->question[1], trained);
}

/* -- thoughts --------------------------------------------------------------------------------- */

static struct dt_bytes without_newlines(struct dt_bytes text, bool front, bool back)
{
    while (front && text.len && text.at[0] == '\n') {
        text.at++;
        text.len--;
    }
    while (back && text.len && text.at[text.len - 1] == '\n')
        text.len--;
    return text;
}

/* Where NEEDLE stands in TEXT for the first or the LAST time; NULL: nowhere. */
static const uint8_t *find(struct dt_bytes text, const char *needle, bool last)
{
    size_t n = strlen(needle);
    const uint8_t *found = NULL;
    for (size_t i = 0; i + n <= text.len && (last || !found); i++)
        if (memcmp(text.at + i, needle, n) == 0)
            found = text.at + i;
    return found;
}

/* As Qwen3's template cuts it: thoughts are what stands between <think> and the first </think>, the
 * answer is what stands behind the last one. */
static void put_thinking(struct dt_rendered *r, struct dt_bytes answer, bool last, bool trained)
{
    static const char open[] = "<think>", close[] = "</think>";
    struct dt_bytes thoughts = {answer.at, 0};
    const uint8_t *first_close = find(answer, close, false), *end = answer.at + answer.len;
    if (first_close) {
        const uint8_t *behind = find(answer, close, true) + strlen(close);
        thoughts.len = (size_t)(first_close - answer.at);
        const uint8_t *begin = find(thoughts, open, true);
        if (begin) {
            begin += strlen(open);
            thoughts = (struct dt_bytes){begin, (size_t)(first_close - begin)};
        }
        answer = without_newlines((struct dt_bytes){behind, (size_t)(end - behind)}, true, false);
    }
    if (last) {
        put_text(r, dt_bytes_of("<think>\n"), trained);
        put_text(r, without_newlines(thoughts, true, true), trained);
        put_text(r, dt_bytes_of("\n</think>\n\n"), trained);
        answer = without_newlines(answer, true, false);
    }
    put_text(r, answer, trained);
}

/* -- conversations ---------------------------------------------------------------------------- */

static void put_answer(struct dt_rendered *r, const struct dt_template *t, const char *text,
                       bool last, bool trained)
{
    put_fixed(r, t, t->said[0], trained);
    if (t->thinks)
        put_thinking(r, dt_bytes_of(text), last, trained);
    else
        put_text(r, trim_if(t->trim != TRIM_NOTHING, text), trained);
    put_fixed(r, t, t->said[1], trained);
}

static const char *system_of(const struct dt_template *t, const struct dt_template_options *o,
                             const struct dt_conversation *c)
{
    if (c->system)
        return c->system;
    if (o->system && *o->system)
        return o->system;
    /* A block that is always there has no text then. */
    bool always = t->default_system && !*t->default_system;
    return o->system && !always ? NULL : t->default_system;
}

int dt_template_render(const struct dt_template *t, const struct dt_template_options *o,
                       const struct dt_conversation *c, size_t first, size_t count,
                       struct dt_rendered *out, struct dt_err *err)
{
    const char *system = system_of(t, o, c);
    bool prompt = o->train_on_prompt;
    out->count = 0;
    dt_buf_clear(&out->text);
    put_fixed(out, t, t->begin, prompt);
    if (system && t->place == IN_ITS_BLOCK)
        put_system(out, t, system, prompt);
    for (size_t i = 0; i < count; i++) {
        const struct dt_exchange *x = &c->exchanges[first + i];
        bool last = i + 1 == count, inside = i == 0 && t->place == IN_FIRST_QUESTION;
        put_question(out, t, x->question, inside ? system : NULL, prompt);
        put_fixed(out, t, t->answer, prompt);
        if (x->answer)
            put_answer(out, t, x->answer, last, prompt || last || !o->last_answer_only);
    }
    if (c->exchanges[first + count - 1].answer)
        put_fixed(out, t, t->end, true);
    if (out->bad || out->text.bad)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a conversation");
    return 0;
}
