/* SPDX-License-Identifier: Apache-2.0 */
/* Every message, and what stands on the wire for it. */
#ifndef DT_TESTS_RENDEZVOUS_MESSAGE_ROWS_H
#define DT_TESTS_RENDEZVOUS_MESSAGE_ROWS_H

#include "rendezvous/protocol/messages.h"
#include "tests/lib/check.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static struct dt_rank_range two_ranges[] = {{0, 1}, {3, 63}}, one_range[] = {{2, 2}};
static struct dt_stance_group groups[] = {
    {{.doing = DT_DOING_COLLECTIVE,
      .where = "train.py:11",
      .function = "train",
      .collective = "all_reduce",
      .sequence = 7,
      .step = 8,
      .still = 2000},
     two_ranges,
     2,
     63},
    {{.doing = DT_DOING_SLEEP, .where = "train.py:5", .sequence = -1, .step = -1, .still = 2100},
     one_range,
     1,
     1},
};
#define STANCES                                                                                    \
    "\"stances\":[{\"ranks\":[{\"first\":0,\"last\":1},{\"first\":3,\"last\":63}],"                \
    "\"doing\":\"collective\",\"where\":\"train.py:11\",\"function\":\"train\","                   \
    "\"collective\":\"all_reduce\",\"sequence\":7,\"step\":8,\"still_ms\":2000},"                  \
    "{\"ranks\":[{\"first\":2,\"last\":2}],\"doing\":\"sleep\",\"where\":\"train.py:5\","          \
    "\"sequence\":-1,\"step\":-1,\"still_ms\":2100}]"

