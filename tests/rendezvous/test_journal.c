/* SPDX-License-Identifier: Apache-2.0 */
/* What a journal gives back after it was closed, cut or damaged. */
#include "rendezvous/journal/format.h"
#include "tests/rendezvous/journal_world.h"

#include <fcntl.h>
#include <sys/stat.h>

BEFORE_ALL
{
    journal_world_begin();
}

/* -- stories ---------------------------------------------------------------------------------- */

TEST(what_was_put_last_is_there_again_in_that_order)
{
    struct world w;
    world_open(&w, "plain/deeper");
    CHECK_STR(dt_buf_cstr(&w.replayed), "");
    put(&w, "a", "1");
    put(&w, "b", "2");
    put(&w, "c", "3");
    put(&w, "a", "4");
    put(&w, "b", "");
    put(&w, "never there", "");
    CHECK_EQ(dt_journal_counters(w.j)->records, 5);
    world_close(&w);
    check_replays("plain/deeper", "c=3 a=4 ");
    world_open(&w, "plain/deeper");
    put(&w, "b", "again");
    world_close(&w);
    check_replays("plain/deeper", "c=3 a=4 b=again ");
    CHECK_EQ(mode_of(at("plain/deeper")), 0700);
    CHECK_EQ(mode_of(journal_of("plain/deeper")), 0600);
    CHECK_EQ(mode_of(at("plain/deeper/journal.lock")), 0600);
}

TEST(keys_and_values_have_their_bounds)
{
    static char key[DT_JOURNAL_KEY_MAX + 1];
    struct world w;
    struct dt_err err = {0};
    struct dt_bytes v = dt_bytes_of("v");
    memset(key, 'k', sizeof key);
    world_open(&w, "bounds");
    CHECK_FAIL(dt_journal_put(w.j, (struct dt_bytes){(uint8_t *)key, sizeof key}, v, &err), err,
               "1 to 1024 bytes");
    CHECK_FAIL(dt_journal_put(w.j, dt_bytes_of(""), v, &err), err, "1 to 1024 bytes");
    CHECK_FAIL(put_letters(&w, "k", DT_JOURNAL_VALUE_MAX + 1, &err), err, "67108864 bytes at most");
    CHECK_OK(dt_journal_put(w.j, (struct dt_bytes){(uint8_t *)key, sizeof key - 1}, v, &err), err);
    put_big(&w, "big", DT_JOURNAL_VALUE_MAX);
    world_close(&w);
    world_open(&w, "bounds");
    CHECK_STR(dt_buf_cstr(&w.replayed) + 1024, "=v big=xxxx..67108864 ");
    world_close(&w);
}

TEST(many_syncs_cost_few_flushes)
{
    struct world w;
    struct dt_buf wanted = {0};
    world_open(&w, "group");
    for (int i = 0; i < 500; i++) {
        put(&w, "k", "v");
        sync_now(&w);
        dt_buf_put_str(&wanted, "d");
    }
    check_told(&w, dt_buf_cstr(&wanted));
    CHECK_EQ(dt_journal_counters(w.j)->syncs, 2); /* of the first put, and of all others */
    sync_now(&w);
    CHECK_EQ(w.told.len, 0); /* from the loop, also when there is nothing to wait for */
    check_told(&w, "d");
    CHECK_EQ(dt_journal_counters(w.j)->syncs, 2);
    dt_buf_finish(&wanted);
    world_close(&w);
}

static void on_durable_close(void *arg, const struct dt_err *err)
{
    struct world *w = arg;
    on_durable(w, err);
    dt_journal_close(w->j, on_closed, w);
}

TEST(closing_from_within_tells_the_others_first)
{
    struct world w;
    struct dt_err err = {0};
    world_open(&w, "within");
    put(&w, "a", "1");
    CHECK_OK(dt_journal_sync(w.j, on_durable_close, &w, &err), err);
    put(&w, "b", "2");
    sync_now(&w);
    check_told(&w, "dd");
    CHECK(w.closed);
    CHECK_EQ(uv_loop_close(&w.loop), 0);
    dt_buf_finish(&w.replayed);
    dt_buf_finish(&w.told);
    check_replays("within", "a=1 b=2 ");
    dt_journal_close(NULL, on_closed, NULL);
}

TEST(one_server_at_a_time)
{
    struct world w;
    world_open(&w, "lock");
    put(&w, "a", "1");
    check_refused("lock", "another server keeps its journal there");
    world_close(&w);
    check_replays("lock", "a=1 ");
}

