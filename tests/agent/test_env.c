/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/env.h"
#include "tests/lib/check.h"

#include <signal.h>

static struct dt_plan plan_of(char **argv)
{
    return (struct dt_plan){
        .argv = argv,
        .nproc = 4,
        .role = (char *)"trainer",
        .run_id = (char *)"job 7",
        .max_restarts = 3,
        .stop_signals = 1u << SIGTERM | 1u << SIGINT,
    };
}

static const struct dt_world world = {
    .round = 5,
    .group_rank = 1,
    .group_size = 3,
    .first_rank = 4,
    .size = 12,
    .first_role_rank = 2,
    .role_size = 8,
    .master_addr = "node0",
    .master_port = 29500,
    .store_is_served = true,
};

/* The list as lines. */
static const char *joined(char **list)
{
    static char text[4000];
    text[0] = '\0';
    for (char **at = list; at && *at; at++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s\n", *at);
    return text;
}

static const char *value_in(char **list, const char *name)
{
    for (char **at = list; at && *at; at++)
        if (strncmp(*at, name, strlen(name)) == 0 && (*at)[strlen(name)] == '=')
            return *at + strlen(name) + 1;
    return NULL;
}

TEST(a_worker_is_told_its_place)
{
    struct dt_plan plan = plan_of(NULL);
    struct dt_env_worker worker = {
        .local_rank = 2, .restart_count = 1, .log_dir = "/l", .error_file = "/l/2/error.json"};
    char *base[] = {NULL};
    struct dt_err err = {0};
    char **env = dt_env_make(&plan, &world, &worker, base, &err);
    CHECK_STR(joined(env), "LOCAL_RANK=2\n"
                           "RANK=6\n"
                           "GROUP_RANK=1\n"
                           "ROLE_RANK=4\n"
                           "ROLE_NAME=trainer\n"
                           "LOCAL_WORLD_SIZE=4\n"
                           "WORLD_SIZE=12\n"
                           "GROUP_WORLD_SIZE=3\n"
                           "ROLE_WORLD_SIZE=8\n"
                           "MASTER_ADDR=node0\n"
                           "MASTER_PORT=29500\n"
                           "TORCHELASTIC_RESTART_COUNT=1\n"
                           "TORCHELASTIC_MAX_RESTARTS=3\n"
                           "TORCHELASTIC_RUN_ID=job 7\n"
                           "TORCHELASTIC_USE_AGENT_STORE=True\n"
                           "TORCH_NCCL_ASYNC_ERROR_HANDLING=1\n"
                           "TORCHELASTIC_ERROR_FILE=/l/2/error.json\n"
                           "TORCHELASTIC_SIGNALS_TO_HANDLE=SIGINT,SIGTERM\n"
                           "DTRUN=" DT_VERSION "\n"
                           "DTRUN_ROUND=5\n"
                           "DTRUN_RESTART_COUNT=1\n"
                           "DTRUN_LOG_DIR=/l\n");
    dt_env_free(env);
}

TEST(what_we_inherit_keeps_its_order_and_is_overlaid_in_place)
{
    struct dt_plan plan = plan_of(NULL);
    struct dt_env_worker worker = {.local_rank = 0};
    char *base[] = {(char *)"PATH=/bin", (char *)"RANK=77",        (char *)"EMPTY=",
                    (char *)"odd",       (char *)"PATH=/twice",    (char *)"RANKS=1",
                    (char *)"RAN=1",     (char *)"WORLD_SIZE=x=y", NULL};
    struct dt_err err = {0};
    char **env = dt_env_make(&plan, &world, &worker, base, &err);
    const char head[] = "PATH=/bin\nRANK=4\nEMPTY=\nodd\nRANKS=1\nRAN=1\nWORLD_SIZE=12\n"
                        "LOCAL_RANK=0\nGROUP_RANK=1\n";
    CHECK_EQ(strncmp(joined(env), head, sizeof head - 1), 0);
    for (char **a = env; *a; a++)
        for (char **b = a + 1; *b; b++) {
            CHECK_ROW("%s and %s", *a, *b);
            CHECK(strcspn(*a, "=") != strcspn(*b, "=") || strncmp(*a, *b, strcspn(*a, "=")) != 0);
        }
    dt_env_free(env);
}

TEST(a_worker_is_told_where_it_was_and_nothing_of_an_outer_job)
{
    static const struct {
        int prev_first_rank, prev_size;
        const char *rank, *size;
    } rows[] = {{-1, 0, NULL, NULL}, {8, 16, "10", "16"}, {0, 4, "2", "4"}};
    struct dt_plan plan = plan_of(NULL);
    struct dt_env_worker worker = {.local_rank = 2};
    char *base[] = {(char *)"A=", (char *)"DTRUN_PREV_RANK=77", (char *)"DTRUN_PREV_WORLD_SIZE=99",
                    (char *)"Z=", NULL};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_world w = world;
        struct dt_err err = {0};
        CHECK_ROW("%d of %d", rows[i].prev_first_rank, rows[i].prev_size);
        w.prev_first_rank = rows[i].prev_first_rank;
        w.prev_size = rows[i].prev_size;
        char **env = dt_env_make(&plan, &w, &worker, base, &err);
        CHECK_STR(value_in(env, "DTRUN_PREV_RANK"), rows[i].rank);
        CHECK_STR(value_in(env, "DTRUN_PREV_WORLD_SIZE"), rows[i].size);
        CHECK_STR(value_in(env, "A"), "");
        CHECK_STR(value_in(env, "Z"), "");
        dt_env_free(env);
    }
}

