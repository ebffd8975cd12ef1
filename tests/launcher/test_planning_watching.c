/* SPDX-License-Identifier: Apache-2.0 */
/* Who looks after a job while it runs: health port, hangs, flight recorders, NCCL's profiler. */
#include "tests/launcher/told.h"

/* clang-format off */
TEST(watching)
{
    static const struct told_row rows[] = {
        {"--health-port=80|x", "TORCHELASTIC_HEALTH_CHECK_PORT=81", "health port: 80", NULL, 0},
        {"x", "TORCHELASTIC_HEALTH_CHECK_PORT=81", "health port: 81|health address: every one", NULL, 0},
        {"--health-port=80|--health-address=127.0.0.1|x", "", "health address: 127.0.0.1", NULL, 0},
        {"--health-address=::1|x", "", "health port: none|ignored: --health-address has no effect: there is no --health-port",
         NULL, 0},
        {"--health-address=127.0.0.1:80|x", "", NULL,
         "--health-address: \"127.0.0.1:80\" is not an address alone; the port is that of --health-port", 2},
        {"x", "TORCHELASTIC_HEALTH_CHECK_PORT=http", "health port: none|"
         "ignored: TORCHELASTIC_HEALTH_CHECK_PORT has no effect: \"http\" is no port", NULL, 0},
        {"--health-port=65536|x", "", NULL, "--health-port: \"65536\" is not a whole number from 0 to 65535", 2},
        {"x", "TORCHELASTIC_ENABLE_FILE_TIMER=1", "file timers: yes|timer file: a fresh one in a temporary folder", NULL, 0},
        {"x", "TORCHELASTIC_ENABLE_FILE_TIMER=1|TORCHELASTIC_TIMER_FILE=/run/t", "timer file: /run/t", NULL, 0},
        {"x", "TORCHELASTIC_ENABLE_FILE_TIMER=yes|TORCHELASTIC_TIMER_FILE=/run/t", "file timers: no", NULL, 0},
        {"x", "TORCHELASTIC_ERROR_FILE=/e", "error file: /e", NULL, 0},
        {"x", "TORCHELASTIC_ERROR_FILE=", "error file: none", NULL, 0},
        {"x", "", "hang after: auto|on hang: log|look on signal: SIGQUIT", NULL, 0},
        {"--hang-after=90|--on-hang=restart|--look-on-signal=USR1|x", "",
         "hang after: 1.5 min|on hang: restart|look on signal: SIGUSR1", NULL, 0},
        {"--hang-after=off|--on-hang=stop|x", "", "hang after: never|on hang: stop|"
         "ignored: --on-hang has no effect: --hang-after is off", NULL, 0},
        {"x", "", "on straggler: log", NULL, 0},
        {"x", "", "preflight: off", NULL, 0},
        {"--nnodes=2|x", "", "preflight: fast", NULL, 0},
        {"--nnodes=2|--preflight=off|x", "", "preflight: off", NULL, 0},
        {"--preflight=full|x", "", "preflight: full", NULL, 0},
        {"x", "DTRUN_PREFLIGHT=fast", "preflight: fast", NULL, 0},
        {"--on-straggler=off|x", "", "on straggler: off", NULL, 0},
        {"--nnodes=2:4|--rdzv-backend=c10d|--rdzv-endpoint=h|--on-straggler=drain|x", "", "on straggler: drain", NULL, 0},
        {"--on-straggler=drain|x", "",
         "on straggler: drain|ignored: --on-straggler has no effect: no spare can come: the job is not elastic", NULL, 0},
        {"--no-look|--on-straggler=log|x", "",
         "on straggler: off|ignored: --on-straggler has no effect: --no-look is given", NULL, 0},
        {"--look-on-signal=none|x", "DTRUN_HANG_AFTER=2m", "hang after: 2 min|look on signal: none", NULL, 0},
        {"--no-look|x", "", "hang after: never|look on signal: none", NULL, 0},
        {"--no-look|--hang-after=3|x", "", "hang after: never|ignored: --hang-after has no effect: --no-look is given", NULL, 0},
        {"--signals-to-handle=SIGTERM,SIGQUIT|x", "", "look on signal: none", NULL, 0},
        {"--signals-to-handle=SIGTERM|x", "", "signals that end: SIGTERM|look on signal: SIGQUIT", NULL, 0},
        {"--signals-to-handle=SIGQUIT|--look-on-signal=QUIT|x", "", "look on signal: SIGQUIT", NULL, 0},
        {"--forward-signals=SIGQUIT|x", "", "look on signal: none", NULL, 0},
        {"--forward-signals=SIGQUIT|--look-on-signal=QUIT|x", "", NULL,
         "--look-on-signal: --forward-signals passes this signal on; choose another one", 2},
        {"--numa-binding=core-complex|--virtual-local-rank|x", "", "binding: core-complex|virtual local rank: yes", NULL, 0},
        {"x", "PET_NUMA_BINDING=node", "binding: none", NULL, 0}, /* not in the environment */
        {"--start-method=fork|x", "",
         "ignored: --start-method has no effect: workers are always programs of their own", NULL, 0},
    };
    TOLD_ROWS(&dt_launch_program, rows);
}