TEST(a_folder_that_cannot_be_is_an_error)
{
    struct dt_err err = {0};
    CHECK_OK(dt_fs_replace(at("file"), "x", 1, 0600, &err), err);
    check_refused("file", "is no folder");
    check_refused("file/below", "file is there and is no folder");
}

static void check_folder_is_refused(const char *words)
{
    check_refused("shared", words);
    CHECK(access(at("shared/journal.lock"), F_OK) != 0); /* nothing was written */
}

TEST(a_folder_that_others_may_write_to_is_not_believed)
{
    CHECK_EQ(mkdir(at("shared"), 0700), 0);
    CHECK_EQ(chmod(at("shared"), 0777), 0);
    check_folder_is_refused("other users may write to ");
    CHECK_EQ(chmod(at("shared"), 0770), 0);
    check_folder_is_refused("other users may write to ");
    CHECK_EQ(chmod(at("shared"), 0700), 0);
    if (geteuid() != 0) /* only root can give a folder away */
        return;
    CHECK_EQ(chown(at("shared"), 65534, (gid_t)-1), 0);
    check_folder_is_refused("belongs to user 65534");
}

TEST(a_symbolic_link_in_the_folder_is_not_followed)
{
    static const char *const files[] = {"linked/journal.lock", "linked/journal"};
    CHECK_EQ(mkdir(at("linked"), 0700), 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        CHECK_ROW("%s", files[i]);
        CHECK_EQ(symlink(at("elsewhere"), at(files[i])), 0);
        check_refused("linked", "is a symbolic link");
        CHECK(access(at("elsewhere"), F_OK) != 0);
        CHECK_EQ(unlink(at(files[i])), 0);
    }
}

/* -- other files, cuts and damage ------------------------------------------------------------- */

