/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/launcher/told.h"

#include <signal.h>
#include <sys/stat.h>

/* What /bin/sh would be called is not what these rows are about. */
#define UUID "00112233-4455-4677-8899-aabbccddeeff"

/* clang-format off */
TEST(what_is_said_of_a_plain_job)
{
    static const struct told_row rows[] = {
        {"x.py", "", "workers: 1|role: default|OMP_NUM_THREADS: as it is|backend: c10d|nodes: 1|"
                     "run id: " UUID "|endpoint: localhost:0|restarts: 0|shutdown timeout: 30 s|"
                     "exit barrier timeout: 5 min|signals that end: SIGHUP,SIGINT,SIGQUIT,SIGTERM|"
                     "output of local rank 0: redirects nothing, tees nothing, shown", NULL, 0},
        {"x.py|--nnodes|2", "", "command: /bin/sh -u x.py --nnodes 2|nodes: 1", NULL, 0},
    };
    TOLD_ROWS(&dt_launch_program, rows);
    struct told t;
    told_tell(&t, &dt_launch_program, "x.py", "");
    CHECK(!t.warnings && !t.plan.ignored);
    told_finish(&t);
}

TEST(numbers_of_workers)
{
    static const struct told_row rows[] = {
        {"--nproc-per-node|3|x", "", "workers: 3", NULL, 0},
        {"--nproc_per_node= 3 |x", "", "workers: 3", NULL, 0},
        {"--nproc-per-node=cpu|x", "", "workers: 8", NULL, 0},
        {"--nproc-per-node=auto|x", "", "workers: 8", NULL, 0},
        {"--nproc-per-node=auto|x", "DT_TOLD_GPUS=1", "workers: 2", NULL, 0},
        {"--nproc-per-node=gpu|x", "DT_TOLD_GPUS=1", "workers: 2", NULL, 0},
        {"x", "PET_NPROC_PER_NODE=4", "workers: 4", NULL, 0},
        {"--nproc-per-node=2|x", "PET_NPROC_PER_NODE=four", "workers: 2", NULL, 0},
        {"--nproc-per-node=gpu|x", "", NULL, "--nproc-per-node: \"gpu\" needs a GPU and none is visible here; look at "
         "nvidia-smi and CUDA_VISIBLE_DEVICES, or give a number", 1},
        {"--nproc-per-node=xpu|x", "", NULL,
         "--nproc-per-node: \"xpu\": dtrun cannot count GPUs of that kind; give a number", 1},
        {"--nproc-per-node=many|x", "", NULL,
         "--nproc-per-node: \"many\" is not a number of workers; give a number, cpu, gpu or auto", 1},
        {"x", "PET_NPROC_PER_NODE=many", NULL,
         "PET_NPROC_PER_NODE: \"many\" is not a number of workers; give a number, cpu, gpu or auto", 1},
        {"--nproc-per-node=0|x", "", NULL, "--nproc-per-node: \"0\" is not from 1 to 16384", 1},
        {"--nproc-per-node=-1|x", "", NULL, "--nproc-per-node: \"-1\" is not from 1 to 16384", 1},
        {"--nproc-per-node=|x", "", NULL,
         "--nproc-per-node: \"\" is not a number of workers; give a number, cpu, gpu or auto", 1},
        {"--nproc-per-node=16385|x", "", NULL, "--nproc-per-node: \"16385\" is not from 1 to 16384", 1},
    };
    TOLD_ROWS(&dt_launch_program, rows);
}

TEST(threads_of_each_worker)
{
    static const struct told_row rows[] = {
        {"--nproc-per-node=2|x", "", "OMP_NUM_THREADS: 1|warning: OMP_NUM_THREADS is set to 1, as by torchrun; "
         "--omp-threads=auto divides the processors among the workers", NULL, 0},
        {"--nproc-per-node=2|x", "OMP_NUM_THREADS=3", "OMP_NUM_THREADS: as it is", NULL, 0},
        {"--nproc-per-node=2|x", "OMP_NUM_THREADS=", "OMP_NUM_THREADS: as it is", NULL, 0},
        {"--nproc-per-node=2|--omp-threads=auto|x", "", "OMP_NUM_THREADS: 2", NULL, 0},
        {"--nproc-per-node=9|--omp-threads=auto|x", "", "OMP_NUM_THREADS: 1", NULL, 0},
        {"--omp-threads=auto|x", "", "OMP_NUM_THREADS: 4", NULL, 0},
        {"--omp-threads=5|x", "OMP_NUM_THREADS=3", "OMP_NUM_THREADS: 5", NULL, 0},
        {"--omp-threads=auto|x", "OMP_NUM_THREADS=3", "OMP_NUM_THREADS: as it is|"
         "ignored: --omp-threads has no effect: OMP_NUM_THREADS is set, to \"3\"", NULL, 0},
        {"x", "DTRUN_OMP_THREADS=7", "OMP_NUM_THREADS: 7", NULL, 0},
        {"--omp-threads=0|x", "", NULL,
         "--omp-threads: \"0\" is no number of threads; give one from 1 on, auto or torchrun", 2},
    };
    TOLD_ROWS(&dt_launch_program, rows);
}

