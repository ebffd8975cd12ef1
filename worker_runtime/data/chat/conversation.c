/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/data/chat/conversation.h"

#include "base/json.h"
#include "worker_runtime/data/chat/lines.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

#define NAMES_MOST 160 /* characters of a list of columns, where no further one is begun */

struct reading {
    struct dt_json doc;
    struct dt_conversation *to;
    struct dt_err *err;
    const char *why;                  /* it cannot be trained on; NULL: nothing is wrong so far */
    const struct dt_columns *columns; /* NULL: it looks as one of the forms that are known */
};

static const struct dt_columns alpaca = {.prompt = "instruction",
                                         .query = "input",
                                         .response = "output",
                                         .history = "history",
                                         .system = "system",
                                         .chosen = "chosen",
                                         .rejected = "rejected"};

static const struct dt_columns *columns_of(const struct reading *r)
{
    return r->columns ? r->columns : &alpaca;
}

void dt_conversation_finish(struct dt_conversation *c)
{
    for (size_t i = 0; i < c->count; i++) {
        free(c->exchanges[i].question);
        free(c->exchanges[i].answer);
    }
    free(c->exchanges);
    free(c->system);
    *c = (struct dt_conversation){0};
}

static int no_memory(struct reading *r)
{
    return dt_err_set(r->err, DT_E_MEMORY, "no memory for a conversation");
}

/* *TO becomes a copy of TEXT. */
static int keep(struct reading *r, char **to, const char *text)
{
    *to = strdup(text);
    return *to ? 0 : no_memory(r);
}

/* TEXT becomes the question of an exchange, which it owns, also after a failure. */
static int take_question(struct reading *r, char *text)
{
    struct dt_conversation *c = r->to;
    struct dt_exchange *more = realloc(c->exchanges, (c->count + 1) * sizeof *more);
    if (!more) {
        free(text);
        return no_memory(r);
    }
    c->exchanges = more;
    c->exchanges[c->count++] = (struct dt_exchange){.question = text};
    return 0;
}

static int take_answer(struct reading *r, char *text)
{
    r->to->exchanges[r->to->count - 1].answer = text;
    if (!*text && !r->why)
        r->why = "an answer is empty";
    return 0;
}

static bool waits_for_answer(const struct dt_conversation *c)
{
    return c->count > 0 && !c->exchanges[c->count - 1].answer;
}

/* -- columns ---------------------------------------------------------------------------------- */

/* Who wrote the name of another file's column wants to know what this one has. */
static int no_column(struct reading *r, const char *name)
{
    struct dt_buf all = {0};
    for (const struct cJSON *v = r->doc.root->child; v && all.len < NAMES_MOST; v = v->next)
        dt_buf_printf(&all, "%s\"%.40s\"", all.len ? ", " : "", v->string);
    dt_err_set(r->err, DT_E_USAGE, "there is no \"%.60s\" in it; it has %s", name,
               all.len ? dt_buf_cstr(&all) : "nothing");
    dt_buf_finish(&all);
    return -1;
}

static int read_column(struct reading *r, const char *name, const char **out)
{
    if (!cJSON_GetObjectItemCaseSensitive(r->doc.root, name))
        return no_column(r, name);
    return dt_json_string(&r->doc, NULL, name, out, r->err);
}

/* -- lists of messages ------------------------------------------------------------------------ */

enum role { SYSTEM, USER, ASSISTANT };

static const struct {
    const char *name;
    enum role role;
} roles[] = {{"system", SYSTEM},       {"user", USER},     {"human", USER},
             {"assistant", ASSISTANT}, {"gpt", ASSISTANT}, {"model", ASSISTANT}};

