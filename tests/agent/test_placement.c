/* SPDX-License-Identifier: Apache-2.0 */
/* Small machines made by hand; large ones are in test_bind.c. */
#include "agent/bind/placement.h"
#include "tests/lib/check.h"
#include "tests/lib/cpus.h"

#define WORKERS_MAX 16

/* Two sockets of four cores with two threads each, a cache for two cores; devices on buses 1 and 2
 * are near node 0, 3 and 4 near node 1, and of 9 nothing is known. */
static const struct dt_machine *two_sockets(void)
{
    static struct dt_machine_node nodes[2];
    static struct dt_cpuset cores[8], caches[4];
    static struct dt_machine_device devices[5];
    static struct dt_machine m = {.nodes = nodes,
                                  .node_count = 2,
                                  .cores = cores,
                                  .core_count = 8,
                                  .caches = caches,
                                  .cache_count = 4,
                                  .devices = devices,
                                  .device_count = 5};
    nodes[0] = (struct dt_machine_node){.id = 0, .package = 0, .cpus = cpus("0-3,8-11")};
    nodes[1] = (struct dt_machine_node){.id = 1, .package = 1, .cpus = cpus("4-7,12-15")};
    for (unsigned i = 0; i < 8; i++) {
        cores[i] = (struct dt_cpuset){0};
        dt_cpuset_add(&cores[i], i);
        dt_cpuset_add(&cores[i], i + 8);
    }
    for (int i = 0; i < 4; i++) {
        caches[i] = cores[2 * i];
        dt_cpuset_join(&caches[i], &cores[2 * i + 1]);
    }
    for (int i = 0; i < 5; i++)
        devices[i] = (struct dt_machine_device){.at = {.bus = (uint8_t)(i + 1)},
                                                .nodes = cpus(i < 2 ? "0" : "1")};
    devices[4] = (struct dt_machine_device){.at = {.bus = 9}, .nodes = cpus("0-1")};
    return &m;
}

/* "CPUS | CPUS | ..." of all workers, or what was wrong. BUSES: of the visible GPUs, "1 3". */
static const char *plan(enum dt_plan_bind mode, const struct dt_machine *m, const char *allowed,
                        const char *buses, int nproc, const char *between)
{
    static char text[1024];
    static struct dt_placement out[WORKERS_MAX];
    struct dt_gpu gpus[WORKERS_MAX] = {0};
    struct dt_gpus visible = {.at = gpus};
    struct dt_err err = {0};
    struct dt_buf b = {0};
    struct dt_cpuset mask = cpus(allowed);
    char *rest = NULL, *list = strdup(buses);
    for (char *word = strtok_r(list, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        gpus[visible.count++].at.bus = (uint8_t)atoi(word);
    free(list);
    if (dt_placement_plan(mode, m, &mask, &visible, nproc, out, &err) < 0)
        return strcpy(text, err.text);
    for (int i = 0; i < nproc; i++) {
        dt_buf_put_str(&b, i ? " | " : "");
        dt_cpuset_put(&out[i].cpus, &b);
        if (*between) {
            dt_buf_put_str(&b, between);
            dt_cpuset_put(&out[i].nodes, &b);
        }
    }
    snprintf(text, sizeof text, "%s", dt_buf_cstr(&b));
    dt_buf_finish(&b);
    return text;
}

struct row {
    enum dt_plan_bind mode;
    const char *allowed, *buses;
    int nproc;
    const char *want;
};

static void check_rows(const struct dt_machine *m, const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct row *r = &rows[i];
        CHECK_ROW("mode %d, allowed %s, GPUs on \"%s\", %d workers", r->mode, r->allowed, r->buses,
                  r->nproc);
        CHECK_STR(plan(r->mode, m, r->allowed, r->buses, r->nproc, ""), r->want);
    }
}
#define CHECK_ROWS(m, rows) check_rows(m, rows, sizeof rows / sizeof *(rows))

TEST(a_worker_runs_near_its_gpu)
{
    /* clang-format off */
    static const struct row rows[] = {
        {DT_BIND_NODE, "0-15", "1 3", 2, "0-3,8-11 | 4-7,12-15"},
        {DT_BIND_NODE, "0-15", "4 1", 2, "4-7,12-15 | 0-3,8-11"},
        {DT_BIND_NODE, "0-15", "1 3", 1, "0-3,8-11"},
        {DT_BIND_NODE, "0-15", "9", 1, "0-3,8-11"},
        {DT_BIND_NODE, "0-4,8", "1 3", 2, "0-3,8 | 4"},
        {DT_BIND_SOCKET, "0-15", "1 3", 2, "0-3,8-11 | 4-7,12-15"},
        {DT_BIND_EXCLUSIVE, "0-15", "1 2 3", 3, "0-1,8-9 | 2-3,10-11 | 4-7,12-15"},
        {DT_BIND_EXCLUSIVE, "0-15", "1 3 2 4", 4, "0-1,8-9 | 4-5,12-13 | 2-3,10-11 | 6-7,14-15"},
        {DT_BIND_EXCLUSIVE, "0-15", "1 2 9", 3, "0-1,8-9 | 2,10 | 3,11"},
        {DT_BIND_EXCLUSIVE, "0-15", "1 2", 1, "0-1,8-9"}, /* the other GPU keeps its share */
        {DT_BIND_EXCLUSIVE, "0-7", "1 2", 2, "0-1 | 2-3"},
        {DT_BIND_EXCLUSIVE, "1-2,9", "1 2", 2, "1,9 | 2"},
        {DT_BIND_COMPLEX, "0-15", "1 2", 2, "0-1,8-9 | 2-3,10-11"},
        {DT_BIND_COMPLEX, "0-15", "1 2 9", 3, "0-1,8-9 | 2-3,10-11 | 0-1,8-9"},
        {DT_BIND_COMPLEX, "1-3,9-11", "1 2", 2, "2-3,10-11 | 1,9"}, /* the fullest first */
        {DT_BIND_COMPLEX, "0,4", "1 2 3", 3, "0 | 0 | 4"},
    };
    /* clang-format on */
    CHECK_ROWS(two_sockets(), rows);
}

TEST(without_gpus_workers_are_spread_evenly)
{
    /* clang-format off */
    static const struct row rows[] = {
        {DT_BIND_NODE, "0-15", "", 1, "0-3,8-11"},
        {DT_BIND_NODE, "0-15", "", 2, "0-3,8-11 | 4-7,12-15"},
        {DT_BIND_NODE, "0-15", "", 3, "0-3,8-11 | 0-3,8-11 | 4-7,12-15"},
        {DT_BIND_NODE, "4-6", "", 2, "4-6 | 4-6"},
        {DT_BIND_SOCKET, "0-15", "", 2, "0-3,8-11 | 4-7,12-15"},
        {DT_BIND_EXCLUSIVE, "0-15", "", 2, "0-3,8-11 | 4-7,12-15"},
        {DT_BIND_EXCLUSIVE, "0-15", "", 3, "0-2,8-10 | 3-5,11-13 | 6-7,14-15"},
        {DT_BIND_EXCLUSIVE, "0-3", "", 4, "0 | 1 | 2 | 3"},
        {DT_BIND_COMPLEX, "0-15", "", 2, "0-1,8-9 | 4-5,12-13"},
        {DT_BIND_COMPLEX, "0-15", "", 4, "0-1,8-9 | 2-3,10-11 | 4-5,12-13 | 6-7,14-15"},
        {DT_BIND_COMPLEX, "0-3", "", 4, "0-1 | 0-1 | 2-3 | 2-3"},
    };
    /* clang-format on */
    CHECK_ROWS(two_sockets(), rows);
}

TEST(what_cannot_be_is_said_in_a_sentence)
{
    static const struct {
        enum dt_plan_bind mode;
        const char *allowed, *buses;
        int nproc;
        const char *words;
    } rows[] = {
        {DT_BIND_NODE, "0-15", "1 2", 3, "local rank 2 has no GPU: 2 are visible to 3 workers"},
        {DT_BIND_NODE, "4-7", "3 1", 2, "GPU 1 (0000:01:00.0) is at NUMA node 0, and we may use"},
        {DT_BIND_COMPLEX, "4-7", "1", 1, "GPU 0 (0000:01:00.0) is at NUMA node 0, and we may use"},
        {DT_BIND_NODE, "0-15", "7", 1, "GPU 0 (0000:07:00.0) is not among the devices"},
        {DT_BIND_EXCLUSIVE, "0,8,4-7", "1 2", 2, "NUMA node 0 has 2 GPUs and 1 cores"},
        {DT_BIND_EXCLUSIVE, "0-15", "", 9, "9 workers want cores of their own and 8 may be used"},
        {DT_BIND_NODE, "99", "", 1, "no processor that we may use"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].words);
        const char *said =
            plan(rows[i].mode, two_sockets(), rows[i].allowed, rows[i].buses, rows[i].nproc, "");
        CHECK(strstr(said, rows[i].words) != NULL);
    }
}

