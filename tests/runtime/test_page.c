/* SPDX-License-Identifier: Apache-2.0 */
/* The writers of a progress page, ours and the Python one, against the reader of the agent. */
#include <dtrun/page.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "rendezvous/protocol/page.h"
#include "tests/lib/check.h"

struct agent {
    int fd;
    struct dt_page *page;
};

static void name_fd(int fd)
{
    char number[16];
    snprintf(number, sizeof number, "%d", fd);
    setenv(DT_PAGE_ENV, number, 1);
}

/* The agent's side: a page, named in the environment. */
static struct agent agent_of_size(off_t size)
{
    struct agent a = {.fd = memfd_create("progress", 0)};
    CHECK(a.fd >= 0);
    CHECK_EQ(ftruncate(a.fd, size), 0);
    a.page = mmap(NULL, DT_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, a.fd, 0);
    CHECK(a.page != MAP_FAILED);
    name_fd(a.fd);
    return a;
}

static struct agent agent_up(void)
{
    struct agent a = agent_of_size(DT_PAGE_SIZE);
    dt_page_init(a.page);
    return a;
}

static void agent_down(struct agent *a)
{
    munmap(a->page, DT_PAGE_SIZE);
    close(a->fd);
    unsetenv(DT_PAGE_ENV);
}

static struct dt_page_writer *writer_open(void)
{
    struct dt_err err = {0};
    struct dt_page_writer *b = dt_page_open(&err);
    CHECK_STR(err.text, "");
    CHECK(b != NULL);
    return b;
}

TEST(the_agent_reads_what_the_worker_tells)
{
    struct agent a = agent_up();
    struct dt_page_writer *b = writer_open();
    CHECK(dt_page_is_read(b));
    dt_page_section(b, "forward");
    struct dt_page_told got;
    dt_page_read(a.page, &got);
    CHECK(got.seen);
    CHECK_EQ(got.step, -1);
    CHECK_STR(got.section, "forward");
    CHECK(got.section_ns > 0);

    dt_page_update(b, &(struct dt_page_values){.step = 418,
                                               .saved = 406,
                                               .steps = 1000,
                                               .loss = 3.25,
                                               .tokens_per_s = 18400,
                                               .utilisation = 0.5});
    dt_page_section(b, "all");
    dt_page_read(a.page, &got);
    CHECK_EQ(got.step, 418);
    CHECK_EQ(got.saved, 406);
    CHECK_EQ(got.steps, 1000);
    CHECK(got.loss == 3.25 && got.tokens_per_s == 18400 && got.utilisation == 0.5);
    CHECK(got.updated_ns > 0);
    CHECK_STR(got.section, "all");
    CHECK_EQ(a.page->updates, 3);
    dt_page_close(b);
    dt_page_read(a.page, &got);
    CHECK_EQ(got.step, 418); /* it outlives its writer */
    agent_down(&a);
}

TEST(what_a_worker_spends_adds_up)
{
    struct agent a = agent_up();
    struct dt_page_writer *b = writer_open();
    struct dt_page_told got;
    dt_page_spend(b, 40, 10);
    dt_page_spend(b, 2, 1);
    dt_page_read(a.page, &got);
    CHECK_EQ(got.own_ns, 42);
    CHECK_EQ(got.data_ns, 11);
    CHECK_EQ(got.communication_ns, 0);
    dt_page_communicate(b, 5);
    dt_page_communicate(b, 6);
    dt_page_mfu(b, 0.25);
    dt_page_upload_waits(b, 77);
    dt_page_folder(b, "/checkpoints");
    dt_page_folder(b, "/ckpt");
    dt_page_read(a.page, &got);
    CHECK_STR(got.folder, "/ckpt");
    CHECK_EQ(got.communication_ns, 11);
    CHECK_EQ(got.upload_since_ns, 77);
    CHECK(got.mfu == 0.25);
    dt_page_close(b);
    agent_down(&a);
}

static bool has_loss_after(struct agent *a, struct dt_page_writer *b, double loss)
{
    struct dt_page_told got;
    dt_page_update(b, &(struct dt_page_values){.step = 1, .saved = -1, .steps = 9, .loss = loss});
    dt_page_read(a->page, &got);
    return got.has_loss;
}

TEST(a_loss_of_nan_counts_behind_a_number_or_a_promise)
{
    struct agent a = agent_up();
    struct dt_page_writer *b = writer_open();
    CHECK(!has_loss_after(&a, b, NAN));
    CHECK(has_loss_after(&a, b, 2.5));
    CHECK(has_loss_after(&a, b, NAN));
    dt_page_init(a.page);
    CHECK(!has_loss_after(&a, b, NAN));
    dt_page_promise_loss(b);
    CHECK(has_loss_after(&a, b, NAN));
    dt_page_close(b);
    agent_down(&a);
}

TEST(a_long_name_of_a_section_is_cut)
{
    struct agent a = agent_up();
    struct dt_page_writer *b = writer_open();
    char name[100] = {0};
    memset(name, 'n', sizeof name - 1);
    dt_page_section(b, name);
    CHECK_EQ(strnlen(a.page->section, 56), 55);
    CHECK_EQ(a.page->rest[0], 0);
    dt_page_close(b);
    agent_down(&a);
}

TEST(the_end_of_the_round_is_seen)
{
    struct agent a = agent_up();
    struct dt_page_writer *b = writer_open();
    CHECK(!dt_page_round_over(b));
    dt_page_end_round(a.page);
    CHECK(dt_page_round_over(b));
    dt_page_close(b);
    agent_down(&a);
}

