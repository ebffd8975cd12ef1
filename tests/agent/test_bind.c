/* SPDX-License-Identifier: Apache-2.0 */
/* Whole bindings, on machines out of tests/golden/machines and on this one. GPUs are the mock's. */
#include "agent/bind/bind.h"
#include "agent/bind/machine.h"
#include "tests/lib/check.h"

#include <signal.h>

#define EIGHT_ON_TWO                                                                               \
    "GPU-0@0:0f:00 GPU-1@0:2c:00 GPU-2@0:41:00 GPU-3@0:5e:00 "                                     \
    "GPU-4@0:87:00 GPU-5@0:9b:00 GPU-6@0:b7:00 GPU-7@0:d5:00"
#define EIGHT_ON_EIGHT                                                                             \
    "GPU-0@0:07:00 GPU-1@0:0f:00 GPU-2@0:47:00 GPU-3@0:4e:00 "                                     \
    "GPU-4@0:87:00 GPU-5@0:90:00 GPU-6@0:b7:00 GPU-7@0:bd:00"

BEFORE_ALL
{
    if (!DT_TEST_HWLOC)
        SKIP("built without hwloc");
}

static void on_machine(const char *name, const char *gpus)
{
    char path[512];
    snprintf(path, sizeof path, DT_GOLDEN_DIR "/machines/%s.xml", name);
    setenv("HWLOC_XMLFILE", path, 1);
    setenv("MOCK_NVML", gpus, 1);
}

static struct dt_bind *bind_workers(enum dt_plan_bind mode, int nproc, const char *devices)
{
    struct dt_plan plan = {.bind = mode, .nproc = nproc};
    struct dt_err err = {0};
    struct dt_bind *b = dt_bind_create(&plan, devices, &err);
    CHECK_OK(b ? 0 : -1, err);
    return b;
}

static void check_lines(const struct dt_bind *b, const char *const *want, int count)
{
    for (int i = 0; i < count; i++) {
        struct dt_buf line = {0};
        dt_bind_describe(b, i, &line);
        CHECK_STR(dt_buf_cstr(&line), want[i]);
        dt_buf_finish(&line);
    }
}

TEST(this_machine_is_read)
{
    struct dt_machine m;
    struct dt_err err = {0};
    unsetenv("HWLOC_XMLFILE");
    CHECK_OK(dt_machine_read(&m, &err), err);
    CHECK(m.is_this);
    CHECK(m.node_count > 0);
    CHECK(m.core_count > 0);
    CHECK(m.cache_count > 0 && m.cache_count <= m.core_count);
    dt_machine_finish(&m);
}

TEST(a_recorded_machine_is_read)
{
    struct dt_machine m;
    struct dt_err err = {0};
    on_machine("eight-nodes-8-gpus", "");
    CHECK_OK(dt_machine_read(&m, &err), err);
    CHECK(!m.is_this);
    CHECK_EQ(m.node_count, 8);
    CHECK_EQ(m.nodes[5].id, 5);
    CHECK_EQ(m.nodes[5].package, 1);
    CHECK_EQ(dt_cpuset_count(&m.nodes[5].cpus), 16);
    CHECK_EQ(m.core_count, 64);
    CHECK_EQ(dt_cpuset_count(&m.cores[63]), 2);
    CHECK_EQ(m.cache_count, 16);
    CHECK_EQ(dt_cpuset_count(&m.caches[15]), 8);
    CHECK_EQ(m.device_count, 8);
    dt_machine_finish(&m);
}

TEST(eight_gpus_on_two_sockets_by_node)
{
    static const char *const want[] = {
        "local rank 0: GPU 0 (0000:0f:00.0), NUMA node 0, cpus 0-31,64-95",
        "local rank 1: GPU 1 (0000:2c:00.0), NUMA node 0, cpus 0-31,64-95",
        "local rank 2: GPU 2 (0000:41:00.0), NUMA node 0, cpus 0-31,64-95",
        "local rank 3: GPU 3 (0000:5e:00.0), NUMA node 0, cpus 0-31,64-95",
        "local rank 4: GPU 4 (0000:87:00.0), NUMA node 1, cpus 32-63,96-127",
        "local rank 5: GPU 5 (0000:9b:00.0), NUMA node 1, cpus 32-63,96-127",
        "local rank 6: GPU 6 (0000:b7:00.0), NUMA node 1, cpus 32-63,96-127",
        "local rank 7: GPU 7 (0000:d5:00.0), NUMA node 1, cpus 32-63,96-127",
    };
    on_machine("two-sockets-8-gpus", EIGHT_ON_TWO);
    struct dt_bind *b = bind_workers(DT_BIND_NODE, 8, NULL);
    check_lines(b, want, 8);
    dt_bind_destroy(b);
}

