/* SPDX-License-Identifier: Apache-2.0 */
/* The program is a script that says what a story wants of it. */
#include "preflight/probes/compute.h"
#include "tests/preflight/judged.h"

#include <sys/stat.h>

BEFORE_ALL
{
    folder_make();
}

#define GPU(n)                                                                                     \
    "{\"device\":\"cuda\",\"index\":" #n ",\"name\":\"H100\",\"uuid\":\"GPU-" #n                   \
    "\",\"pci\":\"0000:1" #n ":00.0\","
#define TRYING(n) GPU(n) "\"state\":\"trying\"}\n"
#define AT_RATE(n, flops)                                                                          \
    GPU(n)                                                                                         \
    "\"state\":\"well\",\"side\":4096,\"flops\":" #flops                                           \
    ",\"memory\":5,\"written\":50,\"got\":50}\n"
#define WELL(n) AT_RATE(n, 600000000000000)

static const struct dt_sheet *judge(const char *said_by_program)
{
    static struct dt_compute c;
    struct dt_sheet *s = fresh_sheet();
    memset(&c, 0, sizeof c);
    for (const char *at = said_by_program; *at; at += strcspn(at, "\n") + 1)
        dt_compute_take(&c, at, strcspn(at, "\n"));
    dt_compute_judge(&c, s);
    return s;
}

