/* SPDX-License-Identifier: Apache-2.0 */
/* What a rendezvous answered, for tests of what is shown of it. */
#ifndef DT_TESTS_TOP_MODEL_H
#define DT_TESTS_TOP_MODEL_H

#include "ctl/top/model.h"
#include "tests/lib/check.h"

/* Rows of which the strings outlive the model. What is left out of a row is unknown. */
struct answer {
    const struct dt_status_run *runs;
    const struct dt_status_node *nodes; /* sorted by run and name */
    const struct dt_status_excluded *excluded;
    size_t runs_len, nodes_len, excluded_len;
};

#define RUN(name, how, ...)                                                                        \
    {                                                                                              \
        .id = name, .state = how, __VA_ARGS__                                                      \
    }
#define NODE(of, called, does, at, ...)                                                            \
    {                                                                                              \
        .run = of, .name = called, .doing = does, .seat = at, .workers = 8, .round = 4,            \
        __VA_ARGS__                                                                                \
    }
#define EVENT(when, how, of, what)                                                                 \
    (struct dt_top_event)                                                                          \
    {                                                                                              \
        .time = when, .weight = how, .run = strdup(of), .words = strdup(what)                      \
    }

static inline struct dt_ctl_rows copy_of(const void *rows, size_t len, size_t size)
{
    struct dt_ctl_rows copy = {malloc(len * size + 1), len};
    CHECK(copy.at != NULL);
    if (len)
        memcpy(copy.at, rows, len * size);
    return copy;
}

static inline void fill(const char **text, const char *where_unknown)
{
    if (!*text)
        *text = where_unknown;
}

/* What a page leaves out is "". */
static inline void fill_rows(struct dt_ctl_pages *p)
{
    struct dt_status_run *run = p->runs.at;
    struct dt_status_node *node = p->nodes.at;
    for (size_t i = 0; i < p->runs.len; i++) {
        fill(&run[i].master, "");
        fill(&run[i].why, "");
        fill(&run[i].ended, "");
        fill(&run[i].begun_on, "");
        fill(&run[i].loss, "");
    }
    for (size_t i = 0; i < p->nodes.len; i++) {
        fill(&node[i].state, "online");
        fill(&node[i].disk, "");
        fill(&node[i].worker_ms, "");
    }
}

static inline void hear(struct dt_top_model *m, const struct answer *a)
{
    struct dt_top_events none = {0};
    struct dt_ctl_pages pages = {
        .server = {.host = "daemon", .version = "0.1.0", .http = ""},
        .runs = copy_of(a->runs, a->runs_len, sizeof *a->runs),
        .nodes = copy_of(a->nodes, a->nodes_len, sizeof *a->nodes),
        .excluded = copy_of(a->excluded, a->excluded_len, sizeof *a->excluded),
    };
    fill_rows(&pages);
    dt_top_model_hear(m, &pages, &none, false);
}

/* Each character of KEYS; in it \x01 is Up, \x02 Down, \x03 PgDn, \x04 End. */
static inline enum dt_top_wish press(struct dt_top_model *m, const char *keys)
{
    static const enum dt_key_kind kinds[128] = {
        ['\1'] = DT_KEY_UP,        ['\2'] = DT_KEY_DOWN,   ['\3'] = DT_KEY_PAGE_DOWN,
        ['\4'] = DT_KEY_END,       ['\r'] = DT_KEY_ENTER,  ['\033'] = DT_KEY_ESCAPE,
        ['\b'] = DT_KEY_BACKSPACE, ['\f'] = DT_KEY_REDRAW,
    };
    enum dt_top_wish wish = DT_TOP_NOTHING;
    for (; *keys; keys++) {
        struct dt_key key = {kinds[(unsigned char)*keys], *keys};
        if (key.kind == DT_KEY_OTHER)
            key.kind = DT_KEY_CHARACTER;
        wish = dt_top_model_press(m, key, 24, 80);
    }
    return wish;
}

#endif
