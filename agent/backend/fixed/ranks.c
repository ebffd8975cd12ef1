/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/backend/fixed/ranks.h"

#include "base/json.h"
#include "base/json_write.h"
#include "base/str.h"
#include "rendezvous/protocol/spec.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

/* -- what nodes say --------------------------------------------------------------------------- */

void dt_ranks_write_node(struct dt_buf *out, const struct dt_ranks_node *node, int rank)
{
    struct dt_json_writer w = {.out = out, .style = DT_JSON_SPACED};
    dt_json_put_object(&w, NULL);
    dt_json_put_text(&w, "role", node->role);
    dt_json_put_int(&w, "rank", rank);
    dt_json_put_int(&w, "local_world_size", node->workers);
    if (node->nodes)
        dt_json_put_int(&w, "nodes", node->nodes);
    dt_json_put_end(&w);
}

/* An optional member. */
static int read_count(const struct dt_json *doc, const char *name, int64_t *out, struct dt_err *err)
{
    *out = 0;
    return dt_json_has(doc->root, name) ? dt_json_int(doc, NULL, name, 0, INT_MAX, out, err) : 0;
}

int dt_ranks_read_node(struct dt_bytes text, struct dt_ranks_node *out, struct dt_err *err)
{
    struct dt_json doc;
    const char *role;
    int64_t workers, nodes;
    int rc = -1;
    if (dt_json_parse(&doc, (const char *)text.at, text.len, DT_RANKS_TEXT_MAX, err) < 0)
        return -1;
    if (dt_json_string(&doc, NULL, "role", &role, err) == 0 &&
        dt_json_int(&doc, NULL, "local_world_size", 1, DT_WORKERS_MOST, &workers, err) == 0 &&
        read_count(&doc, "nodes", &nodes, err) == 0) {
        char *copy = strdup(role);
        rc = copy ? 0 : dt_err_set(err, DT_E_MEMORY, "no memory for a node's role");
        if (copy)
            *out = (struct dt_ranks_node){copy, (int)workers, (int)nodes};
    }
    dt_json_finish(&doc);
    return rc;
}

/* -- what they are told ----------------------------------------------------------------------- */

void dt_ranks_write_place(struct dt_buf *out, const struct dt_ranks_place *place)
{
    dt_buf_printf(out, "[%d, %d, %d, %d]", place->first, place->size, place->first_in_role,
                  place->role_size);
}

/* The next character that is no white space, which is consumed; 0 at the end. */
static char next_char(struct dt_reader *r)
{
    char c;
    do
        c = (char)dt_read_u8(r);
    while (c == ' ' || c == '\t' || c == '\n' || c == '\r');
    return c;
}

/* A rank as Python writes one: digits, without sign or fraction. -1: there is none. *AFTER: what
 * follows it. */
static int read_rank(struct dt_reader *r, char *after)
{
    int64_t n = 0;
    char c = next_char(r);
    if (c < '0' || c > '9')
        return -1;
    bool leading_zero = c == '0';
    for (int digits = 1; c >= '0' && c <= '9'; digits++) {
        n = n * 10 + (c - '0');
        if (n > INT_MAX || (leading_zero && digits > 1))
            return -1;
        c = (char)dt_read_u8(r);
    }
    bool space = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    *after = space ? next_char(r) : c;
    return (int)n;
}

static bool read_four(struct dt_bytes text, int out[4])
{
    struct dt_reader r = dt_reader_over(text.at, text.len);
    char after = next_char(&r);
    if (after != '[')
        return false;
    for (int i = 0; i < 4; i++) {
        out[i] = read_rank(&r, &after);
        if (out[i] < 0 || after != (i < 3 ? ',' : ']'))
            return false;
    }
    return next_char(&r) == '\0' && r.bad; /* nothing but the end */
}

void dt_ranks_write_refusal(struct dt_buf *out, const char *why)
{
    struct dt_json_writer w = {.out = out, .style = DT_JSON_SPACED};
    dt_json_put_object(&w, NULL);
    dt_json_put_text(&w, "refused", why);
    dt_json_put_end(&w);
}

/* Whether TEXT is a refusal, which *ERR is then. */
static bool read_refusal(struct dt_bytes text, struct dt_err *err)
{
    struct dt_json doc;
    const char *why;
    char shown[400];
    if (dt_json_parse(&doc, (const char *)text.at, text.len, DT_RANKS_TEXT_MAX, NULL) < 0)
        return false;
    bool refused = dt_json_string(&doc, NULL, "refused", &why, NULL) == 0;
    if (refused)
        dt_err_set(err, DT_E_CANCELED, "%s",
                   dt_str_printable(dt_bytes_of(why), shown, sizeof shown));
    dt_json_finish(&doc);
    return refused;
}