TEST(a_worker_is_told_where_its_flight_recorder_dumps)
{
    static const struct {
        const char *prefix, *dump;
        bool buffer;
        const char *size, *of_dump, *pipe;
    } rows[] = {
        {"/l/2/flight/rank_", "TORCH_FR_DUMP_TEMP_FILE", true, "2000", "/l/2/flight/rank_",
         "/l/2/flight/rank_"},
        {"/l/2/flight/rank_", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE", false, NULL, "/l/2/flight/rank_",
         "/l/2/flight/rank_"},
        {NULL, "TORCH_FR_DUMP_TEMP_FILE", true, NULL, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%zu", i);
        struct dt_plan plan = plan_of(NULL);
        struct dt_env_worker worker = {.local_rank = 2, .flight = rows[i].prefix};
        char *base[] = {NULL};
        struct dt_err err = {0};
        plan.flight_dump = rows[i].dump;
        plan.flight_buffer = rows[i].buffer;
        char **env = dt_env_make(&plan, &world, &worker, base, &err);
        CHECK_STR(value_in(env, "TORCH_FR_BUFFER_SIZE"), rows[i].size);
        CHECK_STR(value_in(env, rows[i].dump), rows[i].of_dump);
        CHECK_STR(value_in(env, "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"), rows[i].pipe);
        dt_env_free(env);
    }
}

TEST(the_number_of_a_progress_page_is_the_workers_own)
{
    struct dt_plan plan = plan_of(NULL);
    char *base[] = {(char *)"A=", (char *)"DTRUN_PROGRESS_FD=77", (char *)"Z=", NULL};
    for (int fd = 0; fd <= 12; fd += 12) {
        struct dt_env_worker worker = {.local_rank = 2, .progress_fd = fd};
        struct dt_err err = {0};
        char **env = dt_env_make(&plan, &world, &worker, base, &err);
        CHECK_STR(value_in(env, "DTRUN_PROGRESS_FD"), fd ? "12" : NULL);
        CHECK_STR(value_in(env, "Z"), "");
        dt_env_free(env);
    }
}

TEST(the_numbers_of_a_vaults_files_are_the_workers_own)
{
    struct dt_plan plan = plan_of(NULL);
    char *base[] = {(char *)"DTRUN_VAULT_FD=77", (char *)"DTRUN_VAULT_PEER_FD=78", NULL};
    for (int fd = 0; fd <= 12; fd += 12) {
        struct dt_env_worker worker = {.local_rank = 2, .vault_own_fd = fd, .vault_peer_fd = fd};
        struct dt_err err = {0};
        char **env = dt_env_make(&plan, &world, &worker, base, &err);
        CHECK_STR(value_in(env, "DTRUN_VAULT_FD"), fd ? "12" : NULL);
        CHECK_STR(value_in(env, "DTRUN_VAULT_PEER_FD"), fd ? "12" : NULL);
        dt_env_free(env);
    }
}

TEST(nccl_is_told_where_our_profiler_is)
{
    static const struct {
        const char *path;
        enum dt_plan_nccl events;
        int fd;
        const char *plugin, *told;
    } rows[] = {
        {"/lib/p.so", DT_NCCL_CALLS, 12, "/lib/p.so", NULL},
        {"/lib/p.so", DT_NCCL_KERNELS, 12, "/lib/p.so", "kernels"},
        {"/lib/p.so", DT_NCCL_KERNELS, 0, "theirs", NULL}, /* there is no page to write to */
        {NULL, DT_NCCL_CALLS, 12, "theirs", NULL},
        {NULL, DT_NCCL_OFF, 12, "theirs", NULL},
    };
    char *base[] = {(char *)"NCCL_PROFILER_PLUGIN=theirs", (char *)"DTRUN_NCCL_EVENTS=outer", NULL};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_plan plan = plan_of(NULL);
        struct dt_env_worker worker = {.local_rank = 2, .progress_fd = rows[i].fd};
        struct dt_err err = {0};
        CHECK_ROW("row %zu", i);
        plan.nccl_profiler = (char *)rows[i].path;
        plan.nccl_events = rows[i].events;
        char **env = dt_env_make(&plan, &world, &worker, base, &err);
        CHECK_STR(value_in(env, "NCCL_PROFILER_PLUGIN"), rows[i].plugin);
        CHECK_STR(value_in(env, "DTRUN_NCCL_EVENTS"), rows[i].told);
        dt_env_free(env);
    }
}