TEST(each_gpu_gets_cores_of_its_own)
{
    static const char *const want[] = {
        "local rank 0: GPU 0 (0000:07:00.0), NUMA node 3, cpus 24-27,88-91",
        "local rank 1: GPU 1 (0000:0f:00.0), NUMA node 3, cpus 28-31,92-95",
        "local rank 2: GPU 2 (0000:47:00.0), NUMA node 1, cpus 8-11,72-75",
        "local rank 3: GPU 3 (0000:4e:00.0), NUMA node 1, cpus 12-15,76-79",
        "local rank 4: GPU 4 (0000:87:00.0), NUMA node 7, cpus 56-59,120-123",
        "local rank 5: GPU 5 (0000:90:00.0), NUMA node 7, cpus 60-63,124-127",
        "local rank 6: GPU 6 (0000:b7:00.0), NUMA node 5, cpus 40-43,104-107",
        "local rank 7: GPU 7 (0000:bd:00.0), NUMA node 5, cpus 44-47,108-111",
    };
    on_machine("eight-nodes-8-gpus", EIGHT_ON_EIGHT);
    struct dt_bind *b = bind_workers(DT_BIND_EXCLUSIVE, 8, NULL);
    check_lines(b, want, 8);
    dt_bind_destroy(b);
    b = bind_workers(DT_BIND_COMPLEX, 8, NULL); /* here a cache group is half a node too */
    check_lines(b, want, 8);
    dt_bind_destroy(b);
}

TEST(visible_devices_count_from_0)
{
    static const char *const sockets[] = {
        "local rank 0: GPU 0 (0000:bd:00.0), NUMA nodes 4-7, cpus 32-63,96-127",
        "local rank 1: GPU 1 (0000:0f:00.0), NUMA nodes 0-3, cpus 0-31,64-95",
    };
    static const char *const cores[] = {
        "local rank 0: GPU 0 (0000:bd:00.0), NUMA node 5, cpus 40-47,104-111",
        "local rank 1: GPU 1 (0000:0f:00.0), NUMA node 3, cpus 24-31,88-95",
    };
    on_machine("eight-nodes-8-gpus", EIGHT_ON_EIGHT);
    struct dt_bind *b = bind_workers(DT_BIND_SOCKET, 2, "7,1");
    check_lines(b, sockets, 2);
    dt_bind_destroy(b);
    b = bind_workers(DT_BIND_EXCLUSIVE, 2, "GPU-7,GPU-1");
    check_lines(b, cores, 2);
    dt_bind_destroy(b);
}

TEST(jobs_without_gpus_are_bound_too)
{
    static const char *const want[] = {
        "local rank 0: NUMA node 0, cpus 0-7,64-71",
        "local rank 1: NUMA node 2, cpus 16-23,80-87",
        "local rank 2: NUMA node 4, cpus 32-39,96-103",
        "local rank 3: NUMA node 6, cpus 48-55,112-119",
    };
    static const char *const halves[] = {
        "local rank 0: NUMA nodes 0-3, cpus 0-31,64-95",
        "local rank 1: NUMA nodes 4-7, cpus 32-63,96-127",
    };
    on_machine("eight-nodes-8-gpus", EIGHT_ON_EIGHT);
    struct dt_bind *b = bind_workers(DT_BIND_NODE, 4, ""); /* the GPUs are hidden */
    check_lines(b, want, 4);
    dt_bind_destroy(b);
    b = bind_workers(DT_BIND_EXCLUSIVE, 2, "-1");
    check_lines(b, halves, 2);
    dt_bind_destroy(b);
}

TEST(a_place_is_what_the_kernel_takes)
{
    on_machine("eight-nodes-8-gpus", EIGHT_ON_EIGHT);
    struct dt_bind *b = bind_workers(DT_BIND_SOCKET, 8, NULL);
    struct dt_spawn_place place = dt_bind_place(b, 7);
    CHECK_EQ(CPU_COUNT_S(place.cpus_size, place.cpus), 64);
    CHECK(CPU_ISSET_S(127, place.cpus_size, place.cpus));
    CHECK(!CPU_ISSET_S(31, place.cpus_size, place.cpus));
    CHECK_EQ(place.nodes[0], 0xf0);
    CHECK(place.nodes_bits >= 8);
    dt_bind_destroy(b);
}

TEST(what_cannot_be_bound_names_the_option)
{
    struct dt_plan plan = {.bind = DT_BIND_NODE, .nproc = 9};
    struct dt_err err = {0};
    on_machine("eight-nodes-8-gpus", EIGHT_ON_EIGHT);
    CHECK_FAIL(dt_bind_create(&plan, NULL, &err) ? 0 : -1, err,
               "--numa-binding: local rank 8 has no GPU: 8 are visible to 9 workers");
}

TEST(without_the_helper_the_option_says_so)
{
    struct dt_plan plan = {.bind = DT_BIND_NODE, .nproc = 1};
    struct dt_err err = {0};
    char *was = strdup(getenv("DTRUN_PLUGIN_DIR") ? getenv("DTRUN_PLUGIN_DIR") : "");
    setenv("DTRUN_PLUGIN_DIR", "/nonexistent", 1);
    CHECK_FAIL(dt_bind_create(&plan, NULL, &err) ? 0 : -1, err,
               "--numa-binding: binding takes hwloc: there is no dt_topology.so in /nonexistent/");
    setenv("DTRUN_PLUGIN_DIR", was, 1);
    free(was);
}