TEST(one_node)
{
    static const struct told_row rows[] = {
        {"--standalone|x", "", "backend: c10d|endpoint: localhost:0|run id: " UUID, NULL, 0},
        {"--standalone|--rdzv-id=j|--rdzv-backend=etcd|--rdzv-endpoint=h:x|x", "", "run id: " UUID "|"
         "ignored: --rdzv-id has no effect: --standalone chooses its own|"
         "ignored: --rdzv-backend has no effect: --standalone chooses its own|"
         "ignored: --rdzv-endpoint has no effect: --standalone chooses its own", NULL, 0},
        {"x", "PET_STANDALONE=1|PET_RDZV_ID=j", "run id: " UUID "|"
         "ignored: PET_RDZV_ID has no effect: --standalone chooses its own", NULL, 0},
        {"--standalone|--nnodes=1:4|x", "", "nodes: 1|"
         "ignored: --nnodes has no effect: --standalone is a job of this node alone", NULL, 0},
        {"--standalone|--nnodes=2|x", "", NULL,
         "--nnodes: 2 nodes cannot meet in a job that is --standalone; drop one of the two", 1},
        {"--nnodes=1|--rdzv-id=job|x", "", "backend: c10d|run id: job", NULL, 0},
        {"--nnodes=1|--rdzv-id=|x", "", "run id: 1418190706091043575770048787713486591|"
         "warning: the job has no id; it is called 1418190706091043575770048787713486591", NULL, 0},
        {"--node-rank=3|--master-addr=h|x", "", "backend: c10d|"
         "ignored: --node-rank has no effect: the job has one node|"
         "ignored: --master-addr has no effect: the job has one node, and its store is here", NULL, 0},
        {"--rdzv-backend=c10d|--master-port=5|x", "", "run id: none|endpoint: localhost:0|ignored: --master-port has no "
         "effect: the store of this job is on a free port; --rdzv-backend=static uses the one given", NULL, 0},
        {"--rdzv-backend=c10d|--rdzv-endpoint=h|x", "", "nodes: 1|endpoint: h:29400|node name: that of the host", NULL, 0},
        {"--rdzv-backend=c10d|--rdzv-endpoint=|x", "", "endpoint: localhost:0", NULL, 0},
        {"--nnodes=1|--rdzv-backend=c10d|--rdzv-endpoint=h:0|x", "", "endpoint: localhost:0", NULL, 0},
        {"--rdzv-backend=c10d|--local-addr=10.0.0.7|x", "", "local address: 10.0.0.7", NULL, 0},
        {"--master-port=1234|x", "", "backend: static|nodes: 1|run id: none|endpoint: 127.0.0.1:1234", NULL, 0},
        {"x", "PET_MASTER_PORT=29500", "backend: static|endpoint: 127.0.0.1:29500", NULL, 0},
        {"--master-port=0|x", "", "backend: static|endpoint: 127.0.0.1:0", NULL, 0},
        {"--rdzv-endpoint=h:5|x", "", "backend: static|endpoint: h:5", NULL, 0},
        {"x", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1", "ignored: TORCH_DISABLE_SHARE_RDZV_TCP_STORE has no effect: the "
         "workers' store is dtrun's, and new for each attempt", NULL, 0},
    };
    TOLD_ROWS(&dt_launch_program, rows);
}

TEST(several_nodes)
{
    static const struct told_row rows[] = {
        {"--nnodes=2|--node-rank=1|--master-addr=n0|x", "",
         "backend: static|nodes: 2|node rank: 1|endpoint: n0:29500|run id: none|join timeout: 15 min|read timeout: 15 min",
         NULL, 0},
        {"--nnodes=2|--master-addr=[fd00::1]|--master-port=7|x", "", "endpoint: [fd00::1]:7", NULL, 0},
        {"--nnodes=2|--master-addr=fd00::1|--master-port=7|x", "", "endpoint: [fd00::1]:7", NULL, 0},
        {"--nnodes=1:4|x", "", "nodes: 4|"
         "ignored: --nnodes has no effect: a static job always has its 4 nodes; it takes --rdzv-backend=c10d to begin with 1", NULL, 0},
        {"--nnodes=2|--rdzv-endpoint=a:1|--master-addr=b|--master-port=2|--local-addr=c|x", "",
         "endpoint: a:1|ignored: --master-addr has no effect: --rdzv-endpoint is given too|"
         "ignored: --master-port has no effect: --rdzv-endpoint is given too|"
         "ignored: --local-addr has no effect: in a static job nobody asks for the address of this node; --master-addr "
         "names node 0", NULL, 0},
        {"--nnodes=2|--rdzv-conf=timeout=60|x", "", "join timeout: 1 min|read timeout: 1 min", NULL, 0},
        {"--nnodes=2|--rdzv-conf=rank=1,join_timeout=abc|x", "", "ignored: --rdzv-conf has no effect: rank is no setting "
         "of a static job; timeout is|ignored: --rdzv-conf has no effect: join_timeout is no setting of a static job; "
         "timeout is", NULL, 0},
        {"x", "PET_NNODES=2|PET_NODE_RANK=1", "nodes: 2|node rank: 1", NULL, 0},
        {"--nnodes=2|x", "TORCH_ELASTIC_WORKER_IDENTICAL=1", "nodes are identical: yes", NULL, 0},
        {"--nnodes=2|x", "TORCH_ELASTIC_WORKER_IDENTICAL=0", "nodes are identical: no", NULL, 0},
        {"--nnodes=2|--store-listen=10.0.0.1|--store-allow=10.0.0.0/8|--store-allow=::1|x", "",
         "store address: 10.0.0.1|store clients: 10.0.0.0/8 ::1/128", NULL, 0},

        {"--nnodes=2|--rdzv-endpoint=a|x", "", NULL, "--rdzv-endpoint: \"a\" lacks a port; write HOST:PORT", 1},
        {"--nnodes=2|--rdzv-endpoint=a:b|x", "", NULL,
         "--rdzv-endpoint: \"a:b\" has no port from 0 to 65535 at its end", 1},
        {"--nnodes=2|--master-port=70000|x", "", NULL,
         "--master-port: 70000 is no port; give one from 1 to 65535", 1},
        {"--nnodes=2|--master-addr=a b|x", "", NULL,
         "--master-addr: \"a b:29500\" does not start with a host; write HOST:PORT", 1},
        {"--nnodes=2|--master-port=0|x", "", NULL, "--master-port: port 0, any free one, is for a job of one node; the "
         "others could not know it", 1},
        {"--nnodes=2|--node-rank=2|x", "", NULL,
         "--node-rank: 2 is no rank in a job of 2 nodes; give 0 to one less than --nnodes", 1},
        {"--node-rank=1|--master-port=1|x", "", NULL, "--node-rank: 1 is no rank in a job of 1 node; give 0", 1},
        {"--nnodes=2|--node-rank=-1|x", "", NULL,
         "--node-rank: -1 is no rank in a job of 2 nodes; give 0 to one less than --nnodes", 1},
        {"--nnodes=2|--rdzv-conf=timeout=0|x", "", NULL,
         "--rdzv-conf: timeout is \"0\"; give whole seconds from 1 on", 1},
        {"--nnodes=2:1|x", "", NULL, "--nnodes: \"2:1\" has its minimum above its maximum; write 1:2", 1},
        {"--nnodes=0|x", "", NULL, "--nnodes: \"0\" is not N or MIN:MAX with numbers from 1 to 1000000", 1},
        {"--nnodes=1:2:3|x", "", NULL, "--nnodes: \"1:2:3\" is not N or MIN:MAX with numbers from 1 to 1000000", 1},
        {"--nnodes=1:|x", "", NULL, "--nnodes: \"1:\" is not N or MIN:MAX with numbers from 1 to 1000000", 1},
        {"--nnodes=|x", "", NULL, "--nnodes: \"\" is not N or MIN:MAX with numbers from 1 to 1000000", 1},
        {"x", "PET_NNODES=two", NULL, "PET_NNODES: \"two\" is not N or MIN:MAX with numbers from 1 to 1000000", 1},
        {"--nnodes=1000000|--nproc-per-node=16384|x", "", NULL,
         "--nnodes: 1000000 nodes of 16384 workers are more than there can be ranks", 1},
    };
    TOLD_ROWS(&dt_launch_program, rows);
}

