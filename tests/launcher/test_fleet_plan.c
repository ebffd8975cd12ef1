/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/fleet/plan.h"
#include "launcher/words.h"
#include "tests/launcher/told.h"

#define JOB "--rdzv-id=00112233445566778899aabbccddeeff"

/* A command line and an environment, with | between their parts, to a plan. */
struct asked {
    char args[1024], vars[512], *argv[64], *envp[64];
    struct dt_launch_options o;
    struct dt_fleet_plan plan;
    struct dt_err err;
    int rc;
};

static void ask(struct asked *a, const char *args, const char *vars)
{
    struct dt_facts facts = {.env = a->envp, .program = "dtrun"};
    *a = (struct asked){0};
    snprintf(a->args, sizeof a->args, "dtrun|%s", args);
    snprintf(a->vars, sizeof a->vars, "%s", vars);
    int argc = told_split(a->args, a->argv);
    told_split(a->vars, a->envp);
    for (size_t i = 0; i < sizeof facts.random; i++)
        facts.random[i] = (uint8_t)(i * 17);
    a->rc = dt_launch_options_read(&a->o, &dt_launch_program, argc, a->argv, a->envp, &a->err);
    if (a->rc == 0)
        a->rc = dt_fleet_plan_make(&a->o, argc, a->argv, &facts, &a->plan, &a->err);
}

static void finish(struct asked *a)
{
    dt_fleet_plan_finish(&a->plan);
    dt_launch_options_finish(&a->o);
}

static const char *joined(char *const *words)
{
    static char text[2048];
    size_t n = 0;
    *text = '\0';
    for (; words && *words; words++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? "|" : "", *words);
    return text;
}

/* clang-format off */
TEST(what_each_host_is_told)
{
    static const struct { const char *args, *env; size_t host; const char *argv, *envp; } rows[] = {
        {"--print-config|--hosts|a,b|train.py", "HOME=/x", 0,
         "dtrun|--nnodes=2|" JOB "|--whole-lines|--rdzv-backend=c10d|--rdzv-endpoint=a:4711|--rdzv-conf=is_host=true|--node-rank=0|"
         "--node-name=a|--|train.py", ""},
        {"--max-restarts|3|--hosts=a,ada@b:8|-m|train|--hosts|x", "", 1,
         "dtrun|--max-restarts|3|-m|--nnodes=2|--nproc-per-node=8|" JOB "|--whole-lines|--rdzv-backend=c10d|--rdzv-endpoint=a:4711|"
         "--rdzv-conf=is_host=false|--node-rank=1|--node-name=b|--|train|--hosts|x", ""},
        {"--role|--hosts x|--hosts|a|x", "", 0,
         "dtrun|--role|--hosts x|--nnodes=1|" JOB "|--whole-lines|--rdzv-backend=c10d|--rdzv-endpoint=a:4711|--rdzv-conf=is_host=true|"
         "--node-rank=0|--node-name=a|--|x", ""},
        {"--hosts|a,b,c|--spares|1|--remote_dtrun=/x|--launch-agent|srun|--|x", "", 2,
         "dtrun|--spares|1|--nnodes=2|" JOB "|--whole-lines|--rdzv-backend=c10d|--rdzv-endpoint=a:4711|--rdzv-conf=is_host=false|"
         "--node-rank=2|--node-name=c|--|x", ""},
        {"--hosts|a,b,c|--nnodes|2:3|--rdzv-id|mine|--rdzv-conf|join_timeout=9|x", "", 0,
         "dtrun|--nnodes|2:3|--rdzv-id|mine|--whole-lines|--rdzv-backend=c10d|--rdzv-endpoint=a:4711|"
         "--rdzv-conf=join_timeout=9,is_host=true|--node-rank=0|--node-name=a|--|x", ""},
        {"--hosts|a,b|--rdzv-endpoint|meet:29400|--rdzv-conf|join_timeout=9|x", "", 0,
         "dtrun|--rdzv-endpoint|meet:29400|--nnodes=2|" JOB "|--whole-lines|--rdzv-backend=c10d|--rdzv-conf=join_timeout=9|"
         "--node-rank=0|--node-name=a|--|x", ""},
        {"--hosts|fd00::1|x", "", 0,
         "dtrun|--nnodes=1|" JOB "|--whole-lines|--rdzv-backend=c10d|--rdzv-endpoint=[fd00::1]:4711|--rdzv-conf=is_host=true|"
         "--node-rank=0|--node-name=fd00::1|--|x", ""},
        {"--hosts|a|--export|A=1,B|--export|C=|x", "B=two|C=3|PET_MAX_RESTARTS=2|DTRUN_LOG_LEVEL=info|PETS=1", 0,
         "dtrun|--nnodes=1|" JOB "|--whole-lines|--rdzv-backend=c10d|--rdzv-endpoint=a:4711|--rdzv-conf=is_host=true|--node-rank=0|"
         "--node-name=a|--|x", "PET_MAX_RESTARTS=2|DTRUN_LOG_LEVEL=info|A=1|B=two|C="},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].args);
        struct asked a;
        struct dt_fleet_order order;
        ask(&a, rows[i].args, rows[i].env);
        CHECK_OK(a.rc, a.err);
        CHECK_OK(dt_fleet_plan_order(&a.plan, rows[i].host, 4711, &order, &a.err), a.err);
        CHECK_STR(joined(order.argv), rows[i].argv);
        CHECK_STR(joined(order.env), rows[i].envp);
        dt_fleet_order_finish(&order);
        finish(&a);
    }
}

