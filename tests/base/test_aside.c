/* SPDX-License-Identifier: Apache-2.0 */
#include "base/list.h"
#include "base/loop/aside.h"
#include "tests/lib/check.h"
#include "tests/lib/sanitized.h"

#include <sys/resource.h>
#include <sys/wait.h>

struct sum {
    struct dt_aside aside;
    int of, is;
    bool told;
};

static void add_up(struct dt_aside *a)
{
    struct sum *s = dt_container_of(a, struct sum, aside);
    for (int i = 1; i <= s->of; i++)
        s->is += i;
}

static void on_added_up(struct dt_aside *a)
{
    dt_container_of(a, struct sum, aside)->told = true;
}

/* In a child, and before there was a thread, whose stack would be used again: what a limit of
 * memory leaves no room for is such a stack. */
static int try_without_room(void)
{
    uv_loop_t loop;
    struct sum s = {.of = 3};
    struct rlimit none = {.rlim_cur = 1, .rlim_max = RLIM_INFINITY};
    uv_loop_init(&loop);
    setrlimit(RLIMIT_AS, &none);
    int rc = dt_aside_run(&s.aside, &loop, add_up, on_added_up);
    none.rlim_cur = RLIM_INFINITY;
    setrlimit(RLIMIT_AS, &none);
    uv_run(&loop, UV_RUN_DEFAULT);
    return rc == 0 && s.told && s.aside.status < 0 && s.is == 0 ? 0 : 1;
}

TEST(where_no_thread_can_be_had_that_is_told)
{
    int status;
    if (SANITIZED)
        SKIP("a sanitizer needs memory where none may be had");
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        _exit(try_without_room());
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
}

TEST(work_is_done_beside_the_loop_and_told_from_it)
{
    uv_loop_t loop;
    struct sum sums[20] = {{.of = 0}};
    uv_loop_init(&loop);
    for (int i = 0; i < 20; i++) {
        sums[i].of = i;
        CHECK_EQ(dt_aside_run(&sums[i].aside, &loop, add_up, on_added_up), 0);
        CHECK(!sums[i].told);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    for (int i = 0; i < 20; i++) {
        CHECK(sums[i].told && sums[i].aside.status == 0);
        CHECK_EQ(sums[i].is, i * (i + 1) / 2);
    }
    CHECK_EQ(uv_loop_close(&loop), 0);
}

/* Work that waits for somebody to write into the first pipe, and says in the second that it is
 * over. */
struct hanging {
    struct dt_aside aside;
    int until[2], over[2];
    bool told;
};

static void hang(struct dt_aside *a)
{
    struct hanging *h = dt_container_of(a, struct hanging, aside);
    char byte; /* what is wrong shows at the other ends: checks belong to the first thread */
    if (read(h->until[0], &byte, 1) == 1 && write(h->over[1], &byte, 1) != 1)
        close(h->over[1]);
}

static void on_hung(struct dt_aside *a)
{
    dt_container_of(a, struct hanging, aside)->told = true;
}

TEST(work_that_hangs_can_be_left_to_itself)
{
    static struct hanging h; /* its thread may be at its last instruction when this is over */
    uv_loop_t loop;
    char byte = 0;
    CHECK(pipe(h.until) == 0 && pipe(h.over) == 0);
    uv_loop_init(&loop);
    CHECK_EQ(dt_aside_run(&h.aside, &loop, hang, on_hung), 0);
    CHECK(dt_aside_disown(&h.aside));
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_EQ(uv_loop_close(&loop), 0);
    CHECK_EQ(write(h.until[1], &byte, 1), 1);
    CHECK_EQ(read(h.over[0], &byte, 1), 1);
    CHECK(!h.told);
}

TEST(work_that_is_done_is_told_of_whoever_wanted_to_leave_it)
{
    uv_loop_t loop;
    struct sum s = {.of = 3};
    uv_loop_init(&loop);
    CHECK_EQ(dt_aside_run(&s.aside, &loop, add_up, on_added_up), 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK(!dt_aside_disown(&s.aside));
    CHECK(s.told);
    CHECK_EQ(uv_loop_close(&loop), 0);
}
