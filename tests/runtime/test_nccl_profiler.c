/* SPDX-License-Identifier: Apache-2.0 */
/* libnccl-profiler-dtrun.so under a fake NCCL of each version of the interface, and what the agent
 * reads of it. */
#include "tests/runtime/nccl_page.h"

#include <dtrun/page.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static const struct profiled_call all_reduce = {
    .function = "AllReduce", .datatype = "ncclFloat32", .count = 1 << 20, .channels = 4};
static const struct profiled_call broadcast = {
    .function = "Broadcast", .datatype = "ncclBfloat16", .count = 7, .channels = 1};
static const struct profiled_call send_to_3 = {
    .function = "Send", .datatype = "ncclInt64", .count = 5, .peer = 3};

static struct profiled_comm comm_of(const char *name, uint64_t hash)
{
    return (struct profiled_comm){.name = name, .hash = hash, .rank = 2, .ranks = 8};
}

TEST(the_agent_reads_how_far_each_communicator_is)
{
    for (int version = 1; version <= PROFILED_NCCL_VERSIONS; version++) {
        CHECK_ROW("interface %d", version);
        struct nccl_page p = nccl_page_up();
        struct profiled_nccl n;
        struct profiled_comm dp = comm_of("default_pg", 0x4f00c2d1), tp = comm_of(NULL, 0xabcdef12);
        nccl_up(&n, version);
        profiled_comm_open(&n, &dp);
        profiled_comm_open(&n, &tp);
        for (int i = 0; i < 812; i++)
            profiled_comm_collective(&dp, &all_reduce);
        profiled_comm_collective(&tp, &broadcast);

        struct dt_comms_told told = nccl_page_read(&p);
        CHECK_EQ(told.count, 2);
        CHECK_EQ(told.left_out, 0);
        CHECK_EQ(dt_comms_calls(&told), 813);
        CHECK_EQ(told.at[0].id, 0x4f00c2d1);
        CHECK_STR(told.at[0].name, "default_pg");
        CHECK_EQ(told.at[0].rank, 2);
        CHECK_EQ(told.at[0].ranks, version < 4 ? -1 : 8);
        CHECK_EQ(told.at[0].entered, 812);
        CHECK_EQ(told.at[0].ended, -1);
        CHECK_STR(told.at[0].function, "AllReduce");
        CHECK_STR(told.at[0].datatype, "Float32");
        CHECK_EQ(told.at[0].count, 1 << 20);
        CHECK_EQ(told.at[0].bytes, 4 << 20);
        CHECK_EQ(told.at[0].peer, -1);
        CHECK(told.at[0].entered_ns > 0);
        CHECK_EQ(told.at[1].id, 0xabcdef12);
        CHECK_EQ(told.at[1].entered, 1);
        CHECK_STR(told.at[1].function, "Broadcast");
        CHECK_EQ(told.at[1].bytes, 14);

        profiled_comm_exchange(&tp, &send_to_3);
        told = nccl_page_read(&p);
        CHECK_EQ(told.at[1].entered, 1);
        CHECK_EQ(told.at[1].exchanged, 1);
        CHECK_EQ(told.at[1].peer, 3);
        CHECK_STR(told.at[1].function, "Send");
        CHECK_EQ(told.at[1].bytes, 40);

        profiled_comm_close(&dp);
        CHECK_EQ(nccl_page_read(&p).count, 1);
        CHECK_EQ(nccl_page_read(&p).at[0].id, 0xabcdef12);
        profiled_comm_close(&tp);
        CHECK_EQ(nccl_page_read(&p).count, 0);
        profiled_nccl_close(&n);
        nccl_page_down(&p);
    }
}