/* By the names that the columns have for them. */
static int read_named_role(struct reading *r, const struct cJSON *message, enum role *role)
{
    const struct dt_columns *c = r->columns;
    const char *name, *const names[] = {
                          [SYSTEM] = c->system_role, [USER] = c->user, [ASSISTANT] = c->assistant};
    char path[200];
    if (dt_json_string(&r->doc, message, c->role, &name, r->err) < 0)
        return -1;
    for (int i = SYSTEM; i <= ASSISTANT; i++) {
        *role = (enum role)i;
        if (names[i] && strcmp(name, names[i]) == 0)
            return 0;
    }
    return dt_err_set(
        r->err, DT_E_USAGE,
        "%s: the role \"%.40s\" is none of %.40s, %.40s and %.40s, and calls of tools "
        "are not done here",
        dt_json_path(&r->doc, message, path, sizeof path), name, c->system_role, c->user,
        c->assistant);
}

static int read_role(struct reading *r, const struct cJSON *message, const char *key,
                     enum role *role)
{
    const char *name;
    char path[200];
    if (dt_json_string(&r->doc, message, key, &name, r->err) < 0)
        return -1;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        *role = roles[i].role;
        if (strcmp(name, roles[i].name) == 0)
            return 0;
    }
    return dt_err_set(r->err, DT_E_USAGE,
                      "%s: the role \"%.40s\" is not known; system, user (human) and assistant "
                      "(gpt) are, and calls of tools are not done here",
                      dt_json_path(&r->doc, message, path, sizeof path), name);
}

/* A list of {"type": "text", "text": ...}, all of whose texts are one. */
static int read_parts(struct reading *r, const struct cJSON *parts, char **out)
{
    struct dt_buf all = {0};
    const char *type, *text;
    int rc = 0;
    for (const struct cJSON *p = dt_json_first(parts); p && rc == 0; p = dt_json_next(p)) {
        rc = dt_json_string(&r->doc, p, "type", &type, r->err);
        if (rc == 0 && strcmp(type, "text") != 0)
            rc =
                dt_err_set(r->err, DT_E_USAGE, "a part of type \"%.40s\"; only text is read", type);
        if (rc == 0)
            rc = dt_json_string(&r->doc, p, "text", &text, r->err);
        if (rc == 0)
            dt_buf_put_str(&all, text);
    }
    if (rc == 0)
        rc = all.bad ? no_memory(r) : keep(r, out, dt_buf_cstr(&all));
    dt_buf_finish(&all);
    return rc;
}

/* Programs write an empty list of them, or null, into messages that have none. */
static bool calls_tools(const struct cJSON *message, const struct cJSON *content)
{
    const struct cJSON *calls = cJSON_GetObjectItemCaseSensitive(message, "tool_calls");
    bool empty = cJSON_IsArray(calls) && !calls->child && cJSON_IsString(content);
    return dt_json_has(message, "tool_calls") && !empty;
}

static int read_content(struct reading *r, const struct cJSON *message, const char *key, char **out)
{
    const struct cJSON *content = cJSON_GetObjectItemCaseSensitive(message, key);
    const char *text;
    if (cJSON_IsArray(content))
        return read_parts(r, content, out);
    if (calls_tools(message, content))
        return dt_err_set(r->err, DT_E_USAGE, "tool_calls are not done here");
    return dt_json_string(&r->doc, message, key, &text, r->err) < 0 ? -1 : keep(r, out, text);
}

/* A system text comes first, then question and answer in turn. TEXT is taken in any case. */
static int take_message(struct reading *r, enum role role, char *text)
{
    struct dt_conversation *c = r->to;
    bool first = c->count == 0 && !c->system;
    bool fits = role == SYSTEM ? first : role == USER ? !waits_for_answer(c) : waits_for_answer(c);
    if (!fits) {
        if (!r->why)
            r->why = role == SYSTEM ? "a system text that is not the first message, or a second one"
                                    : "user and assistant do not take turns";
        free(text);
        return 0;
    }
    if (role == USER)
        return take_question(r, text);
    if (role == ASSISTANT)
        return take_answer(r, text);
    c->system = text;
    return 0;
}

static int read_message(struct reading *r, const struct cJSON *m)
{
    enum role role;
    char *text = NULL;
    bool from = dt_json_has(m, "from");
    const char *content = r->columns ? r->columns->content : from ? "value" : "content";
    int rc =
        r->columns ? read_named_role(r, m, &role) : read_role(r, m, from ? "from" : "role", &role);
    if (rc < 0 || read_content(r, m, content, &text) < 0)
        return -1;
    return take_message(r, role, text);
}