TEST(how_a_host_is_called)
{
    static const struct { const char *args, *call; } rows[] = {
        {"--hosts|ada@a|x", "ssh|-Tx|-oBatchMode=yes|-oConnectTimeout=10|-oServerAliveInterval=5|-oServerAliveCountMax=3|"
         "-oControlMaster=no|--|ada@a|dtrun|--fleet-agent"},
        {"--hosts|a|--launch-agent|srun|x", "srun|--overlap|--nodes=1|--ntasks=1|--nodelist=a|dtrun|--fleet-agent"},
        {"--hosts|a|--launch-agent| ssh  -p 2222 root@{host}|--remote-dtrun|/opt/dtrun/bin/dtrun|x",
         "ssh|-p|2222|root@a|/opt/dtrun/bin/dtrun|--fleet-agent"},
        {"--hosts|a|--remote-dtrun|/my $HOME/\"dtrun\"|x", "ssh|-Tx|-oBatchMode=yes|-oConnectTimeout=10|-oServerAliveInterval=5|"
         "-oServerAliveCountMax=3|-oControlMaster=no|--|a|'/my $HOME/\"dtrun\"'|--fleet-agent"},
        {"--hosts|a|--launch-agent|srun|--remote-dtrun|/it's/dtrun!|x",
         "srun|--overlap|--nodes=1|--ntasks=1|--nodelist=a|/it's/dtrun!|--fleet-agent"},
        {"--hosts|a|--launch-agent|/usr/bin/ssh -p2222 -A ada@{host}|--remote-dtrun|/a b/dtrun|x",
         "/usr/bin/ssh|-p2222|-A|ada@a|'/a b/dtrun'|--fleet-agent"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].args);
        struct asked a;
        ask(&a, rows[i].args, "");
        CHECK_OK(a.rc, a.err);
        char **call = dt_fleet_plan_call(&a.plan, 0, &a.err);
        CHECK_STR(joined(call), rows[i].call);
        dt_words_free(call);
        finish(&a);
    }
}

