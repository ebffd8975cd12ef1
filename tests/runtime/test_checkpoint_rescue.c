/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of a world that is gone, made of copies of its shards. */
#include "base/fs.h"
#include "tests/runtime/checkpoints.h"
#include "worker_runtime/ckpt/rescue.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#define RUN "run-a"
#define RANKS 4
#define STEP 7
#define ROUND 3
#define JOB 77

BEFORE_ALL
{
    folder_make();
}

/* What is left of each rank. */
struct remains {
    struct model model;
    struct dt_layout layout;
    struct dt_zero_state rank[RANKS];
    struct dt_ckpt_state state;
};

static void remains_make(struct remains *m)
{
    struct dt_err err;
    m->model = model_make();
    m->state = state_of(STEP);
    struct dt_ckpt_model saved = model_saved(&m->model);
    CHECK_OK(dt_ckpt_cut(&saved, RANKS, &m->layout, &err), err);
    for (int r = 0; r < RANKS; r++) {
        m->rank[r] = (struct dt_zero_state){0};
        CHECK_OK(dt_ckpt_shards_init(&m->rank[r], &m->layout, (size_t)r, NULL, &err), err);
        fill(&m->rank[r], STEP);
    }
}

static void remains_finish(struct remains *m)
{
    for (int r = 0; r < RANKS; r++)
        dt_ckpt_shards_finish(&m->rank[r], NULL);
    dt_layout_finish(&m->layout);
    free(m->model.tensors);
}

static dt_ms longest = 60 * DT_SECOND;

/* By somebody who has those ranks whose bits are set in HAS. */
static int rescue(const struct remains *m, const char *folder, unsigned has, dt_ms patience,
                  enum dt_rescue_end *how, struct dt_err *err)
{
    struct dt_rescue_shard shards[RANKS] = {0};
    for (int r = 0; r < RANKS; r++)
        if (has >> r & 1)
            shards[r] = (struct dt_rescue_shard){m->rank[r].master, m->rank[r].exp_avg,
                                                 m->rank[r].exp_avg_sq};
    struct dt_rescue_step s = {.state = &m->state,
                               .shards = shards,
                               .world = RANKS,
                               .shard = m->layout.shard,
                               .patience = patience,
                               .longest = longest};
    struct dt_ckpt_options o = {.dir = folder,
                                .model = model_saved(&m->model),
                                .block_bytes = BLOCK,
                                .epoch = ROUND,
                                .run_id = RUN,
                                .job_mark = JOB};
    return dt_ckpt_rescue(&o, &s, how, err);
}

static void check_saved(const char *folder)
{
    char path[PATH_MAX];
    struct dt_err err;
    CHECK_OK(dt_ckpt_find(folder, path, sizeof path, NULL, &err), err);
    CHECK_OK(dt_ckpt_verify(path, &err), err);
    CHECK_OK(read_all_ranks(path, RANKS, STEP, &err), err);
    CHECK_OK(read_all_ranks(path, 3, STEP, &err), err);
    CHECK_EQ(entries(folder, ".tmp-"), 0);
}

TEST(who_has_all_shards_saves_alone)
{
    struct remains m;
    struct dt_err err;
    enum dt_rescue_end how;
    remains_make(&m);
    CHECK_OK(rescue(&m, at("alone"), 0xf, 0, &how, &err), err);
    CHECK_EQ(how, DT_RESCUE_SAVED);
    check_saved(at("alone"));
    remains_finish(&m);
}

/* Each of COUNT processes has some; each shard is there, and some are twice. */
static void save_together(const struct remains *m, const char *folder, const unsigned *has,
                          int count)
{
    int saved = 0;
    pid_t pid[4];
    for (int i = 0; i < count; i++) {
        pid[i] = fork();
        if (pid[i] == 0) {
            enum dt_rescue_end how;
            _exit(rescue(m, folder, has[i], 60 * DT_SECOND, &how, NULL) < 0 ? 9 : (int)how);
        }
    }
    for (int i = 0; i < count; i++) {
        int status;
        CHECK_EQ(waitpid(pid[i], &status, 0), pid[i]);
        CHECK(WIFEXITED(status));
        CHECK(WEXITSTATUS(status) == DT_RESCUE_SAVED || WEXITSTATUS(status) == DT_RESCUE_ELSEWHERE);
        saved += WEXITSTATUS(status) == DT_RESCUE_SAVED;
    }
    CHECK(saved >= 1);
}

