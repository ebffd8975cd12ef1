/* SPDX-License-Identifier: Apache-2.0 */
/* What is made of a worker's last words: causes.txt has a set of them. */
#include "agent/failure/cause.h"
#include "base/fs.h"
#include "tests/lib/check.h"

#include <signal.h>
#include <stdlib.h>

static const char *strength_name(enum dt_cause_strength s)
{
    return s == DT_CAUSE_STRONG ? "strong" : s == DT_CAUSE_WEAK ? "weak" : "plain";
}

static struct dt_cause_facts facts_of(struct dt_bytes said)
{
    return (struct dt_cause_facts){
        .exit_code = 1, .hung = "", .full_disk = "", .core = "", .last_said = said};
}

/* One of causes.txt, whose first line is behind *AT; *AT goes on to the next "== ". */
static void check_one(const char **at)
{
    char end[8], wanted[DT_CAUSE_SENTENCE + 40], got[sizeof wanted], sentence[DT_CAUSE_SENTENCE];
    struct dt_cause_facts f = facts_of((struct dt_bytes){0});
    struct dt_cause c;
    int number, used;
    CHECK_EQ(sscanf(*at, "== %7s %d\n-> %n", end, &number, &used), 2);
    const char *line = *at + used, *text = strchr(line, '\n') + 1;
    const char *next = strstr(text - 1, "\n== ");
    snprintf(wanted, sizeof wanted, "%.*s", (int)(text - 1 - line), line);
    *at = next ? next + 1 : text + strlen(text);
    f.exit_code = strcmp(end, "exit") == 0 ? number : 0;
    f.signal = f.exit_code ? 0 : number;
    f.core = f.signal == SIGSEGV || f.signal == SIGABRT ? "/cores/core.77" : "";
    f.last_said = (struct dt_bytes){(const uint8_t *)text, (size_t)(*at - text)};
    CHECK_ROW("%.150s", wanted);
    dt_cause_find(&f, &c);
    snprintf(got, sizeof got, "%s %s: %s", c.class, strength_name(c.strength),
             dt_cause_sentence(&c, 3, sentence));
    CHECK_STR(got, wanted);
}

TEST(each_of_the_last_words_has_its_class_and_its_sentence)
{
    struct dt_buf all = {0};
    struct dt_err err = {0};
    CHECK_OK(dt_fs_read(DT_CAUSES, 1 << 20, &all, &err), err);
    const char *at = strstr(dt_buf_cstr(&all), "\n== ") + 1;
    for (int i = 0; *at; i++)
        check_one(&at);
    dt_buf_finish(&all);
}

/* An error file holds a sentence, which is why; a status of 2 is of what a person has written. */
TEST(the_sentence_of_an_error_file_is_why)
{
    static const struct {
        int exit_code;
        bool of_file;
        const char *said, *class, *text;
        enum dt_retry retry;
    } rows[] = {
        {2, true, "rank 0: train_batch_size 16 is not divided by 6 ranks", "configuration",
         "was given a configuration that cannot be: train_batch_size 16 is not divided by 6 ranks",
         DT_RETRY_CANNOT_HELP},
        {1, true, "rank 12: the data file has no tokens\nmore\n", "failed",
         "failed: the data file has no tokens", DT_RETRY_MAY_HELP},
        {1, true, "rank 12: ", "failed", "failed: rank 12:", DT_RETRY_MAY_HELP},
        {1, true, "boom", "failed", "failed: boom", DT_RETRY_MAY_HELP},
        {1, true, "rank 0: step 3: write: No space left on device", "disk_full",
         "met a full disk: rank 0: step 3: write: No space left on device", DT_RETRY_MAY_HELP},
        {2, true, "", "exited", "ended without saying why (exit status 2)", DT_RETRY_MAY_HELP},
        {2, false, "rank 0: these are lines of its output", "exited",
         "ended without saying why (exit status 2)", DT_RETRY_MAY_HELP},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_cause_facts f = facts_of(dt_bytes_of(rows[i].said));
        struct dt_cause c;
        CHECK_ROW("%s", rows[i].said);
        f.exit_code = rows[i].exit_code;
        f.of_file = rows[i].of_file;
        dt_cause_find(&f, &c);
        CHECK_STR(c.class, rows[i].class);
        CHECK_STR(c.text, rows[i].text);
        CHECK_EQ(c.retry, rows[i].retry);
    }
    struct dt_cause_facts nothing = facts_of((struct dt_bytes){0});
    struct dt_cause c;
    dt_cause_find(&nothing, &c);
    CHECK_STR(c.class, "exited");
}

