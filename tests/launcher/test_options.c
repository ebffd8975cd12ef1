/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/launcher/told.h"

#define ROWS(t) (sizeof(t) / sizeof *(t))

static struct told tell(const char *args, const char *env)
{
    struct told t;
    told_tell(&t, &dt_launch_program, args, env);
    return t;
}

/* clang-format off */
TEST(usage_errors)
{
    static const struct told_row rows[] = {
        {"", "", NULL, "SCRIPT is missing: dtrun [options] SCRIPT [ARG...]", 2},
        {"--standalone", "", NULL, "SCRIPT is missing: dtrun [options] SCRIPT [ARG...]", 2},
        {"--no-such|x", "", NULL, "--no-such: no such option", 2},
        {"-q|x", "", NULL, "-q: no such option", 2},
        {"-mq|x", "", NULL, "-q: no such option", 2},
        {"-np|2|x", "", NULL, "-np: no such option; --nproc-per-node is the number of workers on a node", 2},
        {"-n|2|x", "", NULL, "-n: no such option; --nproc-per-node is the number of workers on a node", 2},
        {"--num_processes=2|x", "", NULL, "--num_processes: no such option; --nproc-per-node is the "
         "number of workers on a node", 2},
        {"-H|f|x", "", NULL, "-H: no such option; --hosts or --hostfile starts a job on several hosts", 2},
        {"--hostfiles|f|x", "", NULL, "--hostfiles: no such option; did you mean --hostfile?", 2},
        {"--rdzv=h|x", "", NULL, "--rdzv could be --rdzv-backend or --rdzv-endpoint or --rdzv-id or --rdzv-conf", 2},
        {"--max-restarts=x|x", "", NULL, "--max-restarts: \"x\" is not a whole number", 2},
        {"--max-restarts=1.0|x", "", NULL, "--max-restarts: \"1.0\" is not a whole number", 2},
        {"--max-restarts=9999999999|x", "", NULL, "--max-restarts: 9999999999 is out of range", 2},
        {"--monitor-interval=often|x", "", NULL, "--monitor-interval: \"often\" is not a number", 2},
        {"--node-rank=a|x", "", NULL, "--node-rank: \"a\" is not a whole number", 2},
        {"--master-port=a|x", "", NULL, "--master-port: \"a\" is not a whole number", 2},
        {"--start-method=x|x", "", NULL, "--start-method: \"x\" is none of spawn, fork, forkserver", 2},
        {"--numa-binding=x|x", "", NULL, "--numa-binding: \"x\" is none of node, socket, exclusive, core-complex", 2},
        {"--standalone=1|x", "", NULL, "--standalone: takes no value, found \"1\"", 2},
        {"--role", "", NULL, "--role: needs a value: --role=NAME", 2},
        {"--use-env|x", "", NULL, "--use-env: no such option; leave it out: workers find LOCAL_RANK anyway", 2}, /* dtrun-launch has it */
        {"--log-level=loud|x", "", NULL, "--log-level: \"loud\" is no log level; give error, warn, info or debug", 2},
        {"--hang-after=0|x", "", NULL,
         "--hang-after: \"0\" is no time from 1s on; write it as 30 or 2m, or auto or off", 2},
        {"--on-hang=kill|x", "", NULL, "--on-hang: \"kill\" is none of log, restart, stop", 2},
        {"--preflight=slow|x", "", NULL, "--preflight: \"slow\" is none of auto, off, fast, full", 2},
        {"--on-straggler=kill|x", "", NULL, "--on-straggler: \"kill\" is none of log, drain, off", 2},
        {"--look-on-signal=KILL|x", "", NULL,
         "--look-on-signal: \"KILL\" is no signal that can be handled; write it as SIGUSR1, or none", 2},
        {"--keep-workers=always|x", "", NULL, "--keep-workers: \"always\" is none of auto, never", 2},
        {"--keep-logs=some|x", "", NULL, "--keep-logs: \"some\" is none of all, failed", 2},
        {"--store-allow=x|x", "", NULL,
         "--store-allow: \"x\" is no range of addresses; write it as 10.0.0.0/8 or fd00::/8", 2},
        {"--store-listen=29400|x", "", NULL, "--store-listen: \"29400\" is not an address alone; the port is that of "
         "--master-port or --rdzv-endpoint", 2},
        {"--store-listen=h:5|x", "", NULL, "--store-listen: \"h:5\" is not an address alone; the port is that of "
         "--master-port or --rdzv-endpoint", 2},
        {"--store-listen=[::1]:5|x", "", NULL, "--store-listen: \"[::1]:5\" is not an address alone; the port is that of "
         "--master-port or --rdzv-endpoint", 2},
        {"--store-listen=/run/x|x", "", NULL, "--store-listen: \"/run/x\" is not an address alone; the port is that of "
         "--master-port or --rdzv-endpoint", 2},
    };
    TOLD_ROWS(&dt_launch_program, rows);
}

