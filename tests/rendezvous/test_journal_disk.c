/* SPDX-License-Identifier: Apache-2.0 */
/* The journal and its disk: compaction while puts go on, disks that are slow, full or broken, and
 * kill -9. */
#include "tests/rendezvous/journal_world.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

BEFORE_ALL
{
    journal_world_begin();
}

/* -- a disk that fails, or is slow, when told to ---------------------------------------------- */

static _Atomic bool disk_fails;
static _Atomic int disk_goes = INT_MAX; /* so many more times before it waits for disk_may_go */
static uv_sem_t disk_may_go;

/* The linker takes this one before the C library's. */
int fdatasync(int fd);
int fdatasync(int fd)
{
    if (disk_goes != INT_MAX && disk_goes-- <= 0)
        uv_sem_wait(&disk_may_go);
    if (disk_fails) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fdatasync, fd);
}

TEST(a_failed_sync_is_told_to_all_and_for_good)
{
    struct world w;
    struct dt_err err = {0};
    world_open(&w, "eio");
    put(&w, "a", "1");
    sync_now(&w);
    check_told(&w, "d");
    disk_fails = true;
    put(&w, "b", "2");
    CHECK(!dt_journal_is_lost(w.j));
    sync_now(&w);
    put(&w, "c", "3");
    sync_now(&w);
    check_told(&w, "ff");
    CHECK(dt_journal_is_lost(w.j));
    disk_fails = false;
    CHECK_FAIL(dt_journal_sync(w.j, on_durable, &w, &err), err, "Input/output error");
    CHECK_FAIL(dt_journal_put(w.j, dt_bytes_of("d"), dt_bytes_of("4"), &err), err,
               "cannot be made durable");
    check_told(&w, "");
    world_close(&w);
    check_replays("eio", "a=1 b=2 c=3 "); /* this disk was not that broken */
}

/* -- compaction ------------------------------------------------------------------------------- */

#define PIECE ((size_t)256 << 10)

/* Until a compaction is under way: 4 MiB, of which the last sixteenth is alive. */
static void fill(struct world *w)
{
    put(w, "early", "1");
    put(w, "gone", "2");
    put(w, "later", "3");
    for (int i = 0; i < 16; i++)
        put_big(w, "big", PIECE);
}

TEST(a_compaction_keeps_exactly_the_latest_also_of_what_comes_meanwhile)
{
    struct world w;
    world_open(&w, "compact");
    fill(&w);
    put(&w, "later", "4"); /* from here on it is under way: nobody else runs the loop */
    put(&w, "gone", "");
    put(&w, "new", "5");
    put(&w, "new", "6");
    sync_now(&w);
    check_told(&w, "d");
    CHECK_EQ(dt_journal_counters(w.j)->compactions, 1);
    CHECK(size_of(journal_of("compact")) < (off_t)(PIECE + 1000));
    CHECK_EQ(size_of(at("compact/journal.new")), -1);
    CHECK_EQ(mode_of(journal_of("compact")), 0600);
    put(&w, "early", "7");
    world_close(&w);
    world_open(&w, "compact");
    CHECK_STR(dt_buf_cstr(&w.replayed), "big=xxxx..262144 later=4 new=6 early=7 ");
    CHECK_EQ(dt_journal_counters(w.j)->cut, 0);
    world_close(&w);
}

/* More comes than is copied at once, so that it goes round again; and something is put between the
 * rounds and while the new file takes its place. */
TEST(appends_of_any_size_during_compactions_lose_nothing)
{
    struct world w;
    int n = 0;
    size_t syncs = 0;
    char key[16], value[16], wanted[40];
    world_open(&w, "rounds");
    put_big(&w, "big", PIECE);
    put(&w, "rare", "1"); /* is carried along, from one place to another */
    for (; dt_journal_counters(w.j)->compactions < 4; n++) {
        snprintf(key, sizeof key, "k%d", n % 7);
        snprintf(value, sizeof value, "%d", n);
        put(&w, key, value);
        put_big(&w, "big", PIECE / 2);
        if (n % 3 == 0) {
            sync_now(&w);
            syncs++;
        }
        while (syncs > w.told.len + 1)
            uv_run(&w.loop, UV_RUN_ONCE);
    }
    uv_run(&w.loop, UV_RUN_DEFAULT);
    CHECK_EQ(w.told.len, syncs);
    CHECK(strchr(dt_buf_cstr(&w.told), 'f') == NULL);
    world_close(&w);
    world_open(&w, "rounds");
    CHECK(strstr(dt_buf_cstr(&w.replayed), "rare=1 ") != NULL);
    CHECK(strstr(dt_buf_cstr(&w.replayed), "big=xxxx..131072 ") != NULL);
    for (int i = n - 7; i < n; i++) {
        snprintf(wanted, sizeof wanted, "k%d=%d ", i % 7, i);
        CHECK_ROW("%s", wanted);
        CHECK(strstr(dt_buf_cstr(&w.replayed), wanted) != NULL);
    }
    world_close(&w);
}

