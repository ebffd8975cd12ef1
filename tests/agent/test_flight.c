/* SPDX-License-Identifier: Apache-2.0 */
/* Dumps as PyTorch 2.2 to 2.7 write them, made by tests/lib/flight_dump.py: NCCL needs a GPU. */
#include "agent/hang/flight.h"
#include "agent/look/python_stack.h"
#include "tests/lib/check.h"

#include <stdio.h>

#define ROWS(a) (sizeof(a) / sizeof *(a))

/* Shapes of dumps: PyTorch 2.2, 2.3, 2.4, and 2.5 to 2.7. */
static const char *const shapes[] = {"1.1", "1.4", "2.0", "2.4"};

static void make(struct dt_buf *out, const char *shape, const char *protocol, const char *story)
{
    char command[512];
    dt_buf_clear(out);
    snprintf(command, sizeof command, "python3 -SE '%s' %s %s %s", DT_TEST_FLIGHT_DUMP, shape,
             protocol, story);
    FILE *pipe = popen(command, "r");
    for (size_t n = 1; pipe && n > 0; dt_buf_grew(out, n))
        n = fread(dt_buf_room(out, 65536), 1, 65536, pipe);
    CHECK(pipe && pclose(pipe) == 0);
}

static struct dt_flight read_story(const char *shape, const char *protocol, const char *story)
{
    struct dt_flight f;
    struct dt_err err;
    struct dt_buf dump = {0};
    make(&dump, shape, protocol, story);
    CHECK_OK(dt_flight_read(&f, (struct dt_bytes){dump.at, dump.len}, &err), err);
    dt_buf_finish(&dump);
    return f;
}

TEST(the_first_call_that_is_not_over_in_every_shape_and_protocol)
{
    static const char *const protocols[] = {"2", "4", "5", "torch"};
    for (size_t i = 0; i < ROWS(shapes); i++) {
        for (size_t k = 0; k < ROWS(protocols); k++) {
            CHECK_ROW("version %s, protocol %s", shapes[i], protocols[k]);
            struct dt_flight f = read_story(shapes[i], protocols[k], "waits");
            CHECK_EQ(f.pending, 2);
            CHECK_EQ(f.completed, 147);
            CHECK_EQ(f.waits.sequence, 148);
            CHECK(f.waits.started);
            CHECK_STR(f.waits.collective, "all_reduce");
            CHECK_STR(f.waits.group, *shapes[i] == '2' ? "0 (default_pg)" : "0");
            CHECK_STR(f.waits.shape, *shapes[i] == '2' ? "Float [1024]" : "[1024]");
            CHECK_STR(f.waits.where, "/home/me/train.py:42");
            CHECK_STR(f.waits.function, "step");
            CHECK_EQ(f.done.sequence, 147);
        }
    }
}

TEST(what_calls_are_told_as)
{
    /* clang-format off */
    static const struct {
        const char *story, *collective, *group, *shape; int64_t sequence; int pending, completed;
    } rows[] = {
        {"gather", "all_gather_into_tensor", "7 (mesh_dp)", "BFloat16 [8, 2], Long [3]", 5, 1, 147},
        {"recv", "recv", "0 (default_pg)", "Float [1024]", -1, 1, 147},
        {"timed_out", "all_reduce", "0 (default_pg)", "Float [1024]", 148, 1, 147},
        {"barrier", "barrier", "3", "", 148, 1, 147},
        {"half", "all_reduce", "0 (default_pg)", "Float [512]", 148, 1, 147},
        {"ahead", "all_reduce", "0 (default_pg)", "Float [1024]", 149, 1, 148},
        {"reduces", "reduce", "0 (default_pg)", "Float [1024]", 148, 1, 147},
        {"over", "", "", "", 0, 0, 147},
        {"gloo", "", "", "", 0, 0, 1},
        {"none", "", "", "", 0, 0, 0},
    };
    /* clang-format on */
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].story);
        struct dt_flight f = read_story("2.4", "torch", rows[i].story);
        CHECK_EQ(f.pending, rows[i].pending);
        CHECK_EQ(f.completed, rows[i].completed);
        CHECK_STR(f.waits.collective, rows[i].collective);
        CHECK_STR(f.waits.group, rows[i].group);
        CHECK_STR(f.waits.shape, rows[i].shape);
        CHECK_EQ(f.waits.sequence, rows[i].sequence);
    }
}

TEST(who_waits_in_a_collective_says_where_it_was_called)
{
    struct dt_flight f = read_story("2.4", "torch", "waits");
    struct dt_stance s = {
        .doing = DT_DOING_LOCK, .where = "train.py:50", .function = "log", .sequence = -1};
    dt_flight_tell(&f, &s);
    CHECK_EQ(s.doing, DT_DOING_COLLECTIVE);
    CHECK_STR(s.where, "/home/me/train.py:42");
    CHECK_STR(s.function, "step");
    CHECK_STR(s.collective, "all_reduce");
    CHECK_STR(s.group, "0 (default_pg)");
    CHECK_STR(s.shape, "Float [1024]");
    CHECK_EQ(s.sequence, 148);
    CHECK_STR(s.detail, "the program has gone on to train.py:50");
    f = read_story("2.4", "torch", "recv");
    dt_flight_tell(&f, &s);
    CHECK_STR(s.collective, "recv");
    CHECK_STR(s.object, "1<-0");
}