TEST(a_file_that_is_not_ours_or_newer_is_left_alone)
{
    static const struct row {
        const char *bytes;
        size_t len;
        const char *words;
    } rows[] = {
        {"DTRNJRNL\2\0\0\0and more", 20, "is of version 2, and this program knows 1"},
        {"DTRNJRNL\0\0\0\0", 12, "does not begin as a journal does"},
        {"#!/bin/sh\n", 10, "does not begin as a journal does"},
        {"x", 1, "does not begin as a journal does"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%zu", i);
        plant("foreign", (const uint8_t *)rows[i].bytes, rows[i].len);
        check_refused("foreign", rows[i].words);
        struct dt_buf b = bytes_of(journal_of("foreign"));
        CHECK_BYTES(b.at, b.len, rows[i].bytes, rows[i].len);
        dt_buf_finish(&b);
    }
}

/* Four records of 12 + 1 + 3 bytes each behind a header of 12. */
static struct dt_buf small_journal(const char *name)
{
    struct world w;
    world_open(&w, name);
    put(&w, "a", "one");
    put(&w, "b", "two");
    put(&w, "a", "six");
    put(&w, "c", "ten");
    world_close(&w);
    struct dt_buf b = bytes_of(journal_of(name));
    CHECK_EQ(b.len, 12 + 4 * 16);
    return b;
}

/* What the first records say. */
static const char *const after[] = {"", "a=one ", "a=one b=two ", "b=two a=six ",
                                    "b=two a=six c=ten "};

static void check_opens_cut(const char *name, size_t whole, uint64_t cut)
{
    struct world w;
    char wanted[64];
    world_open(&w, name);
    CHECK_STR(dt_buf_cstr(&w.replayed), after[whole]);
    CHECK_EQ(dt_journal_counters(w.j)->cut, cut);
    put(&w, "z", "new");
    world_close(&w);
    snprintf(wanted, sizeof wanted, "%sz=new ", after[whole]);
    check_replays(name, wanted);
}

TEST(the_bytes_on_disk_are_those_that_other_versions_read)
{
    static const uint8_t wanted[] = "DTRNJRNL\1\0\0\0"
                                    "\1\0\0\0\3\0\0\0\x43\x16\x63\x2a"
                                    "aone";
    struct dt_buf b = small_journal("bytes");
    CHECK_BYTES(b.at, 28, wanted, 28);
    dt_buf_finish(&b);
}

TEST(cut_at_every_byte_the_whole_records_before_are_there)
{
    struct dt_buf b = small_journal("cut");
    for (size_t len = 0; len <= b.len; len++) {
        CHECK_ROW("cut to %zu bytes", len);
        size_t whole = len < 12 ? 0 : (len - 12) / 16;
        plant("cut", b.at, len);
        check_opens_cut("cut", whole, len < 12 ? 0 : (len - 12) % 16);
    }
    CHECK_EQ(size_of(at("cut/journal.damaged")), -1);
    dt_buf_finish(&b);
}

TEST(any_flipped_byte_is_noticed_and_what_stands_behind_is_kept_aside)
{
    struct dt_buf b = small_journal("flip");
    for (size_t i = 0; i < 8 * b.len; i++) {
        size_t byte = i / 8, whole = byte < 12 ? 0 : (byte - 12) / 16, end = 12 + 16 * whole;
        CHECK_ROW("bit %zu of byte %zu", i % 8, byte);
        b.at[byte] ^= (uint8_t)(1 << i % 8);
        plant("flip", b.at, b.len);
        unlink(at("flip/journal.damaged"));
        if (byte < 12) {
            check_refused("flip", "flip/journal ");
        } else {
            check_opens_cut("flip", whole, b.len - end);
            struct dt_buf kept = {0};
            if (whole < 3)
                kept = bytes_of(at("flip/journal.damaged"));
            CHECK_BYTES(kept.at, kept.len, b.at + end, whole < 3 ? b.len - end : 0);
            CHECK_EQ(mode_of(at("flip/journal.damaged")), whole < 3 ? 0600 : 0);
            dt_buf_finish(&kept);
        }
        b.at[byte] ^= (uint8_t)(1 << i % 8);
    }
    dt_buf_finish(&b);
}

/* The log lines that opening NAME writes. */
static struct dt_buf log_of_opening(const char *name)
{
    struct world w;
    int log = open(at("log"), O_WRONLY | O_CREAT | O_TRUNC, 0600), before = dup(STDERR_FILENO);
    dup2(log, STDERR_FILENO);
    dt_log_open("test", DT_LOG_WARN, DT_LOG_TEXT);
    world_open(&w, name);
    dt_log_open("test", DT_LOG_ERROR, DT_LOG_TEXT);
    dup2(before, STDERR_FILENO);
    close(before);
    close(log);
    world_close(&w);
    return bytes_of(at("log"));
}

TEST(one_line_tells_of_what_is_left_out)
{
    static const struct row {
        size_t len, damaged;
        const char *words;
    } rows[] = {
        {12 + 4 * 16, 0, NULL},
        {12 + 3 * 16 + 5, 0, "line/journal: cut 5 B off its end, a record that was not"},
        {12 + 4 * 16, 30,
         "line/journal: damaged at byte 28; that and all behind it, 48 B, is left "
         "out and kept in journal.damaged\n"},
    };
    struct dt_buf b = small_journal("line");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%zu", i);
        b.at[rows[i].damaged] ^= rows[i].damaged ? 1 : 0;
        plant("line", b.at, rows[i].len);
        struct dt_buf log = log_of_opening("line");
        const char *text = dt_buf_cstr(&log), *newline = strchr(text, '\n');
        CHECK_EQ(log.len, newline ? (size_t)(newline + 1 - text) : 0);
        CHECK(rows[i].words ? strstr(text, rows[i].words) != NULL : log.len == 0);
        dt_buf_finish(&log);
    }
    dt_buf_finish(&b);
}

TEST(a_tail_of_zeros_is_cut)
{
    struct dt_buf b = small_journal("zeros");
    uint8_t zeros[5000] = {0};
    dt_buf_put(&b, zeros, sizeof zeros);
    plant("zeros", b.at, b.len);
    check_opens_cut("zeros", 4, sizeof zeros);
    CHECK_EQ(size_of(at("zeros/journal.damaged")), -1);
    dt_buf_finish(&b);
}

/* Each byte begins what could be a record of megabytes. */
TEST(bytes_made_to_be_searched_for_hours_are_kept_aside)
{
    enum { LEN = 12 << 20 };
    struct dt_buf b = {0};
    dt_journal_write_header(&b);
    while (b.len < LEN)
        dt_buf_put(&b, "\1\0\0\0\0\0\x10\0", 8);
    plant("hours", b.at, b.len);
    check_replays("hours", "");
    CHECK_EQ(size_of(at("hours/journal.damaged")), b.len - 12);
    dt_buf_finish(&b);
}
