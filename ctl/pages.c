/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/pages.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct list {
    const char *name;
    const struct dt_field *fields;
    size_t size; /* of a row */
    struct dt_ctl_rows *rows;
};

static int no_memory(struct dt_err *err)
{
    return dt_err_set(err, DT_E_MEMORY, "no memory for the status of so many nodes");
}

/* Zeroed. Rows grow to powers of two. */
static void *add_row(struct dt_ctl_rows *rows, size_t size)
{
    if ((rows->len & (rows->len - 1)) == 0) {
        void *grown = reallocarray(rows->at, rows->len ? 2 * rows->len : 1, size);
        if (!grown)
            return NULL;
        rows->at = grown;
    }
    return memset((char *)rows->at + rows->len++ * size, 0, size);
}

static int read_list(const struct dt_json *doc, const struct cJSON *page, const struct list *l,
                     struct dt_err *err)
{
    const struct cJSON *array;
    if (dt_json_array(doc, page, l->name, &array, err) < 0)
        return -1;
    for (const struct cJSON *e = dt_json_first(array); e; e = dt_json_next(e)) {
        void *row = add_row(l->rows, l->size);
        if (!row)
            return no_memory(err);
        if (dt_fields_get(doc, e, l->fields, row, err) < 0)
            return -1;
    }
    return 0;
}

/* *NEXT: where the next page begins; 0: there is none. */
static int read_page(struct dt_ctl_pages *p, const struct dt_json *doc, int from, int *next,
                     struct dt_err *err)
{
    const struct list lists[] = {
        {"runs", dt_status_run_fields, sizeof(struct dt_status_run), &p->runs},
        {"nodes", dt_status_node_fields, sizeof(struct dt_status_node), &p->nodes},
        {"excluded", dt_status_excluded_fields, sizeof(struct dt_status_excluded), &p->excluded},
    };
    const struct cJSON *page, *server;
    int64_t after;
    if (dt_json_object(doc, NULL, "page", &page, err) < 0 ||
        dt_json_object(doc, page, "server", &server, err) < 0 ||
        dt_fields_get(doc, server, dt_status_server_fields, &p->server, err) < 0 ||
        dt_json_int(doc, page, "next", 0, INT_MAX, &after, err) < 0)
        return -1;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (read_list(doc, page, &lists[i], err) < 0)
            return -1;
    if (after != 0 && after <= from)
        return dt_err_set(err, DT_E_PROTOCOL, "page.next: the page from %d is followed by %d", from,
                          (int)after);
    *next = (int)after;
    return 0;
}

/* The page that REQUEST asks for; its rounds only where it asks for them. */
static int read_answer(const struct dt_message *request, struct dt_ctl_pages *p,
                       const struct dt_json *doc, int *next, struct dt_err *err)
{
    const struct list history = {"history", dt_status_past_fields, sizeof(struct dt_status_past),
                                 &p->history};
    const struct cJSON *page;
    if (read_page(p, doc, request->status.from, next, err) < 0)
        return -1;
    if (!request->status.history)
        return 0;
    if (dt_json_object(doc, NULL, "page", &page, err) < 0)
        return -1;
    if (!dt_json_has(page, "history"))
        return dt_err_set(err, DT_E_PROTOCOL,
                          "there is no history: this rendezvous is of an older version");
    return read_list(doc, page, &history, err);
}

static int fetch_page(struct dt_sync_control *c, const struct dt_message *request,
                      struct dt_ctl_pages *p, int *next, struct dt_err *err)
{
    struct dt_message answer;
    if (dt_sync_control_ask(c, request, &answer, err) < 0)
        return -1;
    struct dt_message *kept = add_row(&p->answers, sizeof *kept);
    if (!kept) {
        dt_message_finish(&answer);
        return no_memory(err);
    }
    *kept = answer;
    if (read_answer(request, p, &kept->doc, next, err) == 0)
        return 0;
    if (err->code == DT_E_USAGE) /* it is not the person's JSON */
        err->code = DT_E_PROTOCOL;
    return dt_err_wrap(err, "the rendezvous' status makes no sense");
}

static int by_run_and_name(const void *a, const void *b)
{
    const struct dt_status_node *x = a, *y = b;
    int order = strcmp(x->run, y->run);
    return order ? order : strverscmp(x->name, y->name);
}

/* Nodes that came or went while we asked may have moved from one page to the next. */
static void drop_repeated(struct dt_ctl_pages *p)
{
    struct dt_status_node *nodes = p->nodes.at;
    size_t kept = 0;
    if (nodes)
        qsort(nodes, p->nodes.len, sizeof *nodes, by_run_and_name);
    for (size_t i = 0; i < p->nodes.len; i++)
        if (i == 0 || by_run_and_name(&nodes[kept - 1], &nodes[i]) != 0)
            nodes[kept++] = nodes[i];
    p->nodes.len = kept;
}

int dt_ctl_pages_fetch(struct dt_sync_control *c, const char *run, struct dt_ctl_pages *pages,
                       struct dt_err *err)
{
    struct dt_message request = {.type = DT_MSG_STATUS, .run = run};
    *pages = (struct dt_ctl_pages){0};
    do
        if (fetch_page(c, &request, pages, &request.status.from, err) < 0)
            return -1;
    while (request.status.from);
    drop_repeated(pages);
    return 0;
}

int dt_ctl_pages_fetch_runs(struct dt_sync_control *c, struct dt_ctl_pages *pages,
                            struct dt_err *err)
{
    int next;
    struct dt_message request = {.type = DT_MSG_STATUS, .run = ""};
    *pages = (struct dt_ctl_pages){0};
    return fetch_page(c, &request, pages, &next, err);
}

int dt_ctl_pages_fetch_history(struct dt_sync_control *c, const char *run,
                               struct dt_ctl_pages *pages, struct dt_err *err)
{
    int next;
    struct dt_message request = {.type = DT_MSG_STATUS, .run = run, .status.history = true};
    *pages = (struct dt_ctl_pages){0};
    return fetch_page(c, &request, pages, &next, err);
}

void dt_ctl_pages_finish(struct dt_ctl_pages *pages)
{
    struct dt_message *answers = pages->answers.at;
    for (size_t i = 0; i < pages->answers.len; i++)
        dt_message_finish(&answers[i]);
    free(answers);
    free(pages->runs.at);
    free(pages->nodes.at);
    free(pages->excluded.at);
    free(pages->history.at);
    *pages = (struct dt_ctl_pages){0};
}

void dt_ctl_put_rows(struct dt_buf *out, const char *name, const struct dt_field *fields,
                     const struct dt_ctl_rows *rows, size_t size)
{
    dt_buf_printf(out, "%s\"%s\":[", out->len && out->at[out->len - 1] == '{' ? "" : ",", name);
    for (size_t i = 0; i < rows->len; i++) {
        dt_buf_put_str(out, i ? ",{" : "{");
        dt_fields_put(out, (const char *)rows->at + i * size, fields);
        dt_buf_put_u8(out, '}');
    }
    dt_buf_put_u8(out, ']');
}
