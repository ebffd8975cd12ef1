/* SPDX-License-Identifier: Apache-2.0 */
/* Every message against what stands on the wire for it, both ways; then what is no message. */
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

/* The text of the one frame in B. */
static const char *text_of(struct dt_buf *b)
{
    struct dt_reader r = dt_reader_over(b->at, b->len);
    uint32_t size = dt_read_u32(&r);
    CHECK_EQ(size, b->len - 4);
    return dt_buf_cstr(b) + 4;
}

static void put_frame(struct dt_buf *out, const char *json)
{
    dt_buf_put_u32(out, (uint32_t)strlen(json));
    dt_buf_put_str(out, json);
}

/* Exactly LEN bytes, so that ASan sees who reads one more. */
static uint8_t *copy_of(const uint8_t *bytes, size_t len)
{
    uint8_t *copy = malloc(len ? len : 1);
    CHECK(copy != NULL);
    memcpy(copy, bytes, len);
    return copy;
}

TEST(every_message_has_a_row_and_a_name_of_its_own)
{
    for (size_t t = 0; t < DT_MSG_TYPES; t++) {
        size_t there = 0;
        for (size_t i = 0; i < COUNT(rows); i++)
            there += rows[i].m.type == t;
        CHECK_ROW("%s", dt_message_name((enum dt_message_type)t));
        CHECK(there > 0);
        for (size_t other = 0; other < t; other++)
            CHECK(strcmp(dt_message_name((enum dt_message_type)t),
                         dt_message_name((enum dt_message_type)other)) != 0);
    }
}

TEST(messages_are_written_as_the_protocol_says)
{
    for (size_t i = 0; i < COUNT(rows); i++) {
        CHECK_ROW("%zu: %s", i, dt_message_name(rows[i].m.type));
        struct dt_buf out = {0};
        dt_message_encode(&out, &rows[i].m);
        CHECK_STR(text_of(&out), rows[i].json);
        dt_buf_finish(&out);
    }
}

/* Since writing is checked above, writing what was read shows what was read. */
TEST(messages_come_byte_by_byte_and_are_read_as_they_were_written)
{
    for (size_t i = 0; i < COUNT(rows); i++) {
        CHECK_ROW("%zu: %s", i, dt_message_name(rows[i].m.type));
        struct dt_buf in = {0}, again = {0};
        struct dt_message m;
        struct dt_err err = {0};
        size_t used = 0;
        put_frame(&in, rows[i].json);
        for (size_t len = 0; len < in.len; len++) {
            uint8_t *copy = copy_of(in.at, len);
            CHECK_EQ(dt_message_decode(copy, len, DT_FRAME_MAX, &m, &used, &err), DT_MORE);
            free(copy);
        }
        uint8_t *copy = copy_of(in.at, in.len);
        CHECK_EQ(dt_message_decode(copy, in.len, DT_FRAME_MAX, &m, &used, &err), DT_DONE);
        free(copy);
        CHECK_EQ(used, in.len);
        dt_message_encode(&again, &m);
        CHECK_STR(text_of(&again), rows[i].json);
        dt_message_finish(&m);
        dt_buf_finish(&again);
        dt_buf_finish(&in);
    }
}

static struct dt_message decoded(const char *json)
{
    struct dt_buf in = {0};
    struct dt_message m;
    struct dt_err err = {0};
    size_t used;
    put_frame(&in, json);
    enum dt_decoded got = dt_message_decode(in.at, in.len, DT_FRAME_MAX, &m, &used, &err);
    CHECK_STR(err.text, "");
    CHECK_EQ(got, DT_DONE);
    dt_buf_finish(&in);
    return m;
}