TEST(what_cannot_be)
{
    static const struct { const char *args, *words; } rows[] = {
        {"--hosts|a|--hostfile|/dev/null|x", "--hosts and --hostfile: drop one of the two"},
        {"--hostfile|/nonexistent|x", "--hostfile: "},
        {"--hosts|a;b|x", "--hosts: \"a;b\" is no host; write HOST or USER@HOST"},
        {"--hosts|a|--standalone|x", "--standalone: does not go with --hosts: a job on several hosts cannot be a job of one"},
        {"--hosts|a|--node-rank|0|x", "--node-rank: does not go with --hosts"},
        {"--hosts|a|--master-addr|b|x", "--master-addr: does not go with --hosts"},
        {"--hosts|a|--rdzv-backend|static|x", "--rdzv-backend: the nodes of --hosts meet by c10d; leave it out"},
        {"--hosts|a,b:8|--nproc-per-node|4|x", "--nproc-per-node=4: host b is listed with 8 workers; drop one of the two"},
        {"--hosts|a,b|--nnodes|3|x", "--nnodes=3: 2 hosts are listed, for 3 nodes and 0 spares; leave --nnodes out to have "
         "all of them run"},
        {"--hosts|a,b|--nnodes|1:2|--spares|1|x", "--nnodes=1:2: 2 hosts are listed, for 2 nodes and 1 spares"},
        {"--hosts|a,b|--nnodes|two|x", "--nnodes: \"two\" is not N or MIN:MAX"},
        {"--hosts|a,b|--nnodes|2:1|x", "--nnodes: \"2:1\" is not N or MIN:MAX"},
        {"--hosts|a,b|--spares|2|x", "--spares=2: of 2 hosts, one at least has to run the job"},
        {"--hosts|a|--launch-agent|pdsh|x", "--launch-agent: pdsh does not pass its standard input on"},
        {"--hosts|a|--launch-agent|rsh|x", "--launch-agent: \"rsh\" is neither ssh nor srun, and a command has {host} where"},
        {"--hosts|a|--remote-dtrun|/it's/dtrun|x", "--remote-dtrun: \"/it's/dtrun\" has a character that a shell might change"},
        {"--hosts|a|--remote-dtrun|/a b!/dtrun|x", "has a character that a shell might change; make a link to it with a plain name"},
        {"--hosts|a|--remote-dtrun|/a\\ b/dtrun|x", "has a character that a shell might change"},
        {"--hosts|a|--remote-dtrun|/a\nb/dtrun|x", "has a character that a shell might change"},
        {"--hosts|a|--launch-agent|docker exec -i {host}|--remote-dtrun|/a b/dtrun|x",
         "--remote-dtrun: \"/a b/dtrun\" has a character that --launch-agent might hand to no shell, or to several; make a link"},
        {"--hosts|a|--launch-agent|ssh gate ssh {host}|--remote-dtrun|/a b/dtrun|x", "might hand to no shell, or to several"},
        {"--hosts|a|--launch-agent|ssh -p 22 {host}|--remote-dtrun|/a b/dtrun|x", "might hand to no shell, or to several"},
        {"--hosts|a|--launch-agent|ssh -oX={host} gate|--remote-dtrun|/a b/dtrun|x", "might hand to no shell, or to several"},
        {"--hosts|a|--remote-dtrun=-x|x", "--remote-dtrun: \"-x\" is no path"},
        {"--hosts|a|--export|NO_SUCH|x", "--export: NO_SUCH is not set here; write NO_SUCH=VALUE"},
        {"--hosts|a|--export|A-B=1|x", "--export: \"A-B=1\" is not NAME or NAME=VALUE"},
        {"--hosts|a|--export|=1|x", "--export: \"=1\" is not NAME or NAME=VALUE"},
        {"--hosts|a|--token-file|/nonexistent|x", "--token-file: token file /nonexistent: No such file or directory"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].args);
        struct asked a;
        ask(&a, rows[i].args, "");
        CHECK_FAIL(a.rc, a.err, rows[i].words);
        finish(&a);
    }
}
/* clang-format on */

/* The token's place in the environment is none on the hosts, and the token is in the order alone.
 */
TEST(a_token_goes_along_and_shows_nowhere)
{
    char path[] = "/tmp/dt-token-XXXXXX", args[256], vars[256];
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    CHECK_EQ(write(fd, "open sesame, please\n", 20), 20);
    close(fd);
    snprintf(args, sizeof args, "--hosts|a|--token-file|%s|x", path);
    snprintf(vars, sizeof vars, "DTRUN_TOKEN_FILE=%s", path);
    for (int by_env = 0; by_env < 2; by_env++) {
        struct asked a;
        struct dt_fleet_order order;
        ask(&a, by_env ? "--hosts|a|x" : args, by_env ? vars : "");
        CHECK_OK(a.rc, a.err);
        CHECK_OK(dt_fleet_plan_order(&a.plan, 0, 1, &order, &a.err), a.err);
        CHECK_BYTES(order.token, order.token_len, (const uint8_t *)"open sesame, please", 19);
        CHECK(!strstr(joined(order.argv), "token"));
        CHECK(!strstr(joined(order.env), "TOKEN"));
        char **call = dt_fleet_plan_call(&a.plan, 0, &a.err);
        CHECK(!strstr(joined(call), "token"));
        dt_words_free(call);
        dt_fleet_order_finish(&order);
        finish(&a);
    }
    unlink(path);
}
