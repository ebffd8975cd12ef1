/* SPDX-License-Identifier: Apache-2.0 */
/* Which Job a pod is of, by what pods find; nothing where that is a guess. */
#include "launcher/pod.h"
#include "tests/lib/check.h"

#define OWN "# Kubernetes-managed hosts file.\n"
#define OF_NODE "# Kubernetes-managed hosts file (host network).\n"

TEST(a_pod_of_an_indexed_job_knows_its_name)
{
    static const struct {
        struct dt_pod pod;
        const char *job; /* NULL: it cannot be known */
    } rows[] = {
        {{"3", "train-3", OWN, "team-a"}, "team-a-train"},
        {{"3", "train-3", OWN "127.0.0.1 localhost\n", "team-a\n"}, "team-a-train"},
        {{"3", "train-3", OWN, NULL}, "train"},
        {{"3", "train-3", OWN, ""}, "train"},
        {{"12", "train-2b-12.train.team-a.svc.cluster.local", OWN, ""}, "train-2b"},
        {{"2", "train-12", OWN, ""}, NULL}, /* another index */
        {{"12", "train-2", OWN, ""}, NULL},
        {{"3", "train3", OWN, ""}, NULL},
        {{"3", "-3", OWN, ""}, NULL},
        {{"3", "3", OWN, ""}, NULL},
        {{"3", "", OWN, ""}, NULL},
        {{"", "train-", OWN, ""}, NULL},
        {{"x", "train-x", OWN, ""}, NULL},
        {{NULL, "train-3", OWN, ""}, NULL},
        {{"3", "gpu-3", OF_NODE, "team-a"}, NULL}, /* a node of that name */
        {{"3", "train-3", "127.0.0.1 localhost\n", "team-a"}, NULL},
        {{"3", "train-3", NULL, "team-a"}, NULL},
        {{"3", "tr\x1b[2Jain-3", OWN, "team-a"}, NULL},
        {{"3", "train-3", OWN, "team\x1b[2J"}, "train"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char job[DT_POD_JOB_MAX] = "";
        CHECK_ROW("%zu: %s", i, rows[i].pod.host);
        CHECK_EQ(dt_pod_job(&rows[i].pod, job), rows[i].job != NULL);
        if (rows[i].job)
            CHECK_STR(job, rows[i].job);
    }
}

TEST(names_that_are_too_long_are_none)
{
    char host[256], job[DT_POD_JOB_MAX], space[128];
    struct dt_pod pod = {"0", host, OWN, space};
    memset(space, 's', sizeof space);
    space[63] = '\0';
    for (size_t len = 1; len < 200; len++) {
        memset(host, 'a', len);
        strcpy(host + len, "-0");
        CHECK_ROW("%zu", len);
        CHECK_EQ(dt_pod_job(&pod, job), len < DT_POD_NAME_MAX);
    }
    CHECK(!dt_pod_read_job("0", job)); /* this process is in no pod */
}
