/* SPDX-License-Identifier: Apache-2.0 */
/* How the nodes of a job meet, when they are not elastic. */
#include "tests/launcher/told.h"

/* clang-format off */
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
/* clang-format on */
