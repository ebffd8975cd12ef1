/* SPDX-License-Identifier: Apache-2.0 */
/* What a person gets to read for a mistake: one sentence that names what was written and what to
 * do, the right exit status, and no worker. */
#include "tests/lib/check.h"
#include "tests/lib/job.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define WORKER getenv("DT_MISBEHAVE")
#define NO_PYTHON "--no-python", WORKER
#define HELP_LINE "`dtrun --help` lists the options.\n"

/* ARGS: settings and options, apart by '|'. "@" stands for --no-python and a worker that would say
 * that it ran. WORDS, apart by '|', are all in the one sentence. */
struct mistake {
    const char *args;
    int status;
    const char *words;
};

static void start_line(struct job *j, const char *line)
{
    const char *args[64] = {"OMP_NUM_THREADS=1"};
    int n = 1;
    char *copy = strdup(line); /* the job's argv; a test is short */
    for (char *at = copy; at && n < 60;) {
        char *arg = strsep(&at, "|");
        if (strcmp(arg, "@") == 0) {
            args[n++] = "--no-python";
            args[n++] = WORKER;
            args[n++] = "line:a worker ran";
        } else {
            args[n++] = arg;
        }
    }
    job_start(j, args);
    free(copy);
}

static void check_text(const char *out, const char *err, int status, const char *words)
{
    int lines = count_words(err, "\n");
    CHECK_STR(out, "");
    if (status == 2) {
        CHECK(strstr(err, HELP_LINE) != NULL);
        CHECK_STR(strstr(err, HELP_LINE), HELP_LINE);
        lines--;
    }
    CHECK_ROW("%.180s", err);
    CHECK_EQ(lines, status != 0);
    CHECK(strstr(err, "Traceback") == NULL);
    char *copy = strdup(words);
    for (char *at = copy, *word; (word = strsep(&at, "|"));) {
        CHECK_ROW("%s", word);
        CHECK(strstr(err, word) != NULL);
    }
    free(copy);
}

static void check_sentence(struct job *j, int status, const char *words)
{
    check_text(job_out(j), job_err(j), status, words);
}

static void check_mistakes(const struct mistake *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct job j;
        CHECK_ROW("%s", rows[i].args);
        start_line(&j, rows[i].args);
        CHECK_EQ(job_wait(&j), rows[i].status);
        check_sentence(&j, rows[i].status, rows[i].words);
        job_finish(&j);
    }
}

#define MISTAKES(rows) check_mistakes((rows), sizeof(rows) / sizeof((rows)[0]))

