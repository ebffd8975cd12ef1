/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/data/tokenizer/added.h"

#include "base/list.h"
#include "base/utf8.h"
#include "worker_runtime/data/tokenizer/stage.h"

#include <stdlib.h>

#define NONE UINT32_MAX

/* A trie. The root's children are found by their byte; a deeper node has few, in a list. */
struct added_node {
    uint32_t child, sibling; /* 0: none */
    uint32_t token;          /* that ends here; NONE */
    uint8_t byte;
};

struct dt_added {
    struct added_node *nodes; /* number 0 is the root */
    uint32_t node_count, node_room;
    struct dt_added_token *tokens;
    uint32_t token_count;
    uint32_t first[256]; /* children of the root; 0: none */
    bool any_eats_before;
};

struct dt_added *dt_added_create(struct dt_err *err)
{
    struct dt_added *a = calloc(1, sizeof *a);
    if (!a)
        dt_err_set(err, DT_E_MEMORY, "no memory for added tokens");
    else
        a->node_count = 1; /* the root has no memory of its own: nothing asks for it */
    return a;
}

void dt_added_destroy(struct dt_added *a)
{
    if (!a)
        return;
    free(a->nodes);
    free(a->tokens);
    free(a);
}

bool dt_added_is_empty(const struct dt_added *a)
{
    return a->token_count == 0;
}

const struct dt_added_token *dt_added_find(const struct dt_added *a, uint32_t id)
{
    for (uint32_t i = 0; i < a->token_count; i++)
        if (a->tokens[i].id == id)
            return &a->tokens[i];
    return NULL;
}

/* The child of NODE for BYTE; 0: none. */
static uint32_t child_of(const struct dt_added *a, uint32_t node, uint8_t byte)
{
    if (node == 0)
        return a->first[byte];
    uint32_t n = a->nodes[node].child;
    while (n && a->nodes[n].byte != byte)
        n = a->nodes[n].sibling;
    return n;
}

static uint32_t make_child(struct dt_added *a, uint32_t node, uint8_t byte)
{
    if (a->node_count >= a->node_room) {
        uint32_t room = a->node_room ? 2 * a->node_room : 256;
        struct added_node *nodes = realloc(a->nodes, room * sizeof *nodes);
        if (!nodes)
            return 0;
        a->nodes = nodes;
        a->node_room = room;
    }
    uint32_t n = a->node_count++;
    a->nodes[n] = (struct added_node){.token = NONE, .byte = byte};
    if (node == 0) {
        a->first[byte] = n;
    } else {
        a->nodes[n].sibling = a->nodes[node].child;
        a->nodes[node].child = n;
    }
    return n;
}

int dt_added_put(struct dt_added *a, struct dt_bytes text, struct dt_added_token token,
                 struct dt_err *err)
{
    uint32_t node = 0;
    struct dt_added_token *tokens =
        realloc(a->tokens, (a->token_count + (size_t)1) * sizeof *tokens);
    if (!tokens)
        return dt_err_set(err, DT_E_MEMORY, "no memory for added tokens");
    a->tokens = tokens;
    for (size_t i = 0; i < text.len; i++) {
        uint32_t child = child_of(a, node, text.at[i]);
        if (!child)
            child = make_child(a, node, text.at[i]);
        if (!child)
            return dt_err_set(err, DT_E_MEMORY, "no memory for added tokens");
        node = child;
    }
    a->tokens[a->token_count] = token;
    a->nodes[node].token = a->token_count++;
    a->any_eats_before |= token.eats_before;
    return 0;
}

/* -- white space ------------------------------------------------------------------------------ */