TEST(what_was_left_out_reads_as_nothing_and_never_as_null)
{
    struct dt_message m = decoded("{\"type\":\"drain\"}");
    CHECK_STR(m.run, "");
    CHECK_STR(m.drain.node, "");
    CHECK_STR(m.why, "");
    CHECK(!m.drain.undo && !m.drain.done);
    dt_message_finish(&m);
    m = decoded("{\"type\":\"hello\",\"version\":1,\"program\":\"\",\"host\":null,"
                "\"nonce\":\"00000000000000000000000000000000\"}");
    CHECK_STR(m.hello.host, "");
    CHECK_STR(m.why, "");
    dt_message_finish(&m);
    m = decoded("{\"type\":\"status\"}");
    CHECK(m.status.json == NULL);
    dt_message_finish(&m);
}

TEST(members_of_later_versions_are_passed_over)
{
    struct dt_message m = decoded("{\"hue\":[1,{\"a\":null}],\"type\":\"park\",\"run\":\"r\","
                                  "\"round\":1,\"incarnation\":\"1\",\"till\":7}");
    CHECK_EQ(m.type, DT_MSG_PARK);
    CHECK_STR(m.run, "r");
    dt_message_finish(&m);
}

TEST(a_frame_is_taken_and_what_follows_it_stays)
{
    struct dt_buf in = {0};
    struct dt_message m;
    struct dt_err err = {0};
    size_t used;
    put_frame(&in, "{\"type\":\"drain\",\"node\":\"a\"}");
    put_frame(&in, "{\"type\":\"drain\",\"node\":\"b\"}");
    for (const char *node = "a"; in.len; node = "b") {
        CHECK_EQ(dt_message_decode(in.at, in.len, DT_FRAME_MAX, &m, &used, &err), DT_DONE);
        CHECK_STR(m.drain.node, node);
        dt_message_finish(&m);
        dt_buf_consume(&in, used);
    }
    dt_buf_finish(&in);
}

TEST(a_time_without_end_stays_so)
{
    size_t i = 0;
    while (rows[i].m.type != DT_MSG_JOIN)
        i++;
    struct dt_message m = decoded(rows[i].json);
    CHECK_EQ(m.join.spec.join_timeout, DT_FOREVER);
    CHECK_EQ(m.join.spec.last_call, 30000);
    dt_message_finish(&m);
}

static void check_bad(const uint8_t *bytes, size_t len, const char *words)
{
    struct dt_message m;
    struct dt_err err = {0};
    size_t used = 99;
    uint8_t *copy = copy_of(bytes, len);
    CHECK_EQ(dt_message_decode(copy, len, DT_FRAME_MAX, &m, &used, &err), DT_BAD);
    free(copy);
    CHECK_EQ(used, 99);
    CHECK_EQ(err.code, DT_E_PROTOCOL);
    CHECK_FAIL(-1, err, words);
}

/* -- what is too long or too large to be written ---------------------------------------------- */

TEST(too_long_a_string_is_cut_between_characters)
{
    char name[600];
    memset(name, 'x', sizeof name);
    memcpy(name + DT_NODE_NAME_MAX - 2, "\xe2\x82\xac", 3);
    name[sizeof name - 1] = '\0';
    struct dt_buf out = {0};
    struct dt_message in = {.type = DT_MSG_DRAIN, .drain = {.node = name}}, m;
    struct dt_err err = {0};
    size_t used;
    dt_message_encode(&out, &in);
    CHECK_EQ(dt_message_decode(out.at, out.len, DT_FRAME_MAX, &m, &used, &err), DT_DONE);
    CHECK_EQ(strlen(m.drain.node), DT_NODE_NAME_MAX - 2);
    dt_message_finish(&m);
    dt_buf_finish(&out);
}

TEST(what_is_no_utf8_is_cut_so_that_it_still_fits_with_its_stand_ins)
{
    char why[600];
    memset(why, '\xff', sizeof why);
    why[sizeof why - 1] = '\0';
    struct dt_buf out = {0};
    struct dt_message in = {.type = DT_MSG_REFUSED, .why = why}, m;
    struct dt_err err = {0};
    size_t used;
    dt_message_encode(&out, &in);
    CHECK_EQ(dt_message_decode(out.at, out.len, DT_FRAME_MAX, &m, &used, &err), DT_DONE);
    CHECK_EQ(strlen(m.why), (DT_WHY_MAX - 1) / 3 * 3);
    dt_message_finish(&m);
    dt_buf_finish(&out);
}

