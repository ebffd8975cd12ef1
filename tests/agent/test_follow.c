/* SPDX-License-Identifier: Apache-2.0 */
/* Which entries of a followed folder are complete: what is there at which second, and what is
 * uploaded then. */
#include "agent/upload/follow.h"
#include "tests/lib/check.h"

#define SETTLE (10 * DT_SECOND)

/* FILES: "PATH:BYTES:WRITTEN[:INODE] ...". */
static void see(struct dt_follow *f, int second, const char *files)
{
    struct dt_follow_scan s = {0};
    struct dt_err err = {0};
    char *copy = strdup(files);
    for (char *rest, *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char path[64];
        int bytes, written, inode = 1;
        CHECK(sscanf(word, "%63[^:]:%d:%d:%d", path, &bytes, &written, &inode) >= 3);
        struct dt_follow_file file = {path, (uint64_t)bytes, (uint64_t)inode, written};
        CHECK_OK(dt_follow_scan_add(&s, &file, &err), err);
    }
    dt_follow_scan_sort(&s);
    CHECK_OK(dt_follow_see(f, &s, second * DT_SECOND, &err), err);
    dt_follow_scan_finish(&s);
    free(copy);
}

static const char *next(const struct dt_follow *f, int second, dt_ms settle)
{
    const struct dt_follow_entry *e = dt_follow_next(f, second * DT_SECOND, settle);
    return e ? e->name : NULL;
}

static void send(struct dt_follow *f, int second)
{
    struct dt_follow_entry *e = dt_follow_next(f, second * DT_SECOND, SETTLE);
    CHECK(e != NULL);
    dt_follow_sent(e, e->mark);
}

TEST(what_does_not_change_for_a_while_is_complete)
{
    struct dt_follow f = {0};
    see(&f, 0, "a.pt:5:1");
    CHECK_STR(next(&f, 9, SETTLE), NULL);
    see(&f, 9, "a.pt:6:9"); /* still being written */
    CHECK_STR(next(&f, 10, SETTLE), NULL);
    see(&f, 12, "a.pt:6:9");
    CHECK_STR(next(&f, 18, SETTLE), NULL);
    CHECK_STR(next(&f, 19, SETTLE), "a.pt");
    CHECK_STR(next(&f, 12, 0), "a.pt"); /* who wrote it is gone */
    send(&f, 19);
    CHECK_STR(next(&f, 100, SETTLE), NULL);
    dt_follow_finish(&f);
}

TEST(what_is_complete_and_not_uploaded_waits_since_it_was_complete)
{
    struct dt_follow f = {0};
    see(&f, 5, "a.pt:5:1");
    CHECK_EQ(dt_follow_waits_since(&f, 14 * DT_SECOND, SETTLE), 0);
    see(&f, 20, "a.pt:5:1 b.pt:5:20");
    CHECK_EQ(dt_follow_waits_since(&f, 60 * DT_SECOND, SETTLE), 15 * DT_SECOND);
    dt_follow_failed(dt_follow_next(&f, 60 * DT_SECOND, SETTLE), 60 * DT_SECOND);
    CHECK_EQ(dt_follow_waits_since(&f, 60 * DT_SECOND, SETTLE), 15 * DT_SECOND);
    send(&f, 61);
    CHECK_EQ(dt_follow_waits_since(&f, 61 * DT_SECOND, SETTLE), 30 * DT_SECOND);
    send(&f, 200);
    CHECK_EQ(dt_follow_waits_since(&f, 200 * DT_SECOND, SETTLE), 0);
    dt_follow_finish(&f);
}

TEST(what_was_cut_off_does_not_replace_a_copy)
{
    struct dt_follow f = {0};
    see(&f, 0, "last.pt:5:1 old.pt:5:1");
    send(&f, 10);
    send(&f, 10);
    see(&f, 20, "last.pt:5:1 old.pt:6:20");
    see(&f, 30, "last.pt:2:30 new.pt:5:30 old.pt:6:20"); /* and then the workers are killed */
    dt_follow_hold(&f, 30 * DT_SECOND, SETTLE);
    CHECK_STR(next(&f, 30, 0), "new.pt"); /* it replaces nothing */
    dt_follow_sent(dt_follow_next(&f, 30 * DT_SECOND, 0), 7);
    see(&f, 40, "last.pt:2:30 old.pt:6:20");
    CHECK_STR(next(&f, 40, 0), "old.pt"); /* it had settled before */
    send(&f, 40);
    CHECK_STR(next(&f, 100, 0), NULL);
    dt_follow_finish(&f);
}

TEST(a_folder_is_one_entry)
{
    struct dt_follow f = {0};
    see(&f, 0, "step-5/a:1:1 step-5/b/c:1:1 step-50:1:1");
    CHECK_EQ(f.count, 2);
    see(&f, 8, "step-5/a:1:1 step-5/b/c:1:1 step-5/d:1:8 step-50:1:1");
    CHECK_STR(next(&f, 10, SETTLE), "step-50");
    send(&f, 10);
    CHECK_STR(next(&f, 17, SETTLE), NULL);
    CHECK_STR(next(&f, 18, SETTLE), "step-5");
    dt_follow_finish(&f);
}