/* What the kernel has counted stands above all that a worker says. */
TEST(a_kill_for_memory_names_the_limit)
{
    static const struct {
        struct dt_oom oom;
        const char *class, *text;
    } rows[] = {
        {{DT_OOM_KILLED, 80 << 20},
         "killed_for_memory",
         "was killed by the kernel, as it used too much memory (its control group may use 80 MiB)"},
        {{DT_OOM_LIKELY, -1},
         "killed_for_memory",
         "was killed by the kernel, as it used too much memory (all of the host's was used)"},
        {{DT_OOM_BESIDE, 1 << 30},
         "beside_memory",
         "failed after the kernel had killed another process of its node, which used too much "
         "memory (its control group may use 1 GiB)"},
        {{DT_OOM_NO, -1}, "killed", "was killed by somebody outside of this job (SIGKILL)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_cause_facts f = facts_of(dt_bytes_of("ValueError: boom\n"));
        struct dt_cause c;
        f.exit_code = 0;
        f.signal = SIGKILL;
        f.oom = &rows[i].oom;
        dt_cause_find(&f, &c);
        CHECK_STR(c.class, rows[i].class);
        CHECK_STR(c.text, rows[i].text);
    }
}

/* Counters do not say which process was killed; the kernel's log does, and what that had. */
TEST(the_kernels_log_says_whom_it_killed_for_memory)
{
    static const struct dt_oom no = {DT_OOM_NO, -1}, limit = {DT_OOM_LIKELY, 80 << 20};
    static const struct {
        const struct dt_oom *oom;
        struct dt_kernel_record kill;
        const char *words;
    } rows[] = {
        {&limit,
         {.event = DT_KERNEL_KILLED, .pid = 7, .group = true, .resident = 76 << 20},
         "(its control group may use 80 MiB; it had 76 MiB itself)"},
        {&no,
         {.event = DT_KERNEL_KILLED, .pid = 7, .group = true, .resident = -1},
         "(its control group was at its limit)"},
        {NULL,
         {.event = DT_KERNEL_KILLED, .pid = 7, .resident = 2ll << 30},
         "(all of the host's was used; it had 2 GiB itself)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_cause_facts f = facts_of((struct dt_bytes){0});
        struct dt_cause c;
        f.exit_code = 0;
        f.signal = SIGKILL;
        f.oom = rows[i].oom;
        f.kill = &rows[i].kill;
        dt_cause_find(&f, &c);
        CHECK_STR(c.class, "killed_for_memory");
        CHECK_STR(strchr(c.text, '('), rows[i].words);
    }
}

#define CUDA_ERROR                                                                                 \
    "Traceback (most recent call last):\n  File \"train.py\", line 88, in <module>\n"              \
    "RuntimeError: CUDA error: an illegal memory access was encountered\n"

/* Of nobody's process: another job's GPU may have failed. */
TEST(an_xid_counts_as_much_as_it_has_to_do_with_the_worker)
{
    static const char timed_out[] = "[E ProcessGroupNCCL.cpp:1] collective operation timeout\n";
    static const char mistake[] = "Traceback (most recent call last):\n  File \"a.py\", line 3\n"
                                  "TypeError: x\n";
    static const struct {
        enum dt_kernel_event event;
        pid_t pid;
        const char *said, *class, *text;
    } rows[] = {
        {DT_KERNEL_GPU_BROKEN, 7, "", "gpu_broken", "met a broken GPU: XID"},
        {DT_KERNEL_GPU_BROKEN, 0, "", "exited", "ended without saying why (exit status 1)"},
        {DT_KERNEL_GPU_BROKEN, 0, CUDA_ERROR, "gpu_broken", "met a broken GPU at train.py:88: XID"},
        {DT_KERNEL_GPU_BROKEN, 7, timed_out, "gpu_broken", "met a broken GPU: XID"},
        {DT_KERNEL_GPU_BROKEN, 0, timed_out, "timed_out",
         "waited in vain for another rank: [E ProcessGroupNCCL.cpp:1] collective operation timeout;"
         " the kernel's log says: XID"},
        {DT_KERNEL_GPU_FAULT, 7, CUDA_ERROR, "gpu_fault",
         "made its GPU fail at train.py:88: RuntimeError: CUDA error: an illegal memory access was "
         "encountered; the kernel's log says: XID"},
        {DT_KERNEL_GPU_FAULT, 7, "", "gpu_fault", "made its GPU fail: XID"},
        {DT_KERNEL_GPU_FAULT, 0, "", "exited", "ended without saying why (exit status 1)"},
        {DT_KERNEL_GPU_TOLD, 7, "", "exited",
         "ended without saying why (exit status 1); the kernel's log says: XID"},
        {DT_KERNEL_GPU_BROKEN, 0, mistake, "exception",
         "raised an exception at a.py:3: TypeError: x"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_kernel_record xid = {.event = rows[i].event, .pid = rows[i].pid, .text = "XID"};
        struct dt_cause_facts f = facts_of(dt_bytes_of(rows[i].said));
        struct dt_cause c;
        CHECK_ROW("%s", rows[i].text);
        f.xid = &xid;
        dt_cause_find(&f, &c);
        CHECK_STR(c.class, rows[i].class);
        CHECK_STR(c.text, rows[i].text);
    }
}

/* A traceback that did not fit onto the disk is none; what was said before it is. */
TEST(a_full_disk_is_the_cause_where_nothing_else_could_be_said)
{
    struct dt_cause c;
    struct dt_cause_facts f = facts_of(dt_bytes_of("step 4\n"));
    f.full_disk = "/logs";
    dt_cause_find(&f, &c);
    CHECK_STR(c.text, "met a full disk: /logs");
    f.last_said =
        dt_bytes_of("Traceback (most recent call last):\n  File \"a.py\", line 3, in x\n");
    dt_cause_find(&f, &c);
    CHECK_STR(c.class, "disk_full");
    f.last_said = dt_bytes_of("Traceback (most recent call last):\n  File \"a.py\", line 3, in x\n"
                              "TypeError: x\n");
    dt_cause_find(&f, &c);
    CHECK_STR(c.class, "exception");
}

TEST(a_limit_of_its_own_is_no_crash)
{
    struct dt_cause c;
    struct dt_cause_facts f = facts_of((struct dt_bytes){0});
    f.exit_code = 0;
    f.signal = SIGKILL;
    f.ours = true;
    dt_cause_find(&f, &c);
    CHECK_STR(c.class, "time_limit");
    f.hung = "rank 2 has not entered all_reduce (train.py:11)";
    dt_cause_find(&f, &c);
    CHECK_STR(c.text, "was ended, as the job stood still: rank 2 has not entered all_reduce "
                      "(train.py:11)");
}

/* Bytes for a terminal, unfinished lines, lines without end: a worker may write anything. */
TEST(what_makes_no_sense_is_looked_at_once_and_printed_safely)
{
    static const char *const parts[] = {
        "Traceback (most recent call last):\n",
        "  File \"",
        "\", line ",
        "99999999999999",
        "[rank",
        "]:",
        "\n",
        "\x1b[2J\xff",
        "ValueError: ",
        "CUDA out of ",
        "memory",
        "\", line 7\n",
        "(most recent call first):",
        "Connection ref",
        "used",
        "                ",
    };
    size_t size = 3 * DT_CAUSE_LOOKED_AT;
    uint8_t *text = malloc(size);
    unsigned turn = 1;
    for (int round = 0; round < 200; round++) {
        size_t len = 0, most = round == 0 ? size : 400;
        struct dt_cause c;
        for (;;) {
            turn = turn * 1103515245u + 12345u;
            const char *part = parts[turn >> 16 & 15];
            if (len + strlen(part) > most)
                break;
            memcpy(text + len, part, strlen(part));
            len += strlen(part);
        }
        uint8_t *exact = malloc(len); /* so that a sanitizer sees what is read behind it */
        memcpy(exact, text, len);
        struct dt_cause_facts f = facts_of((struct dt_bytes){exact, len});
        dt_cause_find(&f, &c);
        CHECK(c.class != NULL);
        for (const char *s = c.text; *s; s++)
            CHECK(*s >= 0x20 && *s < 0x7f);
        free(exact);
    }
    free(text);
}
