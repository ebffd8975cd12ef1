/* SPDX-License-Identifier: Apache-2.0 */
/* The rendezvous behind a store's port, over real sockets: three nodes of a run, and what its
 * status says. */
#ifndef DT_TESTS_RENDEZVOUS_RDZV_THREE_H
#define DT_TESTS_RENDEZVOUS_RDZV_THREE_H

#include "base/json.h"
#include "rendezvous/protocol/sync_control.h"
#include "tests/lib/folder.h"
#include "tests/rendezvous/rdzv_stage.h"

#include <cjson/cJSON.h>

#define SOON (20 * DT_SECOND) /* never reached unless something is broken */

BEFORE_ALL
{
    folder_make();
    setenv("UV_THREADPOOL_SIZE", "1", 1);
}

static const char *const names[] = {"node0", "node1", "node2"};

static inline void three_enter(struct node n[3], const char *run, uint16_t port)
{
    for (int i = 0; i < 3; i++) {
        n[i] = node_of(run, names[i], (uint64_t)(10 + i), 3);
        node_enter(&n[i], port);
    }
}

static inline void three_run(struct node n[3], const char *run, uint16_t port)
{
    three_enter(n, run, port);
    for (int i = 0; i < 3; i++)
        node_run(&n[i]);
}

static inline void three_succeed(struct node n[3])
{
    for (int i = 0; i < 3; i++)
        node_succeed(&n[i]);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(node_hear(&n[i], DT_MSG_CLOSE)->close.kind, DT_CLOSE_SUCCEEDED);
        node_finish(&n[i]);
    }
}

static inline struct dt_sync_control *control_open(struct stage *st)
{
    struct dt_err err = {0};
    char addr[32];
    snprintf(addr, sizeof addr, "127.0.0.1:%d", st->serving.port);
    struct dt_sync_control *c = dt_sync_control_open(addr, "test", NULL, SOON, &err);
    CHECK_STR(err.text, "");
    return c;
}

static inline struct dt_json ask_status(struct dt_sync_control *c, const char *run, int from)
{
    struct dt_message ask = {.type = DT_MSG_STATUS, .run = run, .status = {.from = from}}, answer;
    struct dt_json page;
    struct dt_err err;
    CHECK_OK(dt_sync_control_ask(c, &ask, &answer, &err), err);
    CHECK_OK(dt_json_parse(&page, answer.status.json, strlen(answer.status.json),
                           DT_STATUS_FRAME_MAX, &err),
             err);
    dt_message_finish(&answer);
    return page;
}

/* How many are on the list NAME of PAGE; *FIRST (may be NULL) is the first of them. */
static inline int count_of(const struct dt_json *page, const char *name, const struct cJSON **first)
{
    const struct cJSON *list;
    struct dt_err err;
    CHECK_OK(dt_json_array(page, NULL, name, &list, &err), err);
    if (first)
        *first = cJSON_GetArrayItem(list, 0);
    return cJSON_GetArraySize(list);
}

static inline void check_text(const struct dt_json *page, const struct cJSON *row, const char *name,
                              const char *wanted)
{
    const char *text;
    struct dt_err err;
    CHECK_OK(dt_json_string(page, row, name, &text, &err), err);
    CHECK_STR(text, wanted);
}

static inline void check_number(const struct dt_json *page, const struct cJSON *row,
                                const char *name, int64_t wanted)
{
    int64_t n;
    struct dt_err err;
    CHECK_OK(dt_json_int(page, row, name, -1, INT32_MAX, &n, &err), err);
    CHECK_EQ(n, wanted);
}

#endif