TEST(torchruns_environment)
{
    static const struct told_row rows[] = {
        {"x", "PET_MAX_RESTARTS=x", NULL, "PET_MAX_RESTARTS: \"x\" is not a whole number", 2},
        {"x", "PET_NODE_RANK=abc", NULL, "PET_NODE_RANK: \"abc\" is not a whole number", 2},
        {"x", "PET_STANDALONE=true", NULL,
         "PET_STANDALONE: \"true\" is not a whole number; give 1 for yes, 0 for no", 1},
        {"x", "PET_MODULE=", NULL, "PET_MODULE: \"\" is not a whole number; give 1 for yes, 0 for no", 1},
        {"--max-restarts=1|x", "PET_MAX_RESTARTS=x", "restarts: 1", NULL, 0},
        {"x", "PET_START_METHOD=bogus", "ignored: PET_START_METHOD has no effect: workers are always programs of their own",
         NULL, 0},
        {"x", "PET_MODULE=1|PET_ROLE=r", "command: /bin/sh -u -m x|role: r", NULL, 0},
        {"x", "PET_MODULE=0", "command: /bin/sh -u x", NULL, 0},
        {"x", "PET_REDIRECTS=1", "output of local rank 0: redirects stdout, tees nothing, shown", NULL, 0},
        {"x", "PET_LOGS_SPECS=x|PET_EXIT_CODE=root-cause|PET_PRINT_CONFIG=x", "exit code: torchrun", NULL, 0},
        {"x", "DTRUN_EXIT_CODE=root-cause|DTRUN_STRIP_CODES=on", "exit code: root-cause|strip codes: yes", NULL, 0},
        {"x", "DTRUN_STORE_ALLOW=10.0.0.0/8, ::1", "store clients: 10.0.0.0/8 ::1/128", NULL, 0},
        {"x", "DTRUN_KEEP_LOGS=x", NULL, "DTRUN_KEEP_LOGS: \"x\" is none of all, failed", 2},
        {"x", "DTRUN_NNODES=2", "nodes: 1", NULL, 0},
    };
    TOLD_ROWS(&dt_launch_program, rows);
}

TEST(spellings)
{
    static const struct told_row rows[] = {
        {"--nproc_per_node=2|x", "", "workers: 2", NULL, 0},
        {"--nproc-per=2|x", "", "workers: 2", NULL, 0},
        {"--nproc=2|x", "", "workers: 2", NULL, 0}, /* its two spellings are one option */
        {"--log=/tmp|x", "", "log folder: /tmp", NULL, 0}, /* as before there was --logs-specs */
        {"--no-py|true", "", "command: /bin/true", NULL, 0},
        {"--standal|x", "", "backend: c10d", NULL, 0},
        {"--mod|x", "", "command: /bin/sh -u -m x", NULL, 0},
        {"-mr3|x", "", "command: /bin/sh -u -m x|"
         "output of local rank 0: redirects stdout and stderr, tees nothing, shown", NULL, 0},
        {"-t|2|-r1|x", "", "output of local rank 0: redirects stdout, tees stderr, shown", NULL, 0},
        {"--tee=1|--tee=2|x", "", "output of local rank 0: redirects nothing, tees stderr, shown", NULL, 0},
        /* What only dtrun has makes no abbreviation of torchrun's ambiguous, and has none itself. */
        {"--ex|x", "", NULL, "--ex: no such option", 2},
        {"--print|x", "", NULL, "--print: no such option", 2},
        {"--log-d=/tmp|x", "", "log folder: /tmp", NULL, 0},
        {"--event-=console|x", "", "events: console", NULL, 0},
    };
    TOLD_ROWS(&dt_launch_program, rows);
}
/* clang-format on */

/* torchrun's options are complete; dtrun's own may grow. */
TEST(each_option_of_dtrun_alone_has_no_abbreviation)
{
    int torchruns = 0;
    for (const struct dt_opt *o = dt_launch_program.table; o->name; o++) {
        CHECK_ROW("--%s", o->name);
        CHECK(o->help || o->hidden);
        CHECK(o->exact || !o->env_prefix);
        torchruns += !o->env_prefix;
    }
    CHECK_EQ(torchruns, 31);
}

TEST(both_programs_have_the_same_rows)
{
    CHECK_STR(dt_legacy_program.table[0].name, "use-env");
    CHECK(dt_legacy_program.table + 1 == dt_launch_program.table);
}

TEST(help_and_version_need_no_script)
{
    static const char *const rows[] = {"--help", "-h", "--version", "--nproc-per-node=x|-h"};
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i]);
        struct told t = tell(rows[i], "PET_STANDALONE=true");
        CHECK_OK(t.rc, t.err);
        CHECK(t.o.result.help != t.o.result.version);
        told_finish(&t);
    }
}

TEST(what_was_given_and_how)
{
    char written[64];
    struct told t = tell("--node_rank=0|x", "PET_ROLE=r");
    const struct dt_launch_options *o = &t.o;
    CHECK_OK(t.rc, t.err);
    CHECK(dt_launch_options_gave(o, "node-rank"));
    CHECK(dt_launch_options_gave(o, "role"));
    CHECK(!dt_launch_options_gave(o, "nnodes"));
    CHECK_STR(dt_opt_written(o->program, &o->result, "role", written, sizeof written), "PET_ROLE");
    CHECK_STR(dt_opt_written(o->program, &o->result, "node-rank", written, sizeof written),
              "--node-rank");
    told_finish(&t);
}
