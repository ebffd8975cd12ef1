/* SPDX-License-Identifier: Apache-2.0 */
/* What is no message, and what is no preamble. */
#include "tests/rendezvous/message_rows.h"

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