/* The standard's White_Space. */
static bool is_white(unsigned c)
{
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

/* The length of the white space that TEXT begins with. */
static size_t white_at_start(struct dt_bytes text)
{
    size_t i = 0;
    while (i < text.len) {
        size_t n = dt_utf8_len(text.at + i, text.len - i);
        if (n == 0 || !is_white(dt_utf8_code(text.at + i, n)))
            break;
        i += n;
    }
    return i;
}

/* The length of the white space that TEXT ends with. A prompt may have bytes that are no UTF-8. */
static size_t white_at_end(struct dt_bytes text)
{
    size_t end = text.len;
    while (end > 0) {
        size_t start = end - 1;
        while (start > 0 && (text.at[start] & 0xc0) == 0x80)
            start--;
        size_t n = dt_utf8_len(text.at + start, end - start);
        if (n != end - start || !is_white(dt_utf8_code(text.at + start, n)))
            break;
        end = start;
    }
    return text.len - end;
}

struct dt_bytes dt_added_trim_start(struct dt_bytes text)
{
    size_t n = white_at_start(text);
    return (struct dt_bytes){text.at + n, text.len - n};
}

struct dt_bytes dt_added_trim_end(struct dt_bytes text)
{
    text.len -= white_at_end(text);
    return text;
}

/* -- the stage -------------------------------------------------------------------------------- */

struct added_stage {
    struct dt_stage stage;
    const struct dt_added *added;
    struct dt_stage_rest rest; /* what may be the beginning of a token, or white space before one */
    bool eating;               /* white space behind a token */
};

/* The longest token that TEXT begins with; NONE. *MORE: a longer one may come to light. */
static uint32_t token_at(const struct dt_added *a, struct dt_bytes text, size_t *len, bool *more)
{
    uint32_t node = 0, found = NONE;
    size_t i = 0;
    while (i < text.len && (node = child_of(a, node, text.at[i]))) {
        i++;
        if (a->nodes[node].token != NONE) {
            found = a->nodes[node].token;
            *len = i;
        }
    }
    *more = i == text.len && node && a->nodes[node].child;
    return found;
}

/* The first place from AT on where a token begins, or may: which of the two, and which one, is not
 * known yet where *UNSURE. END: nothing follows TEXT. PLAIN: special tokens are text, and as in the
 * library nothing is found within one. */
static uint32_t next_token(const struct dt_added *a, struct dt_bytes text, bool end, bool plain,
                           size_t *at, size_t *len, bool *unsure)
{
    *unsure = false;
    for (; *at < text.len; ++*at) {
        if (!a->first[text.at[*at]])
            continue;
        bool more;
        struct dt_bytes rest = {text.at + *at, text.len - *at};
        uint32_t found = token_at(a, rest, len, &more);
        *unsure = more && !end;
        if (!*unsure && found != NONE && plain && a->tokens[found].special)
            *at += *len - 1;
        else if (found != NONE || *unsure)
            return found;
    }
    return NONE;
}

static void pass(struct added_stage *s, struct dt_bytes part, bool end)
{
    s->stage.next->push(s->stage.next, part, end);
}

static void take(struct added_stage *s, const struct dt_added_token *token)
{
    pass(s, dt_stage_nothing(), true);
    s->stage.flow->begun = true;
    s->stage.flow->take_token(s->stage.flow, token->id);
    s->eating = token->eats_behind;
}

/* How many bytes of TEXT are done with. */
static size_t cut(struct dt_stage *stage, struct dt_bytes text, bool end)
{
    struct added_stage *s = dt_container_of(stage, struct added_stage, stage);
    const struct dt_added *a = s->added;
    for (size_t done = 0;;) {
        size_t at, len = 0;
        bool unsure;
        if (s->eating) {
            done += white_at_start((struct dt_bytes){text.at + done, text.len - done});
            s->eating = done == text.len && !end;
        }
        at = done;
        uint32_t found = next_token(a, text, end, s->stage.flow->plain, &at, &len, &unsure);
        /* White space in front of what is, or may become, a token that eats it. */
        struct dt_bytes before = {text.at + done, at - done};
        bool eats = found != NONE && !unsure ? a->tokens[found].eats_before : a->any_eats_before;
        if (eats && !(end && found == NONE))
            before.len -= white_at_end(before);
        pass(s, before, false);
        if (unsure || found == NONE)
            return done + before.len;
        take(s, &a->tokens[found]);
        done = at + len;
    }
}

static void push_added(struct dt_stage *stage, struct dt_bytes part, bool end)
{
    struct added_stage *s = dt_container_of(stage, struct added_stage, stage);
    if (!dt_stage_cut(stage, &s->rest, part, end, cut) || !end)
        return;
    s->eating = false;
    pass(s, dt_stage_nothing(), true);
}

static void destroy_added(struct dt_stage *stage)
{
    struct added_stage *s = dt_container_of(stage, struct added_stage, stage);
    dt_buf_finish(&s->rest.held);
    free(s);
}

struct dt_stage *dt_stage_added(const struct dt_step *step, struct dt_err *err)
{
    struct added_stage *s = calloc(1, sizeof *s);
    if (!s) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a tokenizer");
        return NULL;
    }
    s->added = step->added;
    s->stage = (struct dt_stage){.push = push_added, .destroy = destroy_added};
    return &s->stage;
}
