/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/watch/pages.h"

#include "tests/lib/check.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* As the worker sees it. */
static struct dt_page *map(const struct dt_pages *p, int local_rank)
{
    struct dt_page *at =
        mmap(NULL, sizeof *at, PROT_READ | PROT_WRITE, MAP_SHARED, dt_pages_fd(p, local_rank), 0);
    CHECK(at != MAP_FAILED);
    return at;
}

static void unmap(struct dt_page *at)
{
    munmap(at, sizeof *at);
}

static const char *words(const struct dt_pages *p, int local_rank)
{
    static char out[DT_PAGES_WORDS];
    return dt_pages_describe(p, local_rank, out);
}

TEST(each_worker_has_a_page_that_it_cannot_change_the_size_of)
{
    struct dt_pages *p = dt_pages_create(3);
    CHECK(p != NULL);
    for (int i = 0; i < 3; i++) {
        int fd = dt_pages_fd(p, i);
        CHECK_ROW("worker %d", i);
        CHECK(fd > 2);
        CHECK_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
        CHECK_EQ(lseek(fd, 0, SEEK_END), DT_PAGE_SIZE);
        CHECK_EQ(ftruncate(fd, 0), -1);
        CHECK_EQ(ftruncate(fd, 1 << 20), -1);
        CHECK_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), -1);
    }
    dt_pages_destroy(p);
}

TEST(what_one_writes_is_read_when_its_descriptors_are_closed)
{
    struct dt_pages *p = dt_pages_create(2);
    struct dt_page *one = map(p, 1), *none = map(p, 0);
    struct dt_page_told t;
    int fd = dt_pages_fd(p, 1);
    dt_pages_close_fds(p);
    CHECK_EQ(dt_pages_fd(p, 1), 0);
    CHECK_EQ(fcntl(fd, F_GETFD), -1);
    CHECK_EQ(dt_pages_furthest(p), -1);
    CHECK_EQ(dt_pages_step(p), -1);
    one->step = 418;
    one->tokens_per_s = 1234.5;
    one->updates = 1;
    CHECK(dt_pages_read(p, 1, &t));
    CHECK_EQ(t.step, 418);
    CHECK(!dt_pages_read(p, 0, &t));
    CHECK_EQ(dt_pages_furthest(p), 1);
    CHECK_EQ(dt_pages_step(p), 418);
    CHECK_EQ(dt_pages_tokens_per_s(p, 1), 1234);
    CHECK_EQ(dt_pages_tokens_per_s(p, 0), 0);
    CHECK_EQ(none->updates, 0);
    CHECK_EQ(none->lease_ns, 0);
    dt_pages_set_lease(p, 0);
    CHECK_EQ(none->lease_ns, 1); /* a time that is past; 0 would be no limit */
    dt_pages_set_lease(p, 12);
    CHECK_EQ(one->lease_ns, 12000000);
    dt_pages_set_lease(p, DT_FOREVER);
    CHECK_EQ(one->lease_ns, 0);
    CHECK_EQ(none->round_over, 0);
    dt_pages_end_round(p);
    CHECK_EQ(none->round_over, 1);
    CHECK_EQ(one->round_over, 1);
    dt_pages_destroy(p);
    unmap(one);
    unmap(none);
}

TEST(it_is_said_where_a_worker_was)
{
    static const struct {
        int64_t step, saved;
        const char *section, *words;
    } rows[] = {
        {418, 406, "backward",
         "last step 418, 12 steps after the last checkpoint, in section backward"},
        {418, 417, "", "last step 418, 1 step after the last checkpoint"},
        {418, 418, "forward", "last step 418, which the last checkpoint holds, in section forward"},
        {418, -1, "", "last step 418"},
        {-1, -1, "load", "before its first step, in section load"},
        {-5, 3, "\033[2J", "before its first step"},
        {(int64_t)1 << 53, 0, "0123456789012345678901234567890123456789012345678901234",
         "last step 9007199254740992, 9007199254740992 steps after the last checkpoint, in section "
         "0123456789012345678901234567890123456789012345678901234"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_pages *p = dt_pages_create(1);
        struct dt_page *page = map(p, 0);
        CHECK_ROW("row %zu", i);
        CHECK_STR(words(p, 0), "");
        page->step = rows[i].step;
        page->saved = rows[i].saved;
        memcpy(page->section, rows[i].section, strlen(rows[i].section));
        page->updates = 1;
        CHECK_STR(words(p, 0), rows[i].words);
        unmap(page);
        dt_pages_destroy(p);
    }
}

TEST(it_is_said_which_call_of_nccl_was_the_last)
{
    struct dt_pages *p = dt_pages_create(1);
    struct dt_page *page = map(p, 0);
    struct dt_comms_told comms;
    dt_pages_read_comms(p, 0, &comms);
    CHECK_EQ(comms.count, 0);
    page->comms[0] = (struct dt_page_comm){.entered = 812,
                                           .entered_ns = 1,
                                           .count = 1024,
                                           .peer = -1,
                                           .state = DT_PAGE_COMM_OPEN,
                                           .function = "AllReduce",
                                           .datatype = "Float32",
                                           .name = "default_pg"};
    CHECK_STR(words(p, 0), "last NCCL call AllReduce 812 of default_pg, Float32 [1024]");
    page->step = 418;
    page->updates = 1;
    CHECK_STR(words(p, 0),
              "last step 418, last NCCL call AllReduce 812 of default_pg, Float32 [1024]");
    page->saved = (int64_t)0;
    page->step = (int64_t)1 << 53;
    page->comms[0].entered = (uint64_t)1 << 53;
    page->comms[0].count = (uint64_t)1 << 53;
    memset(page->section, 's', sizeof page->section);
    memset(page->comms[0].function, 'f', sizeof page->comms[0].function);
    memset(page->comms[0].datatype, 'd', sizeof page->comms[0].datatype);
    memset(page->comms[0].name, 'n', sizeof page->comms[0].name);
    CHECK(strlen(words(p, 0)) < DT_PAGES_WORDS - 1); /* the longest there can be is not cut */
    dt_pages_read_comms(p, 0, &comms);
    CHECK_EQ(comms.count, 1);
    unmap(page);
    dt_pages_destroy(p);
}

TEST(of_random_bytes_no_more_comes_than_odd_numbers)
{
    struct dt_pages *p = dt_pages_create(1);
    uint8_t *page = (uint8_t *)map(p, 0);
    uint32_t seed = 7;
    for (int round = 0; round < 500; round++) {
        CHECK_ROW("round %d", round);
        for (size_t i = 0; i < DT_PAGE_SIZE; i++) {
            seed = seed * 1103515245 + 12345;
            page[i] = (uint8_t)(seed >> 16);
        }
        dt_pages_end_round(p);
        for (const char *c = words(p, 0); *c; c++)
            CHECK(*c >= ' ' && *c <= '~');
        CHECK(dt_pages_step(p) >= -1);
        CHECK(dt_pages_tokens_per_s(p, 0) >= 0);
    }
    munmap(page, DT_PAGE_SIZE);
    dt_pages_destroy(p);
}

static struct dt_pages *create_with(rlim_t files, int count)
{
    struct rlimit was, few;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &was), 0);
    few = was;
    few.rlim_cur = files;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    struct dt_pages *p = dt_pages_create(count);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &was), 0);
    return p;
}

