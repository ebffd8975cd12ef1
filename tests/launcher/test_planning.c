/* SPDX-License-Identifier: Apache-2.0 */
/* What a job runs on each node: its command, how many workers, and how it ends. */
#include "tests/launcher/told.h"

/* clang-format off */
TEST(what_is_said_of_a_plain_job)
{
    static const struct told_row rows[] = {
        {"x.py", "", "workers: 1|role: default|OMP_NUM_THREADS: as it is|backend: c10d|nodes: 1|"
                     "run id: " UUID "|endpoint: localhost:0|restarts: 0|shutdown timeout: 30 s|"
                     "exit barrier timeout: 5 min|signals that end: SIGHUP,SIGINT,SIGQUIT,SIGTERM|"
                     "output of local rank 0: redirects nothing, tees nothing, shown", NULL, 0},
        {"x.py|--nnodes|2", "", "command: /bin/sh -u x.py --nnodes 2|nodes: 1", NULL, 0},
    };
    TOLD_ROWS(&dt_launch_program, rows);
    struct told t;
    told_tell(&t, &dt_launch_program, "x.py", "");
    CHECK(!t.warnings && !t.plan.ignored);
    told_finish(&t);
}

TEST(numbers_of_workers)
{
    static const struct told_row rows[] = {
        {"--nproc-per-node|3|x", "", "workers: 3", NULL, 0},
        {"--nproc_per_node= 3 |x", "", "workers: 3", NULL, 0},
        {"--nproc-per-node=cpu|x", "", "workers: 8", NULL, 0},
        {"--nproc-per-node=auto|x", "", "workers: 8", NULL, 0},
        {"--nproc-per-node=auto|x", "DT_TOLD_GPUS=1", "workers: 2", NULL, 0},
        {"--nproc-per-node=gpu|x", "DT_TOLD_GPUS=1", "workers: 2", NULL, 0},
        {"x", "PET_NPROC_PER_NODE=4", "workers: 4", NULL, 0},
        {"--nproc-per-node=2|x", "PET_NPROC_PER_NODE=four", "workers: 2", NULL, 0},
        {"--nproc-per-node=gpu|x", "", NULL, "--nproc-per-node: \"gpu\" needs a GPU and none is visible here; look at "
         "nvidia-smi and CUDA_VISIBLE_DEVICES, or give a number", 1},
        {"--nproc-per-node=xpu|x", "", NULL,
         "--nproc-per-node: \"xpu\": dtrun cannot count GPUs of that kind; give a number", 1},
        {"--nproc-per-node=many|x", "", NULL,
         "--nproc-per-node: \"many\" is not a number of workers; give a number, cpu, gpu or auto", 1},
        {"x", "PET_NPROC_PER_NODE=many", NULL,
         "PET_NPROC_PER_NODE: \"many\" is not a number of workers; give a number, cpu, gpu or auto", 1},
        {"--nproc-per-node=0|x", "", NULL, "--nproc-per-node: \"0\" is not from 1 to 16384", 1},
        {"--nproc-per-node=-1|x", "", NULL, "--nproc-per-node: \"-1\" is not from 1 to 16384", 1},
        {"--nproc-per-node=|x", "", NULL,
         "--nproc-per-node: \"\" is not a number of workers; give a number, cpu, gpu or auto", 1},
        {"--nproc-per-node=16385|x", "", NULL, "--nproc-per-node: \"16385\" is not from 1 to 16384", 1},
    };
    TOLD_ROWS(&dt_launch_program, rows);
}

TEST(threads_of_each_worker)
{
    static const struct told_row rows[] = {
        {"--nproc-per-node=2|x", "", "OMP_NUM_THREADS: 1|warning: OMP_NUM_THREADS is set to 1, as by torchrun; "
         "--omp-threads=auto divides the processors among the workers", NULL, 0},
        {"--nproc-per-node=2|x", "OMP_NUM_THREADS=3", "OMP_NUM_THREADS: as it is", NULL, 0},
        {"--nproc-per-node=2|x", "OMP_NUM_THREADS=", "OMP_NUM_THREADS: as it is", NULL, 0},
        {"--nproc-per-node=2|--omp-threads=auto|x", "", "OMP_NUM_THREADS: 2", NULL, 0},
        {"--nproc-per-node=9|--omp-threads=auto|x", "", "OMP_NUM_THREADS: 1", NULL, 0},
        {"--omp-threads=auto|x", "", "OMP_NUM_THREADS: 4", NULL, 0},
        {"--omp-threads=5|x", "OMP_NUM_THREADS=3", "OMP_NUM_THREADS: 5", NULL, 0},
        {"--omp-threads=auto|x", "OMP_NUM_THREADS=3", "OMP_NUM_THREADS: as it is|"
         "ignored: --omp-threads has no effect: OMP_NUM_THREADS is set, to \"3\"", NULL, 0},
        {"x", "DTRUN_OMP_THREADS=7", "OMP_NUM_THREADS: 7", NULL, 0},
        {"--omp-threads=0|x", "", NULL,
         "--omp-threads: \"0\" is no number of threads; give one from 1 on, auto or torchrun", 2},
    };
    TOLD_ROWS(&dt_launch_program, rows);
}

