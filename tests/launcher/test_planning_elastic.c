/* SPDX-License-Identifier: Apache-2.0 */
/* What there is more to an elastic job. */
#include "tests/launcher/told.h"

/* clang-format off */
TEST(elastic_jobs)
{
    static const struct told_row rows[] = {
        {UP_TO_4 "--local-addr=|x", "", "local address: found out", NULL, 0},
        {UP_TO_4 "x", "", "backend: c10d|nodes: 2:4|run id: none|endpoint: h:5|local address: found out|"
         "join timeout: 10 min|read timeout: 1 min|store address: every address|hosts the rendezvous: found out|"
         "place wished for: none|nodes started: not known|scheduler's job: none|node name: that of the host|domain: none|"
         "token file: none|progress file: none|HTTP of the rendezvous: none|without the rendezvous: keep|spares: 0|spare policy: extra|"
         "rank policy: stable|node losses: unlimited|restarts are full again after: never", NULL, 0},
        {UP_TO_4 "x", "", "cycles without progress: 3|strikes until quarantine: 3|quarantine: 10 min|last call: 30 s|"
         "heartbeat: 5 s|heartbeats that may be missed: 3|time to reconnect: 100 ms|workers are gone within: 35 s|"
         "grow interval: 5 s", NULL, 0},
        {C10D "--nnodes=2|x", "", "nodes: 2|endpoint: localhost:29400", NULL, 0},
        {C10D "--nnodes=2|--rdzv-endpoint=h|x", "", "endpoint: h:29400", NULL, 0},
        {C10D "--spares=1|--rdzv-endpoint=h|x", "", "nodes: 1|endpoint: h:29400|spares: 1", NULL, 0},
        {UP_TO_4 "--spares=2|--spare-policy=fixed|--rank-policy=torchrun|--grow-interval=5m|--max-node-losses=7|x", "",
         "spares: 2|spare policy: fixed|rank policy: torchrun|grow interval: 5 min|node losses: 7", NULL, 0},
        {UP_TO_4 "--restart-reset=30m|--no-progress-cycles=0|--quarantine-after=0|--quarantine-time=1h|"
         "--reconnect-grace=0|--on-daemon-loss=stop|x", "",
         "restarts are full again after: 30 min|cycles without progress: 0|strikes until quarantine: 0|quarantine: 1 h|"
         "time to reconnect: 0 s|without the rendezvous: stop", NULL, 0},
        {UP_TO_4 "--max-restarts=3|--shutdown-timeout=10|--node-name=a b|--domain-key=rack7|--progress-file=/p|"
         "--token-file=/etc/passwd|--local-addr=10.0.0.1|--rdzv-id=j|x", "",
         "restarts: 3|workers are gone within: 15 s|node name: 'a b'|domain: rack7|progress file: /p|"
         "token file: /etc/passwd|local address: 10.0.0.1|run id: j", NULL, 0},
        {UP_TO_4 "x", "DTRUN_SPARES=3|DTRUN_ON_DAEMON_LOSS=stop|DTRUN_NODE_NAME=n", "spares: 3|node name: n|"
         "without the rendezvous: stop", NULL, 0},
        {UP_TO_4 "--http=127.0.0.1:9|--http=127.0.0.2:8|--http-token-file=/etc/passwd|x", "",
         "HTTP of the rendezvous: 127.0.0.1:9 127.0.0.2:8|HTTP token file: /etc/passwd", NULL, 0},
        {UP_TO_4 "--http-token-file=/etc/passwd|x", "",
         "ignored: --http-token-file has no effect: there is no --http", NULL, 0},
        {UP_TO_4 "--http=127.0.0.1:9|--rdzv-conf=is_host=0|x", "",
         "ignored: --http has no effect: this node does not host the rendezvous: is_host is 0", NULL, 0},
        {C10D "--nnodes=1:4|--rdzv-endpoint=localhost:0|x", "", "nodes: 1|endpoint: localhost:0|ignored: --nnodes has no "
         "effect: --rdzv-endpoint has port 0, any free one, which no other node could know", NULL, 0},
        {UP_TO_4 "--master-addr=a|--master-port=1|x", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1",
         "ignored: --master-addr has no effect: nodes of a c10d job meet at --rdzv-endpoint|"
         "ignored: --master-port has no effect: nodes of a c10d job meet at --rdzv-endpoint, and node 0 has its store on a "
         "free port|ignored: TORCH_DISABLE_SHARE_RDZV_TCP_STORE has no effect: the workers' store is dtrun's, and new for "
         "each attempt", NULL, 0},
        {C10D "--nnodes=2|--spare-policy=fixed|x", "",
         "ignored: --spare-policy has no effect: --nnodes has no range, so nobody is a spare", NULL, 0},

        {C10D "--nnodes=2|--rdzv-endpoint=h:0|x", "", NULL, "--rdzv-endpoint: port 0, any free one, is for a job of one "
         "node; the others could not know it", 1},
        {UP_TO_4 "--spares=-1|x", "", NULL, "--spares: \"-1\" is not a whole number from 0 to 1000000", 2},
        {UP_TO_4 "--reconnect-grace=2h|x", "", NULL, "--reconnect-grace: 2 h is too much; give 0 s to 1 h", 2},
        {UP_TO_4 "--quarantine-time=99999999d|x", "", NULL, "--quarantine-time: 99999999 d is too much; give 0 s to 52124996 d", 2},
        {UP_TO_4 "x", "DTRUN_RECONNECT_GRACE=61m", NULL, "DTRUN_RECONNECT_GRACE: 1.0 h is too much; give 0 s to 1 h", 2},
        {UP_TO_4 "--spares=some|x", "", NULL, "--spares: \"some\" is not a whole number from 0 to 1000000", 2},
        {UP_TO_4 "--spare-policy=x|x", "", NULL, "--spare-policy: \"x\" is none of extra, fixed", 2},
        {UP_TO_4 "--rank-policy=x|x", "", NULL, "--rank-policy: \"x\" is none of stable, torchrun", 2},
        {UP_TO_4 "--on-daemon-loss=x|x", "", NULL, "--on-daemon-loss: \"x\" is none of keep, stop", 2},
        {UP_TO_4 "--max-node-losses=-1|x", "", NULL,
         "--max-node-losses: \"-1\" is no number of nodes; give one from 0 on, or unlimited", 2},
        {UP_TO_4 "--restart-reset=0|x", "", NULL,
         "--restart-reset: \"0\" is no time from 1ms on; write it as 30m or 2h, or never", 2},
        {UP_TO_4 "--node-name=|x", "", NULL, "--node-name: a name has from 1 to 127 bytes, this one 0", 2},
        {UP_TO_4 "--node-name=-a|x", "", NULL, "--node-name: no name of a node begins with \"-\", as options do", 2},
        {UP_TO_4 "--node-name=a\nb|x", "", NULL, "--node-name: no name has control characters in it", 2},
        {UP_TO_4 "--node-name=caf\xe9|x", "", NULL, "--node-name: this name is no UTF-8, in which nodes are told apart", 2},
        {UP_TO_4 "--domain-key=\xc3(|x", "", NULL, "--domain-key: this name is no UTF-8, in which nodes are told apart", 2},
        {UP_TO_4 "--domain-key=1234567890123456789012345678901234567890123456789012345678901234|x", "", NULL,
         "--domain-key: a name has from 1 to 63 bytes, this one 64", 2},
        {UP_TO_4 "--role=1234567890123456789012345678901234567890123456789012345678901234|x", "", NULL,
         "--role: \"1234567890123456789012345678901234567890...\" has 64 bytes; in a job of several nodes 63 are the most",
         1},
        {UP_TO_4 "--rdzv-id=a\xff|x", "", NULL,
         "--rdzv-id: \"a\xff\" is no UTF-8, in which nodes tell each other what they join; give another one", 1},
        {UP_TO_4 "--local-addr=10.0.0.1:29500|x", "", NULL,
         "--local-addr: \"10.0.0.1:29500\" is more than an address; leave port and brackets away", 1},
        {UP_TO_4 "--local-addr=[fd00::1]|x", "", NULL,
         "--local-addr: \"[fd00::1]\" is more than an address; leave port and brackets away", 1},
        {UP_TO_4 "--token-file=/not/there|x", "", NULL,
         "--token-file: \"/not/there\" cannot be read: No such file or directory", 1},
        {UP_TO_4 "--http=/run/x|x", "", NULL, "--http: \"/run/x\" is a path; give ADDR:PORT", 2},
        {UP_TO_4 "--http=127.0.0.1:9|--http-token-file=/not/there|x", "", NULL,
         "--http-token-file: \"/not/there\" cannot be read: No such file or directory", 1},
        {UP_TO_4 "--token-file=/|x", "", NULL, "--token-file: \"/\" is no file", 1},
        {UP_TO_4 "--node-rank=-1|x", "", NULL, "--node-rank: -1 is no place a node can wish for; give 0 or more", 1},
    };
    TOLD_ROWS(&dt_launch_program, rows);
}