TEST(much_that_comes_during_a_compaction_is_copied_by_the_thread_as_well)
{
    static const char *const names[] = {"big", "live1", "live2", "live3", "live4"};
    struct world w;
    struct dt_buf wanted = {0};
    world_open(&w, "again");
    for (size_t i = 0; i < 16; i++) /* until it begins, with five pieces alive */
        put_big(&w, names[i < 5 ? i : 0], PIECE);
    put_big(&w, "big", PIECE); /* much less than the thread copies, and too much to copy at once */
    put(&w, "last", "8");
    check_told(&w, "");
    CHECK_EQ(dt_journal_counters(w.j)->compactions, 1);
    CHECK(size_of(journal_of("again")) < (off_t)(7 * PIECE));
    world_close(&w);
    for (size_t i = 1; i < 5; i++)
        dt_buf_printf(&wanted, "%s=xxxx..262144 ", names[i]);
    dt_buf_put_str(&wanted, "big=xxxx..262144 last=8 ");
    check_replays("again", dt_buf_cstr(&wanted));
    dt_buf_finish(&wanted);
}

TEST(a_compaction_that_is_worth_it_already_waits_for_the_one_before)
{
    struct world w;
    CHECK_EQ(uv_sem_init(&disk_may_go, 0), 0);
    world_open(&w, "twice");
    disk_goes = 1; /* for the copy, and not for its taking the journal's place */
    fill(&w);
    uv_run(&w.loop, UV_RUN_ONCE);
    CHECK_EQ(dt_journal_counters(w.j)->compactions, 0);
    fill(&w);
    put(&w, "last", "8");
    disk_goes = INT_MAX;
    uv_sem_post(&disk_may_go);
    check_told(&w, "");
    CHECK_EQ(dt_journal_counters(w.j)->compactions, 1);
    put(&w, "last", "9");
    check_told(&w, "");
    CHECK_EQ(dt_journal_counters(w.j)->compactions, 2);
    world_close(&w);
    uv_sem_destroy(&disk_may_go);
    check_replays("twice", "early=1 gone=2 later=3 big=xxxx..262144 last=9 ");
}

TEST(a_disk_that_fails_during_a_compaction_is_told_to_who_waits)
{
    struct world w;
    world_open(&w, "midfail");
    fill(&w);
    disk_fails = true;
    sync_now(&w);
    check_told(&w, "f");
    disk_fails = false;
    world_close(&w);
    CHECK_EQ(size_of(at("midfail/journal.new")), -1);
    check_replays("midfail", "early=1 gone=2 later=3 big=xxxx..262144 ");
}

TEST(a_folder_that_was_taken_away_is_told_by_the_next_compaction)
{
    struct world w;
    world_open(&w, "away");
    fill(&w);
    put(&w, "last", "8");
    CHECK_EQ(unlink(at("away/journal.new")), 0);
    uv_run(&w.loop, UV_RUN_DEFAULT);
    struct dt_err err = {0};
    CHECK_FAIL(dt_journal_sync(w.j, on_durable, &w, &err), err, "No such file or directory");
    world_close(&w);
    check_replays("away", "early=1 gone=2 later=3 big=xxxx..262144 last=8 ");
}

TEST(closing_in_the_middle_of_a_compaction_leaves_the_journal_as_it_was)
{
    struct world w;
    world_open(&w, "midway");
    fill(&w);
    put(&w, "last", "8");
    world_close(&w);
    CHECK_EQ(size_of(at("midway/journal.new")), -1);
    CHECK(size_of(journal_of("midway")) > (off_t)(16 * PIECE));
    world_open(&w, "midway");
    CHECK_STR(dt_buf_cstr(&w.replayed), "early=1 gone=2 later=3 big=xxxx..262144 last=8 ");
    world_close(&w);
}