TEST(some_are_only_defaults)
{
    static const struct {
        const char *base, *name;
        int omp;
        const char *timer, *error_file, *value;
    } rows[] = {
        {"A=", "OMP_NUM_THREADS", 0, NULL, NULL, NULL},
        {"A=", "OMP_NUM_THREADS", 6, NULL, NULL, "6"},
        {"OMP_NUM_THREADS=2", "OMP_NUM_THREADS", 6, NULL, NULL, "2"},
        {"OMP_NUM_THREADS=", "OMP_NUM_THREADS", 6, NULL, NULL, ""},
        {"TORCH_NCCL_ASYNC_ERROR_HANDLING=0", "TORCH_NCCL_ASYNC_ERROR_HANDLING", 0, NULL, NULL,
         "0"},
        {"A=", "TORCHELASTIC_TIMER_FILE", 0, NULL, NULL, NULL},
        {"A=", "TORCHELASTIC_TIMER_FILE", 0, "/t", NULL, "/t"},
        {"TORCHELASTIC_TIMER_FILE=/u", "TORCHELASTIC_TIMER_FILE", 0, NULL, NULL, "/u"},
        {"TORCHELASTIC_TIMER_FILE=/u", "TORCHELASTIC_TIMER_FILE", 0, "/t", NULL, "/t"},
        {"TORCHELASTIC_ERROR_FILE=/ours", "TORCHELASTIC_ERROR_FILE", 0, NULL, NULL, ""},
        {"TORCHELASTIC_ERROR_FILE=/ours", "TORCHELASTIC_ERROR_FILE", 0, NULL, "/its", "/its"},
        {"CUDA_VISIBLE_DEVICES=3,4", "CUDA_VISIBLE_DEVICES", 0, NULL, NULL, "3,4"},
        {"A=", "CUDA_VISIBLE_DEVICES", 0, NULL, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_plan plan = plan_of(NULL);
        struct dt_env_worker worker = {.error_file = rows[i].error_file,
                                       .timer_file = rows[i].timer};
        char *base[] = {(char *)rows[i].base, NULL};
        struct dt_err err = {0};
        CHECK_ROW("%s: %s", rows[i].base, rows[i].name);
        plan.omp_threads = rows[i].omp;
        char **env = dt_env_make(&plan, &world, &worker, base, &err);
        CHECK_STR(value_in(env, rows[i].name), rows[i].value);
        dt_env_free(env);
    }
}

TEST(a_store_that_worker_0_opens_is_not_the_agents)
{
    struct dt_plan plan = plan_of(NULL);
    struct dt_world alone = world;
    struct dt_env_worker worker = {0};
    char *base[] = {NULL};
    struct dt_err err = {0};
    alone.store_is_served = false;
    char **env = dt_env_make(&plan, &alone, &worker, base, &err);
    CHECK_STR(value_in(env, "TORCHELASTIC_USE_AGENT_STORE"), "False");
    dt_env_free(env);
}

TEST(a_virtual_local_rank_is_0_with_a_device_of_its_own)
{
    static const struct {
        const char *base;
        int local_rank;
        const char *device; /* NULL: there is none */
    } rows[] = {
        {"A=", 0, "0"},
        {"A=", 3, "3"},
        {"CUDA_VISIBLE_DEVICES=4,GPU-1,6", 0, "4"},
        {"CUDA_VISIBLE_DEVICES=4,GPU-1,6", 1, "GPU-1"},
        {"CUDA_VISIBLE_DEVICES=4,GPU-1,6", 2, "6"},
        {"CUDA_VISIBLE_DEVICES=4,GPU-1,6", 3, NULL},
        {"CUDA_VISIBLE_DEVICES=", 0, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_plan plan = plan_of(NULL);
        struct dt_env_worker worker = {.local_rank = rows[i].local_rank};
        char *base[] = {(char *)rows[i].base, NULL};
        struct dt_err err = {0};
        CHECK_ROW("%s, %d", rows[i].base, rows[i].local_rank);
        plan.virtual_local_rank = true;
        char **env = dt_env_make(&plan, &world, &worker, base, &err);
        CHECK_EQ(env != NULL, rows[i].device != NULL);
        CHECK_STR(value_in(env, "CUDA_VISIBLE_DEVICES"), rows[i].device);
        CHECK_STR(value_in(env, "LOCAL_RANK"), rows[i].device ? "0" : NULL);
        if (!env)
            CHECK(strstr(err.text, "--virtual-local-rank: ") != NULL);
        dt_env_free(env);
    }
}

TEST(arguments_get_the_local_rank_but_the_program_does_not)
{
    char *argv[] = {(char *)"run_$local_rank",   (char *)"-u", (char *)"$local_rank",
                    (char *)"a${local_rank}b$$", (char *)"",   NULL};
    struct dt_plan plan = plan_of(argv);
    struct dt_err err = {0};
    char **list = dt_env_argv(&plan, 11, &err);
    CHECK_STR(joined(list), "run_$local_rank\n-u\n11\na11b$\n\n");
    dt_env_free(list);
}

/* As Python 3.11's string.Template(TEXT).safe_substitute(local_rank="3", rank="11",
 * role_name="$$trainer") answered. */
TEST(templates_mean_what_they_mean_in_python)
{
    /* clang-format off */
    static const struct {
        const char *text, *made;
    } rows[] = {
        {"", ""},
        {"plain", "plain"},
        {"$local_rank", "3"},
        {"${local_rank}", "3"},
        {"$$", "$"},
        {"$$$", "$$"},
        {"$$$$", "$$"},
        {"$", "$"},
        {"a$", "a$"},
        {"$ x", "$ x"},
        {"${", "${"},
        {"${}", "${}"},
        {"${local_rank", "${local_rank"},
        {"${local_rank }", "${local_rank }"},
        {"${ local_rank}", "${ local_rank}"},
        {"$1", "$1"},
        {"${1}", "${1}"},
        {"$local_rankx", "$local_rankx"},
        {"$local_rank.x", "3.x"},
        {"$local_rank-1", "3-1"},
        {"${local_rank}x", "3x"},
        {"$local_rank$local_rank", "33"},
        {"${local_rank}${local_rank}", "33"},
        {"$LOCAL_RANK", "$LOCAL_RANK"},
        {"${Local_Rank}", "${Local_Rank}"},
        {"$${local_rank}", "${local_rank}"},
        {"$$local_rank", "$local_rank"},
        {"$$$local_rank", "$3"},
        {"$$$${local_rank}", "$${local_rank}"},
        {"$foo", "$foo"},
        {"${foo}", "${foo}"},
        {"$foo$local_rank", "$foo3"},
        {"$_", "$_"},
        {"$_local_rank", "$_local_rank"},
        {"$local_rank_", "$local_rank_"},
        {"$local_rank\xc3\xa9", "3\xc3\xa9"},
        {"$\xc3\xa9", "$\xc3\xa9"},
        {"\xc3\xa9""$local_rank\xc3\xa9", "\xc3\xa9""3\xc3\xa9"},
        {"${local_rank\xc3\xa9""}", "${local_rank\xc3\xa9""}"},
        {"$\xe2\x84\xaa""local_rank", "$\xe2\x84\xaa""local_rank"},
        {"$local_ran\xe2\x84\xaa", "$local_ran\xe2\x84\xaa"},
        {"$\xc5\xbf""x", "$\xc5\xbf""x"},
        {"${local_rank}}", "3}"},
        {"{$local_rank}", "{3}"},
        {"${${local_rank}}", "${3}"},
        {"${$local_rank}", "${3}"},
        {"$\n$local_rank", "$\n3"},
        {"$-$local_rank", "$-3"},
        {"out_$local_rank/$$HOME/${rank}", "out_3/$HOME/11"},
        {"%d$local_rank%", "%d3%"},
        {"${x}$${y}$$z$", "${x}${y}$z$"},
        {"$rank of $role_name:", "11 of $$trainer:"},
        {"${role_name}[$rank]", "$$trainer[11]"},
        {"$rank$$$local_rank", "11$3"},
        {"$role_name0", "$role_name0"},
    };
    /* clang-format on */
    static const char *const names[] = {"local_rank", "rank", "role_name", NULL};
    static const char *const values[] = {"3", "11", "$$trainer"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].text);
        char *made = dt_env_substitute(rows[i].text, names, values);
        CHECK_STR(made, rows[i].made);
        free(made);
    }
}
