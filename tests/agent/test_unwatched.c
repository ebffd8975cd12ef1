/* SPDX-License-Identifier: Apache-2.0 */
/* Helper processes that no loop can watch. */
#include "agent/preflight.h"
#include "agent/upload/uploads.h"
#include "tests/lib/check.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* In the place of the loop's epoll is what cannot watch anything. */
struct blind {
    uv_loop_t loop;
    int epoll;
};

static void blind_start(struct blind *b)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    CHECK(null >= 0 && uv_loop_init(&b->loop) == 0);
    b->epoll = fcntl(uv_backend_fd(&b->loop), F_DUPFD_CLOEXEC, 0);
    CHECK(b->epoll >= 0 && dup2(null, uv_backend_fd(&b->loop)) >= 0);
    close(null);
}

static void blind_finish(struct blind *b)
{
    CHECK(dup2(b->epoll, uv_backend_fd(&b->loop)) >= 0);
    uv_run(&b->loop, UV_RUN_DEFAULT);
    CHECK_EQ(uv_loop_close(&b->loop), 0);
    close(b->epoll);
}

TEST(uploads_that_cannot_be_watched_are_an_error)
{
    struct dt_plan plan = {0};
    struct dt_err err;
    struct blind b;
    struct dt_uploads *u = dt_uploads_start(&plan, &err);
    CHECK(u != NULL);
    blind_start(&b);
    CHECK_EQ(dt_uploads_listen(u, &b.loop, &err), -1);
    CHECK(strncmp(err.text, "cannot watch the process that uploads: ", 39) == 0);
    blind_finish(&b);
}

TEST(a_look_that_cannot_be_watched_is_an_error)
{
    struct dt_plan plan = {.preflight = DT_PREFLIGHT_FAST};
    struct dt_err err;
    struct blind b;
    struct dt_preflight *p = dt_preflight_start(&plan, &err);
    CHECK(p != NULL);
    blind_start(&b);
    CHECK_EQ(dt_preflight_listen(p, &b.loop, NULL, NULL, NULL, &err), -1);
    CHECK(strncmp(err.text, "cannot watch the process that looks at this host: ", 50) == 0);
    blind_finish(&b);
}