TEST(settings_of_an_elastic_rendezvous)
{
    static const struct told_row rows[] = {
        {UP_TO_4 "--rdzv-conf=join_timeout=5,read_timeout=6,last_call_timeout=7,keep_alive_interval=8,"
         "keep_alive_max_attempt=9,is_host=1,store_type=TCP|x", "",
         "join timeout: 5 s|read timeout: 6 s|last call: 7 s|heartbeat: 8 s|heartbeats that may be missed: 9|"
         "hosts the rendezvous: yes", NULL, 0},
        {UP_TO_4 "--rdzv-conf=is_host=false|x", "", "hosts the rendezvous: no", NULL, 0},
        {UP_TO_4 "--rdzv-conf=timeout=5,zeal=1|x", "",
         "ignored: --rdzv-conf has no effect: timeout is no setting of a c10d job|"
         "ignored: --rdzv-conf has no effect: zeal is no setting of a c10d job", NULL, 0},
        {UP_TO_4 "--rdzv-conf=close_timeout=5,heartbeat_timeout=6|x", "",
         "ignored: --rdzv-conf has no effect: close_timeout: the end of a job is told at once|"
         "ignored: --rdzv-conf has no effect: heartbeat_timeout: nobody waits for the answer to a heartbeat", NULL, 0},
        {UP_TO_4 "--rdzv-conf=heartbeat_timeout=0|x", "", NULL,
         "--rdzv-conf: heartbeat_timeout is \"0\"; give whole seconds from 1 on", 1},
        {UP_TO_4 "--rdzv-conf=join_timeout=99999999999999,last_call_timeout=99999999999999|x", "",
         "join timeout: for ever|last call: for ever", NULL, 0},
        {UP_TO_4 "--rdzv-conf=keep_alive_interval=61|x", "", NULL,
         "--rdzv-conf: keep_alive_interval is 61; give 1 to 60", 1},
        {UP_TO_4 "--rdzv-conf=keep_alive_max_attempt=1001|x", "", NULL,
         "--rdzv-conf: keep_alive_max_attempt is 1001; give 1 to 1000", 1},
        {UP_TO_4 "--rdzv-conf=store_type=file|x", "", NULL,
         "--rdzv-conf: store_type is \"file\"; dtrun has the tcp store only", 1},
    };
    TOLD_ROWS(&dt_launch_program, rows);
}

