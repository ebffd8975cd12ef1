/* SPDX-License-Identifier: Apache-2.0 */
/* Which world gives names in the folder. Two of one run may live at once: one that is cut off from
 * the rendezvous, and the one that follows it. Whoever asks the agent (may_commit) is told that no
 * later world can have begun, or that nobody knows; then a commit waits while training goes on. The
 * folder itself tells for certain, without clocks and locks:
 *
 *     a world that begins    writes its mark into DIR/.world, then takes all temporary names away
 *     a world that commits   makes a temporary name, then looks for its mark, then renames
 *
 * A world that found its mark had its temporary name before a later world wrote another mark, and
 * so that one takes the name away before it saves anything. The rename comes first or fails,
 * however long the process was stopped behind its look. */
#include "worker_runtime/ckpt/inside.h"

#include <dtrun/page.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/fs.h"

#define WORLD ".world"
#define MARK_DIGITS 16
#define RUN_MAX 200 /* of a run's id that are written down */
#define LOOK_EVERY_NS 20000000

/* -- what the folder says --------------------------------------------------------------------- */

enum whose { OURS, NOBODYS, ANOTHERS, UNKNOWN };

struct world {
    uint64_t mark;
    int64_t round;
    uint64_t job; /* 0: not known */
    char run[256];
};

/* What DIR/.world says. NOBODYS: nothing; UNKNOWN: it cannot be read, and ERR says why; else
 * ANOTHERS, whoever it is. */
static enum whose read_world(const char *dir, struct world *w, struct dt_err *err)
{
    char path[PATH_MAX];
    struct dt_buf text = {0};
    enum whose whose = ANOTHERS;
    *w = (struct world){.round = -1};
    if (dt_ckpt_join_path(path, dir, WORLD, err) < 0)
        return UNKNOWN;
    if (!dt_fs_exists(path))
        whose = NOBODYS;
    else if (dt_fs_read(path, 512, &text, err) < 0)
        whose = UNKNOWN;
    else if (sscanf(dt_buf_cstr(&text), "%16" SCNx64 " %" SCNd64 " %16" SCNx64 " %255[^\n]",
                    &w->mark, &w->round, &w->job, w->run) < 2)
        whose = NOBODYS;
    dt_buf_finish(&text);
    return whose;
}

static enum whose look(const struct dt_ckpt *c, struct world *w, struct dt_err *err)
{
    enum whose whose = read_world(c->o.dir, w, err);
    return whose == ANOTHERS && w->mark == c->mark ? OURS : whose;
}

/* All that rescue one world are one world, and have one mark. */
static uint64_t rescue_mark(const char *run_id, uint64_t job, int64_t round)
{
    const uint64_t numbers[] = {job, (uint64_t)round};
    uint32_t run = dt_crc32c(0, dt_bytes_of(run_id));
    struct dt_bytes of = {(const uint8_t *)numbers, sizeof numbers};
    return (uint64_t)run << 32 | dt_crc32c(run, of);
}

static bool is_of_run(const struct world *w, const char *run_id)
{
    return strncmp(w->run, run_id, RUN_MAX) == 0;
}

/* A job that is started again may have the same run id, and begins with any round. A world writes
 * its mark when it begins, so a mark of another job is of a later one. */
bool dt_ckpt_is_followed(const struct dt_ckpt_options *o)
{
    struct world w;
    enum whose whose = read_world(o->dir, &w, NULL);
    return whose == UNKNOWN || (whose == ANOTHERS && (!is_of_run(&w, o->run_id) ||
                                                      w.job != o->job_mark || w.round > o->epoch));
}

/* -- beginning -------------------------------------------------------------------------------- */

/* Temporary names of earlier worlds, and of an earlier attempt of this one: while it has saved
 * nothing yet, none is its own. */
static bool is_leftover(const char *name, const void *ckpt)
{
    static const char *const ours[] = {".tmp-step-", ".tmp-gone-", ".tmp-latest", ".tmp-best",
                                       WORLD "."};
    const struct dt_ckpt *c = ckpt;
    if (c->saves && strstr(name, c->world))
        return false;
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (strncmp(name, ours[i], strlen(ours[i])) == 0)
            return true;
    return false;
}

static int write_mark(struct dt_ckpt *c, struct dt_err *err)
{
    char path[PATH_MAX], text[512];
    int n =
        snprintf(text, sizeof text, "%0*" PRIx64 " %" PRId64 " %0*" PRIx64 " %.*s\n", MARK_DIGITS,
                 c->mark, c->o.epoch, MARK_DIGITS, c->o.job_mark, RUN_MAX, c->o.run_id);
    if (dt_ckpt_join_path(path, c->o.dir, WORLD, err) < 0 ||
        dt_fs_replace(path, text, (size_t)n, 0644, err) < 0)
        return -1;
    c->marked = true;
    return 0;
}