/* clang-format off */
TEST(mistakes_on_the_command_line)
{
    static const struct mistake rows[] = {
        {"--nproc-per-node|2", 2, "SCRIPT is missing"},
        {"--max|2|--m|@", 2, "--m could be --module or --master-addr or "},
        {"--bogus|@", 2, "--bogus: no such option"},
        {"--nproc-per-node|x8|@", 1, "--nproc-per-node: \"x8\"|cpu, gpu or auto"},
        {"--nproc_per_node|0|@", 1, "--nproc-per-node: \"0\" is not from 1"},
        {"--nproc-per-node=-1|@", 1, "--nproc-per-node: \"-1\" is not from 1"},
        {"--nproc-per-node|70000|@", 1, "--nproc-per-node: \"70000\" is not from 1 to 16384"},
        {"--nnodes|1:2:3|@", 1, "--nnodes: \"1:2:3\" is not N or MIN:MAX"},
        {"--nnodes|3:2|@", 1, "--nnodes: \"3:2\"|write 2:3"},
        {"--nnodes|two|@", 1, "--nnodes: \"two\""},
        {"--nnodes|0|@", 1, "--nnodes: \"0\""},
        {"--nnodes|2|--node-rank|2|@", 1, "--node-rank: 2 is no rank in a job of 2 nodes"},
        {"--nnodes|2|--node-rank|-1|@", 1, "--node-rank: -1"},
        {"--nnodes|2|--node-rank|x|@", 2, "--node-rank: \"x\" is not a whole number"},
        {"--nnodes|2|--rdzv-backend|c10d|--rdzv-endpoint|h:0|@", 1, "--rdzv-endpoint: port 0"},
        {"--rdzv-backend|etcd|@", 1, "--rdzv-backend: |etcd|torchrun"},
        {"--rdzv-backend|zookeeper|@", 1, "--rdzv-backend: \"zookeeper\"|static or c10d"},
        {"--rdzv-endpoint|host:99999|--nnodes|2|@", 1, "--rdzv-endpoint: \"host:99999\" has no port"},
        {"--rdzv-endpoint|ho st:1|--nnodes|2|@", 1, "--rdzv-endpoint: \"ho st:1\"|HOST:PORT"},
        {"--rdzv-endpoint|host|--nnodes|2|@", 1, "--rdzv-endpoint: \"host\" lacks a port"},
        {"--master-port|99999|@", 1, "--master-port: 99999 is no port"},
        {"--master-port|0|--nnodes|2|@", 1, "--master-port: port 0"},
        {"--master-port|abc|@", 2, "--master-port: \"abc\" is not a whole number"},
        {"--max-restarts|-1|@", 1, "--max-restarts: -1 is negative"},
        {"--max-restarts|many|@", 2, "--max-restarts: \"many\" is not a whole number"},
        {"--monitor-interval|0|@", 1, "--monitor-interval: 0 is not above 0"},
        {"--monitor-interval|x|@", 2, "--monitor-interval: \"x\" is not a number"},
        {"--start-method|x|@", 2, "--start-method: \"x\" is none of spawn"},
        {"-r|4|@", 1, "--redirects: \"4\"|0:3,1:2"},
        {"-r|0:9|@", 1, "--redirects: \"0:9\""},
        {"-t|all|@", 1, "--tee: \"all\"|1 (stdout)"},
        {"--local-ranks-filter|a|@", 1, "--local-ranks-filter: \"a\" is no local rank"},
        {"-m|@", 1, "--module: a module needs Python; drop --no-python or --module"},
        {"--logs-specs|mine|@", 1, "--logs-specs: \"mine\"|Python plug-in"},
        {"--shutdown-timeout|-1|@", 1, "--shutdown-timeout: the time is negative"},
        {"--shutdown-timeout|soon|@", 2, "--shutdown-timeout: \"soon\" is not a duration"},
        {"--exit-barrier-timeout|x|@", 2, "--exit-barrier-timeout: \"x\" is not a duration"},
        {"--signals-to-handle|SIGTERM|--forward-signals|SIGTERM|@", 2, "--forward-signals: SIGTERM|drop one"},
        {"--exit-code|mine|@", 2, "--exit-code: \"mine\" is none of torchrun, root-cause"},
        {"--omp-threads|0|@", 2, "--omp-threads: \"0\"|auto"},
        {"--event-log-handler|syslog|@", 1, "--event-log-handler: \"syslog\"|file:PATH"},
        {"--event-log-handler|file:/nonexistent/x|@", 1, "--event-log-handler: |/nonexistent/x|No such file"},
        {"--health-port|99999|@", 2, "--health-port: \"99999\""},
        {"--numa-binding|near|@", 2, "--numa-binding: \"near\" is none of node"},
        {"--stop-order|x|@", 2, "--stop-order: \"x\" is none of group, leader"},
        {"--keep-logs|x|@", 2, "--keep-logs: \"x\" is none of all, failed"},
        {"--store-listen|a:1|@", 2, "--store-listen: \"a:1\""},
        {"--store-allow|1.2.3.4/33|@", 2, "--store-allow: |1.2.3.4/33"},
        {"CUDA_VISIBLE_DEVICES=4|--virtual-local-rank|--nproc-per-node|2|@", 1,
         "worker 1: --virtual-local-rank: CUDA_VISIBLE_DEVICES=4 has 1 device, worker 1 has none"},
    };
    MISTAKES(rows);
}

