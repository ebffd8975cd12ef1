/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/protocol/page.h"
#include "tests/lib/check.h"

#include <math.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static struct dt_page_told read_of(const struct dt_page *page)
{
    struct dt_page_told b;
    memset(&b, 0xa5, sizeof b);
    dt_page_read(page, &b);
    return b;
}

TEST(of_a_new_page_nothing_is_known)
{
    struct dt_page page;
    memset(&page, 0xff, sizeof page);
    dt_page_init(&page);
    CHECK(dt_page_is_valid(&page));
    CHECK_EQ(page.round_over, 0);
    CHECK_EQ(page.lease_ns, 0);
    struct dt_page_told b = read_of(&page);
    CHECK(!b.seen);
    CHECK_EQ(b.step, -1);
    CHECK_EQ(b.saved, -1);
    CHECK_EQ(b.steps, -1);
    CHECK_EQ(b.updated_ns, 0);
    CHECK(isnan(b.loss) && isnan(b.tokens_per_s) && isnan(b.utilisation));
    CHECK_STR(b.section, "");
}

TEST(what_a_worker_writes_is_read)
{
    struct dt_page page;
    dt_page_init(&page);
    page.step = 418;
    page.saved = 406;
    page.steps = 1000;
    page.updated_ns = 7;
    page.section_ns = 9;
    page.own_ns = 30;
    page.data_ns = 20;
    page.loss = -3.5;
    page.tokens_per_s = 18400;
    page.utilisation = 0.75;
    strcpy(page.section, "backward");
    page.updates = 1;
    struct dt_page_told b = read_of(&page);
    CHECK(b.seen);
    CHECK_EQ(b.step, 418);
    CHECK_EQ(b.saved, 406);
    CHECK_EQ(b.steps, 1000);
    CHECK_EQ(b.updated_ns, 7);
    CHECK_EQ(b.section_ns, 9);
    CHECK_EQ(b.own_ns, 30);
    CHECK_EQ(b.data_ns, 20);
    CHECK(b.loss == -3.5 && b.tokens_per_s == 18400 && b.utilisation == 0.75);
    CHECK_STR(b.section, "backward");
}

TEST(the_round_ends_once_and_for_all)
{
    struct dt_page page;
    dt_page_init(&page);
    dt_page_end_round(&page);
    dt_page_end_round(&page);
    CHECK_EQ(page.round_over, 1);
}

TEST(a_page_is_one_of_our_size_and_version)
{
    struct dt_page page;
    memset(&page, 0, sizeof page);
    CHECK(!dt_page_is_valid(&page));
    dt_page_init(&page);
    page.version++;
    CHECK(!dt_page_is_valid(&page));
    dt_page_init(&page);
    page.size *= 2;
    CHECK(!dt_page_is_valid(&page));
    dt_page_init(&page);
    page.magic[7] = 't';
    CHECK(!dt_page_is_valid(&page));
}

TEST(steps_beyond_reason_are_not_told)
{
    static const struct {
        int64_t step, saved, steps, read_step, read_saved, read_steps;
    } rows[] = {
        {0, 0, 0, 0, 0, 0},
        {5, 6, 7, 5, -1, 7},
        {-2, 3, 4, -1, -1, 4},
        {INT64_MIN, INT64_MIN, INT64_MIN, -1, -1, -1},
        {INT64_MAX, 1, INT64_MAX, -1, -1, -1},
        {(int64_t)1 << 53, 1, 1, (int64_t)1 << 53, 1, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("row %zu", i);
        struct dt_page page;
        dt_page_init(&page);
        page.step = rows[i].step;
        page.saved = rows[i].saved;
        page.steps = rows[i].steps;
        page.updated_ns = page.section_ns = rows[i].step;
        page.own_ns = page.data_ns = rows[i].step;
        page.communication_ns = page.upload_since_ns = rows[i].step;
        struct dt_page_told b = read_of(&page);
        CHECK_EQ(b.step, rows[i].read_step);
        CHECK_EQ(b.saved, rows[i].read_saved);
        CHECK_EQ(b.steps, rows[i].read_steps);
        CHECK(b.updated_ns >= 0 && b.section_ns >= 0);
        CHECK(b.own_ns >= 0 && b.data_ns >= 0);
        CHECK(b.communication_ns >= 0 && b.upload_since_ns >= 0);
    }
}

TEST(numbers_beyond_reason_are_not_told)
{
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct dt_page page;
        dt_page_init(&page);
        page.tokens_per_s = page.utilisation = page.mfu = bad[i];
        struct dt_page_told b = read_of(&page);
        CHECK(isnan(b.tokens_per_s) && isnan(b.utilisation) && isnan(b.mfu));
    }
    struct dt_page page;
    dt_page_init(&page);
    page.loss = -1;
    page.tokens_per_s = -1;
    page.utilisation = page.mfu = 1.5;
    struct dt_page_told b = read_of(&page);
    CHECK(b.loss == -1);
    CHECK(isnan(b.tokens_per_s) && isnan(b.utilisation) && isnan(b.mfu));
}

