/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hang/keys.h"
#include "tests/lib/check.h"

static struct dt_key_waits waits = {
    .at = {{.from = "10.0.0.2:41234", .waited = 8100, .keys = "default_pg/0//cpu//0/1"}},
    .len = 1,
};

/* A worker below a shell, whose main thread waits for WHAT, and whose other thread waits, too. */
struct stage {
    struct dt_look look;
    struct dt_look_entry entries[2];
    struct dt_look_task tasks[3];
};

static void look_like(struct stage *st, enum dt_waiting_kind kind, const char *what,
                      const char *here)
{
    *st = (struct stage){.look = {.at = st->entries, .len = 2}};
    st->tasks[0] = (struct dt_look_task){.tid = 8};
    st->tasks[1] = (struct dt_look_task){.tid = 10};
    st->tasks[2] = (struct dt_look_task){.tid = 9, .waiting = {.kind = kind}};
    snprintf(st->tasks[2].waiting.what, DT_WAITING_FOR_MAX, "%s", what);
    snprintf(st->tasks[2].waiting.here, DT_ADDR_TEXT, "%s", here);
    st->entries[0].process = (struct dt_look_process){.pid = 8, .tasks = st->tasks, .len = 1};
    st->entries[1].process = (struct dt_look_process){.pid = 9, .tasks = st->tasks + 1, .len = 2};
}

TEST(a_main_thread_that_waits_for_the_store_is_found_by_the_stores_port)
{
    struct stage st;
    look_like(&st, DT_WAITING_SOCKET, "10.0.0.1:29500", "10.0.0.2:41234");
    CHECK(dt_keys_waiting(&st.look, 29500) == &st.tasks[2].waiting);
    CHECK(dt_keys_waiting(&st.look, 9500) == NULL);
    CHECK(dt_keys_waiting(&st.look, 0) == NULL);
    st.tasks[2].tid = 11;
    CHECK(dt_keys_waiting(&st.look, 29500) == NULL);
    look_like(&st, DT_WAITING_SOCKET, "[fd00::1]:29500", "[fd00::2]:41234");
    CHECK(dt_keys_waiting(&st.look, 29500) != NULL);
    look_like(&st, DT_WAITING_SOCKET, "a connection to 0.0.0.0:29500", "");
    CHECK(dt_keys_waiting(&st.look, 29500) == NULL);
    look_like(&st, DT_WAITING_FILE, "/tmp/file:29500", "10.0.0.2:41234");
    CHECK(dt_keys_waiting(&st.look, 29500) == NULL);
}

TEST(what_the_server_knows_becomes_part_of_the_stance)
{
    static const struct {
        enum dt_doing doing, becomes;
        const char *here, *object, *keys;
    } rows[] = {
        {DT_DOING_COLLECTIVE, DT_DOING_COLLECTIVE, "10.0.0.2:41234", "", "default_pg/0//cpu//0/1"},
        {DT_DOING_STORE, DT_DOING_STORE, "10.0.0.2:41234", "", "default_pg/0//cpu//0/1"},
        {DT_DOING_SOCKET, DT_DOING_STORE, "10.0.0.2:41234", "10.0.0.1:29500",
         "default_pg/0//cpu//0/1"},
        {DT_DOING_SOCKET, DT_DOING_SOCKET, "10.0.0.2:41234", "10.0.0.9:80", ""},
        {DT_DOING_SLEEP, DT_DOING_SLEEP, "10.0.0.2:41234", "", ""},
        {DT_DOING_COLLECTIVE, DT_DOING_COLLECTIVE, "10.0.0.2:41235", "", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct stage st;
        struct dt_buf stacks = {0};
        struct dt_stance s = {.doing = rows[i].doing, .sequence = -1, .step = -1};
        CHECK_ROW("%zu", i);
        snprintf(s.object, sizeof s.object, "%s", rows[i].object);
        look_like(&st, DT_WAITING_SOCKET, "10.0.0.1:29500", rows[i].here);
        dt_keys_put(&waits, &st.tasks[2].waiting, &s, &stacks);
        CHECK_EQ(s.doing, rows[i].becomes);
        CHECK_STR(s.keys, rows[i].keys);
        bool known = strcmp(rows[i].here, waits.at[0].from) == 0;
        CHECK_STR(dt_buf_cstr(&stacks),
                  known ? "the job's store: waits for default_pg/0//cpu//0/1 since 8.1 s\n" : "");
        dt_buf_finish(&stacks);
    }
}

TEST(where_no_agent_serves_the_store_nobody_is_asked)
{
    struct stage st;
    struct dt_keys keys = {.port = 0};
    struct dt_buf stacks = {0};
    struct dt_stance s = {.doing = DT_DOING_COLLECTIVE, .sequence = -1, .step = -1};
    look_like(&st, DT_WAITING_SOCKET, "10.0.0.1:29500", "10.0.0.2:41234");
    dt_keys_tell(&keys, &st.look, &s, &stacks);
    CHECK(!keys.asked);
    CHECK_STR(s.keys, "");
    dt_keys_finish(&keys);
    dt_buf_finish(&stacks);
}