TEST(what_changes_behind_its_upload_is_uploaded_again)
{
    static const char *const changed[] = {
        "last.pt:6:1:1", /* longer */
        "last.pt:5:2:1", /* of the same length, written later */
        "last.pt:5:1:2", /* another file of that name, renamed into place */
    };
    for (size_t i = 0; i < sizeof changed / sizeof *changed; i++) {
        struct dt_follow f = {0};
        CHECK_ROW("%s", changed[i]);
        see(&f, 0, "last.pt:5:1:1");
        send(&f, 10);
        see(&f, 20, "last.pt:5:1:1");
        CHECK_STR(next(&f, 40, SETTLE), NULL);
        see(&f, 40, changed[i]);
        CHECK_STR(next(&f, 49, SETTLE), NULL);
        CHECK_STR(next(&f, 50, SETTLE), "last.pt");
        dt_follow_finish(&f);
    }
}

TEST(the_newest_is_the_first)
{
    struct dt_follow f = {0};
    see(&f, 0, "step-1/a:1:10 step-2/a:1:30 step-2/b:1:5 step-3/a:1:20");
    CHECK_STR(next(&f, 10, SETTLE), "step-2");
    send(&f, 10);
    CHECK_STR(next(&f, 10, SETTLE), "step-3");
    send(&f, 10);
    CHECK_STR(next(&f, 10, SETTLE), "step-1");
    dt_follow_finish(&f);
}

TEST(what_somebody_writes_waits)
{
    struct dt_follow f = {0};
    see(&f, 0, "a:1:1 b:1:2");
    dt_follow_busy(dt_follow_next(&f, 10 * DT_SECOND, SETTLE), 10 * DT_SECOND);
    CHECK_STR(next(&f, 10, SETTLE), "a"); /* it was b */
    send(&f, 10);
    CHECK_STR(next(&f, 19, SETTLE), NULL);
    CHECK_STR(next(&f, 20, SETTLE), "b");
    dt_follow_finish(&f);
}

TEST(what_fails_is_tried_again_later_and_later)
{
    struct dt_follow f = {0};
    int wait[] = {10, 20, 40, 80, 160, 320, 600, 600}, second = 10;
    see(&f, 0, "a:1:1");
    for (size_t i = 0; i < sizeof wait / sizeof *wait; i++) {
        CHECK_ROW("failure %zu", i + 1);
        dt_follow_failed(dt_follow_next(&f, second * DT_SECOND, SETTLE), second * DT_SECOND);
        CHECK_STR(next(&f, second + wait[i] - 1, SETTLE), NULL);
        second += wait[i];
        CHECK_STR(next(&f, second, SETTLE), "a");
    }
    dt_follow_failed(dt_follow_next(&f, second * DT_SECOND, SETTLE), second * DT_SECOND);
    dt_follow_hurry(&f);
    CHECK_STR(next(&f, second, SETTLE), "a");
    dt_follow_failed(dt_follow_next(&f, second * DT_SECOND, SETTLE), second * DT_SECOND);
    see(&f, second, "a:2:1"); /* another one, which may fare better */
    CHECK_STR(next(&f, second + 10, SETTLE), "a");
    dt_follow_finish(&f);
}

TEST(nobody_remembers_what_is_gone)
{
    struct dt_follow f = {0};
    see(&f, 0, "a:1:1 b:1:1 c:1:1");
    see(&f, 5, "b:1:1");
    CHECK_EQ(f.count, 1);
    CHECK_STR(next(&f, 10, SETTLE), "b");
    see(&f, 11, "a:1:1 b:1:1");
    CHECK_STR(next(&f, 20, SETTLE), "b");
    send(&f, 20);
    CHECK_STR(next(&f, 20, SETTLE), NULL); /* a is new again */
    CHECK_STR(next(&f, 21, SETTLE), "a");
    dt_follow_finish(&f);
}

TEST(the_file_written_last_is_uploaded_last)
{
    struct dt_follow_scan s = {0};
    struct dt_err err = {0};
    const struct dt_follow_file files[] = {
        {(char[]){"s/.metadata"}, 1, 1, 9}, {(char[]){"s/b"}, 1, 1, 3}, {(char[]){"r"}, 1, 1, 99},
        {(char[]){"s/c/d"}, 1, 1, 3},       {(char[]){"s0"}, 1, 1, 1},  {(char[]){"s/a"}, 1, 1, 4},
    };
    static const char *const order[] = {"r", "s/b", "s/c/d", "s/a", "s/.metadata", "s0"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        CHECK_OK(dt_follow_scan_add(&s, &files[i], &err), err);
    dt_follow_scan_sort(&s);
    for (size_t i = 0; i < s.count; i++)
        CHECK_STR(s.at[i].path, order[i]);
    dt_follow_scan_finish(&s);
}

TEST(names_that_are_not_there_to_stay)
{
    static const struct {
        const char *name;
        bool is;
    } rows[] = {
        {".model.pt.swp", true},  {"model.pt.tmp", true},         {"model.pt.tmp.4711", true},
        {"tmp-checkpoint", true}, {"model.pt.part", true},        {"model.pt~", true},
        {"x.incomplete", true},   {".tmp-step-00000100-1", true}, {"model.pt", false},
        {"part", false},          {"template.pt", false},         {"step-00000100", false},
        {"latest", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].name);
        CHECK_EQ(dt_follow_is_temporary(rows[i].name), rows[i].is);
    }
}