TEST(processes_that_have_some_each_save_together)
{
    static const struct {
        const char *name;
        unsigned has[4];
        int count;
    } rows[] = {
        {"halves", {0x3, 0xc}, 2},
        {"one of four is gone, and the next has its copy", {0x3, 0x6, 0xc}, 3},
        {"rank 0 is with the last", {0x2, 0x4, 0x8, 0x1}, 4},
        {"two have all", {0xf, 0xf}, 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct remains m;
        char folder[40];
        CHECK_ROW("%s", rows[i].name);
        snprintf(folder, sizeof folder, "together %zu", i);
        remains_make(&m);
        save_together(&m, at(folder), rows[i].has, rows[i].count);
        check_saved(at(folder));
        remains_finish(&m);
    }
}

TEST(a_step_that_is_not_whole_is_not_saved_and_leaves_nothing)
{
    struct remains m;
    struct dt_err err;
    enum dt_rescue_end how;
    remains_make(&m);
    save_once(at("less"), 2, DT_F32, 3);
    CHECK_OK(rescue(&m, at("less"), 0xd, 0, &how, &err), err);
    CHECK_EQ(how, DT_RESCUE_NOT_WHOLE);
    CHECK_EQ(entries(at("less"), ".tmp-"), 0);
    CHECK_EQ(entries(at("less"), "step-"), 1);
    CHECK_EQ(dt_ckpt_latest(at("less")), 3);
    /* Nor does it keep those from saving it who come later and have it. */
    CHECK_OK(rescue(&m, at("less"), 0xf, 0, &how, &err), err);
    CHECK_EQ(how, DT_RESCUE_SAVED);
    check_saved(at("less"));
    remains_finish(&m);
}

/* It leaves no mark of its own in the folder. */
TEST(a_rescue_that_is_not_whole_keeps_nobody_from_saving)
{
    struct remains m;
    struct world w;
    struct dt_err err;
    enum dt_rescue_end how;
    remains_make(&m);
    world_open(&w, at("half"), 2, (struct dt_ckpt_options){.run_id = RUN, .epoch = ROUND});
    world_save(&w, STEP - 1);
    CHECK_EQ(unlink(at("half/.world")), 0);
    CHECK_OK(rescue(&m, at("half"), 0xd, 0, &how, &err), err);
    CHECK_EQ(how, DT_RESCUE_NOT_WHOLE);
    CHECK_EQ(entries(at("half"), ".world"), 0);
    world_save(&w, STEP + 1);
    world_close(&w);
    remains_finish(&m);
}

TEST(who_has_no_shard_of_rank_0_leaves_the_rest_to_others)
{
    struct remains m;
    struct dt_err err;
    enum dt_rescue_end how;
    remains_make(&m);
    CHECK_OK(rescue(&m, at("rest"), 0xe, 0, &how, &err), err);
    CHECK_EQ(how, DT_RESCUE_ELSEWHERE);
    CHECK_EQ(entries(at("rest"), "step-"), 0);
    CHECK_OK(rescue(&m, at("rest"), 0x1, 0, &how, &err), err);
    CHECK_EQ(how, DT_RESCUE_SAVED);
    check_saved(at("rest"));
    remains_finish(&m);
}

/* Of a shard of STEP: as ckpt/rescue.c has it. */
static struct flock lock_of(int rank)
{
    return (struct flock){.l_type = F_WRLCK, .l_start = STEP * ((off_t)1 << 20) + rank, .l_len = 1};
}

static int open_locks(const char *folder)
{
    char path[PATH_MAX];
    CHECK_OK(dt_fs_mkdir_p(folder, 0777, NULL), (struct dt_err){0});
    snprintf(path, sizeof path, "%s/.rescue", folder);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    CHECK(fd >= 0);
    return fd;
}

TEST(a_part_that_somebody_never_gets_done_is_not_waited_for_without_end)
{
    struct remains m;
    struct dt_err err;
    enum dt_rescue_end how;
    int fd = open_locks(at("hung"));
    struct flock held = lock_of(2);
    CHECK_EQ(fcntl(fd, F_OFD_SETLK, &held), 0);
    remains_make(&m);
    longest = 1;
    CHECK_OK(rescue(&m, at("hung"), 0xf, 60 * DT_SECOND, &how, &err), err);
    longest = 60 * DT_SECOND;
    CHECK_EQ(how, DT_RESCUE_NOT_WHOLE);
    CHECK_EQ(entries(at("hung"), ".tmp-"), 0);
    close(fd);
    remains_finish(&m);
}

TEST(who_has_no_shard_of_rank_0_goes_on_when_the_one_who_has_it_is_done)
{
    struct remains m;
    struct dt_err err;
    enum dt_rescue_end how;
    int status, fd = open_locks(at("first"));
    remains_make(&m);
    pid_t pid = fork();
    if (pid == 0)
        _exit(rescue(&m, at("first"), 0x1, 60 * DT_SECOND, &how, NULL) < 0 ? 9 : (int)how);
    struct flock first;
    do {
        first = lock_of(0);
        CHECK_EQ(fcntl(fd, F_OFD_GETLK, &first), 0);
    } while (first.l_type == F_UNLCK);
    CHECK_OK(rescue(&m, at("first"), 0xe, 0, &how, &err), err);
    CHECK_EQ(how, DT_RESCUE_ELSEWHERE);
    CHECK_EQ(dt_ckpt_latest(at("first")), STEP);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == DT_RESCUE_SAVED);
    check_saved(at("first"));
    close(fd);
    remains_finish(&m);
}

