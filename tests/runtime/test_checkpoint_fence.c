/* SPDX-License-Identifier: Apache-2.0 */
/* Two worlds of one run in one folder: one that is cut off and goes on, and the one that follows
 * it. rename(2) is ours, so that a process can be held up at the worst moment: behind its last
 * look. */
#include "tests/runtime/checkpoints.h"
#include "worker_runtime/ckpt/rescue.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RUN "run-a"

BEFORE_ALL
{
    folder_make();
}

/* -- a process that is held up ---------------------------------------------------------------- */

static const char *held_name; /* what this name is given to is held up before, once ... */
static void (*meanwhile)(void);

static void hold_up(const char *to)
{
    const char *name = strrchr(to, '/');
    if (!held_name || !name || strcmp(name + 1, held_name) != 0)
        return;
    held_name = NULL; /* ... not so what happens meanwhile */
    meanwhile();
}

int rename(const char *from, const char *to)
{
    hold_up(to);
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    hold_up(to);
    return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}

/* -- worlds ----------------------------------------------------------------------------------- */

static enum dt_ckpt_leave answer(void *arg)
{
    return __atomic_load_n((enum dt_ckpt_leave *)arg, __ATOMIC_SEQ_CST);
}

/* LEAVE is what the agent of its rank 0 says. */
static void open_in(struct world *w, const char *folder, int epoch, enum dt_ckpt_leave *leave)
{
    world_open(w, folder, 2,
               (struct dt_ckpt_options){.run_id = RUN,
                                        .epoch = epoch,
                                        .keep_last = 2,
                                        .may_commit = answer,
                                        .may_commit_arg = leave});
}

static const char *latest(const char *folder)
{
    static char text[32];
    snprintf(text, sizeof text, "%d", (int)dt_ckpt_latest(folder));
    return text;
}

/* Waits for all ranks, and starts the commit beside what follows. */
static void start_commit(struct world *w, int64_t step)
{
    struct dt_err err;
    world_start(w, step);
    for (int r = 0; r < w->size; r++)
        dt_ckpt_wait(w->rank[r]);
    for (int r = 0; r < w->size; r++)
        CHECK_OK(dt_ckpt_commit_start(w->rank[r], true, &err), err);
}

/* -- leave ------------------------------------------------------------------------------------ */

TEST(a_commit_waits_for_leave_while_training_goes_on)
{
    struct world w;
    struct dt_err err;
    enum dt_ckpt_leave leave = DT_CKPT_MAY;
    const char *folder = at("waits");
    open_in(&w, folder, 1, &leave);
    world_save(&w, 1);
    __atomic_store_n(&leave, DT_CKPT_MAY_LATER, __ATOMIC_SEQ_CST);
    start_commit(&w, 2);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(dt_ckpt_committed(w.rank[0], &err), 0);
    CHECK_STR(latest(w.dir), "1");
    __atomic_store_n(&leave, DT_CKPT_MAY, __ATOMIC_SEQ_CST);
    dt_ckpt_wait(w.rank[0]);
    CHECK_EQ(dt_ckpt_committed(w.rank[0], &err), 1);
    CHECK_STR(latest(w.dir), "2");
    world_close(&w);
}

/* Nobody has begun to save there since: what was trained is not thrown away. */
TEST(who_cannot_wait_for_leave_goes_by_the_folder)
{
    struct world w;
    enum dt_ckpt_leave leave = DT_CKPT_MAY;
    open_in(&w, at("hurry"), 1, &leave);
    world_save(&w, 1);
    leave = DT_CKPT_MAY_LATER;
    start_commit(&w, 2);
    world_close(&w);
    CHECK_STR(latest(at("hurry")), "2");
}