TEST(other_backends)
{
    static const struct told_row rows[] = {
        {"--rdzv-backend=c10d|--rdzv-conf=join_timeout=5,read_timeout=2,is_host=yes|x", "",
         "join timeout: 5 s|read timeout: 2 s|"
         "ignored: --rdzv-conf has no effect: is_host does not matter to a job of one node", NULL, 0},
        {"--rdzv-backend=c10d|--rdzv-conf=store_type=tcp|x", "", "backend: c10d", NULL, 0},
        {"--rdzv-backend=c10d|--rdzv-conf=store_type=file|x", "", NULL,
         "--rdzv-conf: store_type is \"file\"; dtrun has the tcp store only", 1},
        {"--rdzv-backend=c10d|--rdzv-conf=is_host=maybe|x", "", NULL,
         "--rdzv-conf: is_host is \"maybe\"; give true or false", 1},
        {"--rdzv-backend=c10d|--rdzv-conf=close_timeout=-1|x", "", NULL,
         "--rdzv-conf: close_timeout is \"-1\"; give whole seconds from 1 on", 1},
        {"--rdzv-backend=c10d|--rdzv-conf=join_timeout|x", "", NULL,
         "--rdzv-conf: join_timeout has no value; write join_timeout=VALUE", 1},
        {"--rdzv-backend=c10d|--rdzv-endpoint=h:x|x", "", NULL,
         "--rdzv-endpoint: \"h:x\" has no port from 0 to 65535 at its end", 1},
        {"--rdzv-backend=etcd|x", "", NULL,
         "--rdzv-backend: dtrun does not speak to etcd; give static or c10d, or run the job with torchrun", 1},
        {"x", "PET_RDZV_BACKEND=etcd-v2", NULL,
         "PET_RDZV_BACKEND: dtrun does not speak to etcd; give static or c10d, or run the job with torchrun", 1},
        {"--rdzv-backend=zeus|x", "", NULL, "--rdzv-backend: \"zeus\" is no backend; give static or c10d", 1},
    };
    TOLD_ROWS(&dt_launch_program, rows);
}

#define C10D "--rdzv-backend=c10d|"
#define UP_TO_4 C10D "--nnodes=2:4|--rdzv-endpoint=h:5|"

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

TEST(a_scheduler_knows_what_nobody_wrote)
{
    static const struct told_row rows[] = {
        {UP_TO_4 "--node-rank=0|x", "GROUP_RANK=3", "place wished for: 0", NULL, 0},
        {UP_TO_4 "x", "PET_NODE_RANK=2|GROUP_RANK=3", "place wished for: 2", NULL, 0},
        {UP_TO_4 "x", "GROUP_RANK=3|SLURM_NODEID=4", "place wished for: 3", NULL, 0},
        {UP_TO_4 "x", "GROUP_RANK=none|SLURM_NODEID=4|PMI_RANK=6", "place wished for: 4", NULL, 0},
        {UP_TO_4 "x", "JOB_COMPLETION_INDEX=5|PMI_RANK=6", "place wished for: 5", NULL, 0},
        {UP_TO_4 "x", "PMI_RANK=6", "place wished for: 6", NULL, 0},
        {UP_TO_4 "x", "PMI_RANK=-6|SLURM_PROCID=0", "place wished for: none", NULL, 0},
        {UP_TO_4 "x", "SLURM_NNODES=4|SLURM_JOB_NUM_NODES=8|SLURM_JOB_ID=77", "nodes started: 4|scheduler's job: 77", NULL,
         0},
        {UP_TO_4 "x", "SLURM_NNODES=0|SLURM_JOB_NUM_NODES=8|PBS_JOBID=77.host", "nodes started: 8|scheduler's job: 77.host",
         NULL, 0},
        {UP_TO_4 "x", "LSB_JOBID=5", "scheduler's job: 5", NULL, 0},
        {UP_TO_4 "x", "LSB_JOBID=5|LSB_JOBINDEX=0", "scheduler's job: 5", NULL, 0},
        {UP_TO_4 "x", "LSB_JOBID=5|LSB_JOBINDEX=3", "scheduler's job: '5[3]'", NULL, 0},
    };
    TOLD_ROWS(&dt_launch_program, rows);
}

#define AT_A_DAEMON(id, from) "run id: none|run id at a daemon: " id "|run id at a daemon is from: " from

