/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/checkup.h"
#include "tests/lib/check.h"

static char *script[] = {(char[]){"/v/python"}, (char[]){"-u"}, (char[]){"train.py"},
                         (char[]){"--lr"}, NULL};
static char *module[] = {(char[]){"/v/python"}, (char[]){"-u"}, (char[]){"-m"}, (char[]){"pkg"},
                         NULL};
static char *program[] = {(char[]){"/bin/worker"}, NULL};

static char in_path[] = "PATH", first_host[] = "host0";

static struct dt_plan plan_of(char **argv, bool python)
{
    return (struct dt_plan){.argv = argv,
                            .python_from = python ? in_path : NULL,
                            .nproc = 8,
                            .backend = DT_BACKEND_STATIC,
                            .min_nodes = 4,
                            .max_nodes = 4,
                            .endpoint_host = first_host,
                            .endpoint_port = 29500};
}

TEST(what_runs)
{
    struct dt_plan plan = plan_of(script, true);
    struct dt_checkup c = dt_checkup_of(&plan);
    CHECK_STR(c.python, "/v/python");
    CHECK_STR(c.script, "train.py");
    CHECK_EQ(c.workers, 8);
    CHECK_EQ(c.hosts, 4);
    plan = plan_of(module, true);
    c = dt_checkup_of(&plan);
    CHECK_STR(c.python, "/v/python");
    CHECK(c.script == NULL);
    plan = plan_of(program, false);
    c = dt_checkup_of(&plan);
    CHECK(c.python == NULL);
    CHECK_STR(c.script, "/bin/worker");
}

TEST(where_the_nodes_meet)
{
    struct dt_plan plan = plan_of(program, false);
    struct dt_checkup c = dt_checkup_of(&plan);
    CHECK_EQ(c.own_port, 29500);
    CHECK(!c.meets_elsewhere);
    plan.node_rank = 1;
    c = dt_checkup_of(&plan);
    CHECK_EQ(c.own_port, 0);
    CHECK(c.meets_elsewhere);
    static const char *const here[] = {"127.0.0.1", "localhost", "::1"};
    for (size_t i = 0; i < 3; i++) {
        char host[16];
        CHECK_ROW("%s", here[i]);
        snprintf(host, sizeof host, "%s", here[i]);
        plan.endpoint_host = host;
        CHECK_EQ(dt_checkup_of(&plan).hosts, 1);
    }
}

/* Whoever finds the port taken joins the program that has it. */
TEST(an_elastic_job_wants_no_port_of_its_own)
{
    struct dt_plan plan = plan_of(program, false);
    plan.backend = DT_BACKEND_C10D;
    CHECK_EQ(dt_checkup_of(&plan).own_port, 0);
    plan.is_host = DT_HOST_NO;
    CHECK(dt_checkup_of(&plan).meets_elsewhere);
}
