/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/ckpt/rescue.h"

#include "worker_runtime/ckpt/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"

#define LOCKS ".rescue"
#define RANKS_MOST ((off_t)1 << 20)
#define STEPS_MOST ((int64_t)1 << 40)
#define LOOK_EVERY_NS 20000000

struct rescue {
    const struct dt_ckpt_options *o;
    const struct dt_rescue_step *s;
    int locks;             /* of the file: they go when it is closed, or this process ends */
    bool *ours;            /* shards that this process has locked */
    struct dt_ckpt *first; /* of rank 0, where that is ours */
};

/* -- who writes what -------------------------------------------------------------------------- */

/* A byte for each shard of each step. */
static struct flock place_of(const struct rescue *r, int rank)
{
    off_t step = (off_t)(r->s->state->step % STEPS_MOST);
    return (struct flock){
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = step * RANKS_MOST + rank, .l_len = 1};
}

static bool lock(const struct rescue *r, int rank)
{
    struct flock f = place_of(r, rank);
    return fcntl(r->locks, F_OFD_SETLK, &f) == 0 || (errno != EAGAIN && errno != EACCES);
}

static bool is_anothers(const struct rescue *r, int rank)
{
    struct flock f = place_of(r, rank);
    return fcntl(r->locks, F_OFD_GETLK, &f) == 0 && f.l_type != F_UNLCK;
}

/* All at once: others see what will come. */
static int lock_shards(struct rescue *r, struct dt_err *err)
{
    char path[PATH_MAX];
    r->ours = calloc((size_t)r->s->world, sizeof *r->ours);
    if (!r->ours)
        return dt_err_set(err, DT_E_MEMORY, "no memory for %d shards", r->s->world);
    if (dt_fs_mkdir_p(r->o->dir, 0777, err) < 0 ||
        dt_ckpt_join_path(path, r->o->dir, LOCKS, err) < 0)
        return -1;
    r->locks = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (r->locks < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot open %s", path);
    for (int rank = 0; rank < r->s->world; rank++)
        r->ours[rank] = r->s->shards[rank].master && lock(r, rank);
    return 0;
}

/* -- writing ---------------------------------------------------------------------------------- */

static int fill(struct dt_ckpt *c, const struct dt_rescue_step *s, int rank, struct dt_err *err)
{
    const struct dt_rescue_shard *from = &s->shards[rank];
    struct dt_zero_state *to = dt_ckpt_shards(c);
    size_t bytes = s->shard * sizeof(float);
    if (c->layout.shard != s->shard)
        return dt_err_set(err, DT_E_RUNTIME, "what is to be saved is not cut as the checkpoint");
    memcpy(to->master, from->master, bytes);
    memcpy(to->exp_avg, from->exp_avg, bytes);
    memcpy(to->exp_avg_sq, from->exp_avg_sq, bytes);
    return 0;
}

/* One rank's part, on disk; NULL: it is not. */
static struct dt_ckpt *write_part(const struct rescue *r, int rank, struct dt_err *err)
{
    struct dt_ckpt_options o = *r->o;
    o.rank = rank;
    o.world = r->s->world;
    o.rescues = true;
    struct dt_ckpt *c = dt_ckpt_open(&o, err);
    int rc = c ? fill(c, r->s, rank, err) : -1;
    if (rc == 0 && rank == 0 && r->s->companions)
        rc = dt_ckpt_accompany(c, r->s->companions, err);
    if (rc == 0)
        rc = dt_ckpt_start(c, r->s->state, err);
    if (rc == 0) {
        dt_ckpt_wait(c);
        rc = dt_ckpt_done(c, err) < 0 ? -1 : 0;
    }
    if (rc == 0)
        return c;
    dt_ckpt_close(c);
    return NULL;
}

static int write_ours(struct rescue *r, struct dt_err *err)
{
    for (int rank = 0; rank < r->s->world; rank++) {
        struct dt_ckpt *c = r->ours[rank] ? write_part(r, rank, err) : NULL;
        if (r->ours[rank] && !c)
            return -1;
        if (rank == 0)
            r->first = c;
        else
            dt_ckpt_close(c);
    }
    return 0;
}

/* -- the whole -------------------------------------------------------------------------------- */

/* The first rank whose part is not there; -1: all are. */
static int missing(const struct rescue *r)
{
    char path[PATH_MAX];
    for (int rank = 0; rank < r->s->world; rank++)
        if (dt_ckpt_part_path(r->first, rank, path, NULL) == 0 && !dt_fs_exists(path))
            return rank;
    return -1;
}

static void look_again_later(void)
{
    const struct timespec nap = {.tv_nsec = LOOK_EVERY_NS};
    nanosleep(&nap, NULL);
}

static bool await_parts(const struct rescue *r)
{
    dt_ms now = dt_clock_monotonic(), begun = now, locked = now;
    for (int rank, before = -1; (rank = missing(r)) >= 0; before = rank) {
        now = dt_clock_monotonic();
        if (rank != before)
            begun = now;
        if (is_anothers(r, rank))
            locked = now;
        if (now - locked > r->s->patience || now - begun > r->s->longest)
            return false;
        look_again_later();
    }
    return true;
}

/* Until whoever has rank 0's shard has committed the step, or has given it up: before that, the
 * step before is not to be tried. Where nobody has it, those who have that of the step before wait
 * for this process there, with PATIENCE: so it comes well before that is over. */
static void await_first(const struct rescue *r)
{
    dt_ms begun = dt_clock_monotonic();
    bool seen = false;
    while (dt_ckpt_latest(r->o->dir) != r->s->state->step) {
        bool works = is_anothers(r, 0);
        if (!works && (seen || dt_clock_monotonic() - begun > r->s->patience / 4))
            return;
        seen = seen || works;
        look_again_later();
    }
}

static int make_whole(struct rescue *r, enum dt_rescue_end *how, struct dt_err *err)
{
    if (!r->first) {
        *how = DT_RESCUE_ELSEWHERE;
        await_first(r);
        return 0;
    }
    if (!await_parts(r))
        *how = DT_RESCUE_NOT_WHOLE;
    else
        *how = dt_ckpt_is_followed(r->o) ? DT_RESCUE_TOO_LATE : DT_RESCUE_SAVED;
    if (*how == DT_RESCUE_SAVED && dt_ckpt_fence_begin_rescue(r->first, err) < 0)
        return -1;
    return dt_ckpt_commit(r->first, *how == DT_RESCUE_SAVED, err);
}

int dt_ckpt_rescue(const struct dt_ckpt_options *o, const struct dt_rescue_step *s,
                   enum dt_rescue_end *how, struct dt_err *err)
{
    struct rescue r = {.o = o, .s = s, .locks = -1};
    *how = DT_RESCUE_TOO_LATE;
    if (dt_ckpt_is_followed(o))
        return 0;
    int rc = lock_shards(&r, err);
    if (rc == 0)
        rc = write_ours(&r, err);
    if (rc == 0)
        rc = make_whole(&r, how, err);
    dt_ckpt_close(r.first);
    if (r.locks >= 0)
        close(r.locks);
    free(r.ours);
    return rc;
}