/* From here on no world that began earlier gives names. */
static int take_over(struct dt_ckpt *c, struct dt_err *err)
{
    if (c->o.run_id && write_mark(c, err) < 0)
        return -1;
    dt_ckpt_sweep(c->o.dir, is_leftover, c);
    return 0;
}

static enum dt_ckpt_leave ask(const struct dt_ckpt *c)
{
    return c->o.may_commit ? c->o.may_commit(c->o.may_commit_arg) : DT_CKPT_MAY;
}

/* It takes nothing away: that may be the part of another one. */
int dt_ckpt_fence_begin_rescue(struct dt_ckpt *c, struct dt_err *err)
{
    return write_mark(c, err);
}

/* Whoever holds the lock is alone. Without it an earlier world is alive, or a later one: it is
 * earlier where the agent knows that there is no later one. */
void dt_ckpt_fence_begin(struct dt_ckpt *c)
{
    if (c->o.rescues) {
        c->mark = rescue_mark(c->o.run_id, c->o.job_mark, c->o.epoch);
        return;
    }
    if (getrandom(&c->mark, sizeof c->mark, 0) < 0)
        c->mark = (uint64_t)dt_clock_monotonic_ns();
    if (!c->o.run_id || c->claim >= 0 || ask(c) == DT_CKPT_MAY)
        take_over(c, NULL); /* a folder that cannot be written is told by the first save */
}

int dt_ckpt_fence_begin_again(struct dt_ckpt *c, struct dt_err *err)
{
    return take_over(c, err);
}

/* -- committing ------------------------------------------------------------------------------- */

static int refuse(const struct dt_ckpt *c, int64_t round, struct dt_err *err)
{
    return dt_err_set(err, DT_E_CANCELED,
                      "the checkpoint of step %" PRId64
                      " is dropped: another world of this run, of round %" PRId64
                      ", saves in %s, and this one is of round %" PRId64,
                      c->state.step, round, c->o.dir, c->o.epoch);
}

/* Who rescues an earlier world, or one of an earlier job, may have looked before this one began,
 * and written its mark after that. */
static bool is_late_rescue(const struct dt_ckpt *c, const struct world *w)
{
    return w->mark == rescue_mark(c->o.run_id, w->job, w->round) &&
           (w->job != c->o.job_mark || w->round < c->o.epoch);
}

static bool may_take_over(const struct dt_ckpt *c, const struct world *w)
{
    return (!c->marked && !c->o.rescues) || is_late_rescue(c, w);
}

static int check(struct dt_ckpt *c, bool may_begin, struct dt_err *err)
{
    struct world w;
    if (!c->o.run_id)
        return 0;
    switch (look(c, &w, err)) {
    case OURS:
        return 0;
    case NOBODYS: /* somebody has removed the file, or the folder */
        return take_over(c, err);
    case ANOTHERS:
        return may_begin && may_take_over(c, &w) ? take_over(c, err) : refuse(c, w.round, err);
    case UNKNOWN:
        return -1;
    }
    return -1;
}

int dt_ckpt_fence_check(struct dt_ckpt *c, struct dt_err *err)
{
    return check(c, false, err);
}

bool dt_ckpt_fence_is_lost(const struct dt_ckpt *c)
{
    struct world w;
    return c->o.run_id && look(c, &w, NULL) == ANOTHERS;
}

int dt_ckpt_fence_pass(struct dt_ckpt *c, struct dt_err *err)
{
    const struct timespec nap = {.tv_nsec = LOOK_EVERY_NS};
    enum dt_ckpt_leave leave;
    while ((leave = ask(c)) == DT_CKPT_MAY_LATER && !atomic_load(&c->hurry)) {
        atomic_store(&c->waits, true);
        nanosleep(&nap, NULL);
    }
    atomic_store(&c->waits, false);
    if (leave == DT_CKPT_MAY_NEVER)
        return dt_err_set(err, DT_E_CANCELED,
                          "the checkpoint of step %" PRId64
                          " is dropped: the round of this world is over",
                          c->state.step);
    return check(c, leave == DT_CKPT_MAY, err);
}

void dt_ckpt_hurry(struct dt_ckpt *c)
{
    atomic_store(&c->hurry, true);
}

bool dt_ckpt_waits(const struct dt_ckpt *c)
{
    return atomic_load(&c->waits);
}

enum dt_ckpt_leave dt_ckpt_ask_page(void *page)
{
    if (dt_page_may_commit(page))
        return DT_CKPT_MAY;
    return dt_page_round_over(page) ? DT_CKPT_MAY_NEVER : DT_CKPT_MAY_LATER;
}