TEST(a_loss_that_is_no_number_is_one_where_the_worker_tells_it)
{
    static const struct {
        double loss;
        uint32_t told;
        bool has_loss;
    } rows[] = {{NAN, 0, false},     {NAN, 1, true},       {NAN, 7, false}, {2.5, 0, true},
                {INFINITY, 0, true}, {-INFINITY, 0, true}, {2.5, 1, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("row %zu", i);
        struct dt_page page;
        dt_page_init(&page);
        page.loss = rows[i].loss;
        page.loss_told = rows[i].told;
        struct dt_page_told b = read_of(&page);
        CHECK_EQ(b.has_loss, rows[i].has_loss);
        CHECK(isnan(rows[i].loss) ? isnan(b.loss) : b.loss == rows[i].loss);
    }
}

TEST(a_folder_is_an_absolute_path)
{
    static const struct {
        const char *wrote, *read;
    } rows[] = {{"/ckpt", "/ckpt"}, {"/a b/\xc3\xb6", "/a b/\xc3\xb6"},
                {"ckpt", ""},       {"/ck\npt", ""},
                {"/ck\x7f", ""},    {"", ""}};
    struct dt_page page;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("row %zu", i);
        dt_page_init(&page);
        memcpy(page.folder, rows[i].wrote, strlen(rows[i].wrote));
        struct dt_page_told b = read_of(&page);
        CHECK_STR(b.folder, rows[i].read);
    }
    memset(page.folder, '/', sizeof page.folder); /* it never ends */
    struct dt_page_told b = read_of(&page);
    CHECK_STR(b.folder, "");
}

TEST(a_section_that_is_no_plain_text_is_none)
{
    static const struct {
        const char *wrote, *read;
    } rows[] = {
        {"all-reduce, part 2 of 3", "all-reduce, part 2 of 3"},
        {"\033]0;owned\a", ""},
        {"two\nlines", ""},
        {"tab\there", ""},
        {"\x7f", ""},
        {"half of \xc3", ""},
        {"\x9b"
         "31m",
         ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("row %zu", i);
        struct dt_page page;
        dt_page_init(&page);
        strcpy(page.section, rows[i].wrote);
        CHECK_STR(read_of(&page).section, rows[i].read);
    }
    struct dt_page page;
    dt_page_init(&page);
    memset((char *)&page + 136, 'x', sizeof page - 136); /* from the section on no end at all */
    CHECK_EQ(strlen(read_of(&page).section), sizeof page.section - 1);
}

/* Whatever the bytes are, what is read keeps the promises of page.h. */
TEST(random_bytes_are_survived)
{
    uint64_t seed = 88172645463325252u;
    union {
        struct dt_page page;
        uint64_t words[DT_PAGE_SIZE / 8];
    } u;
    for (int round = 0; round < 2000; round++) {
        CHECK_ROW("round %d", round);
        for (size_t i = 0; i < 32; i++) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            u.words[i] = seed >> (round % 50);
        }
        struct dt_page_told b = read_of(&u.page);
        CHECK(b.step >= -1 && b.saved >= -1 && b.steps >= -1 && b.saved <= b.step);
        CHECK(b.updated_ns >= 0 && b.section_ns >= 0);
        CHECK(b.has_loss || isnan(b.loss));
        CHECK(isnan(b.tokens_per_s) || (isfinite(b.tokens_per_s) && b.tokens_per_s >= 0));
        CHECK(isnan(b.utilisation) || (b.utilisation >= 0 && b.utilisation <= 1));
        CHECK(memchr(b.section, '\0', sizeof b.section) != NULL);
        for (const char *c = b.section; *c; c++)
            CHECK(*c >= ' ' && *c <= '~');
    }
}