TEST(where_a_later_world_or_another_run_saves_nothing_is_written)
{
    static const struct {
        const char *name, *run;
        int64_t round;
        uint64_t job;
    } rows[] = {
        {"a later world", RUN, ROUND + 1, JOB},
        {"another run", "run-b", 0, JOB + 1},
        {"the run started again", RUN, 0, JOB + 1},
        {"it has come to the same round", RUN, ROUND, JOB + 1},
        {"it keeps nothing in memory", RUN, 1, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct remains m;
        struct world w;
        struct dt_err err;
        enum dt_rescue_end how;
        char folder[40];
        CHECK_ROW("%s", rows[i].name);
        snprintf(folder, sizeof folder, "late %zu", i);
        world_open(&w, at(folder), 2,
                   (struct dt_ckpt_options){
                       .run_id = rows[i].run, .epoch = rows[i].round, .job_mark = rows[i].job});
        world_save(&w, 5);
        remains_make(&m);
        CHECK_OK(rescue(&m, at(folder), 0xf, 0, &how, &err), err);
        CHECK_EQ(how, DT_RESCUE_TOO_LATE);
        CHECK_EQ(dt_ckpt_latest(at(folder)), 5);
        world_save(&w, 6);
        world_close(&w);
        remains_finish(&m);
    }
}

/* The lock of the folder is free by then, and its mark is that of the world that is gone. */
TEST(a_world_of_the_same_round_is_followed_and_one_that_begins_later_saves_again)
{
    struct remains m;
    struct world w;
    struct dt_err err;
    enum dt_rescue_end how;
    remains_make(&m);
    world_open(&w, at("again"), RANKS,
               (struct dt_ckpt_options){.run_id = RUN, .epoch = ROUND, .job_mark = JOB});
    world_save(&w, STEP - 1);
    world_close(&w);
    CHECK_OK(rescue(&m, at("again"), 0xf, 0, &how, &err), err);
    CHECK_EQ(how, DT_RESCUE_SAVED);
    world_open(&w, at("again"), 2,
               (struct dt_ckpt_options){.run_id = RUN, .epoch = ROUND + 1, .job_mark = JOB});
    world_save(&w, STEP + 1);
    world_close(&w);
    CHECK_EQ(dt_ckpt_latest(at("again")), STEP + 1);
    remains_finish(&m);
}