static int read_messages(struct reading *r, const char *list)
{
    const struct cJSON *messages;
    if (!cJSON_GetObjectItemCaseSensitive(r->doc.root, list))
        return no_column(r, list);
    if (dt_json_array(&r->doc, NULL, list, &messages, r->err) < 0)
        return -1;
    for (const struct cJSON *m = dt_json_first(messages); m; m = dt_json_next(m))
        if (read_message(r, m) < 0)
            return -1;
    return 0;
}

/* -- instructions ----------------------------------------------------------------------------- */

/* Many files have "system": "", which means that there is none. */
static int read_system(struct reading *r)
{
    const char *text, *name = columns_of(r)->system;
    if (!name || !dt_json_has(r->doc.root, name) || r->to->system)
        return 0;
    if (dt_json_string(&r->doc, NULL, name, &text, r->err) < 0)
        return -1;
    return *text ? keep(r, &r->to->system, text) : 0;
}

static int read_pair(struct reading *r, const struct cJSON *pair)
{
    const struct cJSON *question = dt_json_first(pair);
    const struct cJSON *answer = question ? dt_json_next(question) : NULL;
    char path[200], *text;
    if (!cJSON_IsArray(pair) || !cJSON_IsString(question) || !cJSON_IsString(answer) ||
        dt_json_next(answer))
        return dt_err_set(r->err, DT_E_USAGE, "%s: expected [question, answer]",
                          dt_json_path(&r->doc, pair, path, sizeof path));
    if (keep(r, &text, question->valuestring) < 0 || take_question(r, text) < 0)
        return -1;
    return keep(r, &text, answer->valuestring) < 0 ? -1 : take_answer(r, text);
}

static int read_history(struct reading *r)
{
    const struct cJSON *history;
    const char *name = columns_of(r)->history;
    if (!name || !dt_json_has(r->doc.root, name))
        return 0;
    if (dt_json_array(&r->doc, NULL, name, &history, r->err) < 0)
        return -1;
    for (const struct cJSON *pair = dt_json_first(history); pair; pair = dt_json_next(pair))
        if (read_pair(r, pair) < 0)
            return -1;
    return 0;
}

/* The question is the instruction and the input, a line each, without one that is empty. */
static int read_question(struct reading *r)
{
    const struct dt_columns *c = columns_of(r);
    const char *instruction, *input = "";
    char *text;
    if (read_history(r) < 0 || read_column(r, c->prompt, &instruction) < 0)
        return -1;
    if (c->query && dt_json_has(r->doc.root, c->query) &&
        dt_json_string(&r->doc, NULL, c->query, &input, r->err) < 0)
        return -1;
    if (asprintf(&text, "%s%s%s", instruction, *instruction && *input ? "\n" : "", input) < 0)
        return no_memory(r);
    return take_question(r, text);
}

static int read_instruction(struct reading *r)
{
    const char *output;
    char *text;
    if (read_question(r) < 0 || read_column(r, columns_of(r)->response, &output) < 0 ||
        keep(r, &text, output) < 0)
        return -1;
    return take_answer(r, text);
}

/* -- objects ---------------------------------------------------------------------------------- */

static int parse(struct reading *r, struct dt_bytes object)
{
    if (dt_json_parse(&r->doc, (const char *)object.at, object.len, DT_LINE_MAX, r->err) < 0)
        return -1;
    if (cJSON_IsObject(r->doc.root))
        return 0;
    return dt_err_set(r->err, DT_E_USAGE,
                      "expected an object, as in {\"messages\": [...]}; of an array in a file, "
                      "write one element a line");
}