TEST(a_compaction_that_fails_is_done_without)
{
    struct world w;
    world_open(&w, "without");
    CHECK_EQ(mkdir(at("without/journal.new"), 0700), 0); /* so that it cannot be made */
    fill(&w);
    put(&w, "last", "8");
    sync_now(&w);
    check_told(&w, "d");
    CHECK_EQ(dt_journal_counters(w.j)->compactions, 0);
    CHECK_EQ(rmdir(at("without/journal.new")), 0);
    put_big(&w, "big", PIECE); /* it is not tried with each put */
    uv_run(&w.loop, UV_RUN_DEFAULT);
    CHECK_EQ(dt_journal_counters(w.j)->compactions, 0);
    for (int i = 0; i < 20; i++) /* until the file is twice as long */
        put_big(&w, "big", PIECE);
    uv_run(&w.loop, UV_RUN_DEFAULT);
    CHECK_EQ(dt_journal_counters(w.j)->compactions, 1);
    world_close(&w);
}

TEST(what_a_killed_compaction_left_is_removed)
{
    struct dt_err err = {0};
    CHECK_OK(dt_fs_mkdir_p(at("killed"), 0700, &err), err);
    CHECK_OK(dt_fs_replace(at("killed/journal.new"), "half", 4, 0600, &err), err);
    check_replays("killed", "");
    CHECK_EQ(size_of(at("killed/journal.new")), -1);
}

/* -- a full disk ------------------------------------------------------------------------------ */

static void let_files_grow_to(rlim_t most)
{
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = most < limit.rlim_max ? most : limit.rlim_max;
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

TEST(a_full_disk_refuses_a_record_and_keeps_all_others)
{
    struct world w;
    struct dt_err err = {0};
    signal(SIGXFSZ, SIG_IGN);
    world_open(&w, "full");
    put(&w, "a", "1");
    off_t before = size_of(journal_of("full"));
    for (rlim_t room = 0; room < 30; room++) {
        CHECK_ROW("room for %d bytes", (int)room);
        let_files_grow_to((rlim_t)before + room);
        CHECK_FAIL(put_letters(&w, "b", 1000, &err), err, "does not take 1001 bytes more");
        CHECK_FAIL(put_letters(&w, "a", 1000, &err), err, "File too large");
        let_files_grow_to(RLIM_INFINITY);
        CHECK_EQ(size_of(journal_of("full")), before);
    }
    put(&w, "a", "3");
    put(&w, "b", "2");
    sync_now(&w);
    check_told(&w, "d");
    world_close(&w);
    check_replays("full", "a=3 b=2 ");
}

static void refuse(struct world *w, const char *key, const char *value)
{
    struct dt_err err = {0};
    CHECK_FAIL(dt_journal_put(w->j, dt_bytes_of(key), dt_bytes_of(value), &err), err,
               "see to the room on its disk");
}

/* A disk that is full takes nothing of all this. */
static void fill_and_refuse(struct world *w, const char *name)
{
    signal(SIGXFSZ, SIG_IGN);
    world_open(w, name);
    put(w, "a", "1");
    put(w, "gone", "2");
    let_files_grow_to((rlim_t)size_of(journal_of(name)));
    refuse(w, "b", "3");
    refuse(w, "a", "4");
    refuse(w, "gone", "");
    refuse(w, "c", "5");
    put(w, "c", ""); /* was never there */
    refuse(w, "b", "6");
    CHECK_EQ(dt_journal_unwritten(w->j), 3);
}

TEST(what_a_full_disk_refused_is_written_once_there_is_room)
{
    struct world w;
    fill_and_refuse(&w, "room");
    let_files_grow_to(RLIM_INFINITY);
    uv_run(&w.loop, UV_RUN_DEFAULT);
    CHECK_EQ(dt_journal_counters(w.j)->records, 5);
    CHECK_EQ(dt_journal_counters(w.j)->syncs, 1);
    CHECK_EQ(dt_journal_unwritten(w.j), 0);
    off_t then = size_of(journal_of("room"));
    world_close(&w);
    CHECK_EQ(size_of(journal_of("room")), then);
    check_replays("room", "a=4 b=6 ");
}

TEST(what_a_full_disk_refused_goes_before_the_next_record)
{
    struct world w;
    fill_and_refuse(&w, "before");
    let_files_grow_to(RLIM_INFINITY);
    put(&w, "d", "7");
    CHECK_EQ(dt_journal_counters(w.j)->records, 6);
    sync_now(&w);
    check_told(&w, "d");
    world_close(&w);
    check_replays("before", "a=4 b=6 d=7 ");
}

TEST(what_a_full_disk_refused_is_tried_again_at_the_end)
{
    struct world w;
    fill_and_refuse(&w, "end");
    let_files_grow_to(RLIM_INFINITY);
    world_close(&w);
    check_replays("end", "a=4 b=6 ");
    fill_and_refuse(&w, "never");
    world_close(&w);
    let_files_grow_to(RLIM_INFINITY);
    check_replays("never", "a=1 gone=2 ");
}

TEST(a_disk_too_full_to_compact_leaves_the_journal_usable)
{
    static const struct row {
        const char *name;
        rlim_t most;
    } rows[] = {
        {"nothing fits", 0},
        {"half of the live records fit", PIECE / 2},
        {"all but what comes meanwhile fits", PIECE + 1000},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct world w;
        CHECK_ROW("%s", rows[i].name);
        world_open(&w, rows[i].name);
        fill(&w);
        put_big(&w, "big", PIECE);
        let_files_grow_to(rows[i].most);
        uv_run(&w.loop, UV_RUN_DEFAULT);
        let_files_grow_to(RLIM_INFINITY);
        CHECK_EQ(dt_journal_counters(w.j)->compactions, 0);
        put(&w, "last", "8");
        world_close(&w);
        check_replays(rows[i].name, "early=1 gone=2 later=3 big=xxxx..262144 last=8 ");
    }
}

/* -- kill -9 ---------------------------------------------------------------------------------- */

/* ThreadSanitizer would end a child that starts threads; libuv's pool is made for it. */
const char *__tsan_default_options(void);
__attribute__((visibility("default"))) const char *__tsan_default_options(void)
{
    return "die_after_fork=0";
}

struct writer {
    struct world world;
    int pipe;
    uint32_t next;
};

static void write_next(struct writer *c);

static void on_writer_durable(void *arg, const struct dt_err *err)
{
    struct writer *c = arg;
    CHECK(err == NULL);
    CHECK_EQ(write(c->pipe, &c->next, sizeof c->next), sizeof c->next);
    c->next++;
    write_next(c);
}

/* Its size varies, so that the kill finds compactions under way as well. */
static void write_next(struct writer *c)
{
    char key[16], value[16];
    struct dt_err err = {0};
    snprintf(key, sizeof key, "n%u", c->next % 10);
    snprintf(value, sizeof value, "%u", c->next);
    put(&c->world, key, value);
    put_big(&c->world, "big", PIECE * (c->next % 4) + 1);
    CHECK_OK(dt_journal_sync(c->world.j, on_writer_durable, c, &err), err);
}

static pid_t start_writer(int *from, const char *name)
{
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct writer c = {.pipe = ends[1]};
        check_the.running = false; /* a failed check ends this process alone */
        close(ends[0]);
        world_open(&c.world, name);
        write_next(&c);
        uv_run(&c.world.loop, UV_RUN_DEFAULT);
        _exit(1);
    }
    close(ends[1]);
    *from = ends[0];
    return pid;
}