TEST(what_people_read_of_it)
{
    struct dt_flight f = read_story("2.4", "torch", "waits");
    struct dt_buf out = {0};
    dt_flight_put_text(&f, &out);
    CHECK_STR(dt_buf_cstr(&out),
              "flight recorder: the last that is over is all_reduce number 147 of group 0 "
              "(default_pg), Float [1024], called at /home/me/train.py:42\n"
              "flight recorder: runs all_reduce number 148 of group 0 (default_pg), Float [1024], "
              "called at /home/me/train.py:42\n"
              "flight recorder: 1 more stand in line behind that\n");
    f = read_story("2.4", "torch", "recv");
    dt_buf_clear(&out);
    dt_flight_put_text(&f, &out);
    CHECK(strstr(dt_buf_cstr(&out), "\nflight recorder: runs recv 1<-0 of group 0 (default_pg), "));
    dt_buf_finish(&out);
}

TEST(who_waits_in_none_stays_what_it_is)
{
    struct dt_flight f = read_story("2.4", "torch", "over");
    struct dt_stance s = {.doing = DT_DOING_SLEEP, .where = "train.py:5", .sequence = -1};
    dt_flight_tell(&f, &s);
    CHECK_EQ(s.doing, DT_DOING_SLEEP);
    CHECK_STR(s.where, "train.py:5");
    CHECK_STR(s.collective, "");
    CHECK_STR(s.detail, "its last collective was all_reduce number 147 of group 0 (default_pg)");
}

TEST(who_can_go_no_further_is_not_said_to_wait)
{
    static const enum dt_doing doings[] = {DT_DOING_STOPPED, DT_DOING_LEFT, DT_DOING_CHILD};
    struct dt_flight f = read_story("2.4", "torch", "waits");
    for (size_t i = 0; i < ROWS(doings); i++) {
        CHECK_ROW("doing %d", (int)doings[i]);
        struct dt_stance s = {.doing = doings[i], .where = "train.py:5", .sequence = -1};
        dt_flight_tell(&f, &s);
        CHECK_EQ(s.doing, doings[i]);
        CHECK_STR(s.where, "train.py:5");
        CHECK_STR(s.collective, "");
    }
}

#define P "\x80\x02"
#define LITERAL(s)                                                                                 \
    {                                                                                              \
        (const uint8_t *)(s), sizeof(s) - 1                                                        \
    }

TEST(what_is_no_dump)
{
    /* clang-format off */
    static const struct { const char *what; struct dt_bytes bytes; const char *error; } rows[] = {
        {"nothing", LITERAL(""), "protocol 2 to 5"},
        {"a number", LITERAL(P "K\x01."), "it is no dict"},
        {"no version", LITERAL(P "}."), "not of version 1 or 2"},
        {"a later version", LITERAL(P "}X\x07\0\0\0versionX\x03\0\0\0" "3.0s."), "not of version 1 or 2"},
        {"no entries", LITERAL(P "}X\x07\0\0\0versionX\x03\0\0\0" "2.4s."), "no list of entries"},
        {"a class", LITERAL(P "cos\nsystem\n."), "names os.system"},
    };
    /* clang-format on */
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].what);
        struct dt_flight f;
        struct dt_err err = {0};
        CHECK_FAIL(dt_flight_read(&f, rows[i].bytes, &err), err, rows[i].error);
    }
}

TEST(half_of_a_dump_is_refused)
{
    struct dt_flight f;
    struct dt_buf dump = {0};
    struct dt_err err = {0};
    make(&dump, "2.4", "torch", "waits");
    for (size_t len = 0; len < dump.len; len += 97) {
        CHECK_ROW("%zu bytes of %zu", len, dump.len);
        CHECK(dt_flight_read(&f, (struct dt_bytes){dump.at, len}, &err) < 0);
    }
    dt_buf_finish(&dump);
}

TEST(a_long_path_loses_its_start)
{
    static const char head[] =
        P "}X\x07\0\0\0versionX\x03\0\0\0"
          "2.4sX\x07\0\0\0entries](}X\x06\0\0\0frames](}X\x08\0\0\0filenameX";
    struct dt_buf dump = {0}, path = {0};
    struct dt_flight f;
    struct dt_err err;
    for (int i = 0; i < 100; i++)
        dt_buf_put_str(&path, "/folder");
    dt_buf_put_str(&path, "/train.py");
    dt_buf_put(&dump, head, sizeof head - 1);
    dt_buf_put_u32(&dump, (uint32_t)path.len);
    dt_buf_put(&dump, path.at, path.len);
    dt_buf_put_str(&dump, "seses.");
    CHECK_OK(dt_flight_read(&f, (struct dt_bytes){dump.at, dump.len}, &err), err);
    CHECK_EQ(strlen(f.waits.where), DT_PYTHON_FILE_MAX - 1 + strlen(":0"));
    CHECK_STR(f.waits.where + strlen(f.waits.where) - 17, "folder/train.py:0");
    dt_buf_finish(&dump);
    dt_buf_finish(&path);
}
