/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/data/chat/conversation.h"

#include "base/json.h"
#include "worker_runtime/data/chat/lines.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

struct reading {
    struct dt_json doc;
    struct dt_conversation *to;
    struct dt_err *err;
    const char *why; /* it cannot be trained on; NULL: nothing is wrong so far */
};

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

/* -- lists of messages ------------------------------------------------------------------------ */

enum role { SYSTEM, USER, ASSISTANT };

static const struct {
    const char *name;
    enum role role;
} roles[] = {{"system", SYSTEM},       {"user", USER},     {"human", USER},
             {"assistant", ASSISTANT}, {"gpt", ASSISTANT}, {"model", ASSISTANT}};

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

static int read_messages(struct reading *r, const char *list)
{
    const struct cJSON *messages;
    if (dt_json_array(&r->doc, NULL, list, &messages, r->err) < 0)
        return -1;
    for (const struct cJSON *m = dt_json_first(messages); m; m = dt_json_next(m)) {
        enum role role;
        char *text = NULL;
        bool named = dt_json_has(m, "from");
        if (read_role(r, m, named ? "from" : "role", &role) < 0 ||
            read_content(r, m, named ? "value" : "content", &text) < 0 ||
            take_message(r, role, text) < 0)
            return -1;
    }
    return 0;
}

/* -- instructions ----------------------------------------------------------------------------- */

/* Many files have "system": "", which means that there is none. */
static int read_system(struct reading *r)
{
    const char *text;
    if (!dt_json_has(r->doc.root, "system") || r->to->system)
        return 0;
    if (dt_json_string(&r->doc, NULL, "system", &text, r->err) < 0)
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
    if (!dt_json_has(r->doc.root, "history"))
        return 0;
    if (dt_json_array(&r->doc, NULL, "history", &history, r->err) < 0)
        return -1;
    for (const struct cJSON *pair = dt_json_first(history); pair; pair = dt_json_next(pair))
        if (read_pair(r, pair) < 0)
            return -1;
    return 0;
}

/* The question is the instruction and the input, a line each, without one that is empty. */
static int read_instruction(struct reading *r)
{
    const char *instruction, *input = "", *output;
    char *text;
    if (read_history(r) < 0 ||
        dt_json_string(&r->doc, NULL, "instruction", &instruction, r->err) < 0 ||
        dt_json_string(&r->doc, NULL, "output", &output, r->err) < 0)
        return -1;
    if (dt_json_has(r->doc.root, "input") &&
        dt_json_string(&r->doc, NULL, "input", &input, r->err) < 0)
        return -1;
    if (asprintf(&text, "%s%s%s", instruction, *instruction && *input ? "\n" : "", input) < 0)
        return no_memory(r);
    if (take_question(r, text) < 0 || keep(r, &text, output) < 0)
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
    struct reading r = {.to = c, .err = err};
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

char *dt_conversation_read_text(struct dt_bytes object, const char *key, struct dt_err *err)
{
    struct reading r = {.err = err};
    const char *text;
    char *out = NULL;
    if (parse(&r, object) == 0 && dt_json_string(&r.doc, NULL, key, &text, err) == 0)
        keep(&r, &out, text);
    dt_json_finish(&r.doc);
    return out;
}
