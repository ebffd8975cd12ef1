/* SPDX-License-Identifier: Apache-2.0 */
/* Names are looked up by a name server of the test's, which answers when it is let. */
#include "base/loop/lookup.h"
#include "tests/lib/check.h"

#include <netdb.h>
#include <semaphore.h>

static sem_t asked, may_answer, answers;

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **out)
{
    static struct sockaddr_in somewhere = {.sin_family = AF_INET};
    static struct addrinfo one = {.ai_family = AF_INET,
                                  .ai_socktype = SOCK_STREAM,
                                  .ai_addrlen = sizeof somewhere,
                                  .ai_addr = (struct sockaddr *)&somewhere};
    (void)service;
    (void)hints;
    sem_post(&asked);
    sem_wait(&may_answer);
    sem_post(&answers); /* and looks at none of them again */
    if (strcmp(name, "nowhere") == 0)
        return EAI_NONAME;
    *out = &one;
    return 0;
}

void freeaddrinfo(struct addrinfo *all)
{
    (void)all;
}

struct heard {
    int times;
    size_t count;
    char why[sizeof((struct dt_err *)NULL)->text];
};

static void on_done(void *arg, const struct dt_addr *found, size_t count, const struct dt_err *err)
{
    struct heard *h = arg;
    (void)found;
    h->times++;
    h->count = err ? 0 : count;
    snprintf(h->why, sizeof h->why, "%s", err ? err->text : "");
}

static void begin(uv_loop_t *loop)
{
    sem_init(&asked, 0, 0);
    sem_init(&may_answer, 0, 0);
    sem_init(&answers, 0, 0);
    uv_loop_init(loop);
}

TEST(what_is_found_is_told_once)
{
    static const struct {
        const char *name, *why;
        size_t count;
    } rows[] = {{"somewhere:80", "", 1},
                {"nowhere:80", "cannot resolve \"nowhere\": Name or service not known", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uv_loop_t loop;
        struct heard h = {0};
        CHECK_ROW("%s", rows[i].name);
        begin(&loop);
        CHECK(dt_lookup_start(&loop, rows[i].name, 0, on_done, &h));
        sem_post(&may_answer);
        uv_run(&loop, UV_RUN_DEFAULT);
        CHECK_EQ(h.times, 1);
        CHECK_EQ(h.count, rows[i].count);
        CHECK_STR(h.why, rows[i].why);
        CHECK_EQ(uv_loop_close(&loop), 0);
    }
}

TEST(nobody_waits_for_a_name_server_that_is_not_asked_for_any_more)
{
    uv_loop_t loop;
    struct heard h = {0};
    begin(&loop);
    struct dt_lookup *k = dt_lookup_start(&loop, "somewhere:80", 0, on_done, &h);
    sem_wait(&asked);
    dt_lookup_forget(k);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_EQ(uv_loop_close(&loop), 0);
    CHECK_EQ(h.times, 0);
    sem_post(&may_answer);
    sem_wait(&answers);
}

TEST(an_answer_that_came_may_still_be_forgotten)
{
    uv_loop_t loop;
    struct heard h = {0};
    begin(&loop);
    struct dt_lookup *k = dt_lookup_start(&loop, "somewhere:80", 0, on_done, &h);
    sem_post(&may_answer);
    sem_wait(&answers);
    dt_lookup_forget(k);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_EQ(uv_loop_close(&loop), 0);
    CHECK_EQ(h.times, 0);
}
