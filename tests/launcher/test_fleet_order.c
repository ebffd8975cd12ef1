/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/fleet/order.h"
#include "tests/lib/check.h"

static struct dt_fleet_order sample(void)
{
    static const char *argv[] = {"dtrun", "--nnodes=2", "--",   "a'b \"c\" $d;e",
                                 "",      "two\nlines", "\xff", NULL};
    static const char *env[] = {"A=1", "B=x=y\n", NULL};
    static char cwd[] = "/home/a b";
    static uint8_t token[] = {0, 's', '\n'};
    return (struct dt_fleet_order){.argv = (char **)argv,
                                   .env = (char **)env,
                                   .cwd = cwd,
                                   .token = token,
                                   .token_len = sizeof token};
}

static void check_lists(char *const *got, char *const *wanted)
{
    for (; *wanted; got++, wanted++) {
        CHECK(*got != NULL);
        CHECK_STR(*got, *wanted);
    }
    CHECK(*got == NULL);
}

TEST(what_is_told_arrives_as_it_was)
{
    struct dt_fleet_order told = sample(), heard;
    struct dt_buf bytes = {0};
    struct dt_err err;
    CHECK_OK(dt_fleet_order_put(&bytes, &told, &err), err);
    CHECK_OK(dt_fleet_order_read((struct dt_bytes){bytes.at + 4, bytes.len - 4}, &heard, &err),
             err);
    check_lists(heard.argv, told.argv);
    check_lists(heard.env, told.env);
    CHECK_STR(heard.cwd, "/home/a b");
    CHECK_BYTES(heard.token, heard.token_len, told.token, told.token_len);
    struct dt_reader r = dt_reader_over(bytes.at, bytes.len);
    CHECK_EQ(dt_read_u32(&r), bytes.len - 4);
    dt_fleet_order_finish(&heard);
    dt_buf_finish(&bytes);
}

TEST(an_order_that_is_cut_anywhere_is_none)
{
    struct dt_fleet_order told = sample(), heard;
    struct dt_buf bytes = {0};
    struct dt_err err;
    CHECK_OK(dt_fleet_order_put(&bytes, &told, &err), err);
    for (size_t len = 0; len < bytes.len - 4; len++) {
        CHECK_ROW("%zu bytes", len);
        CHECK_FAIL(dt_fleet_order_read((struct dt_bytes){bytes.at + 4, len}, &heard, &err), err,
                   "is no order");
        dt_fleet_order_finish(&heard);
    }
    dt_buf_put_u8(&bytes, 0); /* one too many */
    CHECK_FAIL(dt_fleet_order_read((struct dt_bytes){bytes.at + 4, bytes.len - 4}, &heard, &err),
               err, "is no order");
    dt_fleet_order_finish(&heard);
    dt_buf_finish(&bytes);
}

TEST(an_order_of_lies_is_none)
{
    static const struct {
        const char *what;
        uint8_t body[24];
        size_t len;
    } rows[] = {
        {"more arguments than there are bytes", {0xff, 0xff, 0xff, 0xff}, 24},
        {"an argument longer than all", {1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, 24},
        {"a NUL inside", {1, 0, 0, 0, 2, 0, 0, 0, 'a', 0, 0, 0, 0, 0, 0, 0, 0, 0}, 22},
        {"no name of a program", {0}, 16},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].what);
        struct dt_fleet_order heard;
        struct dt_err err;
        CHECK_FAIL(dt_fleet_order_read((struct dt_bytes){rows[i].body, rows[i].len}, &heard, &err),
                   err, "is no order");
        dt_fleet_order_finish(&heard);
    }
}

TEST(an_order_beyond_the_limit_is_not_sent)
{
    struct dt_fleet_order told = sample();
    struct dt_buf bytes = {0};
    struct dt_err err;
    size_t n = DT_FLEET_ORDER_MAX;
    char *text = malloc(n + 1), *env[] = {text, NULL};
    memset(text, 'a', n);
    text[n] = '\0';
    told.env = env;
    CHECK_FAIL(dt_fleet_order_put(&bytes, &told, &err), err, "can be passed to other hosts");
    dt_buf_finish(&bytes);
    free(text);
}

TEST(hellos_and_other_lines)
{
    static const struct {
        const char *line, *version; /* NULL: it is none */
        int port;
    } rows[] = {
        {"dtrun-fleet-agent 1 0.1.0 43210\n", "0.1.0", 43210},
        {"dtrun-fleet-agent 1 0.1.0 43210\r\n", "0.1.0", 43210},
        {"dtrun-fleet-agent 2 0.1.0 43210\n", NULL, 0},
        {"dtrun-fleet-agent 1 0.1.0\n", NULL, 0},
        {"dtrun-fleet-agent 1 0.1.0 99999\n", NULL, 0},
        {"dtrun-fleet-agent 1 0.1.0 -1\n", NULL, 0},
        {"dtrun-fleet-agent 1 0.1.0 1 x\n", NULL, 0},
        {" dtrun-fleet-agent 1 0.1.0 1\n", NULL, 0},
        {"Welcome to a\n", NULL, 0},
        {"\n", NULL, 0},
        {"", NULL, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].line);
        struct dt_fleet_hello hello;
        CHECK_EQ(dt_fleet_hello_read(dt_bytes_of(rows[i].line), &hello), rows[i].version != NULL);
        if (!rows[i].version)
            continue;
        CHECK_STR(hello.version, rows[i].version);
        CHECK_EQ(hello.port, rows[i].port);
    }
    struct dt_buf line = {0};
    struct dt_fleet_hello said = {.version = DT_VERSION, .port = 7}, heard;
    dt_fleet_hello_put(&line, &said);
    CHECK(dt_fleet_hello_read((struct dt_bytes){line.at, line.len}, &heard));
    CHECK_STR(heard.version, DT_VERSION);
    dt_buf_finish(&line);
}
