/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/failure/notice.h"
#include "tests/lib/check.h"

#include <signal.h>

TEST(equal_failures_of_different_nodes_have_one_signature)
{
    /* clang-format off */
    static const struct {
        int exit_code, signum;
        const char *message, *signature;
    } rows[] = {
        {1, 0, "", "exit 1"},
        {1, 0, " \n\t\n", "exit 1"},
        {0, SIGSEGV, "whatever it said", "SIGSEGV"},
        {0, 40, "", "signal 40"},
        {1, 0, "ValueError: boom", "exit 1: ValueError: boom"},
        {1, 0, "Traceback (most recent call last):\n  File \"x.py\", line 3\n  ValueError: boom\r\n \n",
         "exit 1: ValueError: boom"},
        {7, 0, "cuda:3 has 80 of 81 GB", "exit 7: cuda:# has # of # GB"},
        {1, 0, "12", "exit 1: #"},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char signature[DT_SIGNATURE_MAX];
        CHECK_ROW("%s", rows[i].message);
        dt_notice_signature(rows[i].exit_code, rows[i].signum, rows[i].message, signature);
        CHECK_STR(signature, rows[i].signature);
    }
}

TEST(a_long_one_is_cut_between_characters)
{
    /* "exit 1: " has 8 bytes: with two for each character behind an odd number, the last is torn.
     */
    for (int odd = 0; odd < 2; odd++) {
        char message[400] = "", signature[DT_SIGNATURE_MAX];
        CHECK_ROW("%d", odd);
        for (int i = 0; i < 150; i++)
            strcat(message, i || !odd ? "\xc3\xb6" : "o");
        dt_notice_signature(1, 0, message, signature);
        size_t n = strlen(signature);
        CHECK(n <= DT_SIGNATURE_MAX - 1 && n >= DT_SIGNATURE_MAX - 3);
        CHECK_EQ((n - 8 - (size_t)odd) % 2, 0);
    }
}

TEST(without_files_and_output_there_is_still_a_sentence)
{
    static const struct {
        int status;
        bool ours;
        enum dt_evidence evidence;
        const char *text;
        enum dt_oom_kind oom;
    } rows[] = {
        {3 << 8, false, DT_EVIDENCE_PROGRAM, "rank 5 (local rank 1) exited with 3", DT_OOM_NO},
        {SIGKILL, false, DT_EVIDENCE_CRASH, "rank 5 (local rank 1) died of SIGKILL", DT_OOM_NO},
        {SIGKILL, true, DT_EVIDENCE_PROGRAM, "rank 5 (local rank 1) died of SIGKILL", DT_OOM_NO},
        {SIGKILL, false, DT_EVIDENCE_CRASH,
         "rank 5 (local rank 1) died of SIGKILL, killed by the kernel: out of memory (limit 1 GiB)",
         DT_OOM_KILLED},
    };
    static const int console[2] = {1, 2};
    struct dt_plan_streams streams[2] = {{0}};
    struct dt_plan plan = {.nproc = 2, .role = (char *)"default", .streams = streams};
    struct dt_world world = {.first_rank = 4};
    struct dt_log_dir logs = {0};
    struct dt_err err;
    uv_loop_t loop;
    uv_loop_init(&loop);
    struct dt_output *output = dt_output_create(&loop, &plan, console, &err);
    CHECK(output != NULL);
    CHECK_OK(dt_output_begin(output, NULL, 4, &err), err);
    struct dt_scene scene = {.plan = &plan, .world = &world, .logs = &logs, .output = output};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_worker w = {.end = DT_WORKER_FAILED,
                              .status = rows[i].status,
                              .ours = rows[i].ours,
                              .oom = {rows[i].oom, 1 << 30}};
        struct dt_notice n;
        CHECK_ROW("%d", rows[i].status);
        dt_notice_make(&n, &scene, 1, &w);
        CHECK_EQ(n.result.evidence, rows[i].evidence);
        CHECK(!n.result.succeeded);
        CHECK_STR(n.result.text, rows[i].text);
    }
    dt_output_close(output, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_EQ(uv_loop_close(&loop), 0);
}