/* -- more than a frame holds ------------------------------------------------------------------ */

/* Each with texts as long as they may be; rank I alone is in number I. */
static void fill_groups(struct dt_stances *s, int count)
{
    struct dt_stance stance = {.doing = DT_DOING_SLEEP, .sequence = -1, .step = -1};
    memset(stance.where, '"', sizeof stance.where - 1); /* two bytes each in JSON */
    memset(stance.object, '\\', sizeof stance.object - 1);
    memset(stance.detail, 'x', sizeof stance.detail - 1);
    for (int i = 0; i < count; i++) {
        struct dt_rank_range range = {i, i};
        snprintf(stance.function, sizeof stance.function, "f%d", i);
        struct dt_stance_group one = {stance, &range, 1, 1};
        CHECK_EQ(dt_stances_merge(s, &(struct dt_stances){&one, 1}, NULL), 0);
    }
}

TEST(stances_beyond_a_frame_are_left_out_but_never_those_that_matter)
{
    struct dt_stances all = {0};
    struct dt_buf out = {0};
    struct dt_message read,
        m = {.type = DT_MSG_FINDING,
             .run = "r",
             .round = 1,
             .incarnation = 1,
             .finding = {.class = "outside", .culprit = 299, .waiting = 298, .sentence = "s"}};
    struct dt_err err = {0};
    size_t used;
    char sentence[DT_FINDING_TEXT_MAX];
    memset(sentence, '\1', sizeof sentence - 1); /* six bytes each */
    sentence[sizeof sentence - 1] = '\0';
    fill_groups(&all, 300);
    m.finding.stances = all;
    m.finding.sentence = m.finding.advice = sentence;
    dt_message_encode(&out, &m);
    CHECK_EQ(dt_message_decode(out.at, out.len, DT_FRAME_MAX, &read, &used, &err), DT_DONE);
    CHECK_STR(err.text, "");
    const struct dt_stances *got = &read.finding.stances;
    CHECK(got->len > 20 && got->len <= DT_STANCES_MAX);
    CHECK_EQ(got->at[0].ranges[0].first, 0);
    CHECK_EQ(got->at[got->len - 1].ranges[0].first, 299);
    CHECK_EQ(got->at[got->len - 2].ranges[0].first, 298);
    CHECK_EQ(got->at[got->len - 3].ranges[0].first, (int)got->len - 3);
    dt_message_finish(&read);
    dt_stances_finish(&all);
    dt_buf_finish(&out);
}

/* SAID: what is written on standard error meanwhile. */
static void encode_and_listen(struct dt_buf *out, const struct dt_message *m, char *said,
                              size_t size)
{
    FILE *log = tmpfile();
    int before = dup(STDERR_FILENO);
    CHECK(log && before >= 0 && dup2(fileno(log), STDERR_FILENO) >= 0);
    dt_message_encode(out, m);
    CHECK(dup2(before, STDERR_FILENO) >= 0);
    close(before);
    rewind(log);
    said[fread(said, 1, size - 1, log)] = '\0';
    fclose(log);
}

/* It would be another number that a reader took. */
TEST(a_number_beyond_its_limits_is_reported_and_no_reader_takes_it)
{
    static const struct {
        struct dt_beat beat;
        const char *words;
    } beats[] = {
        {{.seq = INT64_MAX}, "seq is 9223372036854775807, and not from 0 to 9007199254740992"},
        {{.step = -2}, "step is -2, and not from -1 to 9007199254740992"},
        {{.running = -5}, "running is -5, and not from 0 to 2147483647"},
        {{.telemetry = {.number = 1, .disk_free_mib = INT64_C(1) << 43}},
         "disk_free_mib is 8796093022208, and not from 0 to 8796093022207"},
    };
    for (size_t i = 0; i < COUNT(beats); i++) {
        char said[1000];
        struct dt_buf out = {0};
        struct dt_message in = {
            .type = DT_MSG_BEAT, .run = "r", .incarnation = 1, .beat = beats[i].beat};
        CHECK_ROW("%s", beats[i].words);
        encode_and_listen(&out, &in, said, sizeof said);
        CHECK(strstr(said, "this is a bug in dtrun") && strstr(said, beats[i].words));
        check_bad(out.at, out.len, "expected a whole number from ");
        dt_buf_finish(&out);
    }
}

