/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/facts.h"
#include "tests/lib/check.h"

#include <sched.h>

TEST(this_machine)
{
    struct dt_facts f, g;
    cpu_set_t one, before;
    dt_facts_read(&f, NULL, NULL);
    CHECK(f.cpus >= 1);
    CHECK(f.allowed_cpus >= 1);
    CHECK_EQ(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &before))
            CPU_SET(i, &one);
    CHECK_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    dt_facts_read(&g, NULL, NULL);
    sched_setaffinity(0, sizeof before, &before);
    CHECK_EQ(g.allowed_cpus, 1);
    CHECK_EQ(g.cpus, f.cpus); /* whatever we may use of them */
    CHECK(memcmp(f.random, g.random, sizeof f.random) != 0);
}

TEST(gpus_are_those_that_are_visible)
{
    struct dt_facts f;
    dt_facts_read(&f, NULL, NULL);
    setenv("MOCK_NVML", "GPU-1f@0000:07:00.0 GPU-2e@0000:0f:00.0", 1);
    CHECK_EQ(f.count_gpus(), 2);
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    CHECK_EQ(f.count_gpus(), 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
    setenv("MOCK_NVML", "9", 1); /* the driver does not start */
    CHECK_EQ(f.count_gpus(), 0);
}

TEST(the_environment)
{
    char a[] = "AB=1", b[] = "A=x=y", c[] = "EMPTY=", d[] = "nonsense";
    char *env[] = {a, b, c, d, NULL};
    struct dt_facts f = {.env = env}, none = {0};
    CHECK_STR(dt_facts_env(&f, "A"), "x=y");
    CHECK_STR(dt_facts_env(&f, "AB"), "1");
    CHECK_STR(dt_facts_env(&f, "EMPTY"), "");
    CHECK(!dt_facts_env(&f, "B"));
    CHECK(!dt_facts_env(&f, "nonsense"));
    CHECK(!dt_facts_env(&none, "A"));
}