TEST(a_scheduler_names_the_run_of_whoever_does_not)
{
    static const struct told_row rows[] = {
        {UP_TO_4 "x", "SLURM_JOB_ID=77", AT_A_DAEMON("slurm-77", "SLURM_JOB_ID"), NULL, 0},
        {UP_TO_4 "x", "PBS_JOBID=77[2].head", AT_A_DAEMON("'pbs-77[2].head'", "PBS_JOBID"), NULL, 0},
        {UP_TO_4 "x", "LSB_JOBID=5|LSB_JOBINDEX=3", AT_A_DAEMON("'lsf-5[3]'", "LSB_JOBID"), NULL, 0},
        {UP_TO_4 "x", "SLURM_JOB_ID=|LSB_JOBID=5", AT_A_DAEMON("lsf-5", "LSB_JOBID"), NULL, 0},
        {UP_TO_4 "x", "DT_TOLD_POD_JOB=team-train",
         AT_A_DAEMON("k8s-team-train", "'the names of this pod and its Job'") "|scheduler's job: none", NULL, 0},
        {UP_TO_4 "--rdzv-id=j|x", "SLURM_JOB_ID=77", "run id: j|endpoint: h:5", NULL, 0},
        {UP_TO_4 "--rdzv-id=none|x", "SLURM_JOB_ID=77", "run id: none|endpoint: h:5", NULL, 0},
        {UP_TO_4 "x", "PET_RDZV_ID=j|DT_TOLD_POD_JOB=train", "run id: j|endpoint: h:5", NULL, 0},
        {UP_TO_4 "x", "", "run id: none|endpoint: h:5", NULL, 0},
        {"--nnodes=2|x", "SLURM_JOB_ID=77", "run id: none|endpoint: 127.0.0.1:29500", NULL, 0}, /* it meets nobody's */
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

TEST(how_it_ends)
{
    static const struct told_row rows[] = {
        {"--max-restarts=3|x", "", "restarts: 3|retry what can only fail again: no", NULL, 0},
        {"--retry-deterministic|x", "", "retry what can only fail again: yes|keep workers: auto", NULL, 0},
        {"--keep-workers=never|x", "", "keep workers: never", NULL, 0},
        {"--max-restarts=-1|x", "", NULL, "--max-restarts: -1 is negative; give 0 for none", 1},
        {"--monitor-interval=5|x", "",
         "ignored: --monitor-interval has no effect: the end of a worker is noticed at once", NULL, 0},
        {"--monitor-interval=0|x", "", NULL, "--monitor-interval: 0 is not above 0; leave it out", 1},
        {"--monitor-interval=nan|x", "", NULL, "--monitor-interval: nan is not above 0; leave it out", 1},
        {"--shutdown-timeout=5|x", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT=x", "shutdown timeout: 5 s", NULL, 0},
        {"--shutdown-timeout=0|x", "", "shutdown timeout: 0 s", NULL, 0},
        {"--shutdown-timeout=250ms|x", "", "shutdown timeout: 250 ms", NULL, 0},
        {"x", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT=7", "shutdown timeout: 7 s", NULL, 0},
        {"x", "PET_SHUTDOWN_TIMEOUT=8|TORCH_ELASTIC_SHUTDOWN_TIMEOUT=7", "shutdown timeout: 8 s", NULL, 0},
        {"--shutdown-timeout=-1|x", "", NULL,
         "--shutdown-timeout: the time is negative; give seconds from 0 on", 1},
        {"--shutdown-timeout=1.5|x", "", NULL,
         "--shutdown-timeout: \"1.5\" is not whole seconds; with a unit it can be anything, as in 500ms", 2},
        {"x", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT=x", NULL,
         "TORCH_ELASTIC_SHUTDOWN_TIMEOUT: \"x\" is not whole seconds from 0 on", 1},
        {"--exit-barrier-timeout=9|x", "", "exit barrier timeout: 9 s", NULL, 0},
        {"x", "TORCH_ELASTIC_EXIT_BARRIER_TIMEOUT=9", "exit barrier timeout: 9 s", NULL, 0},
        {"--signals-to-handle=SIGTERM,USR1|x", "", "signals that end: SIGUSR1,SIGTERM", NULL, 0},
        {"--signals-to-handle=SIGTERM,SIGKILL,SIGX|x", "", "signals that end: SIGTERM|"
         "warning: --signals-to-handle: \"SIGKILL\" is left out, as it is no signal that can be handled|"
         "warning: --signals-to-handle: \"SIGX\" is left out, as it is no signal that can be handled", NULL, 0},
        {"--forward-signals=USR1,SIGUSR2|x", "", "signals passed on: SIGUSR1,SIGUSR2|"
         "signals that end: SIGHUP,SIGINT,SIGQUIT,SIGTERM", NULL, 0},
        {"--forward-signals=HUP|x", "", "signals passed on: SIGHUP|signals that end: SIGINT,SIGQUIT,SIGTERM", NULL, 0},
        {"--forward-signals=HUP|--signals-to-handle=HUP|x", "", NULL, "--forward-signals: SIGHUP cannot both end the "
         "job, as --signals-to-handle says, and be passed on alone; drop one of the two", 2},
        {"--forward-signals=KILL|x", "", NULL,
         "--forward-signals: \"KILL\" is no signal that can be passed on; write it as SIGUSR1,SIGUSR2", 2},
        {"--stop-order=leader|--exit-code=root-cause|x", "", "stop order: leader|exit code: root-cause", NULL, 0},
    };
    TOLD_ROWS(&dt_launch_program, rows);
}

TEST(output)
{
    static const struct told_row rows[] = {
        {"--nproc-per-node=3|-t|3|-r0:1|x", "", "output of local rank 0: redirects stdout, tees stdout and stderr, shown|"
         "output of local rank 1-2: redirects nothing, tees stdout and stderr, shown", NULL, 0},
        {"-r|0:3,7:1|x", "", "output of local rank 0: redirects stdout and stderr, tees nothing, shown|"
         "ignored: --redirects has no effect: for local rank 7: the last one is 0", NULL, 0},
        {"--nproc-per-node=12|--tee=10:1|x", "", "output of local rank 0-9: redirects nothing, tees nothing, shown|"
         "output of local rank 10: redirects nothing, tees stdout, shown|"
         "output of local rank 11: redirects nothing, tees nothing, shown", NULL, 0},
        {"--nproc-per-node=2|--local-ranks-filter=1|x", "",
         "output of local rank 0: redirects nothing, tees nothing, hidden|"
         "output of local rank 1: redirects nothing, tees nothing, shown", NULL, 0},
        {"--log-dir=/dev/null|-t3|--keep-logs=failed|x", "", "log folder: none|"
         "output of local rank 0: redirects nothing, tees nothing, shown|"
         "ignored: --tee has no effect: --log-dir=/dev/null keeps no files|"
         "ignored: --keep-logs has no effect: --log-dir=/dev/null keeps none", NULL, 0},
        {"--log-dir=/tmp/not/there/yet|--keep-logs=failed|x", "",
         "log folder: /tmp/not/there/yet|keep logs: failed", NULL, 0},
        {"--log-dir=|x", "", "log folder: a fresh one in a temporary folder", NULL, 0},
        {"--log-dir=/tmp/not|--keep-log-runs=5|--keep-log-days=7|--keep-log-size=20G|x", "",
         "earlier runs kept: at most 5, for 7 days, up to 20 GiB", NULL, 0},
        {"--log-dir=/tmp/not|--keep-log-size=512|x", "", "earlier runs kept: up to 512 B", NULL, 0},
        {"--whole-lines|x", "", "whole lines: yes", NULL, 0},
        {"--whole-lines|--inherit-streams|x", "", "ignored: --whole-lines has no effect: --inherit-streams lets workers write "
         "themselves", NULL, 0},
        {"--keep-log-runs=5|x", "", "ignored: --keep-log-runs has no effect: without --log-dir each run has a temporary "
         "folder of its own", NULL, 0},
        {"--log-dir=/dev/null|--keep-log-days=5|x", "", "ignored: --keep-log-days has no effect: --log-dir=/dev/null keeps "
         "none", NULL, 0},
        {"-t1|--duplicate-stdout-filters=a,,b,c d|--duplicate-stderr-filters=e|x", "",
         "stdout filters: a,b 'c d'|stderr filters: e", NULL, 0},
        {"--collapse-lines|--partial-line-after=1s|x", "", "collapse lines: yes|partial lines after: 1 s|"
         "ignored: --collapse-lines has no effect: no output is teed; give --tee|"
         "ignored: --partial-line-after has no effect: no output is teed; give --tee", NULL, 0},
        {"--strip-codes|--inherit-streams|x", "", "strip codes: yes|inherit streams: yes", NULL, 0},
        {"x", "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE=[${rank}] ", "line prefix: '[${rank}] '", NULL, 0},
        {"x", "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE=", "line prefix: '[${role_name}${local_rank}]:'", NULL, 0},
        {"--event-log-handler=console|x", "", "events: console", NULL, 0},
        {"--event-log-handler=file:/x|x", "", "events: file:/x", NULL, 0},

        {"--event-log-handler=file:|x", "", NULL,
         "--event-log-handler: \"file:\" is no place for events; give null, console or file:PATH", 1},
        {"-r|4|x", "", NULL, "--redirects: \"4\" is neither 0, 1 (stdout), 2 (stderr) or 3 (both), nor a list as "
         "0:3,1:2 of what each local rank has", 1},
        {"x", "PET_TEE=", NULL, "PET_TEE: \"\" is neither 0, 1 (stdout), 2 (stderr) or 3 (both), nor a list as "
         "0:3,1:2 of what each local rank has", 1},
        {"--local-ranks-filter=0,x|x", "", NULL,
         "--local-ranks-filter: \"x\" is no local rank; write them as 0,2,3", 1},
        {"--log-dir=/etc/passwd|x", "", NULL,
         "--log-dir: /etc/passwd is a file; name a folder, or /dev/null for none", 1},
        {"--log-dir=/etc/passwd/x|x", "", NULL, "--log-dir: \"/etc/passwd/x\" cannot be used: Not a directory", 1},
        {"--logs-specs=mine|x", "", NULL, "--logs-specs: \"mine\" is a Python plug-in, which dtrun cannot load; give "
         "--log-dir, --redirects and --tee, or run the job with torchrun", 1},
    };
    TOLD_ROWS(&dt_launch_program, rows);
}

TEST(uploads)
{
    static const struct told_row rows[] = {
        {"--upload=w=s3://bucket/p|x", "", "upload: w to s3://bucket/p|upload command: none|upload after: 10 s|upload timeout: 10 min", NULL, 0},
        {"--upload=a=b/=file:///c=d|--upload=e=s3://farm|x", "", "upload: a=b to file:///c=d|upload: e to s3://farm", NULL, 0},
        {"--upload=w|--upload-cmd=cp $DTRUN_UPLOAD_FILE /|--upload-after=1m|x", "",
         "upload: w to wherever|upload command: 'cp $DTRUN_UPLOAD_FILE /'|upload after: 1 min", NULL, 0},
        {"--upload-after=1s|x", "", "ignored: --upload-after has no effect: no --upload names a folder", NULL, 0},
        {"--upload=w|x", "", NULL, "--upload: where to? Write w=s3://BUCKET/PREFIX or w=file:///FOLDER, or give a "
         "command with --upload-cmd", 2},
        {"--upload==s3://bucket|x", "", NULL, "--upload: \"=s3://bucket\" names no folder; write DIR=URL", 2},
        {"--upload=w=s3://|x", "", NULL, "--upload: \"s3://\" is no place for objects: that is no name of a bucket; write "
         "s3://BUCKET/PREFIX or file:///FOLDER", 2},
        {"--upload=/w=file:///wide|--upload=/w/c=file:///w|x", "", "upload: /w to file:///wide|upload: /w/c to file:///w", NULL, 0},
        {"--upload=/w=file:///w/c|x", "", NULL,
         "--upload: file:///w/c is in /w, so each copy would be copied again; name a folder outside of /w", 2},
        {"--upload=/w/=file:///w|x", "", NULL, "--upload: file:///w is in /w, so each copy would be copied again; "
         "name a folder outside of /w", 2},
        {"--upload=/=file:///w|x", "", NULL, "--upload: file:///w is in /, so each copy would be copied again; name a folder "
         "outside of /", 2},
        {"--upload=/proc/self/root/w=file:///w/c|x", "", NULL, "--upload: file:///w/c is in /proc/self/root/w, so each copy would "
         "be copied again; name a folder outside of /proc/self/root/w", 2},
    };
    TOLD_ROWS(&dt_launch_program, rows);
}

TEST(watching)
{
    static const struct told_row rows[] = {
        {"--health-port=80|x", "TORCHELASTIC_HEALTH_CHECK_PORT=81", "health port: 80", NULL, 0},
        {"x", "TORCHELASTIC_HEALTH_CHECK_PORT=81", "health port: 81|health address: every one", NULL, 0},
        {"--health-port=80|--health-address=127.0.0.1|x", "", "health address: 127.0.0.1", NULL, 0},
        {"--health-address=::1|x", "", "health port: none|ignored: --health-address has no effect: there is no --health-port",
         NULL, 0},
        {"--health-address=127.0.0.1:80|x", "", NULL,
         "--health-address: \"127.0.0.1:80\" is not an address alone; the port is that of --health-port", 2},
        {"x", "TORCHELASTIC_HEALTH_CHECK_PORT=http", "health port: none|"
         "ignored: TORCHELASTIC_HEALTH_CHECK_PORT has no effect: \"http\" is no port", NULL, 0},
        {"--health-port=65536|x", "", NULL, "--health-port: \"65536\" is not a whole number from 0 to 65535", 2},
        {"x", "TORCHELASTIC_ENABLE_FILE_TIMER=1", "file timers: yes|timer file: a fresh one in a temporary folder", NULL, 0},
        {"x", "TORCHELASTIC_ENABLE_FILE_TIMER=1|TORCHELASTIC_TIMER_FILE=/run/t", "timer file: /run/t", NULL, 0},
        {"x", "TORCHELASTIC_ENABLE_FILE_TIMER=yes|TORCHELASTIC_TIMER_FILE=/run/t", "file timers: no", NULL, 0},
        {"x", "TORCHELASTIC_ERROR_FILE=/e", "error file: /e", NULL, 0},
        {"x", "TORCHELASTIC_ERROR_FILE=", "error file: none", NULL, 0},
        {"x", "", "hang after: auto|on hang: log|look on signal: SIGQUIT", NULL, 0},
        {"--hang-after=90|--on-hang=restart|--look-on-signal=USR1|x", "",
         "hang after: 1.5 min|on hang: restart|look on signal: SIGUSR1", NULL, 0},
        {"--hang-after=off|--on-hang=stop|x", "", "hang after: never|on hang: stop|"
         "ignored: --on-hang has no effect: --hang-after is off", NULL, 0},
        {"x", "", "on straggler: log", NULL, 0},
        {"x", "", "preflight: off", NULL, 0},
        {"--nnodes=2|x", "", "preflight: fast", NULL, 0},
        {"--nnodes=2|--preflight=off|x", "", "preflight: off", NULL, 0},
        {"--preflight=full|x", "", "preflight: full", NULL, 0},
        {"x", "DTRUN_PREFLIGHT=fast", "preflight: fast", NULL, 0},
        {"--on-straggler=off|x", "", "on straggler: off", NULL, 0},
        {"--nnodes=2:4|--rdzv-backend=c10d|--rdzv-endpoint=h|--on-straggler=drain|x", "", "on straggler: drain", NULL, 0},
        {"--on-straggler=drain|x", "",
         "on straggler: drain|ignored: --on-straggler has no effect: no spare can come: the job is not elastic", NULL, 0},
        {"--no-look|--on-straggler=log|x", "",
         "on straggler: off|ignored: --on-straggler has no effect: --no-look is given", NULL, 0},
        {"--look-on-signal=none|x", "DTRUN_HANG_AFTER=2m", "hang after: 2 min|look on signal: none", NULL, 0},
        {"--no-look|x", "", "hang after: never|look on signal: none", NULL, 0},
        {"--no-look|--hang-after=3|x", "", "hang after: never|ignored: --hang-after has no effect: --no-look is given", NULL, 0},
        {"--signals-to-handle=SIGTERM,SIGQUIT|x", "", "look on signal: none", NULL, 0},
        {"--signals-to-handle=SIGTERM|x", "", "signals that end: SIGTERM|look on signal: SIGQUIT", NULL, 0},
        {"--signals-to-handle=SIGQUIT|--look-on-signal=QUIT|x", "", "look on signal: SIGQUIT", NULL, 0},
        {"--forward-signals=SIGQUIT|x", "", "look on signal: none", NULL, 0},
        {"--forward-signals=SIGQUIT|--look-on-signal=QUIT|x", "", NULL,
         "--look-on-signal: --forward-signals passes this signal on; choose another one", 2},
        {"--numa-binding=core-complex|--virtual-local-rank|x", "", "binding: core-complex|virtual local rank: yes", NULL, 0},
        {"x", "PET_NUMA_BINDING=node", "binding: none", NULL, 0}, /* not in the environment */
        {"--start-method=fork|x", "",
         "ignored: --start-method has no effect: workers are always programs of their own", NULL, 0},
    };
    TOLD_ROWS(&dt_launch_program, rows);
}

TEST(where_a_flight_recorder_dumps)
{
#define ALL "TORCH_FR_DUMP_TEMP_FILE: in the folder of logs|TORCH_NCCL_DEBUG_INFO_PIPE_FILE: in the folder of logs"
#define NOTHING "TORCH_FR_BUFFER_SIZE: as it is|TORCH_FR_DUMP_TEMP_FILE: as it is|" \
                "TORCH_NCCL_DEBUG_INFO_PIPE_FILE: as it is"
    static const struct told_row rows[] = {
        {"x", "", "TORCH_FR_BUFFER_SIZE: 2000|" ALL, NULL, 0},
        {"x", "TORCH_FR_BUFFER_SIZE=50", "TORCH_FR_BUFFER_SIZE: as it is|" ALL, NULL, 0},
        {"x", "TORCH_NCCL_TRACE_BUFFER_SIZE=50", "TORCH_FR_BUFFER_SIZE: as it is|"
         "TORCH_NCCL_DEBUG_INFO_TEMP_FILE: in the folder of logs|"
         "TORCH_NCCL_DEBUG_INFO_PIPE_FILE: in the folder of logs", NULL, 0},
        {"x", "TORCH_FR_BUFFER_SIZE=0", NOTHING, NULL, 0},
        {"x", "TORCH_NCCL_TRACE_BUFFER_SIZE=0", NOTHING, NULL, 0},
        {"x", "TORCH_FR_DUMP_TEMP_FILE=/d", NOTHING, NULL, 0},
        {"x", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE=/d", NOTHING, NULL, 0},
        {"x", "TORCH_NCCL_DEBUG_INFO_PIPE_FILE=/d/flight/rank_", NOTHING, NULL, 0},
        {"x", "DTRUN=1|TORCH_FR_BUFFER_SIZE=2000|TORCH_NCCL_DEBUG_INFO_PIPE_FILE=/d/flight/rank_",
         "TORCH_FR_BUFFER_SIZE: as it is|" ALL, NULL, 0},
        {"x", "DTRUN=1|TORCH_NCCL_DEBUG_INFO_PIPE_FILE=rank_", NOTHING, NULL, 0},
        {"--log-dir=/dev/null|x", "", NOTHING, NULL, 0},
        {"--no-python|sh", "", NOTHING, NULL, 0},
        {"--no-look|x", "", NOTHING, NULL, 0},
    };
    TOLD_ROWS(&dt_launch_program, rows);
}

#define OURS "/usr/lib/dtrun/libnccl-profiler-dtrun.so"

TEST(nccls_profiler)
{
    static const struct told_row rows[] = {
        {"x", "", "NCCL profiler: none of dtrun's", NULL, 0},
        {"--nccl-profiler=calls|x", "", "ignored: --nccl-profiler has no effect: libnccl-profiler-dtrun.so is not "
         "installed with this dtrun", NULL, 0},
        {"x", "DT_TOLD_NCCL_PROFILER=1", "NCCL profiler: " OURS "|NCCL events: calls", NULL, 0},
        {"--nccl-profiler=kernels|x", "DT_TOLD_NCCL_PROFILER=1", "NCCL profiler: " OURS "|NCCL events: calls and kernels",
         NULL, 0},
        {"x", "DT_TOLD_NCCL_PROFILER=1|DTRUN_NCCL_PROFILER=off", "NCCL profiler: none of dtrun's", NULL, 0},
        {"x", "DT_TOLD_NCCL_PROFILER=1|NCCL_PROFILER_PLUGIN=inspector", "NCCL profiler: none of dtrun's", NULL, 0},
        {"x", "DT_TOLD_NCCL_PROFILER=1|NCCL_PROFILER_PLUGIN=", "NCCL profiler: none of dtrun's", NULL, 0},
        {"--nccl-profiler=calls|x", "DT_TOLD_NCCL_PROFILER=1|NCCL_PROFILER_PLUGIN=none",
         "ignored: --nccl-profiler has no effect: NCCL_PROFILER_PLUGIN is set, and stays as it is", NULL, 0},
        {"x", "DT_TOLD_NCCL_PROFILER=1|NCCL_PROFILER_PLUGIN=" OURS, "NCCL profiler: " OURS, NULL, 0},
        {"--nccl-profiler=on|x", "", NULL, "--nccl-profiler: \"on\" is none of calls, kernels, off", 2},
    };
    TOLD_ROWS(&dt_launch_program, rows);
}

TEST(what_is_executed)
{
    static const struct told_row rows[] = {
        {"t.py|a|b c", "", "command: /bin/sh -u t.py a 'b c'|title: /bin/sh", NULL, 0},
        {"-m|pkg.mod|-x", "", "command: /bin/sh -u -m pkg.mod -x", NULL, 0},
        {"--no-python|true|-u", "", "command: /bin/true -u|title: true", NULL, 0},
        {"true|-u", "", "command: /bin/true -u|title: true", NULL, 0}, /* no Python could run it */
        {"/bin/true", "", "command: /bin/true|title: /bin/true", NULL, 0},
        {"--no-python|/bin/echo|$local_rank|$$", "", "command: /bin/echo '$local_rank' '$$'|title: /bin/echo", NULL, 0},
        {"--run-path|--no-python|--module|s.py", "", "title: run_script_path|"
         "ignored: --no-python has no effect: --run-path is given too|"
         "ignored: --module has no effect: --run-path is given too", NULL, 0},
        {"--|s.py|--|-m", "", "command: /bin/sh -u s.py -- -m", NULL, 0},
        {"s.py|-m|--nproc_per_node=2", "", "workers: 1|warning: --nproc-per-node stands behind SCRIPT, so it is an argument "
         "of s.py and not an option of dtrun; write options before SCRIPT", NULL, 0},
        {"--no-python|true|--rdzv-id|j", "", "warning: --rdzv-id stands behind SCRIPT, so it is an argument of true and not "
         "an option of dtrun; write options before SCRIPT", NULL, 0},
        {"--no-python|-m|true", "", NULL, "--module: a module needs Python; drop --no-python or --module", 1},
        {"--no-python|no-such-program", "", NULL, "\"no-such-program\" is in none of the folders of PATH; write a "
         "program of this folder as ./NAME", 1},
        {"--no-python|/etc/passwd", "", NULL, "\"/etc/passwd\" cannot be executed: Permission denied", 1},
        {"s.py", "PYTHON_EXEC=/no/python", "title: /bin/sh", NULL, 0}, /* told.h named one before */
    };
    TOLD_ROWS(&dt_launch_program, rows);
}

#define ONE_JOB_EACH ", and each is a job of its own, on one node; for one job on all of them give "
#define OR_MEANT ", for a job on each --nnodes=1"
#define OR_SRUN "; start it by srun, or with --hosts, or give --nnodes=1 if one is meant"

TEST(a_scheduler_that_started_more_of_us)
{
    static const struct { const char *env, *line; } rows[] = {
        {"SLURM_NNODES=2|SLURM_STEP_NUM_NODES=2", "Slurm started 2 of dtrun" ONE_JOB_EACH
         "--nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=HOST:29400" OR_MEANT},
        {"SLURM_NNODES=8|SLURM_STEP_NUM_NODES=2|SLURM_STEP_NODELIST=gpu[07-08]", "Slurm started 2 of dtrun" ONE_JOB_EACH
         "--nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=gpu07:29400" OR_MEANT},
        {"SLURM_STEP_NUM_NODES=3|SLURM_STEP_NODELIST=cpu1,gpu[1-2]", "Slurm started 3 of dtrun" ONE_JOB_EACH
         "--nnodes=3 --rdzv-backend=c10d --rdzv-endpoint=cpu1:29400" OR_MEANT},
        {"SLURM_STEP_NUM_NODES=2|SLURM_STEP_NODELIST=rack[1-2]-a", "Slurm started 2 of dtrun" ONE_JOB_EACH
         "--nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=HOST:29400" OR_MEANT},
        {"OMPI_COMM_WORLD_SIZE=4", "mpirun started 4 of dtrun" ONE_JOB_EACH
         "--nnodes=4 --rdzv-backend=c10d --rdzv-endpoint=HOST:29400" OR_MEANT},
        {"KUBERNETES_SERVICE_HOST=10.0.0.1|JOB_COMPLETION_INDEX=1|HOSTNAME=llama-1",
         "Kubernetes started this dtrun as one of several" ONE_JOB_EACH
         "--nnodes=N --rdzv-backend=c10d --rdzv-endpoint=llama-0.SERVICE:29400" OR_MEANT},
        {"KUBERNETES_SERVICE_HOST=10.0.0.1|JOB_COMPLETION_INDEX=0|HOSTNAME=other",
         "Kubernetes started this dtrun as one of several" ONE_JOB_EACH
         "--nnodes=N --rdzv-backend=c10d --rdzv-endpoint=HOST:29400" OR_MEANT},
        /* In a batch script, and so one alone. */
        {"SLURM_NNODES=4|SLURM_JOB_NODELIST=n[1-4]", "the allocation has 4 nodes, and this dtrun uses one" OR_SRUN},
        {"SLURM_JOB_NUM_NODES=3", "the allocation has 3 nodes, and this dtrun uses one" OR_SRUN},
        {"SLURM_NNODES=4|OMPI_COMM_WORLD_SIZE=4", "mpirun started 4 of dtrun" ONE_JOB_EACH
         "--nnodes=4 --rdzv-backend=c10d --rdzv-endpoint=HOST:29400" OR_MEANT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char line[512];
        snprintf(line, sizeof line, "nodes: 1|warning: %s", rows[i].line);
        struct told_row row = {.args = "x", .env = rows[i].env, .lines = line};
        told_check_rows(&dt_launch_program, &row, 1);
    }
}

TEST(what_could_be_a_mistake_and_most_often_is_none)
{
    static const char *const rows[][2] = {
        {"--nproc-per-node=2|x|--nproc-per-node=2", "OMP_NUM_THREADS=1"}, /* it is meant for both */
        {"x|--log-dir|l|--role|r|-r|--lr|--nproc|nnodes|-nnodes", ""},    /* a script's own */
        {"--nnodes=1|x", "SLURM_NNODES=2"},
        {"--nnodes=1|x", "SLURM_NNODES=2|SLURM_STEP_NUM_NODES=2"},
        {"--standalone|x", "SLURM_NNODES=2|SLURM_STEP_NUM_NODES=2"},
        {"x", "SLURM_NNODES=1"},
        {"x", "SLURM_NNODES=8|SLURM_STEP_NUM_NODES=1"}, /* a step on one node of eight */
        {"x", "SLURM_NNODES=many"},
        {"x", "OMPI_COMM_WORLD_SIZE=1"},
        {"--nnodes=1|x", "OMPI_COMM_WORLD_SIZE=4"},
        {"x", "JOB_COMPLETION_INDEX=1"}, /* of something else */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct told t;
        CHECK_ROW("%s, with %s", rows[i][0], rows[i][1]);
        told_tell(&t, &dt_launch_program, rows[i][0], rows[i][1]);
        CHECK_OK(t.rc, t.err);
        CHECK(strstr(dt_buf_cstr(&t.text), "warning: ") == NULL);
        told_finish(&t);
    }
}

TEST(torch_distributed_launch)
{
    static const struct told_row rows[] = {
        {"s.py|a", "", "command: /bin/sh -u s.py '--local-rank=${local_rank}' a|warning: dtrun-launch stands in for the "
         "deprecated torch.distributed.launch; use dtrun, and read the local rank from LOCAL_RANK instead of an argument "
         "--local-rank", NULL, 0},
        {"-m|mod|a", "", "command: /bin/sh -u -m mod '--local-rank=${local_rank}' a", NULL, 0},
        {"--use-env|s.py|a", "", "command: /bin/sh -u s.py a|"
         "warning: dtrun-launch stands in for the deprecated torch.distributed.launch; use dtrun", NULL, 0},
        {"--use_env|--no-python|true", "", "command: /bin/true", NULL, 0},
        {"s.py", "PET_USE_ENV=1", "command: /bin/sh -u s.py '--local-rank=${local_rank}'", NULL, 0},
        {"--no-python|true", "", NULL,
         "--no-python: only Python scripts get an argument --local-rank; give --use-env too", 1},
    };
    TOLD_ROWS(&dt_legacy_program, rows);
}
/* clang-format on */

TEST(the_own_interpreter_is_not_worth_a_name)
{
    char dir[] = "/tmp/dtrun-test-config.XXXXXX", env[256], path[64];
    struct told t;
    CHECK(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/python3", dir);
    CHECK_EQ(symlink("/bin/sh", path), 0);
    snprintf(env, sizeof env, "PATH=%s", dir);
    static const char *const args[] = {"/dev/null|a", "-m|pkg"};
    static const char *const titles[] = {"/dev/null", "pkg"};
    for (size_t i = 0; i < 2; i++) {
        char *argv[8] = {(char *)"dtrun"}, text[64], *envp[] = {env, NULL};
        strcpy(text, args[i]);
        int argc = 1 + told_split(text, argv + 1);
        struct dt_facts facts = {
            .cpus = 1, .allowed_cpus = 1, .env = envp, .find_nccl_profiler = told_no_nccl_profiler};
        t = (struct told){0};
        CHECK_OK(dt_launch_options_read(&t.o, &dt_launch_program, argc, argv, envp, &t.err), t.err);
        CHECK_OK(dt_plan_make(&t.o, &facts, &t.plan, &t.warnings, &t.err), t.err);
        CHECK_STR(t.plan.argv[0], path);
        CHECK_STR(t.plan.title, titles[i]);
        told_finish(&t);
    }
    unlink(path);
    rmdir(dir);
}

TEST(a_log_folder_that_cannot_be_written)
{
    char dir[] = "/tmp/dtrun-test-config.XXXXXX", args[128], wanted[256];
    struct told t;
    if (geteuid() == 0)
        SKIP("root can write everywhere");
    CHECK(mkdtemp(dir) && chmod(dir, 0500) == 0);
    snprintf(args, sizeof args, "--log-dir=%s/sub/dir|x", dir);
    told_tell(&t, &dt_launch_program, args, "");
    rmdir(dir);
    snprintf(wanted, sizeof wanted, "--log-dir: nothing can be written in %s: Permission denied; ",
             dir);
    CHECK_FAIL(t.rc, t.err, wanted);
    told_finish(&t);
}

TEST(many_arguments_are_not_slow)
{
    enum { N = 200000 };
    char **argv = calloc(N + 1, sizeof *argv), *envp[] = {(char *)"PYTHON_EXEC=/bin/sh", NULL};
    struct dt_facts facts = {
        .cpus = 1, .allowed_cpus = 1, .env = envp, .find_nccl_profiler = told_no_nccl_profiler};
    struct told t = {0};
    for (int i = 0; i < N; i++)
        argv[i] = (char *)"arg";
    CHECK_OK(dt_launch_options_read(&t.o, &dt_launch_program, N, argv, envp, &t.err), t.err);
    CHECK_OK(dt_plan_make(&t.o, &facts, &t.plan, &t.warnings, &t.err), t.err);
    CHECK_EQ(dt_words_count(t.plan.argv), N + 1); /* dtrun gone, sh and -u come */
    told_finish(&t);
    free(argv);
}

static void write_conf(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    CHECK(fputs(text, f) >= 0);
    CHECK_EQ(fclose(f), 0);
}

TEST(nccls_own_settings_stay)
{
    static const struct {
        const char *text;
        bool sets;
    } rows[] = {
        {"NCCL_PROFILER_PLUGIN=inspector\n", true},
        {"NCCL_DEBUG=INFO\nNCCL_PROFILER_PLUGIN=none", true},
        {"#NCCL_PROFILER_PLUGIN=inspector\n", false},
        {"NCCL_PROFILER_PLUGIN_X=1\nNCCL_PROFILER_PLUGIN", false},
        {"", false},
    };
    char dir[] = "/tmp/dtrun-test-planning.XXXXXX", path[128], env[512];
    CHECK(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/.nccl.conf", dir);
    for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("row %zu, %s", i / 2, i % 2 ? "named" : "at home");
        struct told t;
        write_conf(path, rows[i / 2].text);
        snprintf(env, sizeof env, "DT_TOLD_NCCL_PROFILER=1|%s=%s",
                 i % 2 ? "NCCL_CONF_FILE" : "HOME", i % 2 ? path : dir);
        told_tell(&t, &dt_launch_program, "x", env);
        CHECK_OK(t.rc, t.err);
        CHECK_STR(t.plan.nccl_profiler, rows[i / 2].sets ? NULL : OURS);
        told_finish(&t);
    }
    unlink(path);
    rmdir(dir);
}