/* -- what is no message ----------------------------------------------------------------------- */

TEST(too_long_a_frame_is_refused_by_its_length)
{
    check_bad((const uint8_t *)"\1\0\1\0", 4, "65537 bytes; at most 65536 are taken");
    check_bad((const uint8_t *)"\xff\xff\xff\xff{", 5, "4294967295 bytes");
}

#define HEAD "\"run\":\"r\",\"round\":1,\"incarnation\":\"1\""
#define BEAT "{\"type\":\"beat\"," HEAD
#define BEAT_COUNTS ",\"running\":1,\"failed\":0,\"succeeded\":0}"
#define X50 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

static const struct {
    const char *json, *words;
} wrong[] = {
    {"", "the JSON ends early"},
    {"{", "the JSON ends early"},
    {"GET / HTTP/1.1", "line 1, column 1: this is no JSON"},
    {"{} {}", "something follows the JSON"},
    {"[]", "expected an object"},
    {"{}", "\"type\" is missing"},
    {"{\"type\":7}", "type: expected a string, found 7"},
    {"{\"type\":\"dance\"}", "type: version 1 has no message \"dance\""},
    {"{\"type\":\"Beat\"}", "no message \"Beat\""},
    {"{\"type\":\"park\",\"round\":1,\"incarnation\":\"1\"}", "\"run\" is missing"},
    {"{\"type\":\"park\",\"run\":\"\",\"round\":1,\"incarnation\":\"1\"}",
     "message \"park\": run: expected at least one character"},
    {"{\"type\":\"park\",\"run\":\"r\",\"round\":1.5,\"incarnation\":\"1\"}",
     "round: expected a whole number, found 1.5"},
    {"{\"type\":\"park\",\"run\":\"r\",\"round\":-2,\"incarnation\":\"1\"}",
     "round: expected a whole number from -1 to 2147483647, found -2"},
    {"{\"type\":\"park\",\"run\":\"r\",\"round\":1e300,\"incarnation\":\"1\"}", "found 1e+300"},
    {"{\"type\":\"park\",\"run\":\"r\",\"round\":1,\"incarnation\":1}",
     "incarnation: expected a string, found 1"},
    {"{\"type\":\"park\",\"run\":\"r\",\"round\":1,\"incarnation\":\"\"}",
     "incarnation: expected 1 to 16 hexadecimal digits, found \"\""},
    {"{\"type\":\"park\",\"run\":\"r\",\"round\":1,\"incarnation\":\"00000000000000001\"}",
     "hexadecimal digits"},
    {"{\"type\":\"park\",\"run\":\"r\",\"round\":1,\"incarnation\":\"0x1\"}", "found \"0x1\""},
    {"{\"type\":\"park\"," HEAD ",\"why\":[]}", "why: expected a string, found an array"},
    {BEAT ",\"seq\":1" BEAT_COUNTS, "\"step\" is missing"},
    {BEAT ",\"seq\":-1,\"step\":1" BEAT_COUNTS, "seq: expected a whole number from 0"},
    {BEAT ",\"seq\":true,\"step\":1" BEAT_COUNTS, "seq: expected a whole number, found true"},
    {"{\"type\":\"hello\",\"version\":65536,\"program\":\"\"}",
     "version: expected a whole number from 0 to 65535"},
    {"{\"type\":\"hello\",\"version\":1,\"program\":\"\",\"nonce\":\"deadbeef\"}",
     "nonce: expected 32 hexadecimal digits, found \"deadbeef\""},
    {"{\"type\":\"hello\",\"version\":1,\"program\":\"\","
     "\"nonce\":\"0000000000000000000000000000000G\"}",
     "nonce: expected 32 hexadecimal digits"},
    {"{\"type\":\"proof\",\"proof\":\"" X50 "\"}", "proof: expected 64 hexadecimal digits"},
    {"{\"type\":\"join\"," HEAD "}", "\"spec\" is missing"},
    {"{\"type\":\"join\"," HEAD ",\"spec\":7}", "spec: expected an object, found 7"},
    {"{\"type\":\"join\"," HEAD ",\"spec\":{}}", "spec: \"min_nodes\" is missing"},
    {"{\"type\":\"join\"," HEAD ",\"spec\":{\"min_nodes\":0}}",
     "spec.min_nodes: expected a whole number from 1 to 1000000, found 0"},
    {"{\"type\":\"close\"," HEAD ",\"kind\":\"bored\"}",
     "kind: expected a word that version 1 of the protocol has for it, found \"bored\""},
    {"{\"type\":\"result\"," HEAD ",\"succeeded\":1}",
     "succeeded: expected true or false, found 1"},
    {"{\"type\":\"drain\",\"node\":\"" X50 X50 X50 "\"}", "node: 150 bytes; at most 127 are taken"},
    {"{\"type\":\"status\",\"from\":-1}", "from: expected a whole number from 0"},
    {"{\"type\":\"status\",\"page\":\"{}\"}", "page: expected an object, found \"{}\""},
    {"{\"type\":\"look\"," HEAD ",\"id\":0}", "id: expected a whole number from 1"},
    {"{\"type\":\"looked\"," HEAD ",\"id\":1,\"stances\":7}",
     "stances: expected an array, found 7"},
    {"{\"type\":\"looked\"," HEAD ",\"id\":1,\"stances\":[{\"ranks\":[],\"doing\":\"dance\"}]}",
     "stances[0].doing: expected a word"},
    {"{\"type\":\"stances\",\"page\":[]}", "page: expected an object"},
    {"{\"type\":\"refused\",\"why\":\"\xff\"}", "this is not UTF-8"},
    {"{\"type\":\"refused\",\"why\":\"\\u0000\"}", "\\u0000 in a string"},
};