int dt_ranks_read_place(struct dt_bytes text, struct dt_ranks_place *out, struct dt_err *err)
{
    int n[4];
    char shown[100];
    if (text.len > 0 && text.at[0] == '{' && read_refusal(text, err))
        return -1;
    if (text.len > DT_RANKS_TEXT_MAX || !read_four(text, n) || n[0] >= n[1] || n[2] >= n[3] ||
        n[3] > n[1])
        return dt_err_set(err, DT_E_PROTOCOL,
                          "\"%s\" are no ranks: expected [first, of how many, first of the role, "
                          "of how many]",
                          dt_str_printable(text, shown, sizeof shown));
    *out = (struct dt_ranks_place){n[0], n[1], n[2], n[3]};
    return 0;
}

/* -- the walk --------------------------------------------------------------------------------- */

struct entry {
    const struct dt_ranks_node *node;
    struct dt_ranks_place *place;
};

/* Nodes of one role stand together, and in order. */
static int by_role(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int roles = strcmp(x->node->role, y->node->role);
    return roles ? roles : (x->node > y->node) - (x->node < y->node);
}

/* The entries of one role, from the first on. Returns how many they are. */
static size_t assign_role(struct entry *first, size_t left)
{
    size_t n = 0;
    int size = 0;
    for (; n < left && strcmp(first[n].node->role, first->node->role) == 0; n++) {
        first[n].place->first_in_role = size;
        size += first[n].node->workers;
    }
    for (size_t i = 0; i < n; i++)
        first[i].place->role_size = size;
    return n;
}

static int too_many(struct dt_err *err)
{
    return dt_err_set(err, DT_E_LIMIT, "more than %d workers are more than ranks can count",
                      INT_MAX);
}

int dt_ranks_assign(const struct dt_ranks_node *nodes, size_t count, struct dt_ranks_place *places,
                    struct dt_err *err)
{
    int64_t size = 0;
    struct entry *entries = calloc(count + 1, sizeof *entries);
    if (!entries)
        return dt_err_set(err, DT_E_MEMORY, "no memory for the ranks of %zu nodes", count);
    for (size_t i = 0; i < count && size <= INT_MAX; i++) {
        entries[i] = (struct entry){&nodes[i], &places[i]};
        places[i].first = (int)size;
        size += nodes[i].workers;
    }
    if (size > INT_MAX) {
        free(entries);
        return too_many(err);
    }
    qsort(entries, count, sizeof *entries, by_role);
    for (size_t i = 0; i < count; i += assign_role(entries + i, count - i))
        ;
    for (size_t i = 0; i < count; i++)
        places[i].size = (int)size;
    free(entries);
    return 0;
}

int dt_ranks_identical(int node, int nodes, int workers, struct dt_ranks_place *place,
                       struct dt_err *err)
{
    if ((int64_t)nodes * workers > INT_MAX)
        return too_many(err);
    int first = node * workers, size = nodes * workers;
    *place = (struct dt_ranks_place){first, size, first, size};
    return 0;
}

/* -- for people ------------------------------------------------------------------------------- */

/* One past the end of the run of equal values that begins at FROM. */
static size_t run_end(const bool *absent, size_t count, size_t from)
{
    size_t end = from;
    while (end < count && absent[end] == absent[from])
        end++;
    return end;
}

const char *dt_ranks_list(const bool *absent, size_t count, char *out, size_t size)
{
    size_t at = 0, begin = 0;
    snprintf(out, size, "none");
    if (begin < count && !absent[begin])
        begin = run_end(absent, count, begin);
    for (bool first = true; begin < count; first = false) {
        char run[64];
        size_t end = run_end(absent, count, begin), next = run_end(absent, count, end);
        const char *between = first ? "" : next < count ? ", " : " and ";
        int n = end - begin == 1 ? snprintf(run, sizeof run, "%s%zu", between, begin)
                                 : snprintf(run, sizeof run, "%s%zu-%zu", between, begin, end - 1);
        if (at + (size_t)n + sizeof ", ..." > size) {
            snprintf(out + at, size - at, "%s...", first ? "" : ", ");
            break;
        }
        memcpy(out + at, run, (size_t)n + 1);
        at += (size_t)n;
        begin = next;
    }
    return out;
}