static int read_any(struct reading *r)
{
    const struct cJSON *root = r->doc.root;
    if (r->columns)
        return r->columns->messages ? read_messages(r, r->columns->messages) : read_instruction(r);
    if (dt_json_has(root, "messages"))
        return read_messages(r, "messages");
    if (dt_json_has(root, "conversations"))
        return read_messages(r, "conversations");
    if (dt_json_has(root, "instruction"))
        return read_instruction(r);
    return dt_err_set(r->err, DT_E_USAGE,
                      "it has no messages, no conversations and no instruction, so it is no "
                      "conversation; --key NAME reads the text under that key");
}

int dt_conversation_read(struct dt_conversation *c, struct dt_bytes object, const char **why,
                         struct dt_err *err)
{
    return dt_conversation_read_as(c, object, NULL, why, err);
}

int dt_conversation_read_as(struct dt_conversation *c, struct dt_bytes object,
                            const struct dt_columns *columns, const char **why, struct dt_err *err)
{
    struct reading r = {.to = c, .err = err, .columns = columns};
    int rc = parse(&r, object);
    if (rc == 0)
        rc = read_any(&r);
    if (rc == 0)
        rc = read_system(&r);
    dt_json_finish(&r.doc);
    if (rc == 0 && !r.why && c->count == 0)
        r.why = "nobody asks anything";
    if (rc == 0 && !r.why && waits_for_answer(c))
        r.why = "it ends without an answer";
    *why = r.why;
    return rc < 0 ? -1 : !r.why;
}

/* -- preferences ------------------------------------------------------------------------------ */

/* What both answers are to; nothing where they are whole conversations. */
static int read_prompt(struct reading *r)
{
    const struct cJSON *root = r->doc.root, *prompt;
    const char *text;
    char *question;
    if (r->columns)
        return r->columns->messages ? read_messages(r, r->columns->messages) : read_question(r);
    prompt = cJSON_GetObjectItemCaseSensitive(root, "prompt");
    if (cJSON_IsArray(prompt))
        return read_messages(r, "prompt");
    if (dt_json_has(root, "prompt")) {
        if (dt_json_string(&r->doc, NULL, "prompt", &text, r->err) < 0 ||
            keep(r, &question, text) < 0)
            return -1;
        return take_question(r, question);
    }
    if (dt_json_has(root, "messages"))
        return read_messages(r, "messages");
    if (dt_json_has(root, "conversations"))
        return read_messages(r, "conversations");
    return dt_json_has(root, "instruction") ? read_question(r) : 0;
}

static bool is_same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* C begins with all that WITH has, but for an answer that is still to come. */
static bool begins_with(const struct dt_conversation *c, const struct dt_conversation *with)
{
    if (c->count < with->count || (with->system && !is_same(c->system, with->system)))
        return false;
    for (size_t i = 0; i < with->count; i++) {
        const struct dt_exchange *a = &c->exchanges[i], *b = &with->exchanges[i];
        if (!is_same(a->question, b->question) || (b->answer && !is_same(a->answer, b->answer)))
            return false;
    }
    return true;
}

/* Some files have the prompt in front of both answers, and by itself once more. */
static int read_whole(struct reading *r, const char *key)
{
    struct dt_conversation prompt = *r->to;
    *r->to = (struct dt_conversation){0};
    int rc = read_messages(r, key);
    if (rc == 0 && !r->why && !begins_with(r->to, &prompt))
        r->why = "an answer is a whole conversation, which does not begin with the prompt";
    dt_conversation_finish(&prompt);
    return rc;
}

/* A list whose first message is the answer goes on from the prompt. */
static bool goes_on(const struct reading *r, const struct cJSON *list)
{
    const struct cJSON *first = dt_json_first(list);
    const char *key = r->columns ? r->columns->role : "from";
    const struct cJSON *role = cJSON_GetObjectItemCaseSensitive(first, key);
    if (r->columns)
        return cJSON_IsString(role) && strcmp(role->valuestring, r->columns->assistant) == 0;
    if (!role)
        role = cJSON_GetObjectItemCaseSensitive(first, "role");
    for (size_t i = 0; cJSON_IsString(role) && i < sizeof roles / sizeof *roles; i++)
        if (strcmp(roles[i].name, role->valuestring) == 0)
            return roles[i].role == ASSISTANT;
    return false;
}