TEST(what_is_wrong_is_said_with_its_path)
{
    for (size_t i = 0; i < COUNT(wrong); i++) {
        CHECK_ROW("%s", wrong[i].json);
        struct dt_buf in = {0};
        put_frame(&in, wrong[i].json);
        check_bad(in.at, in.len, wrong[i].words);
        dt_buf_finish(&in);
    }
}

/* What a server must not let a peer ask of it: each in a JOIN that is otherwise good. */
static const struct {
    const char *good, *bad, *words;
} too_much[] = {
    {"\"beat\":5000", "\"beat\":0", "spec.beat: expected a whole number from 10 to 60000"},
    {"\"beat\":5000", "\"beat\":4503599627370496", "found 4503599627370496"},
    {"\"beats\":7", "\"beats\":2147483647", "from 1 to 1000"},
    {"\"reconnect_grace\":1000", "\"reconnect_grace\":3600001", "from 0 to 3600000"},
    {"\"seats\":", "\"seats\":1048576,\"unused\":", "claim.seats: expected a whole number"},
    {"\"restarts\":", "\"restarts\":2147483647,\"unused\":", "from 0 to 1073741824"},
};

static void put_join_with(struct dt_buf *in, const char *good, const char *bad)
{
    struct dt_buf json = {0};
    size_t i = 0;
    while (rows[i].m.type != DT_MSG_JOIN)
        i++;
    const char *at = strstr(rows[i].json, good);
    CHECK(at != NULL);
    dt_buf_put(&json, rows[i].json, (size_t)(at - rows[i].json));
    dt_buf_put_str(&json, bad);
    dt_buf_put_str(&json, at + strlen(good));
    put_frame(in, dt_buf_cstr(&json));
    dt_buf_finish(&json);
}