/* Every member has a value of its own, so that none can be taken for another. */
static const struct {
    struct dt_message m;
    const char *json;
} rows[] = {
    {{.type = DT_MSG_HELLO,
      .hello = {.version = 1, .program = "dtrun 0.4", .nonce = {0xde, 0xad, 0xbe, 0xef}}},
     "{\"type\":\"hello\",\"version\":1,\"program\":\"dtrun 0.4\","
     "\"nonce\":\"deadbeef000000000000000000000000\"}"},
    {{.type = DT_MSG_HELLO,
      .hello = {.version = 65535,
                .program = "",
                .host = "daemon",
                .token = true,
                .looks = true,
                .remarks = true}},
     "{\"type\":\"hello\",\"version\":65535,\"program\":\"\",\"host\":\"daemon\","
     "\"nonce\":\"00000000000000000000000000000000\",\"token\":true,\"looks\":true,"
     "\"remarks\":true}"},
    {{.type = DT_MSG_PROOF, .proof = {[0] = 0x01, [31] = 0xff}},
     "{\"type\":\"proof\",\"proof\":"
     "\"01000000000000000000000000000000000000000000000000000000000000ff\"}"},
    {{.type = DT_MSG_REFUSED, .why = "the token is another"},
     "{\"type\":\"refused\",\"why\":\"the token is another\"}"},
    {{.type = DT_MSG_JOIN,
      .run = "llama",
      .round = -1,
      .incarnation = UINT64_MAX,
      .join = {.spec = {.min_nodes = 2,
                        .max_nodes = 4,
                        .spares = 1,
                        .fixed_world = true,
                        .max_restarts = 3,
                        .max_node_losses = -1,
                        .no_progress = 5,
                        .strikes = 6,
                        .quarantine = 600000,
                        .join_timeout = DT_FOREVER,
                        .last_call = 30000,
                        .beat = 5000,
                        .beats = 7,
                        .reconnect_grace = 1000,
                        .stop_bound = 45000,
                        .grow_interval = 8,
                        .restart_reset = 9,
                        .command = 0x8000000000000001,
                        .script = "train.py",
                        .user = "ada",
                        .mixed = true,
                        .job = "slurm-17"},
               .node = {.name = "n\"1\"",
                        .boot = "b-1",
                        .domain = "rack 3",
                        .addr = "10.0.0.1",
                        .port = 29500,
                        .role = "default",
                        .workers = 8,
                        .order = -1,
                        .expected = 10,
                        .looks = true,
                        .keeps = true},
               .claim = {.done = true,
                         .again = true,
                         .seat = 11,
                         .seats = 12,
                         .first_rank = 13,
                         .size = 14,
                         .restarts = 15,
                         .over = "node3 leaves"}}},
     "{\"type\":\"join\",\"run\":\"llama\",\"round\":-1,\"incarnation\":\"ffffffffffffffff\","
     "\"spec\":{\"min_nodes\":2,\"max_nodes\":4,\"spares\":1,\"fixed_world\":true,"
     "\"torchrun_ranks\":false,\"max_restarts\":3,\"max_node_losses\":-1,\"no_progress\":5,"
     "\"strikes\":6,\"quarantine\":600000,\"join_timeout\":4503599627370496,\"last_call\":30000,"
     "\"beat\":5000,\"beats\":7,\"reconnect_grace\":1000,\"stop_bound\":45000,\"grow_interval\":8,"
     "\"restart_reset\":9,\"command\":\"8000000000000001\",\"job\":\"slurm-17\","
     "\"script\":\"train.py\",\"user\":\"ada\",\"mixed\":true},"
     "\"node\":{\"name\":\"n\\\"1\\\"\",\"boot\":\"b-1\",\"domain\":\"rack 3\","
     "\"addr\":\"10.0.0.1\",\"port\":29500,\"role\":\"default\",\"workers\":8,\"order\":-1,"
     "\"expected\":10,\"looks\":true,\"keeps\":true},"
     "\"claim\":{\"running\":false,\"done\":true,\"again\":true,\"seat\":11,\"seats\":12,\"first_"
     "rank\":13,"
     "\"size\":14,\"restarts\":15,\"over\":\"node3 leaves\"}}"},
    {{.type = DT_MSG_BEAT,
      .run = "r",
      .round = 3,
      .incarnation = 0x1f,
      .beat = {.seq = (int64_t)1 << 53, .step = -1, .running = 4, .failed = 5, .succeeded = 6}},
     "{\"type\":\"beat\",\"run\":\"r\",\"round\":3,\"incarnation\":\"1f\","
     "\"seq\":9007199254740992,\"step\":-1,\"running\":4,\"failed\":5,\"succeeded\":6}"},
    {{.type = DT_MSG_BEAT,
      .run = "r",
      .round = 3,
      .incarnation = 0x1f,
      .beat = {.seq = 8, .step = 7, .tokens_per_s = 18437, .running = 4}},
     "{\"type\":\"beat\",\"run\":\"r\",\"round\":3,\"incarnation\":\"1f\",\"seq\":8,\"step\":7,"
     "\"running\":4,\"failed\":0,\"succeeded\":0,\"tokens_per_s\":18437}"},
    {{.type = DT_MSG_BEAT,
      .run = "r",
      .round = 3,
      .incarnation = 0x1f,
      .beat = {.seq = 8, .step = 7, .step_age_ms = 12001, .running = 4}},
     "{\"type\":\"beat\",\"run\":\"r\",\"round\":3,\"incarnation\":\"1f\",\"seq\":8,\"step\":7,"
     "\"running\":4,\"failed\":0,\"succeeded\":0,\"step_age_ms\":12001}"},
    {{.type = DT_MSG_BEAT,
      .run = "r",
      .round = 3,
      .incarnation = 0x1f,
      .beat = {.seq = 8,
               .step = 7,
               .own = {.window = 9,
                       .steps = 180,
                       .step_us = 45000,
                       .by = DT_OWN_BY_STACKS,
                       .ranks = 8,
                       .rank = 17,
                       .own = 930,
                       .median = 480,
                       .may_drain = true,
                       .reason = "it sleeps"},
               .straggler = "rank 17 holds the others up",
               .holds_up = true}},
     "{\"type\":\"beat\",\"run\":\"r\",\"round\":3,\"incarnation\":\"1f\",\"seq\":8,\"step\":7,"
     "\"running\":0,\"failed\":0,\"succeeded\":0,\"own_window\":9,\"own_steps\":180,"
     "\"own_step_us\":45000,\"own_by\":\"stacks\",\"own_ranks\":8,\"own_rank\":17,"
     "\"own_share\":930,\"own_median\":480,\"own_may_drain\":true,\"own_reason\":\"it sleeps\","
     "\"straggler\":\"rank 17 holds the others up\",\"holds_up\":true}"},
    {{.type = DT_MSG_BEAT,
      .run = "r",
      .round = 3,
      .incarnation = 0x1f,
      .beat = {.seq = 8,
               .step = 7,
               .telemetry = {.number = 4,
                             .steps = 1000,
                             .loss = "2.3456",
                             .mfu = 412,
                             .compute = 800,
                             .comm = 100,
                             .data = 50,
                             .idle = 50,
                             .step_ms = 812,
                             .gpus = 8,
                             .gpu_busy = -1,
                             .gpu_mem_mib = 70000,
                             .gpu_mem_total_mib = 655360,
                             .disk = "/logs",
                             .disk_free_mib = 5,
                             .disk_total_mib = 10,
                             .upload_behind_s = 60,
                             .worker_ms = "812,809"}}},
     "{\"type\":\"beat\",\"run\":\"r\",\"round\":3,\"incarnation\":\"1f\",\"seq\":8,\"step\":7,"
     "\"running\":0,\"failed\":0,\"succeeded\":0,\"telemetry\":{\"number\":4,\"steps\":1000,"
     "\"loss\":\"2.3456\",\"mfu\":412,\"compute\":800,\"comm\":100,\"data\":50,\"idle\":50,"
     "\"step_ms\":812,\"gpus\":8,\"gpu_busy\":-1,\"gpu_mem_mib\":70000,"
     "\"gpu_mem_total_mib\":655360,\"disk\":\"/logs\",\"disk_free_mib\":5,"
     "\"disk_total_mib\":10,\"upload_behind_s\":60,\"worker_ms\":\"812,809\"}}"},
    {{.type = DT_MSG_WORLD,
      .run = "r",
      .round = 2147483647,
      .incarnation = 1,
      .world = {.seat = 2,
                .seats = 3,
                .first_rank = 4,
                .size = 5,
                .first_role_rank = 6,
                .role_size = 7,
                .master_addr = "node0",
                .master_port = 8,
                .prev_rank = -1,
                .prev_size = 9,
                .restarts = 10,
                .news = "node3 left"}},
     "{\"type\":\"world\",\"run\":\"r\",\"round\":2147483647,\"incarnation\":\"1\",\"seat\":2,"
     "\"seats\":3,\"first_rank\":4,\"size\":5,\"first_role_rank\":6,\"role_size\":7,"
     "\"master_addr\":\"node0\",\"master_port\":8,\"prev_rank\":-1,\"prev_size\":9,"
     "\"restarts\":10,\"news\":\"node3 left\"}"},
    {{.type = DT_MSG_PARK, .run = "r", .round = 1, .incarnation = 1, .why = "4 of 4 are there"},
     "{\"type\":\"park\",\"run\":\"r\",\"round\":1,\"incarnation\":\"1\","
     "\"why\":\"4 of 4 are there\"}"},
    {{.type = DT_MSG_STOP, .run = "r", .round = 1, .incarnation = 1, .why = "node2 went silent"},
     "{\"type\":\"stop\",\"run\":\"r\",\"round\":1,\"incarnation\":\"1\","
     "\"why\":\"node2 went silent\"}"},
    {{.type = DT_MSG_RESULT,
      .run = "r",
      .round = 1,
      .incarnation = 1,
      .result = {.evidence = DT_EVIDENCE_HARDWARE,
                 .rank = 3,
                 .local_rank = 2,
                 .exit_code = 255,
                 .signal = 11,
                 .ends_job = true,
                 .signature = "Xid 79",
                 .text = "rank 3 died of SIGSEGV"}},
     "{\"type\":\"result\",\"run\":\"r\",\"round\":1,\"incarnation\":\"1\",\"succeeded\":false,"
     "\"evidence\":\"hardware\",\"rank\":3,\"local_rank\":2,\"exit_code\":255,\"signal\":11,"
     "\"ends_job\":true,\"signature\":\"Xid 79\",\"text\":\"rank 3 died of SIGSEGV\"}"},
    {{.type = DT_MSG_RESULT,
      .run = "r",
      .round = 1,
      .incarnation = 1,
      .result = {.rank = 3,
                 .local_rank = 2,
                 .exit_code = 1,
                 .signature = "exit 1",
                 .text = "rank 3 exited with 1",
                 .retry = DT_RETRY_CANNOT_HELP,
                 .early = true,
                 .place = "train.py:3",
                 .weak = true,
                 .age = 40,
                 .late = true,
                 .cause = "rank 3 found no script"}},
     "{\"type\":\"result\",\"run\":\"r\",\"round\":1,\"incarnation\":\"1\",\"succeeded\":false,"
     "\"evidence\":\"program\",\"rank\":3,\"local_rank\":2,\"exit_code\":1,\"signal\":0,"
     "\"signature\":\"exit 1\",\"text\":\"rank 3 exited with 1\",\"retry\":\"cannot\","
     "\"early\":true,\"place\":\"train.py:3\",\"weak\":true,\"age\":40,\"late\":true,"
     "\"cause\":\"rank 3 found no script\"}"},
    {{.type = DT_MSG_LEAVE, .run = "r", .round = 1, .incarnation = 1},
     "{\"type\":\"leave\",\"run\":\"r\",\"round\":1,\"incarnation\":\"1\"}"},
    {{.type = DT_MSG_LEAVE,
      .run = "r",
      .round = 1,
      .incarnation = 1,
      .leave = {.stopping = true},
      .why = "SIGTERM"},
     "{\"type\":\"leave\",\"run\":\"r\",\"round\":1,\"incarnation\":\"1\",\"stopping\":true,"
     "\"why\":\"SIGTERM\"}"},
    {{.type = DT_MSG_STOP,
      .run = "r",
      .round = 1,
      .incarnation = 1,
      .stop = {.together = true},
      .why = "node1 leaves"},
     "{\"type\":\"stop\",\"run\":\"r\",\"round\":1,\"incarnation\":\"1\",\"together\":true,"
     "\"why\":\"node1 leaves\"}"},
    {{.type = DT_MSG_CLOSE,
      .run = "r",
      .round = 1,
      .incarnation = 1,
      .close = {.kind = DT_CLOSE_NO_PROGRESS},
      .why = "it would only fail again"},
     "{\"type\":\"close\",\"run\":\"r\",\"round\":1,\"incarnation\":\"1\","
     "\"kind\":\"no_progress\",\"why\":\"it would only fail again\"}"},
    {{.type = DT_MSG_CLOSE,
      .run = "r",
      .round = 1,
      .incarnation = 1,
      .close = {.kind = DT_CLOSE_FAILED, .cause = "node1: rank 3 crashed"},
      .why = "no restart is left"},
     "{\"type\":\"close\",\"run\":\"r\",\"round\":1,\"incarnation\":\"1\","
     "\"kind\":\"failed\",\"cause\":\"node1: rank 3 crashed\",\"why\":\"no restart is left\"}"},
    {{.type = DT_MSG_STALE, .run = "r", .round = 1, .incarnation = 1},
     "{\"type\":\"stale\",\"run\":\"r\",\"round\":1,\"incarnation\":\"1\"}"},
    {{.type = DT_MSG_NOTE, .run = "r", .round = 1, .incarnation = 1, .why = "waiting for node2"},
     "{\"type\":\"note\",\"run\":\"r\",\"round\":1,\"incarnation\":\"1\","
     "\"why\":\"waiting for node2\"}"},
    {{.type = DT_MSG_STILL, .run = "r", .round = 1, .incarnation = 1},
     "{\"type\":\"still\",\"run\":\"r\",\"round\":1,\"incarnation\":\"1\",\"still\":0}"},
    {{.type = DT_MSG_STILL,
      .run = "r",
      .round = 1,
      .incarnation = 1,
      .still = {.still = 2500, .sure = true}},
     "{\"type\":\"still\",\"run\":\"r\",\"round\":1,\"incarnation\":\"1\",\"still\":2500,"
     "\"sure\":true}"},
    {{.type = DT_MSG_LOOK, .run = "r", .round = 1, .incarnation = 1, .look = {.id = 3}},
     "{\"type\":\"look\",\"run\":\"r\",\"round\":1,\"incarnation\":\"1\",\"id\":3}"},
    {{.type = DT_MSG_LOOK,
      .run = "r",
      .round = 1,
      .incarnation = 1,
      .look = {.id = 3, .native = true}},
     "{\"type\":\"look\",\"run\":\"r\",\"round\":1,\"incarnation\":\"1\",\"id\":3,"
     "\"native\":true}"},
    {{.type = DT_MSG_LOOKED,
      .run = "r",
      .round = 1,
      .incarnation = 1,
      .looked = {.id = 3, .stances = {groups, 2}}},
     "{\"type\":\"looked\",\"run\":\"r\",\"round\":1,\"incarnation\":\"1\",\"id\":3," STANCES "}"},
    {{.type = DT_MSG_REMARK, .run = "r", .round = -1, .incarnation = 1, .remark.node = "node7"},
     "{\"type\":\"remark\",\"run\":\"r\",\"round\":-1,\"incarnation\":\"1\","
     "\"node\":\"node7\"}"},
    {{.type = DT_MSG_REMARK,
      .run = "r",
      .round = -1,
      .incarnation = 1,
      .remark = {.node = "node7", .failed = true},
      .why = "gpus: GPU 3 is lost"},
     "{\"type\":\"remark\",\"run\":\"r\",\"round\":-1,\"incarnation\":\"1\","
     "\"node\":\"node7\",\"breaks\":true,\"why\":\"gpus: GPU 3 is lost\"}"},
    {{.type = DT_MSG_FINDING,
      .run = "r",
      .round = 1,
      .incarnation = 1,
      .finding = {.class = "outside",
                  .guilty = true,
                  .culprit = 2,
                  .waiting = 0,
                  .sentence = "rank 2 sleeps",
                  .advice = "look there",
                  .stances = {groups, 2}}},
     "{\"type\":\"finding\",\"run\":\"r\",\"round\":1,\"incarnation\":\"1\",\"class\":\"outside\","
     "\"guilty\":true,\"culprit\":2,\"waiting\":0,\"sentence\":\"rank 2 sleeps\","
     "\"advice\":\"look there\"," STANCES "}"},
    {{.type = DT_MSG_DRAIN, .drain = {.node = "node2", .undo = true}, .why = "a new disk"},
     "{\"type\":\"drain\",\"node\":\"node2\",\"undo\":true,\"why\":\"a new disk\"}"},
    {{.type = DT_MSG_DRAIN, .run = "r", .drain = {.done = true}},
     "{\"type\":\"drain\",\"run\":\"r\",\"done\":true}"},
    {{.type = DT_MSG_STATUS, .run = "r", .status = {.from = 256}},
     "{\"type\":\"status\",\"run\":\"r\",\"from\":256}"},
    {{.type = DT_MSG_STATUS, .status = {.json = "{\"runs\":[{\"id\":\"a\"}],\"next\":0.5}"}},
     "{\"type\":\"status\",\"page\":{\"runs\":[{\"id\":\"a\"}],\"next\":0.5}}"},
    {{.type = DT_MSG_ALERT,
      .run = "",
      .alert = {.done = true},
      .why = "alerts by a command: delivered"},
     "{\"type\":\"alert\",\"done\":true,\"why\":\"alerts by a command: delivered\"}"},
    {{.type = DT_MSG_PAUSE, .run = "r", .wish = {.undo = true}, .why = "the roof leaks"},
     "{\"type\":\"pause\",\"run\":\"r\",\"undo\":true,\"why\":\"the roof leaks\"}"},
    {{.type = DT_MSG_KEEP, .run = "r", .round = 1, .incarnation = 1},
     "{\"type\":\"keep\",\"run\":\"r\",\"round\":1,\"incarnation\":\"1\"}"},
    {{.type = DT_MSG_SAVE, .run = "r", .wish = {.done = true}, .why = "2 of 2 nodes"},
     "{\"type\":\"save\",\"run\":\"r\",\"done\":true,\"why\":\"2 of 2 nodes\"}"},
    {{.type = DT_MSG_STOP_RUN, .run = "r", .user = "ada", .why = "a demo"},
     "{\"type\":\"stop_run\",\"run\":\"r\",\"user\":\"ada\",\"why\":\"a demo\"}"},
    {{.type = DT_MSG_RESTART_RUN, .run = "r", .wish = {.done = true}, .why = "2 nodes"},
     "{\"type\":\"restart_run\",\"run\":\"r\",\"done\":true,\"why\":\"2 nodes\"}"},
    {{.type = DT_MSG_STANCES, .run = "r", .stances = {.json = "{\"size\":64}"}},
     "{\"type\":\"stances\",\"run\":\"r\",\"page\":{\"size\":64}}"},
    {{.type = DT_MSG_STANCES, .run = "r", .why = "it is closed"},
     "{\"type\":\"stances\",\"run\":\"r\",\"why\":\"it is closed\"}"},
    {{.type = DT_MSG_EVENTS,
      .run = "r",
      .events = {.after = 7, .since_us = 1795417200000000, .follow = true}},
     "{\"type\":\"events\",\"run\":\"r\",\"after\":7,\"since_us\":1795417200000000,\"follow\":"
     "true}"},
    {{.type = DT_MSG_EVENTS, .run = "", .events = {.json = "{\"events\":[],\"last\":7}"}},
     "{\"type\":\"events\",\"page\":{\"events\":[],\"last\":7}}"},
    {{.type = DT_MSG_LOGS,
      .run = "r",
      .user = "ada",
      .logs = {.ranks = "0-3,7", .node = "n", .lines = -1, .follow = true}},
     "{\"type\":\"logs\",\"run\":\"r\",\"user\":\"ada\",\"ranks\":\"0-3,7\",\"node\":\"n\","
     "\"lines\":-1,"
     "\"follow\":true}"},
    {{.type = DT_MSG_LOGS, .run = "r", .logs = {.from = 3, .json = "{\"node\":\"n\"}"}},
     "{\"type\":\"logs\",\"run\":\"r\",\"from\":3,\"page\":{\"node\":\"n\"}}"},
    {{.type = DT_MSG_LOGS, .run = "r", .logs = {.over = true, .done = true}, .why = "it is over"},
     "{\"type\":\"logs\",\"run\":\"r\",\"over\":true,\"done\":true,\"why\":\"it is over\"}"},
    {{.type = DT_MSG_LOGS, .run = "r", .logs = {.asks = true}},
     "{\"type\":\"logs\",\"run\":\"r\",\"asks\":true}"},
    {{.type = DT_MSG_MORE,
      .run = "r",
      .round = 1,
      .incarnation = 1,
      .more = {.id = 9, .room = 8192}},
     "{\"type\":\"more\",\"run\":\"r\",\"round\":1,\"incarnation\":\"1\",\"id\":9,\"room\":8192}"},
    {{.type = DT_MSG_TAIL,
      .run = "r",
      .round = 1,
      .incarnation = 1,
      .tail = {.id = 9, .ranks = "2", .lines = 10, .follow = true, .room = 1024}},
     "{\"type\":\"tail\",\"run\":\"r\",\"round\":1,\"incarnation\":\"1\",\"id\":9,\"ranks\":\"2\","
     "\"lines\":10,\"follow\":true,\"room\":1024}"},
    {{.type = DT_MSG_TAILED,
      .run = "r",
      .round = 1,
      .incarnation = 1,
      .tailed = {.id = 9, .over = true, .json = "{\"pieces\":[]}"}},
     "{\"type\":\"tailed\",\"run\":\"r\",\"round\":1,\"incarnation\":\"1\",\"id\":9,\"over\":true,"
     "\"page\":{\"pieces\":[]}}"},
};

static inline void put_frame(struct dt_buf *out, const char *json)
{
    dt_buf_put_u32(out, (uint32_t)strlen(json));
    dt_buf_put_str(out, json);
}

/* Exactly LEN bytes, so that ASan sees who reads one more. */
static inline uint8_t *copy_of(const uint8_t *bytes, size_t len)
{
    uint8_t *copy = malloc(len ? len : 1);
    CHECK(copy != NULL);
    memcpy(copy, bytes, len);
    return copy;
}

#endif