static int read_answer(struct reading *r, const char *key)
{
    const struct cJSON *answer = cJSON_GetObjectItemCaseSensitive(r->doc.root, key);
    const char *text;
    char *copy;
    if (cJSON_IsArray(answer))
        return goes_on(r, answer) ? read_messages(r, key) : read_whole(r, key);
    if (cJSON_IsObject(answer))
        return read_message(r, answer);
    if (read_column(r, key, &text) < 0 || keep(r, &copy, text) < 0)
        return -1;
    if (!r->why && !waits_for_answer(r->to))
        r->why = "there is no prompt that ends with a question";
    return take_message(r, ASSISTANT, copy);
}

/* TO gets the prompt and the answer under KEY. */
static int read_member(struct reading *r, struct dt_conversation *to, const char *key)
{
    r->to = to;
    if (read_prompt(r) < 0 || read_answer(r, key) < 0 || read_system(r) < 0)
        return -1;
    if (!r->why && (to->count == 0 || waits_for_answer(to)))
        r->why = to->count ? "it ends without an answer" : "there is no prompt";
    return 0;
}

/* Why P cannot be trained on, whose parts can; NULL: it can. */
static const char *compare(const struct dt_preference *p)
{
    struct dt_conversation chosen = p->chosen, rejected = p->rejected;
    const char *a = chosen.exchanges[chosen.count - 1].answer;
    const char *b = rejected.exchanges[rejected.count - 1].answer;
    if (chosen.count != rejected.count || !is_same(chosen.system, rejected.system))
        return "the two answers are to different prompts";
    for (size_t i = 0; i < chosen.count; i++) {
        const struct dt_exchange *c = &chosen.exchanges[i], *r = &rejected.exchanges[i];
        bool last = i + 1 == chosen.count;
        if (!is_same(c->question, r->question) || (!last && !is_same(c->answer, r->answer)))
            return "the two answers are to different prompts";
    }
    return is_same(a, b) ? "both answers are the same" : NULL;
}

static int check_answers(const struct reading *r)
{
    const struct cJSON *root = r->doc.root;
    const struct dt_columns *c = columns_of(r);
    const char *missing = dt_json_has(root, c->chosen) ? c->rejected : c->chosen;
    if (dt_json_has(root, missing))
        return 0;
    if (r->columns)
        return dt_err_set(r->err, DT_E_USAGE, "it has no \"%.60s\", where an answer is to be",
                          missing);
    return dt_err_set(r->err, DT_E_USAGE,
                      "it has no %s, so it is no preference, as in {\"prompt\": \"...\", "
                      "\"chosen\": \"...\", \"rejected\": \"...\"}",
                      missing);
}

void dt_preference_finish(struct dt_preference *p)
{
    dt_conversation_finish(&p->chosen);
    dt_conversation_finish(&p->rejected);
}

int dt_preference_read(struct dt_preference *p, struct dt_bytes object, const char **why,
                       struct dt_err *err)
{
    return dt_preference_read_as(p, object, NULL, why, err);
}

int dt_preference_read_as(struct dt_preference *p, struct dt_bytes object,
                          const struct dt_columns *columns, const char **why, struct dt_err *err)
{
    struct reading r = {.err = err, .columns = columns};
    int rc = parse(&r, object);
    if (rc == 0)
        rc = check_answers(&r);
    if (rc == 0)
        rc = read_member(&r, &p->chosen, columns_of(&r)->chosen);
    if (rc == 0)
        rc = read_member(&r, &p->rejected, columns_of(&r)->rejected);
    dt_json_finish(&r.doc);
    if (rc == 0 && !r.why)
        r.why = compare(p);
    *why = r.why;
    return rc < 0 ? -1 : !r.why;
}

char *dt_conversation_read_text(struct dt_bytes object, const char *key, struct dt_err *err)
{
    struct reading r = {.err = err};
    const char *text;
    char *out = NULL;
    if (parse(&r, object) == 0 && read_column(&r, key, &text) == 0)
        keep(&r, &out, text);
    dt_json_finish(&r.doc);
    return out;
}