TEST(wishes_for_a_checkpoint_are_counted)
{
    struct agent a = agent_up();
    struct dt_page_writer *b = writer_open();
    CHECK_EQ(dt_page_saves_wanted(b), 0);
    dt_page_want_save(a.page);
    dt_page_want_save(a.page);
    CHECK_EQ(dt_page_saves_wanted(b), 2);
    dt_page_close(b);
    agent_down(&a);
}

TEST(a_worker_may_commit_while_the_lease_of_its_round_lasts)
{
    struct agent a = agent_up();
    struct dt_page_writer *b = writer_open();
    CHECK(dt_page_may_commit(b)); /* an agent that sets no limit */
    dt_page_set_lease(a.page, 1);
    CHECK(!dt_page_may_commit(b));
    CHECK(!dt_page_round_over(b));
    dt_page_set_lease(a.page, INT64_MAX);
    CHECK(dt_page_may_commit(b));
    dt_page_end_round(a.page);
    CHECK(!dt_page_may_commit(b));
    dt_page_close(b);
    agent_down(&a);
}

static void tell_to_nobody(const char *what)
{
    CHECK_ROW("%s", what);
    struct dt_page_writer *b = writer_open();
    CHECK(!dt_page_is_read(b));
    dt_page_update(b, &(struct dt_page_values){.step = 1});
    dt_page_section(b, "forward");
    CHECK(!dt_page_round_over(b));
    CHECK(dt_page_may_commit(b));
    dt_page_close(b);
}

TEST(without_a_page_the_worker_tells_nobody)
{
    unsetenv(DT_PAGE_ENV);
    tell_to_nobody("no variable");
    static const char *const numbers[] = {"", "x", "-1", "3x", "999999", "99999999999999999999"};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        setenv(DT_PAGE_ENV, numbers[i], 1);
        tell_to_nobody(numbers[i]);
    }
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    name_fd(ends[1]);
    tell_to_nobody("a pipe");
    close(ends[0]);
    close(ends[1]);
}

TEST(somebodys_file_is_not_written_to)
{
    struct agent a = agent_of_size(DT_PAGE_SIZE); /* of the right size, but no page */
    static const char zero[DT_PAGE_SIZE];
    tell_to_nobody("no magic");
    CHECK_BYTES(a.page, DT_PAGE_SIZE, zero, DT_PAGE_SIZE);
    dt_page_init(a.page);
    a.page->version = 2;
    tell_to_nobody("a version of the future");
    CHECK_EQ(a.page->updates, 0);
    agent_down(&a);

    a = agent_of_size(2 * DT_PAGE_SIZE);
    dt_page_init(a.page);
    tell_to_nobody("too large");
    CHECK_EQ(a.page->updates, 0);
    CHECK_EQ(ftruncate(a.fd, 100), 0);
    tell_to_nobody("too small");
    agent_down(&a);

    a = agent_up();
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", a.fd);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    name_fd(fd);
    tell_to_nobody("not to be written");
    close(fd);
    agent_down(&a);
}

static int run_python(const char *text)
{
    pid_t pid = fork();
    if (pid == 0) {
        execlp("python3", "python3", "-c", text, (char *)NULL);
        _exit(errno == ENOENT ? 127 : 126);
    }
    int status;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    int rc = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (rc == 127)
        SKIP("no python3");
    return rc;
}

TEST(the_agent_reads_what_python_tells)
{
    struct agent a = agent_up();
    setenv("PYTHONPATH", DT_WHEEL_DIR, 1);
    setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
    CHECK_EQ(run_python("from dtrun.progress import Progress\n"
                        "p = Progress(steps=1000, folder='/ckpt')\n"
                        "p.spend(0.04)\n"
                        "p.spend(0.03, 0.01, communication=0.02)\n"
                        "p.update(step=417, loss=3.25, tokens_per_s=18400, utilisation=0.5)\n"
                        "p.update(step=418, saved=406, mfu=0.25)\n"
                        "p.section('back' * 30)\n"
                        "p.section('backward')\n"
                        "assert not p.round_over()\n"),
             0);
    struct dt_page_told got;
    dt_page_read(a.page, &got);
    CHECK(got.seen);
    CHECK_EQ(a.page->updates, 4);
    CHECK_EQ(got.step, 418);
    CHECK_EQ(got.saved, 406);
    CHECK_EQ(got.steps, 1000);
    CHECK(got.loss == 3.25 && got.tokens_per_s == 18400 && got.utilisation == 0.5);
    CHECK(got.updated_ns > 0 && got.section_ns >= got.updated_ns);
    CHECK_STR(got.section, "backward");
    CHECK_EQ(got.own_ns, 70000000);
    CHECK_EQ(got.data_ns, 10000000);
    CHECK_EQ(got.communication_ns, 20000000);
    CHECK(got.mfu == 0.25 && got.has_loss);
    CHECK_STR(got.folder, "/ckpt");
    CHECK_EQ(a.page->rest[0], 0);

    CHECK_EQ(run_python("from dtrun.progress import Progress\n"
                        "p = Progress()\np.update(step=419, loss=float('nan'))\n"),
             0);
    dt_page_read(a.page, &got);
    CHECK(got.has_loss && isnan(got.loss));
    dt_page_end_round(a.page);
    CHECK_EQ(run_python("from dtrun.progress import Progress\nassert Progress().round_over()\n"
                        "assert not Progress().may_commit()\n"),
             0);
    a.page->magic[0] = 'X';
    CHECK_EQ(run_python("from dtrun.progress import Progress\n"
                        "p = Progress()\np.update(step=9)\np.section('x')\n"
                        "assert not p.round_over()\n"),
             0);
    agent_down(&a);
    CHECK_EQ(run_python("from dtrun.progress import Progress\np = Progress()\np.update(step=9)\n"),
             0);
    CHECK(run_python("from dtrun.progress import Progress\nProgress().update(stepp=9)\n") != 0);
}