TEST(how_it_ends)
{
    static const struct told_row rows[] = {
        {"--max-restarts=3|x", "", "restarts: 3|retry what can only fail again: no", NULL, 0},
        {"--retry-deterministic|x", "", "retry what can only fail again: yes|keep workers: auto", NULL, 0},
        {"--keep-workers=never|x", "", "keep workers: never", NULL, 0},
        {"--max-restarts=-1|x", "", NULL, "--max-restarts: -1 is negative; give 0 for none", 1},
        {"--monitor-interval=5|x", "",
         "ignored: --monitor-interval has no effect: the end of a worker is noticed at once", NULL, 0},
        {"--monitor-interval=0|x", "", NULL, "--monitor-interval: 0 is not above 0; leave it out", 1},
        {"--monitor-interval=nan|x", "", NULL, "--monitor-interval: nan is not above 0; leave it out", 1},
        {"--shutdown-timeout=5|x", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT=x", "shutdown timeout: 5 s", NULL, 0},
        {"--shutdown-timeout=0|x", "", "shutdown timeout: 0 s", NULL, 0},
        {"--shutdown-timeout=250ms|x", "", "shutdown timeout: 250 ms", NULL, 0},
        {"x", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT=7", "shutdown timeout: 7 s", NULL, 0},
        {"x", "PET_SHUTDOWN_TIMEOUT=8|TORCH_ELASTIC_SHUTDOWN_TIMEOUT=7", "shutdown timeout: 8 s", NULL, 0},
        {"--shutdown-timeout=-1|x", "", NULL,
         "--shutdown-timeout: the time is negative; give seconds from 0 on", 1},
        {"--shutdown-timeout=1.5|x", "", NULL,
         "--shutdown-timeout: \"1.5\" is not whole seconds; with a unit it can be anything, as in 500ms", 2},
        {"x", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT=x", NULL,
         "TORCH_ELASTIC_SHUTDOWN_TIMEOUT: \"x\" is not whole seconds from 0 on", 1},
        {"--exit-barrier-timeout=9|x", "", "exit barrier timeout: 9 s", NULL, 0},
        {"x", "TORCH_ELASTIC_EXIT_BARRIER_TIMEOUT=9", "exit barrier timeout: 9 s", NULL, 0},
        {"--signals-to-handle=SIGTERM,USR1|x", "", "signals that end: SIGUSR1,SIGTERM", NULL, 0},
        {"--signals-to-handle=SIGTERM,SIGKILL,SIGX|x", "", "signals that end: SIGTERM|"
         "warning: --signals-to-handle: \"SIGKILL\" is left out, as it is no signal that can be handled|"
         "warning: --signals-to-handle: \"SIGX\" is left out, as it is no signal that can be handled", NULL, 0},
        {"--forward-signals=USR1,SIGUSR2|x", "", "signals passed on: SIGUSR1,SIGUSR2|"
         "signals that end: SIGHUP,SIGINT,SIGQUIT,SIGTERM", NULL, 0},
        {"--forward-signals=HUP|x", "", "signals passed on: SIGHUP|signals that end: SIGINT,SIGQUIT,SIGTERM", NULL, 0},
        {"--forward-signals=HUP|--signals-to-handle=HUP|x", "", NULL, "--forward-signals: SIGHUP cannot both end the "
         "job, as --signals-to-handle says, and be passed on alone; drop one of the two", 2},
        {"--forward-signals=KILL|x", "", NULL,
         "--forward-signals: \"KILL\" is no signal that can be passed on; write it as SIGUSR1,SIGUSR2", 2},
        {"--stop-order=leader|--exit-code=root-cause|x", "", "stop order: leader|exit code: root-cause", NULL, 0},
    };
    TOLD_ROWS(&dt_launch_program, rows);
}

TEST(what_is_executed)
{
    static const struct told_row rows[] = {
        {"t.py|a|b c", "", "command: /bin/sh -u t.py a 'b c'|title: /bin/sh", NULL, 0},
        {"-m|pkg.mod|-x", "", "command: /bin/sh -u -m pkg.mod -x", NULL, 0},
        {"--no-python|true|-u", "", "command: /bin/true -u|title: true", NULL, 0},
        {"true|-u", "", "command: /bin/true -u|title: true", NULL, 0}, /* no Python could run it */
        {"/bin/true", "", "command: /bin/true|title: /bin/true", NULL, 0},
        {"--no-python|/bin/echo|$local_rank|$$", "", "command: /bin/echo '$local_rank' '$$'|title: /bin/echo", NULL, 0},
        {"--run-path|--no-python|--module|s.py", "", "title: run_script_path|"
         "ignored: --no-python has no effect: --run-path is given too|"
         "ignored: --module has no effect: --run-path is given too", NULL, 0},
        {"--|s.py|--|-m", "", "command: /bin/sh -u s.py -- -m", NULL, 0},
        {"s.py|-m|--nproc_per_node=2", "", "workers: 1|warning: --nproc-per-node stands behind SCRIPT, so it is an argument "
         "of s.py and not an option of dtrun; write options before SCRIPT", NULL, 0},
        {"--no-python|true|--rdzv-id|j", "", "warning: --rdzv-id stands behind SCRIPT, so it is an argument of true and not "
         "an option of dtrun; write options before SCRIPT", NULL, 0},
        {"--no-python|-m|true", "", NULL, "--module: a module needs Python; drop --no-python or --module", 1},
        {"--no-python|no-such-program", "", NULL, "\"no-such-program\" is in none of the folders of PATH; write a "
         "program of this folder as ./NAME", 1},
        {"--no-python|/etc/passwd", "", NULL, "\"/etc/passwd\" cannot be executed: Permission denied", 1},
        {"s.py", "PYTHON_EXEC=/no/python", "title: /bin/sh", NULL, 0}, /* told.h named one before */
    };
    TOLD_ROWS(&dt_launch_program, rows);
}

TEST(torch_distributed_launch)
{
    static const struct told_row rows[] = {
        {"s.py|a", "", "command: /bin/sh -u s.py '--local-rank=${local_rank}' a|warning: dtrun-launch stands in for the "
         "deprecated torch.distributed.launch; use dtrun, and read the local rank from LOCAL_RANK instead of an argument "
         "--local-rank", NULL, 0},
        {"-m|mod|a", "", "command: /bin/sh -u -m mod '--local-rank=${local_rank}' a", NULL, 0},
        {"--use-env|s.py|a", "", "command: /bin/sh -u s.py a|"
         "warning: dtrun-launch stands in for the deprecated torch.distributed.launch; use dtrun", NULL, 0},
        {"--use_env|--no-python|true", "", "command: /bin/true", NULL, 0},
        {"s.py", "PET_USE_ENV=1", "command: /bin/sh -u s.py '--local-rank=${local_rank}'", NULL, 0},
        {"--no-python|true", "", NULL,
         "--no-python: only Python scripts get an argument --local-rank; give --use-env too", 1},
    };
    TOLD_ROWS(&dt_legacy_program, rows);
}
/* clang-format on */

TEST(the_own_interpreter_is_not_worth_a_name)
{
    char dir[] = "/tmp/dtrun-test-config.XXXXXX", env[256], path[64];
    struct told t;
    CHECK(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/python3", dir);
    CHECK_EQ(symlink("/bin/sh", path), 0);
    snprintf(env, sizeof env, "PATH=%s", dir);
    static const char *const args[] = {"/dev/null|a", "-m|pkg", "--no-python|python3|-c|exit 3"};
    static const char *const titles[] = {"/dev/null", "pkg", "python3"};
    for (size_t i = 0; i < sizeof args / sizeof *args; i++) {
        char *argv[8] = {(char *)"dtrun"}, text[64], *envp[] = {env, NULL};
        strcpy(text, args[i]);
        int argc = 1 + told_split(text, argv + 1);
        struct dt_facts facts = {
            .cpus = 1, .allowed_cpus = 1, .env = envp, .find_nccl_profiler = told_no_nccl_profiler};
        t = (struct told){0};
        CHECK_OK(dt_launch_options_read(&t.o, &dt_launch_program, argc, argv, envp, &t.err), t.err);
        CHECK_OK(dt_plan_make(&t.o, &facts, &t.plan, &t.warnings, &t.err), t.err);
        CHECK_STR(t.plan.argv[0], path);
        CHECK_STR(t.plan.title, titles[i]);
        told_finish(&t);
    }
    unlink(path);
    rmdir(dir);
}

TEST(many_arguments_are_not_slow)
{
    enum { N = 200000 };
    char **argv = calloc(N + 1, sizeof *argv), *envp[] = {(char *)"PYTHON_EXEC=/bin/sh", NULL};
    struct dt_facts facts = {
        .cpus = 1, .allowed_cpus = 1, .env = envp, .find_nccl_profiler = told_no_nccl_profiler};
    struct told t = {0};
    for (int i = 0; i < N; i++)
        argv[i] = (char *)"arg";
    CHECK_OK(dt_launch_options_read(&t.o, &dt_launch_program, N, argv, envp, &t.err), t.err);
    CHECK_OK(dt_plan_make(&t.o, &facts, &t.plan, &t.warnings, &t.err), t.err);
    CHECK_EQ(dt_words_count(t.plan.argv), N + 1); /* dtrun gone, sh and -u come */
    told_finish(&t);
    free(argv);
}