TEST(where_a_flight_recorder_dumps)
{
#define ALL "TORCH_FR_DUMP_TEMP_FILE: in the folder of logs|TORCH_NCCL_DEBUG_INFO_PIPE_FILE: in the folder of logs"
#define NOTHING "TORCH_FR_BUFFER_SIZE: as it is|TORCH_FR_DUMP_TEMP_FILE: as it is|" \
                "TORCH_NCCL_DEBUG_INFO_PIPE_FILE: as it is"
    static const struct told_row rows[] = {
        {"x", "", "TORCH_FR_BUFFER_SIZE: 2000|" ALL, NULL, 0},
        {"x", "TORCH_FR_BUFFER_SIZE=50", "TORCH_FR_BUFFER_SIZE: as it is|" ALL, NULL, 0},
        {"x", "TORCH_NCCL_TRACE_BUFFER_SIZE=50", "TORCH_FR_BUFFER_SIZE: as it is|"
         "TORCH_NCCL_DEBUG_INFO_TEMP_FILE: in the folder of logs|"
         "TORCH_NCCL_DEBUG_INFO_PIPE_FILE: in the folder of logs", NULL, 0},
        {"x", "TORCH_FR_BUFFER_SIZE=0", NOTHING, NULL, 0},
        {"x", "TORCH_NCCL_TRACE_BUFFER_SIZE=0", NOTHING, NULL, 0},
        {"x", "TORCH_FR_DUMP_TEMP_FILE=/d", NOTHING, NULL, 0},
        {"x", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE=/d", NOTHING, NULL, 0},
        {"x", "TORCH_NCCL_DEBUG_INFO_PIPE_FILE=/d/flight/rank_", NOTHING, NULL, 0},
        {"x", "DTRUN=1|TORCH_FR_BUFFER_SIZE=2000|TORCH_NCCL_DEBUG_INFO_PIPE_FILE=/d/flight/rank_",
         "TORCH_FR_BUFFER_SIZE: as it is|" ALL, NULL, 0},
        {"x", "DTRUN=1|TORCH_NCCL_DEBUG_INFO_PIPE_FILE=rank_", NOTHING, NULL, 0},
        {"--log-dir=/dev/null|x", "", NOTHING, NULL, 0},
        {"--no-python|sh", "", NOTHING, NULL, 0},
        {"--no-look|x", "", NOTHING, NULL, 0},
    };
    TOLD_ROWS(&dt_launch_program, rows);
}

#define OURS "/usr/lib/dtrun/libnccl-profiler-dtrun.so"

TEST(nccls_profiler)
{
    static const struct told_row rows[] = {
        {"x", "", "NCCL profiler: none of dtrun's", NULL, 0},
        {"--nccl-profiler=calls|x", "", "ignored: --nccl-profiler has no effect: libnccl-profiler-dtrun.so is not "
         "installed with this dtrun", NULL, 0},
        {"x", "DT_TOLD_NCCL_PROFILER=1", "NCCL profiler: " OURS "|NCCL events: calls", NULL, 0},
        {"--nccl-profiler=kernels|x", "DT_TOLD_NCCL_PROFILER=1", "NCCL profiler: " OURS "|NCCL events: calls and kernels",
         NULL, 0},
        {"x", "DT_TOLD_NCCL_PROFILER=1|DTRUN_NCCL_PROFILER=off", "NCCL profiler: none of dtrun's", NULL, 0},
        {"x", "DT_TOLD_NCCL_PROFILER=1|NCCL_PROFILER_PLUGIN=inspector", "NCCL profiler: none of dtrun's", NULL, 0},
        {"x", "DT_TOLD_NCCL_PROFILER=1|NCCL_PROFILER_PLUGIN=", "NCCL profiler: none of dtrun's", NULL, 0},
        {"--nccl-profiler=calls|x", "DT_TOLD_NCCL_PROFILER=1|NCCL_PROFILER_PLUGIN=none",
         "ignored: --nccl-profiler has no effect: NCCL_PROFILER_PLUGIN is set, and stays as it is", NULL, 0},
        {"x", "DT_TOLD_NCCL_PROFILER=1|NCCL_PROFILER_PLUGIN=" OURS, "NCCL profiler: " OURS, NULL, 0},
        {"--nccl-profiler=on|x", "", NULL, "--nccl-profiler: \"on\" is none of calls, kernels, off", 2},
    };
    TOLD_ROWS(&dt_launch_program, rows);
}
/* clang-format on */

static void write_conf(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    CHECK(fputs(text, f) >= 0);
    CHECK_EQ(fclose(f), 0);
}

TEST(nccls_own_settings_stay)
{
    static const struct {
        const char *text;
        bool sets;
    } rows[] = {
        {"NCCL_PROFILER_PLUGIN=inspector\n", true},
        {"NCCL_DEBUG=INFO\nNCCL_PROFILER_PLUGIN=none", true},
        {"#NCCL_PROFILER_PLUGIN=inspector\n", false},
        {"NCCL_PROFILER_PLUGIN_X=1\nNCCL_PROFILER_PLUGIN", false},
        {"", false},
    };
    char dir[] = "/tmp/dtrun-test-planning.XXXXXX", path[128], env[512];
    CHECK(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/.nccl.conf", dir);
    for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("row %zu, %s", i / 2, i % 2 ? "named" : "at home");
        struct told t;
        write_conf(path, rows[i / 2].text);
        snprintf(env, sizeof env, "DT_TOLD_NCCL_PROFILER=1|%s=%s",
                 i % 2 ? "NCCL_CONF_FILE" : "HOME", i % 2 ? path : dir);
        told_tell(&t, &dt_launch_program, "x", env);
        CHECK_OK(t.rc, t.err);
        CHECK_STR(t.plan.nccl_profiler, rows[i / 2].sets ? NULL : OURS);
        told_finish(&t);
    }
    unlink(path);
    rmdir(dir);
}