TEST(a_commit_that_waits_ends_with_its_round)
{
    struct world w;
    struct dt_err err = {0};
    enum dt_ckpt_leave leave = DT_CKPT_MAY_LATER;
    open_in(&w, at("ends"), 1, &leave);
    start_commit(&w, 2);
    CHECK_EQ(dt_ckpt_committed(w.rank[0], &err), 0);
    __atomic_store_n(&leave, DT_CKPT_MAY_NEVER, __ATOMIC_SEQ_CST);
    dt_ckpt_wait(w.rank[0]);
    CHECK_FAIL(dt_ckpt_committed(w.rank[0], &err), err, "round of this world is over");
    CHECK_STR(latest(at("ends")), "-1");
    world_close(&w);
}

/* -- a successor ------------------------------------------------------------------------------ */

TEST(a_world_that_has_a_successor_replaces_nothing)
{
    struct world first, second;
    struct dt_err err;
    enum dt_ckpt_leave cut = DT_CKPT_MAY, leave = DT_CKPT_MAY;
    open_in(&first, at("beside"), 1, &cut);
    world_save(&first, 1);
    cut = DT_CKPT_MAY_LATER;
    open_in(&second, at("beside"), 2, &leave);
    for (int64_t step = 2; step < 6; step += 2) {
        world_start(&first, step + 1);
        CHECK_FAIL(world_finish(&first, &err), err,
                   "another world of this run, of round 2, saves in ");
        world_save(&second, step);
        CHECK_STR(latest(second.dir), step == 2 ? "2" : "4");
    }
    world_close(&second);
    /* That it has ended makes it no less the later one. */
    world_start(&first, 9);
    CHECK_FAIL(world_finish(&first, &err), err, "another world of this run");
    CHECK_STR(latest(first.dir), "4");
    world_close(&first);
    CHECK_EQ(entries(at("beside"), "step-"), 2);
}

static struct world first, second;
static enum dt_ckpt_leave first_leave, second_leave;

static void follow(void)
{
    second_leave = DT_CKPT_MAY;
    open_in(&second, first.dir, 2, &second_leave);
    world_save(&second, 3);
}

/* The first world has had leave and has looked; then it is stopped for as long as a second one
 * needs to begin and to save the same step. */
TEST(a_world_that_is_stopped_behind_its_last_look_replaces_nothing)
{
    static const char *const names[] = {"step-00000003", "latest"};
    for (size_t i = 0; i < 2; i++) {
        struct dt_err err;
        struct dt_ckpt_state s;
        char folder[64], path[PATH_MAX];
        CHECK_ROW("before it gives the name %s", names[i]);
        snprintf(folder, sizeof folder, "stopped %zu", i);
        first_leave = DT_CKPT_MAY;
        open_in(&first, at(folder), 1, &first_leave);
        world_save(&first, 1);
        world_start(&first, 3);
        for (int r = 0; r < first.size; r++)
            dt_ckpt_wait(first.rank[r]);
        meanwhile = follow;
        held_name = names[i];
        CHECK_FAIL(world_finish(&first, &err), err, "another world of this run");
        CHECK(!held_name);
        CHECK_STR(latest(first.dir), "3");
        CHECK_OK(dt_ckpt_find(first.dir, path, sizeof path, NULL, &err), err);
        CHECK_OK(dt_ckpt_verify(path, &err), err);
        CHECK_OK(dt_ckpt_peek(path, &s, &err), err);
        CHECK_EQ(s.step, 3);
        world_save(&second, 4);
        CHECK_STR(latest(first.dir), "4");
        world_close(&first);
        world_close(&second);
    }
}

/* A world that was slow to begin finds its successor at work: it may be the one that is over. */
TEST(a_world_without_leave_does_not_take_a_folder_over)
{
    struct world old, late;
    struct dt_err err;
    enum dt_ckpt_leave leave = DT_CKPT_MAY, cut = DT_CKPT_MAY_LATER;
    open_in(&old, at("late"), 2, &leave);
    world_start(&old, 1);
    open_in(&late, at("late"), 1, &cut);
    CHECK_OK(world_finish(&old, &err), err); /* nothing of it was taken away */
    world_start(&late, 2);
    CHECK_FAIL(world_finish(&late, &err), err, "another world of this run, of round 2");
    CHECK_STR(latest(old.dir), "1");
    /* It was the later one all the same. */
    cut = DT_CKPT_MAY;
    world_save(&late, 3);
    CHECK_STR(latest(old.dir), "3");
    world_start(&old, 4);
    CHECK_FAIL(world_finish(&old, &err), err, "another world of this run, of round 1");
    world_close(&late);
    world_close(&old);
}