static void on_numbered(void *arg, struct dt_bytes key, struct dt_bytes value)
{
    uint32_t *numbers = arg;
    char text[16];
    snprintf(text, sizeof text, "%.*s", (int)(value.len < 16 ? value.len : 15),
             (const char *)value.at);
    if (key.len == 2 && key.at[0] == 'n')
        numbers[key.at[1] - '0'] = (uint32_t)strtoul(text, NULL, 10);
}

static void check_all_there(const char *name, uint32_t last)
{
    uint32_t numbers[10] = {0};
    struct world w = {0};
    struct dt_err err = {0};
    uv_loop_init(&w.loop);
    w.j = dt_journal_open(&w.loop, at(name), on_numbered, numbers, &err);
    CHECK_STR(err.text, "");
    for (uint32_t i = last < 10 ? 0 : last - 9; i <= last; i++) {
        CHECK_ROW("record %u of %u", i, last);
        CHECK(numbers[i % 10] >= i);
        CHECK(numbers[i % 10] <= last + 2);
    }
    world_close(&w);
}

TEST(what_a_killed_writer_was_told_is_durable_is_there)
{
    for (int run = 0; run < 12; run++) {
        char name[32];
        uint32_t last = 0;
        int from;
        snprintf(name, sizeof name, "writer%d", run);
        CHECK_ROW("%s", name);
        pid_t pid = start_writer(&from, name);
        for (int i = 0; i < 20 + 9 * run; i++)
            CHECK_EQ(read(from, &last, sizeof last), sizeof last);
        kill(pid, SIGKILL);
        while (read(from, &last, sizeof last) == sizeof last) { /* told before it was killed */
        }
        close(from);
        int status;
        CHECK_EQ(waitpid(pid, &status, 0), pid);
        CHECK(WIFSIGNALED(status));
        check_all_there(name, last);
    }
}