TEST(mistakes_in_the_environment_are_told_by_the_name_of_the_variable)
{
    static const struct mistake rows[] = {
        {"PET_NPROC_PER_NODE=x|@", 1, "dtrun: PET_NPROC_PER_NODE: \"x\""},
        {"PET_NNODES=2:1|@", 1, "dtrun: PET_NNODES: \"2:1\""},
        {"PET_MAX_RESTARTS=x|@", 2, "dtrun: PET_MAX_RESTARTS: \"x\""},
        {"PET_NODE_RANK=abc|@", 2, "dtrun: PET_NODE_RANK: \"abc\""},
        {"PET_STANDALONE=true|@", 1, "dtrun: PET_STANDALONE: \"true\"|give 1 for yes"},
        {"PET_STANDALONE=|@", 1, "dtrun: PET_STANDALONE: \"\""},
        {"PET_NO_PYTHON=1|PET_MODULE=1|x", 1, "PET_MODULE: |drop PET_NO_PYTHON or PET_MODULE"},
        {"PET_RDZV_BACKEND=x|@", 1, "dtrun: PET_RDZV_BACKEND: \"x\""},
        {"PET_RDZV_CONF=timeout|@", 1, "dtrun: PET_RDZV_CONF: timeout has no value"},
        {"PET_RDZV_ENDPOINT=host|PET_NNODES=2|@", 1, "dtrun: PET_RDZV_ENDPOINT: \"host\" lacks a port"},
        {"PET_MASTER_PORT=77777|PET_NNODES=2|@", 1, "dtrun: PET_MASTER_PORT: 77777 is no port"},
        {"PET_REDIRECTS=9|@", 1, "dtrun: PET_REDIRECTS: \"9\""},
        {"PET_TEE=9|@", 1, "dtrun: PET_TEE: \"9\""},
        {"PET_LOG_DIR=/etc/passwd|@", 1, "dtrun: PET_LOG_DIR: /etc/passwd is a file"},
        {"PET_SHUTDOWN_TIMEOUT=-2|@", 1, "dtrun: PET_SHUTDOWN_TIMEOUT: the time is negative"},
        {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT=x|@", 1, "dtrun: TORCH_ELASTIC_SHUTDOWN_TIMEOUT: \"x\""},
        {"TORCHELASTIC_ENABLE_FILE_TIMER=1|TORCHELASTIC_TIMER_FILE=/nonexistent/x|@", 1,
         "TORCHELASTIC_TIMER_FILE|/nonexistent/x|No such file"},
    };
    MISTAKES(rows);
}

TEST(mistakes_in_rdzv_conf)
{
    static const struct mistake rows[] = {
        {"--nnodes|2|--rdzv-conf|timeout|@", 1, "--rdzv-conf: timeout has no value; write timeout=VALUE"},
        {"--nnodes|2|--rdzv-conf|timeout=|@", 1, "--rdzv-conf: timeout has no value"},
        {"--nnodes|2|--rdzv-conf|=3|@", 1, "--rdzv-conf: "},
        {"--nnodes|2|--rdzv-conf|timeout=soon|@", 1, "--rdzv-conf: timeout is \"soon\"; give whole seconds"},
        {"--nnodes|2|--rdzv-conf|timeout=-3|@", 1, "--rdzv-conf: timeout is \"-3\""},
        {"--rdzv-backend|c10d|--rdzv-conf|read_timeout=x|@", 1, "--rdzv-conf: read_timeout is \"x\""},
        {"--rdzv-backend|c10d|--rdzv-conf|store_type=file|@", 1, "--rdzv-conf: store_type is \"file\""},
    };
    MISTAKES(rows);
}

TEST(programs_that_are_not_there_or_not_programs)
{
    static const struct mistake rows[] = {
        {"--no-python|/nonexistent/a", 1, "\"/nonexistent/a\" cannot be executed: No such file"},
        {"--no-python|no-such-program", 1, "\"no-such-program\"|PATH|./NAME"},
        {"--no-python|/etc/passwd", 1, "\"/etc/passwd\" cannot be executed: Permission denied"},
        {"--no-python|/tmp", 1, "\"/tmp\" cannot be executed: Is a directory"},
        {"--no-python||a", 1, "SCRIPT is empty"},
        {"", 1, "SCRIPT is empty"},
        {"PYTHON_EXEC=/nonexistent|/dev/null", 1, "PYTHON_EXEC: \"/nonexistent\" cannot be executed"},
        {"PATH=/nonexistent|VIRTUAL_ENV=|CONDA_PREFIX=|/dev/null", 1, "no python3|PATH|PYTHON_EXEC|--no-python"},
        {"--log-dir|/dev/null/x|@", 1, "--log-dir: \"/dev/null/x\" cannot be used: Not a directory"},
        {"--log-dir|/etc/passwd|@", 1, "--log-dir: /etc/passwd is a file; name a folder"},
    };
    MISTAKES(rows);
}
/* clang-format on */