TEST(what_would_keep_a_server_busy_is_no_join)
{
    for (size_t i = 0; i < COUNT(too_much); i++) {
        CHECK_ROW("%s", too_much[i].bad);
        struct dt_buf in = {0};
        put_join_with(&in, too_much[i].good, too_much[i].bad);
        check_bad(in.at, in.len, too_much[i].words);
        dt_buf_finish(&in);
    }
}

/* Each member of each message in turn is renamed; people's requests have none that must be there.
 */
TEST(a_message_without_one_of_its_members_is_none)
{
    static const char optional[] =
        " again age breaks cause collective early ends_job follow function guilty history holds_up "
        "host "
        "keeps "
        "lines logs page pieces ranks tails "
        "late "
        "looks mixed native over place own_by own_may_drain own_median own_rank own_ranks "
        "own_reason "
        "own_share own_step_us "
        "own_steps own_window straggler "
        "comm compute data disk disk_free_mib disk_total_mib gpu_busy gpu_mem_mib "
        "gpu_mem_total_mib gpus idle loss mfu step_ms steps telemetry upload_behind_s worker_ms "
        "remarks retry retry_deterministic script shared step_age_ms stopping sure together token "
        "tokens_per_s user weak where why yes ";
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (rows[i].m.type == DT_MSG_DRAIN || rows[i].m.type == DT_MSG_PAUSE ||
            rows[i].m.type == DT_MSG_SAVE || rows[i].m.type == DT_MSG_STOP_RUN ||
            rows[i].m.type == DT_MSG_RESTART_RUN || rows[i].m.type == DT_MSG_STATUS ||
            rows[i].m.type == DT_MSG_STANCES || rows[i].m.type == DT_MSG_EVENTS ||
            rows[i].m.type == DT_MSG_ALERT || rows[i].m.type == DT_MSG_LOGS)
            continue;
        for (const char *at = rows[i].json; (at = strstr(at, "\":")); at++) {
            char json[2048], word[64];
            const char *begin = at;
            while (begin[-1] != '"')
                begin--;
            snprintf(word, sizeof word, " %.*s ", (int)(at - begin), begin);
            if (strstr(optional, word))
                continue;
            CHECK_ROW("%s without%s", dt_message_name(rows[i].m.type), word);
            snprintf(json, sizeof json, "%.*s!%s", (int)(begin - rows[i].json), rows[i].json,
                     begin + 1);
            struct dt_buf in = {0};
            put_frame(&in, json);
            check_bad(in.at, in.len, "is missing");
            dt_buf_finish(&in);
        }
    }
}

TEST(an_error_need_not_be_asked_for)
{
    struct dt_message m;
    size_t used;
    CHECK_EQ(dt_message_decode((const uint8_t *)"\2\0\0\0{}", 6, 100, &m, &used, NULL), DT_BAD);
}

/* -- the preamble ----------------------------------------------------------------------------- */

TEST(the_preamble_comes_in_any_slices)
{
    struct dt_buf out = {0};
    int version = 0;
    dt_control_put_preamble(&out);
    CHECK_BYTES(out.at, out.len, "DTRN\1\0", 6);
    CHECK_EQ(out.len, DT_CONTROL_PREAMBLE);
    for (size_t len = 0; len < out.len; len++)
        CHECK_EQ(dt_control_read_preamble(out.at, len, &version), DT_MORE);
    CHECK_EQ(dt_control_read_preamble(out.at, out.len, &version), DT_DONE);
    CHECK_EQ(version, DT_CONTROL_VERSION);
    CHECK_EQ(dt_control_read_preamble((const uint8_t *)"DTRN\2\1", 6, &version), DT_DONE);
    CHECK_EQ(version, 258);
    dt_buf_finish(&out);
}

TEST(another_magic_is_known_by_its_first_wrong_byte)
{
    static const char *const others[] = {"E", "Dt", "DTS", "DTRm", "GET / "};
    int version;
    for (size_t i = 0; i < COUNT(others); i++) {
        CHECK_ROW("%s", others[i]);
        CHECK_EQ(dt_control_read_preamble((const uint8_t *)others[i], strlen(others[i]), &version),
                 DT_BAD);
    }
}