/* Four nodes in two sockets, numbered crosswise; node 4 is fast memory beside node 0's cores. */
TEST(sockets_have_several_nodes_and_nodes_may_share_cores)
{
    struct dt_machine_node nodes[] = {{.id = 0, .package = 0, .cpus = cpus("0-1")},
                                      {.id = 4, .package = 0, .cpus = cpus("0-1")},
                                      {.id = 2, .package = 0, .cpus = cpus("4-5")},
                                      {.id = 1, .package = 1, .cpus = cpus("2-3")},
                                      {.id = 3, .package = 1, .cpus = cpus("6-7")}};
    struct dt_cpuset cores[] = {cpus("0"), cpus("1"), cpus("4"), cpus("5"),
                                cpus("2"), cpus("3"), cpus("6"), cpus("7")};
    struct dt_machine_device devices[] = {{.at = {.bus = 1}, .nodes = cpus("3")}};
    const struct dt_machine m = {.nodes = nodes,
                                 .node_count = 5,
                                 .cores = cores,
                                 .core_count = 8,
                                 .caches = cores,
                                 .cache_count = 8,
                                 .devices = devices,
                                 .device_count = 1};
    CHECK_STR(plan(DT_BIND_SOCKET, &m, "0-7", "1", 1, "@"), "2-3,6-7@1,3");
    CHECK_STR(plan(DT_BIND_SOCKET, &m, "0-7", "", 2, "@"), "0-1,4-5@0,2 | 2-3,6-7@1,3");
    CHECK_STR(plan(DT_BIND_NODE, &m, "0-7", "", 4, "@"), "0-1@0 | 4-5@2 | 2-3@1 | 6-7@3");
    CHECK_STR(plan(DT_BIND_EXCLUSIVE, &m, "0-7", "", 2, "@"), "0-1,4-5@0,2 | 2-3,6-7@1,3");
    CHECK_STR(plan(DT_BIND_EXCLUSIVE, &m, "0-7", "", 4, "@"), "0-1@0 | 4-5@2 | 2-3@1 | 6-7@3");
    CHECK_STR(plan(DT_BIND_COMPLEX, &m, "0-7", "", 2, "@"), "0@0 | 2@1");
}