TEST(the_gpus_ends_are_told_where_a_person_asks_for_them)
{
    setenv("DTRUN_NCCL_EVENTS", "kernels", 1);
    for (int version = 1; version <= PROFILED_NCCL_VERSIONS; version++) {
        CHECK_ROW("interface %d", version);
        struct nccl_page p = nccl_page_up();
        struct profiled_nccl n;
        struct profiled_comm dp = comm_of("default_pg", 1);
        bool tells = version >= 4; /* those before do not say on how many channels a call runs */
        nccl_up(&n, version);
        profiled_comm_open(&n, &dp);
        struct profiled_work first = profiled_comm_collective(&dp, &all_reduce);
        struct profiled_work second = profiled_comm_collective(&dp, &broadcast);
        profiled_comm_gpu_ends(&dp, &first, 3);
        CHECK_EQ(nccl_page_read(&p).at[0].entered, 2);
        CHECK_EQ(nccl_page_read(&p).at[0].ended, tells ? 0 : -1);
        profiled_comm_gpu_ends(&dp, &first, 1);
        CHECK_EQ(nccl_page_read(&p).at[0].ended, tells ? 1 : -1);
        profiled_comm_gpu_ends(&dp, &first, 1); /* one too many is not the second's */
        CHECK_EQ(nccl_page_read(&p).at[0].ended, tells ? 1 : -1);
        profiled_comm_gpu_ends(&dp, &second, 1);
        CHECK_EQ(nccl_page_read(&p).at[0].ended, tells ? 2 : -1);
        profiled_comm_close(&dp);
        profiled_nccl_close(&n);
        nccl_page_down(&p);
    }
    unsetenv("DTRUN_NCCL_EVENTS");
}

/* A handle that is a ring older than what is under way is nobody's. */
TEST(an_end_that_comes_very_late_ends_nothing)
{
    setenv("DTRUN_NCCL_EVENTS", "kernels", 1);
    struct nccl_page p = nccl_page_up();
    struct profiled_nccl n;
    struct profiled_comm dp = comm_of("default_pg", 1);
    nccl_up(&n, 6);
    profiled_comm_open(&n, &dp);
    struct profiled_work first = profiled_comm_collective(&dp, &broadcast);
    for (int i = 0; i < 1024; i++)
        profiled_comm_collective(&dp, &broadcast);
    profiled_comm_gpu_ends(&dp, &first, 1);
    CHECK_EQ(nccl_page_read(&p).at[0].entered, 1025);
    CHECK_EQ(nccl_page_read(&p).at[0].ended, 0);
    profiled_comm_close(&dp);
    profiled_nccl_close(&n);
    nccl_page_down(&p);
    unsetenv("DTRUN_NCCL_EVENTS");
}

TEST(a_communicator_without_a_place_is_counted_and_silences_nobody)
{
    struct nccl_page p = nccl_page_up();
    struct profiled_nccl n;
    struct profiled_comm comms[DT_PAGE_COMMS + 2];
    nccl_up(&n, 6);
    for (int i = 0; i < DT_PAGE_COMMS + 2; i++) {
        comms[i] = comm_of(NULL, (uint64_t)i + 1);
        profiled_comm_open(&n, &comms[i]);
    }
    for (int i = 0; i < DT_PAGE_COMMS + 2; i++) {
        profiled_comm_collective(&comms[i], &all_reduce);
        profiled_comm_exchange(&comms[i], &send_to_3);
    }
    struct dt_comms_told told = nccl_page_read(&p);
    CHECK_EQ(told.count, DT_PAGE_COMMS);
    CHECK_EQ(told.left_out, 2);
    CHECK_EQ(dt_comms_calls(&told), 2 * DT_PAGE_COMMS);

    profiled_comm_close(&comms[5]); /* its place is the next one's, which begins anew */
    struct profiled_comm late = comm_of("late", 99);
    profiled_comm_open(&n, &late);
    told = nccl_page_read(&p);
    CHECK_EQ(told.count, DT_PAGE_COMMS);
    CHECK_STR(told.at[5].name, "late");
    CHECK_EQ(told.at[5].entered, 0);
    CHECK_EQ(told.at[5].exchanged, 0);
    CHECK_EQ(told.at[5].entered_ns, 0);
    CHECK_STR(told.at[5].function, "");
    for (int i = 0; i < DT_PAGE_COMMS + 2; i++)
        if (i != 5)
            profiled_comm_close(&comms[i]);
    profiled_comm_close(&late);
    profiled_nccl_close(&n);
    nccl_page_down(&p);
}