/* -- as somebody who may not do everything ---------------------------------------------------- */

#define NOBODY 65534

static void in_folders_of_others(const char *dir)
{
    struct job j;
    char locked[96], inside[128];
    snprintf(locked, sizeof locked, "%s/locked", dir);
    snprintf(inside, sizeof inside, "%s/locked/new/logs", dir);
    const char *const rows[] = {locked, inside};
    for (int i = 0; i < 2; i++) {
        CHECK_ROW("%s", rows[i]);
        CHECK_EQ(JOB(&j, "--log-dir", rows[i], NO_PYTHON, "line:a worker ran"), 1);
        check_sentence(&j, 1, "--log-dir: nothing can be written in |locked|Permission denied");
        job_finish(&j);
    }
}

TEST(a_log_folder_that_this_user_may_not_write)
{
    char dir[64], locked[96];
    if (!job_user_can_run(NOBODY))
        SKIP("the build folder is closed to other users");
    snprintf(locked, sizeof locked, "%s/locked", tmp_make(dir));
    CHECK(chmod(dir, 0755) == 0 && mkdir(locked, 0555) == 0);
    job_as_user(NOBODY, in_folders_of_others, dir);
    chmod(locked, 0755);
    tmp_remove(dir);
}

/* -- ports ------------------------------------------------------------------------------------ */

/* A listener of ours on loopback. */
static int listen_on(char port[8])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&at, len) == 0 && listen(fd, 8) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&at, &len) == 0);
    snprintf(port, 8, "%d", ntohs(at.sin_port));
    return fd;
}

TEST(a_port_that_is_taken_is_told_with_who_has_it)
{
    char port[8], words[128], line[160];
    int fd = listen_on(port);
    static const char *const rows[] = {"--nnodes|2|--node-rank|0|--master-port|", "--master-port|",
                                       "--rdzv-endpoint|127.0.0.1:", "--health-port|"};
    snprintf(words, sizeof words, ":%s is in use by pid %d (test_job_mistak)|choose another port",
             port, (int)getpid());
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct job j;
        CHECK_ROW("%s", rows[i]);
        snprintf(line, sizeof line, "%s%s|@", rows[i], port);
        start_line(&j, line);
        CHECK_EQ(job_wait(&j), 1);
        if (i == 3 && strstr(job_err(&j), "libmicrohttpd"))
            CHECK_EQ(count_words(job_err(&j), "\n"), 1);
        else
            check_sentence(&j, 1, words);
        job_finish(&j);
    }
    close(fd);
}

/* -- peers ------------------------------------------------------------------------------------ */

TEST(who_is_waited_for_in_vain_is_named)
{
    static const struct {
        const char *node, *host, *words;
    } rows[] = {
        {"0", "127.0.0.1",
         "waited 1 s for the other nodes: nodes 1-3 of 4 never came to 127.0.0.1:|"
         "--rdzv-conf timeout=SECONDS"},
        {"2", "127.0.0.1",
         "this node, 2 of 4, could not reach node 0: |connection refused|is the endpoint "
         "127.0.0.1:"},
        {"1", "no-such-host.invalid",
         "this node, 1 of 4, could not reach node 0: |cannot resolve \"no-such-host.invalid\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct job j;
        char port[8];
        CHECK_ROW("node %s", rows[i].node);
        CHECK_EQ(JOB(&j, "--nnodes", "4", "--node-rank", rows[i].node, "--master-addr",
                     rows[i].host, "--master-port", free_port(port), "--rdzv-conf", "timeout=1",
                     NO_PYTHON, "line:a worker ran"),
                 1);
        check_sentence(&j, 1, rows[i].words);
        job_finish(&j);
    }
}
