/* SPDX-License-Identifier: Apache-2.0 */
/* A run that is killed again and again: whatever the moment, what is found is whole, and nothing
 * that was committed is lost. In memory where that is, as a killed process leaves the same behind
 * everywhere and a disk would only make most moments those of its fsync. */
#include "base/chance.h"
#include "tests/runtime/checkpoints.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#define KILLS 100
#define DELAY_MAX_US 10000
#define DELAY_MORE_US 5000 /* for each kill, until a step was saved: machines may be slow */

static char memory_dir[64];

static void remove_memory_dir(void)
{
    dt_ckpt_remove(memory_dir);
}

BEFORE_ALL
{
    folder_make();
    strcpy(memory_dir, "/dev/shm/dtrun-test.XXXXXX");
    if (mkdtemp(memory_dir))
        atexit(remove_memory_dir);
    else
        strcpy(memory_dir, dir);
}

struct progress {
    _Atomic int64_t committed; /* the last step whose commit came back */
    _Atomic int64_t resumed;   /* where the last run began; -1: it could not read what it found */
};

/* Resumes, and saves step after step until it is killed. */
static void run(struct progress *p, int size)
{
    char path[PATH_MAX];
    struct dt_err err;
    struct dt_ckpt_state s = {0};
    struct world w;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (dt_ckpt_find(memory_dir, path, sizeof path, NULL, &err) < 0)
        _exit(1);
    if (*path && (dt_ckpt_peek(path, &s, &err) < 0 || read_all_ranks(path, size, s.step, &err) < 0))
        _exit(2);
    world_open(&w, memory_dir, size, (struct dt_ckpt_options){.keep_last = 2});
    for (int64_t step = s.step + 1;; step++) {
        world_save(&w, step);
        atomic_store(&p->committed, step);
    }
}

static void kill_after(pid_t pid, uint64_t us)
{
    struct timespec t = {0, (long)(us * 1000)};
    int status;
    nanosleep(&t, NULL);
    kill(pid, SIGKILL);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(a_run_killed_at_any_moment_is_resumed_from_a_whole_checkpoint)
{
    uint64_t seed = (uint64_t)time(NULL) ^ (uint64_t)getpid() << 32;
    struct progress *p =
        mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int64_t before = 0;
    CHECK(p != MAP_FAILED);
    printf("# seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < KILLS; i++) {
        int size = 1 + (int)(dt_chance(&seed) % WORLD_MAX);
        uint64_t most = DELAY_MAX_US + (before == 0 ? (uint64_t)i * DELAY_MORE_US : 0);
        uint64_t delay = dt_chance(&seed) % most;
        char path[PATH_MAX];
        struct dt_buf warning = {0};
        struct dt_ckpt_state s = {0};
        struct dt_err err = {0};
        CHECK_ROW("kill %d of %d ranks, after %llu us", i, size, (unsigned long long)delay);
        pid_t pid = fork();
        if (pid == 0)
            run(p, size);
        kill_after(pid, delay);
        CHECK_OK(dt_ckpt_find(memory_dir, path, sizeof path, &warning, &err), err);
        CHECK_STR(dt_buf_cstr(&warning), "");
        dt_buf_finish(&warning);
        if (*path) {
            CHECK_OK(dt_ckpt_peek(path, &s, &err), err);
            CHECK_OK(dt_ckpt_verify(path, &err), err);
            CHECK_OK(read_all_ranks(path, 1 + i % WORLD_MAX, s.step, &err), err);
        }
        CHECK(s.step >= atomic_load(&p->committed));
        CHECK(s.step >= before);
        before = s.step;
    }
    printf("# %lld steps were saved\n", (long long)before);
    CHECK(before > 0);
    munmap(p, sizeof *p);
}