/* -- a rescue --------------------------------------------------------------------------------- */

#define RESCUED_STEP 5

/* Somebody has the shards of both ranks of the world of round 1 of JOB. */
static int rescue(const char *folder, uint64_t job, enum dt_rescue_end *how, struct dt_err *err)
{
    struct model m = model_make();
    struct dt_ckpt_model saved = model_saved(&m);
    struct dt_layout l;
    struct dt_zero_state rank[2] = {{0}};
    struct dt_rescue_shard shards[2];
    struct dt_ckpt_state state = state_of(RESCUED_STEP);
    CHECK_OK(dt_ckpt_cut(&saved, 2, &l, err), *err);
    for (size_t r = 0; r < 2; r++) {
        CHECK_OK(dt_ckpt_shards_init(&rank[r], &l, r, NULL, err), *err);
        fill(&rank[r], RESCUED_STEP);
        shards[r] = (struct dt_rescue_shard){rank[r].master, rank[r].exp_avg, rank[r].exp_avg_sq};
    }
    struct dt_ckpt_options o = {.dir = folder,
                                .model = saved,
                                .block_bytes = BLOCK,
                                .epoch = 1,
                                .run_id = RUN,
                                .job_mark = job};
    struct dt_rescue_step s = {.state = &state, .shards = shards, .world = 2, .shard = l.shard};
    int rc = dt_ckpt_rescue(&o, &s, how, err);
    for (size_t r = 0; r < 2; r++)
        dt_ckpt_shards_finish(&rank[r], NULL);
    dt_layout_finish(&l);
    free(m.tensors);
    return rc;
}

TEST(a_rescue_that_is_stopped_behind_its_last_look_replaces_nothing)
{
    static const char *const names[] = {"step-00000005", "latest"};
    for (size_t i = 0; i < 2; i++) {
        struct dt_err err;
        char folder[64];
        enum dt_rescue_end how;
        CHECK_ROW("before it gives the name %s", names[i]);
        snprintf(folder, sizeof folder, "rescue %zu", i);
        first_leave = DT_CKPT_MAY;
        open_in(&first, at(folder), 1, &first_leave);
        world_save(&first, 1);
        meanwhile = follow;
        held_name = names[i];
        CHECK_FAIL(rescue(first.dir, 0, &how, &err), err, "another world of this run, of round 2");
        CHECK(!held_name);
        CHECK_STR(latest(first.dir), "3");
        world_save(&second, 4);
        CHECK_STR(latest(first.dir), "4");
        world_close(&first);
        world_close(&second);
    }
}

/* It looks before the second one has its mark there, which the test makes so, and writes its own
 * behind that. */
TEST(a_world_takes_the_folder_back_from_a_late_rescue_of_an_earlier_one)
{
    static const struct {
        const char *name;
        int round;
        uint64_t rescued_job;
    } rows[] = {{"of its job", 2, 0}, {"of the job before, in a higher round", 0, 9}};
    for (size_t i = 0; i < 2; i++) {
        struct dt_err err;
        enum dt_rescue_end how;
        char folder[64], mark[80];
        CHECK_ROW("%s", rows[i].name);
        snprintf(folder, sizeof folder, "taken back %zu", i);
        snprintf(mark, sizeof mark, "%s/.world", folder);
        second_leave = DT_CKPT_MAY;
        open_in(&second, at(folder), rows[i].round, &second_leave);
        world_save(&second, 3);
        CHECK_EQ(unlink(at(mark)), 0);
        CHECK_OK(rescue(second.dir, rows[i].rescued_job, &how, &err), err);
        CHECK_EQ(how, DT_RESCUE_SAVED); /* a whole checkpoint, of a step that there was */
        world_save(&second, 6);
        CHECK_STR(latest(second.dir), "6");
        world_close(&second);
    }
}