/* -- workers that stay ------------------------------------------------------------------------ */

static const struct dt_page_world second = {.rank = 3,
                                            .size = 4,
                                            .local_rank = 1,
                                            .local_size = 2,
                                            .group = 1,
                                            .groups = 2,
                                            .restarts = 1,
                                            .round = 7,
                                            .master_port = 29500,
                                            .master_addr = "node0",
                                            .role_rank = 1,
                                            .role_size = 2,
                                            .prev_rank = 5,
                                            .prev_size = 6};

TEST(nobody_stays_with_an_agent_or_a_worker_that_does_not_know_how)
{
    struct dt_page page;
    dt_page_init(&page);
    CHECK(!dt_page_may_stay(&page) && !dt_page_can_stay(&page) && !dt_page_is_waiting(&page));
    dt_page_let_stay(&page);
    CHECK(dt_page_may_stay(&page) && !dt_page_can_stay(&page));
    dt_page_say_can_stay(&page, true);
    CHECK(dt_page_can_stay(&page) && !dt_page_is_waiting(&page));
    dt_page_say_can_stay(&page, false);
    CHECK(!dt_page_can_stay(&page));
}

TEST(a_worker_that_has_left_its_world_gets_the_next)
{
    struct dt_page page;
    struct dt_page_world got;
    dt_page_init(&page);
    for (int turn = 0; turn < 3; turn++) {
        CHECK_ROW("turn %d", turn);
        dt_page_end_round(&page);
        CHECK(!dt_page_is_waiting(&page));
        dt_page_say_left(&page);
        CHECK(dt_page_is_waiting(&page));
        CHECK(!dt_page_wait_world(&page, 1, &got));
        dt_page_give_world(&page, &second, 12);
        CHECK(!dt_page_is_waiting(&page));
        CHECK_EQ(page.round_over, 0);
        CHECK_EQ(page.lease_ns, 12);
        CHECK(dt_page_wait_world(&page, 1, &got));
        CHECK_EQ(memcmp(&got, &second, sizeof got), 0);
    }
}

TEST(the_address_of_a_world_ends)
{
    struct dt_page page;
    struct dt_page_world bad = second, got;
    memset(bad.master_addr, 'x', sizeof bad.master_addr);
    dt_page_init(&page);
    dt_page_say_left(&page);
    dt_page_give_world(&page, &bad, 0);
    CHECK(dt_page_wait_world(&page, 1, &got));
    CHECK_EQ(strlen(got.master_addr), DT_PAGE_ADDR - 1);
}

/* The worker is another process: nobody but the futex wakes it, and if that does not, the time that
 * it would wait is longer than a test may take. */
TEST(a_worker_that_waits_is_woken_by_its_next_world)
{
    struct dt_page *page =
        mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status;
    CHECK(page != MAP_FAILED);
    dt_page_init(page);
    pid_t worker = fork();
    if (worker == 0) {
        struct dt_page_world got;
        dt_page_say_left(page);
        _exit(dt_page_wait_world(page, 3600 * 1000, &got) ? got.rank : 99);
    }
    while (!dt_page_is_waiting(page))
        sched_yield();
    dt_page_give_world(page, &second, 0);
    CHECK_EQ(waitpid(worker, &status, 0), worker);
    CHECK_EQ(status, W_EXITCODE(second.rank, 0));
    munmap(page, sizeof *page);
}