TEST(what_is_said_of_gpus)
{
    static const struct {
        const char *lines, *words;
    } rows[] = {
        {TRYING(0) TRYING(1) WELL(1) WELL(0),
         "ok: matrices are multiplied at 600 to 600 TFLOP/s by 2 H100"},
        {TRYING(0) WELL(0), "ok: matrices are multiplied at 600 TFLOP/s by one H100"},
        {TRYING(0) GPU(0) "\"state\":\"wrong\",\"why\":\"byte 5 of 9\"}\n",
         "fail: GPU 0 (H100, GPU-0, 0000:10:00.0) is wrong: byte 5 of 9"},
        {TRYING(3) GPU(3) "\"state\":\"failed\",\"why\":\"an illegal address\"}\n",
         "fail: GPU 3 (H100, GPU-3, 0000:13:00.0) fails at work: an illegal address"},
        {TRYING(0) GPU(0) "\"state\":\"refused\",\"why\":\"no room\"}\n",
         "warn: GPU 0 (H100, GPU-0, 0000:10:00.0) cannot be tried: no room"},
        {TRYING(0), "fail: GPU 0 (H100, GPU-0, 0000:10:00.0) does not answer"},
        {TRYING(0) GPU(0) "\"state\":\"silent\"}\n",
         "fail: GPU 0 (H100, GPU-0, 0000:10:00.0) does not answer"},
        {"{\"device\":\"cuda\",\"state\":\"absent\",\"installed\":false,\"why\":\"no plugin\"}\n",
         "ok: no GPU is tried: no plugin"},
        {"{\"device\":\"cuda\",\"state\":\"absent\",\"installed\":true,\"why\":\"no libnccl\"}\n",
         "note: no GPU is tried: no libnccl"},
        {"", "warn: `dtrun-train probe` says nothing of any device"},
        {"nonsense\n{}\n[1]\n{\"device\":1}\n{\"device\":\"cuda\",\"state\":\"well\"}\n"
         "{\"device\":\"cuda\",\"state\":\"well\",\"index\":-1}\n",
         "warn: `dtrun-train probe` says nothing of any device"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("row %zu", i);
        const struct dt_sheet *s = judge(rows[i].lines);
        check_said(s, rows[i].words);
        CHECK_EQ(s->remark_count, 1);
    }
}

TEST(a_slow_gpu_is_named_and_all_that_are_well_are_compared_between_nodes)
{
    const struct dt_sheet *s = judge(TRYING(0) TRYING(1) TRYING(2) TRYING(3) WELL(0) AT_RATE(
        1, 100000000000000) WELL(2) GPU(3) "\"state\":\"wrong\",\"why\":\"x\"}\n");
    check_said(s, "fail: GPU 3 (H100, GPU-3, 0000:13:00.0) is wrong: x");
    check_said(s, "warn: GPU 1 (GPU-1) multiplies matrices at 100 TFLOP/s; the middle one of 3 "
                  "H100 has 600");
    CHECK_EQ(s->remark_count, 2);
    CHECK_EQ(s->speed_count, 3);
    CHECK_STR(s->speeds[1].id, "GPU-1");
    CHECK_EQ(s->speeds[1].written, 50);
}

TEST(more_gpus_than_there_can_be)
{
    static struct dt_compute c;
    for (int i = 0; i < 2 * DT_COMPUTE_MAX; i++) {
        char line[200];
        int n =
            snprintf(line, sizeof line, "{\"device\":\"cuda\",\"index\":%d,\"state\":\"well\"}", i);
        dt_compute_take(&c, line, (size_t)n);
    }
    CHECK_EQ(c.count, DT_COMPUTE_MAX);
}

/* -- the program ------------------------------------------------------------------------------ */

static const struct dt_sheet *look(const char *host, enum dt_compute_what what)
{
    struct dt_sheet *s = fresh_sheet();
    dt_compute_probe(&(struct dt_checkup){.root = at(host), .compute = what}, s);
    return s;
}

static const struct dt_sheet *look_with(const char *script)
{
    put("bin", "/dtrun-train", script);
    CHECK_EQ(chmod(at("bin/dtrun-train"), 0755), 0);
    setenv("DTRUN_PLUGIN_DIR", at("bin"), 1);
    return look("gpus", DT_COMPUTE_GPUS);
}

TEST(a_host_without_gpus_starts_nothing)
{
    put("bin", "/dtrun-train", "#!/bin/sh\nkill -9 $PPID\n");
    CHECK_EQ(chmod(at("bin/dtrun-train"), 0755), 0);
    setenv("DTRUN_PLUGIN_DIR", at("bin"), 1);
    unsetenv("DTRUN_CUDA_PLUGIN");
    CHECK_STR(said(look("none", DT_COMPUTE_GPUS)),
              "ok: no GPU is tried: this host has none of NVIDIA's");
    CHECK_EQ(look("none", DT_COMPUTE_NOTHING)->remark_count, 0);
}

TEST(the_program_is_asked)
{
    put("gpus", "/proc/driver/nvidia/gpus/0000:10:00.0/information", "");
    CHECK_STR(
        said(look_with("#!/bin/sh\n[ \"$*\" = 'probe --device auto' ] && echo '" WELL(0) "'")),
        "ok: matrices are multiplied at 600 TFLOP/s by one H100");
    CHECK_STR(said(look_with("#!/bin/sh\necho '" TRYING(0) TRYING(1) WELL(1) "'; kill -11 $$")),
              "fail: GPU 0 (H100, GPU-0, 0000:10:00.0) does not answer: the program died of signal "
              "11|ok: matrices are multiplied at 600 TFLOP/s by one H100");
    CHECK_STR(said(look_with("#!/bin/sh\nexit 2\n")),
              "warn: `dtrun-train probe` says nothing of any device: the program ended with status "
              "2");
    CHECK_STR(said(look_with("#!/nonexistent\n")),
              "warn: `dtrun-train probe` says nothing of any device: No such file or directory");
    setenv("DTRUN_PLUGIN_DIR", at("elsewhere"), 1);
    CHECK_STR(said(look("gpus", DT_COMPUTE_GPUS)),
              "ok: nothing is tried: dtrun-train is not installed");
}

TEST(processors_are_tried_where_somebody_wants_it)
{
    setenv("DTRUN_PLUGIN_DIR", at("bin"), 1);
    put("bin", "/dtrun-train",
        "#!/bin/sh\n[ \"$*\" = 'probe --device cpu' ] && echo '{\"device\":\"cpu\",\"index\":0,"
        "\"name\":\"v4 CPU\",\"state\":\"well\",\"flops\":60000000000}'\n");
    CHECK_EQ(chmod(at("bin/dtrun-train"), 0755), 0);
    const struct dt_sheet *s = look("none", DT_COMPUTE_CPU);
    CHECK_STR(said(s), "ok: matrices are multiplied at 0.06 TFLOP/s by one v4 CPU");
    CHECK_STR(s->speeds[0].device, "CPU");
}