TEST(a_name_without_an_end_is_cut)
{
    char name[200] = {0};
    memset(name, 'n', sizeof name - 1);
    struct nccl_page p = nccl_page_up();
    struct profiled_nccl n;
    struct profiled_comm c = comm_of(name, 1);
    struct profiled_call call = all_reduce;
    call.function = call.datatype = name;
    nccl_up(&n, 6);
    profiled_comm_open(&n, &c);
    profiled_comm_collective(&c, &call);
    struct dt_comms_told told = nccl_page_read(&p);
    CHECK_EQ(strlen(told.at[0].name), DT_PAGE_COMM_NAME - 1);
    CHECK_EQ(p.page->comms[0].name[DT_PAGE_COMM_NAME - 1], '\0');
    CHECK_EQ(p.page->comms[0].function[DT_PAGE_WORD - 1], '\0');
    CHECK_EQ(strlen(told.at[0].function), DT_PAGE_WORD - 1);
    CHECK_EQ(strlen(told.at[0].datatype), DT_PAGE_WORD - 1);
    CHECK_EQ(told.at[0].bytes, -1);
    profiled_comm_close(&c);
    profiled_nccl_close(&n);
    nccl_page_down(&p);
}

/* NCCL then need not call at all, and if it does nothing comes of it. */
static void nobody_is_told(const char *what)
{
    CHECK_ROW("%s", what);
    for (int version = 1; version <= PROFILED_NCCL_VERSIONS; version++) {
        CHECK_ROW("interface %d", version);
        struct profiled_nccl n;
        struct profiled_comm c = comm_of("default_pg", 1);
        nccl_up(&n, version);
        profiled_comm_open(&n, &c);
        CHECK_EQ(n.mask, 0);
        n.mask = -1;
        struct profiled_work work = profiled_comm_collective(&c, &all_reduce);
        profiled_comm_exchange(&c, &send_to_3);
        profiled_comm_gpu_ends(&c, &work, 4);
        profiled_comm_close(&c);
        profiled_nccl_close(&n);
    }
}

TEST(without_a_page_nobody_is_told)
{
    unsetenv(DT_PAGE_ENV);
    nobody_is_told("no variable");
    setenv(DT_PAGE_ENV, "999999", 1);
    nobody_is_told("no descriptor");
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    nccl_page_name(fd);
    nobody_is_told("another file");
    close(fd);

    struct nccl_page p = nccl_page_up();
    static const char zero[DT_PAGE_SIZE];
    memset(p.page, 0, DT_PAGE_SIZE);
    nobody_is_told("another program's memory");
    CHECK_BYTES(p.page, DT_PAGE_SIZE, zero, DT_PAGE_SIZE);
    dt_page_init(p.page);
    p.page->version = 2;
    nobody_is_told("a version of the future");
    CHECK_EQ(p.page->comms_pid, 0);
    nccl_page_down(&p);
}

static void check_child(pid_t pid)
{
    int status;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
}

