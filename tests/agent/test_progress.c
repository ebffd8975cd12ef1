/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/watch/progress.h"
#include "tests/lib/check.h"
#include "tests/lib/folder.h"

#include <sys/stat.h>

BEFORE_ALL
{
    folder_make();
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    fputs(text, f);
    fclose(f);
}

TEST(the_last_number_counts_and_what_is_none_changes_nothing)
{
    static const struct {
        const char *text;
        int64_t step;
    } rows[] = {
        {"17\n", 17},
        {" 18 ", 18},
        {"", 18},
        {"release\n", 18},
        {"-4\n", 18},
        {"12 13", 18},
        {"3", 3},
        {"3.5\n", 3},
        {"99999999999999999999", 3},
        {"9007199254740992", (int64_t)1 << 53},
        {"9007199254740993", (int64_t)1 << 53}, /* a beat cannot say it */
    };
    uv_loop_t loop;
    struct dt_err err;
    uv_loop_init(&loop);
    struct dt_progress *p = dt_progress_open(&loop, at("step"), &err);
    CHECK_EQ(dt_progress_step(p), -1);
    dt_progress_look(p);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_EQ(dt_progress_step(p), -1); /* it is not there */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].text);
        write_file(at("step"), rows[i].text);
        dt_progress_look(p);
        uv_run(&loop, UV_RUN_DEFAULT);
        CHECK_EQ(dt_progress_step(p), rows[i].step);
    }
    CHECK_EQ(unlink(at("step")), 0);
    dt_progress_look(p);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_EQ(dt_progress_step(p), (int64_t)1 << 53);
    dt_progress_close(p);
    CHECK_EQ(uv_loop_close(&loop), 0);
}

TEST(a_pipe_that_nobody_writes_to_holds_up_nothing)
{
    uv_loop_t loop;
    struct dt_err err;
    uv_loop_init(&loop);
    CHECK_EQ(mkfifo(at("pipe"), 0600), 0);
    struct dt_progress *p = dt_progress_open(&loop, at("pipe"), &err);
    dt_progress_look(p);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_EQ(dt_progress_step(p), -1);
    dt_progress_close(p);
    CHECK_EQ(uv_loop_close(&loop), 0);
}

TEST(it_may_be_closed_while_it_reads)
{
    uv_loop_t loop;
    struct dt_err err;
    uv_loop_init(&loop);
    struct dt_progress *p = dt_progress_open(&loop, at("step"), &err);
    dt_progress_look(p);
    dt_progress_look(p); /* one at a time */
    dt_progress_close(p);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_EQ(uv_loop_close(&loop), 0);
}