/* Of a limit that leaves room, all but one are taken by others. */
TEST(pages_take_no_files_that_others_need_and_none_stays_open)
{
    int last = open("/dev/null", O_RDONLY | O_CLOEXEC), first = last;
    CHECK(create_with(150, 8) == NULL);
    while (last < 218)
        last = fcntl(last, F_DUPFD_CLOEXEC, last + 1);
    CHECK(create_with(220, 8) == NULL); /* one is made, the second finds no room */
    CHECK_EQ(fcntl(219, F_GETFD), -1);
    while (last >= first)
        close(last--);
    struct dt_pages *p = create_with(220, 8);
    CHECK(p != NULL);
    dt_pages_destroy(p);
}

TEST(without_pages_nothing_is_known)
{
    struct dt_pages *p = NULL;
    struct dt_page_told t;
    CHECK(!dt_pages_read(p, 0, &t));
    CHECK_EQ(dt_pages_fd(p, 3), 0);
    CHECK_EQ(dt_pages_step(p), -1);
    CHECK_STR(words(p, 0), "");
    struct dt_comms_told comms;
    dt_pages_read_comms(p, 0, &comms);
    CHECK_EQ(comms.count, 0);
    dt_pages_end_round(p);
    dt_pages_close_fds(p);
    dt_pages_destroy(p);
}

TEST(a_worker_that_waits_gets_a_world_and_one_that_is_over_a_new_page)
{
    struct dt_pages *p = dt_pages_create(2);
    struct dt_page *one = map(p, 1), *zero = map(p, 0);
    const struct dt_page_world next = {.rank = 5, .size = 6, .master_addr = "node0"};
    CHECK(!dt_pages_can_stay(p, 1) && !dt_page_may_stay(one));
    dt_pages_let_stay(p);
    CHECK(dt_page_may_stay(one) && dt_page_may_stay(zero));
    dt_page_say_can_stay(one, true);
    dt_page_say_left(one);
    CHECK(dt_pages_can_stay(p, 1) && dt_pages_is_waiting(p, 1));
    CHECK(!dt_pages_can_stay(p, 0) && !dt_pages_is_waiting(p, 0));
    dt_pages_end_round(p);
    dt_pages_give_world(p, 1, &next, 12);
    CHECK(!dt_pages_is_waiting(p, 1));
    CHECK_EQ(one->next.rank, 5);
    CHECK_EQ(one->round_over, 0);
    CHECK_EQ(one->lease_ns, 12000000);
    zero->step = 7;
    zero->updates = 1;
    dt_pages_close_fds(p);
    dt_pages_renew(p, 0, DT_FOREVER);
    CHECK(dt_pages_fd(p, 0) > 2 && dt_pages_fd(p, 1) == 0);
    CHECK_EQ(dt_pages_step(p), -1);
    unmap(zero);
    zero = map(p, 0);
    CHECK(dt_page_may_stay(zero) && !dt_page_can_stay(zero) && zero->round_over == 0);
    unmap(zero);
    unmap(one);
    dt_pages_destroy(p);
}

TEST(without_pages_nobody_stays)
{
    dt_pages_let_stay(NULL);
    dt_pages_renew(NULL, 0, 0);
    CHECK(!dt_pages_can_stay(NULL, 0) && !dt_pages_is_waiting(NULL, 0));
}