/* NCCL does not work in such a child; what it calls there must not be taken for its parent's. */
TEST(a_forked_child_does_not_write_on)
{
    struct nccl_page p = nccl_page_up();
    struct profiled_nccl n;
    struct profiled_comm c = comm_of("default_pg", 1);
    nccl_up(&n, 6);
    profiled_comm_open(&n, &c);
    profiled_comm_collective(&c, &all_reduce);
    pid_t pid = fork();
    if (pid == 0) {
        struct profiled_comm own = comm_of("own", 2);
        profiled_comm_collective(&c, &all_reduce);
        profiled_comm_close(&c);
        profiled_comm_open(&n, &own);
        profiled_comm_collective(&own, &all_reduce);
        profiled_comm_close(&own);
        _exit(0);
    }
    check_child(pid);
    struct dt_comms_told told = nccl_page_read(&p);
    CHECK_EQ(told.count, 1);
    CHECK_EQ(told.left_out, 0);
    CHECK_EQ(told.at[0].entered, 1);
    CHECK_STR(told.at[0].name, "default_pg");
    profiled_comm_collective(&c, &all_reduce);
    CHECK_EQ(nccl_page_read(&p).at[0].entered, 2);
    profiled_comm_close(&c);
    profiled_nccl_close(&n);
    nccl_page_down(&p);
}

/* A worker may be a script that starts one program after the other. */
TEST(the_page_of_a_program_that_is_gone_is_free)
{
    struct nccl_page p = nccl_page_up();
    struct profiled_nccl n;
    nccl_up(&n, 6);
    pid_t pid = fork();
    if (pid == 0) {
        struct profiled_comm left = comm_of("left behind", 1), too = comm_of("too", 3);
        profiled_comm_open(&n, &left);
        profiled_comm_open(&n, &too);
        profiled_comm_collective(&left, &all_reduce);
        _exit(0);
    }
    check_child(pid);
    CHECK_EQ(p.page->comms_pid, pid);
    CHECK_EQ(nccl_page_read(&p).count, 2);
    struct profiled_comm next = comm_of("next", 2);
    profiled_comm_open(&n, &next);
    CHECK_EQ(p.page->comms_pid, getpid());
    CHECK_EQ(nccl_page_read(&p).count, 1);
    CHECK_STR(nccl_page_read(&p).at[0].name, "next");
    profiled_comm_close(&next);
    profiled_nccl_close(&n);
    nccl_page_down(&p);
}

TEST(two_programs_that_share_a_page_do_not_mix)
{
    struct nccl_page p = nccl_page_up();
    struct profiled_nccl n;
    struct profiled_comm c = comm_of("second", 1);
    int ready[2];
    CHECK_EQ(pipe(ready), 0);
    nccl_up(&n, 6);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* where a check fails */
        struct profiled_comm first = comm_of("first", 2);
        profiled_comm_open(&n, &first);
        if (write(ready[1], "", 1) == 1)
            pause();
        _exit(1);
    }
    char byte;
    CHECK_EQ(read(ready[0], &byte, 1), 1);
    profiled_comm_open(&n, &c);
    CHECK_EQ(n.mask, 0);
    profiled_comm_collective(&c, &all_reduce);
    CHECK_EQ(nccl_page_read(&p).count, 1);
    CHECK_STR(nccl_page_read(&p).at[0].name, "first");
    profiled_comm_close(&c);
    kill(pid, SIGKILL);
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
    close(ready[0]);
    close(ready[1]);
    profiled_nccl_close(&n);
    nccl_page_down(&p);
}

TEST(libdtruns_own_part_of_the_page_is_left_alone)
{
    struct nccl_page p = nccl_page_up();
    struct profiled_nccl n;
    struct profiled_comm c = comm_of("default_pg", 1);
    struct dt_err err = {0};
    struct dt_page_writer *w = dt_page_open(&err);
    nccl_up(&n, 6);
    profiled_comm_open(&n, &c);
    dt_page_update(w, &(struct dt_page_values){.step = 418, .saved = -1, .steps = -1});
    profiled_comm_collective(&c, &all_reduce);
    dt_page_section(w, "a name that fills the place of a section, and more than that");
    struct dt_page_told told;
    dt_page_read(p.page, &told);
    CHECK_EQ(told.step, 418);
    CHECK_EQ(nccl_page_read(&p).at[0].entered, 1);
    CHECK_EQ(p.page->comms_pid, getpid());
    profiled_comm_close(&c);
    profiled_nccl_close(&n);
    dt_page_close(w);
    nccl_page_down(&p);
}