TEST(what_elastic_options_cannot_do)
{
    static const char why[] = " has no effect: only a job with --rdzv-backend=c10d and an --rdzv-endpoint is elastic";
    static const char *const jobs[] = {"", "--standalone|", "--nnodes=2|", C10D};
    static const char *const options[] = {"--rank-policy=stable", "--node-name=a", "--grow-interval=0"};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
            char args[128], line[160];
            struct told t;
            CHECK_ROW("%s%s", jobs[i], options[k]);
            snprintf(args, sizeof args, "%s%s|x", jobs[i], options[k]);
            snprintf(line, sizeof line, "ignored: %.*s%s", (int)strcspn(options[k], "="), options[k], why);
            told_tell(&t, &dt_launch_program, args, "");
            CHECK_OK(t.rc, t.err);
            told_check_lines(&t, line);
            told_finish(&t);
        }
}

TEST(nodes_that_run_other_things_are_told_apart)
{
    static const struct {
        const char *args, *script;
        bool same;
    } rows[] = {
        {"train.py", "train.py", true},
        {"train.py|--node|3", "train.py", true},
        {"other.py", "other.py", false},
        {"-m|train.py", "-m train.py", false},
    };
    uint64_t first = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char args[128];
        struct told t;
        CHECK_ROW("%s", rows[i].args);
        snprintf(args, sizeof args, UP_TO_4 "%s", rows[i].args);
        told_tell(&t, &dt_launch_program, args, "");
        CHECK_OK(t.rc, t.err);
        first = i ? first : t.plan.run.command;
        CHECK_EQ(t.plan.run.command == first, rows[i].same);
        CHECK_STR(t.plan.run.script, rows[i].script);
        CHECK_STR(t.plan.run.user, "ada");
        told_finish(&t);
    }
}
/* clang-format on */
