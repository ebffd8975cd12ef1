/* SPDX-License-Identifier: Apache-2.0 */
/* What the environment of a scheduler makes of a job, and of several that it starts at once. */
#include "tests/launcher/told.h"

/* clang-format off */
TEST(a_scheduler_knows_what_nobody_wrote)
{
    static const struct told_row rows[] = {
        {UP_TO_4 "--node-rank=0|x", "GROUP_RANK=3", "place wished for: 0", NULL, 0},
        {UP_TO_4 "x", "PET_NODE_RANK=2|GROUP_RANK=3", "place wished for: 2", NULL, 0},
        {UP_TO_4 "x", "GROUP_RANK=3|SLURM_NODEID=4", "place wished for: 3", NULL, 0},
        {UP_TO_4 "x", "GROUP_RANK=none|SLURM_NODEID=4|PMI_RANK=6", "place wished for: 4", NULL, 0},
        {UP_TO_4 "x", "JOB_COMPLETION_INDEX=5|PMI_RANK=6", "place wished for: 5", NULL, 0},
        {UP_TO_4 "x", "PMI_RANK=6", "place wished for: 6", NULL, 0},
        {UP_TO_4 "x", "PMI_RANK=-6|SLURM_PROCID=0", "place wished for: none", NULL, 0},
        {UP_TO_4 "x", "SLURM_NNODES=4|SLURM_JOB_NUM_NODES=8|SLURM_JOB_ID=77", "nodes started: 4|scheduler's job: 77", NULL,
         0},
        {UP_TO_4 "x", "SLURM_NNODES=0|SLURM_JOB_NUM_NODES=8|PBS_JOBID=77.host", "nodes started: 8|scheduler's job: 77.host",
         NULL, 0},
        {UP_TO_4 "x", "LSB_JOBID=5", "scheduler's job: 5", NULL, 0},
        {UP_TO_4 "x", "LSB_JOBID=5|LSB_JOBINDEX=0", "scheduler's job: 5", NULL, 0},
        {UP_TO_4 "x", "LSB_JOBID=5|LSB_JOBINDEX=3", "scheduler's job: '5[3]'", NULL, 0},
    };
    TOLD_ROWS(&dt_launch_program, rows);
}

#define AT_A_DAEMON(id, from) "run id: none|run id at a daemon: " id "|run id at a daemon is from: " from

TEST(a_scheduler_names_the_run_of_whoever_does_not)
{
    static const struct told_row rows[] = {
        {UP_TO_4 "x", "SLURM_JOB_ID=77", AT_A_DAEMON("slurm-77", "SLURM_JOB_ID"), NULL, 0},
        {UP_TO_4 "x", "PBS_JOBID=77[2].head", AT_A_DAEMON("'pbs-77[2].head'", "PBS_JOBID"), NULL, 0},
        {UP_TO_4 "x", "LSB_JOBID=5|LSB_JOBINDEX=3", AT_A_DAEMON("'lsf-5[3]'", "LSB_JOBID"), NULL, 0},
        {UP_TO_4 "x", "SLURM_JOB_ID=|LSB_JOBID=5", AT_A_DAEMON("lsf-5", "LSB_JOBID"), NULL, 0},
        {UP_TO_4 "x", "DT_TOLD_POD_JOB=team-train",
         AT_A_DAEMON("k8s-team-train", "'the names of this pod and its Job'") "|scheduler's job: none", NULL, 0},
        {UP_TO_4 "--rdzv-id=j|x", "SLURM_JOB_ID=77", "run id: j|endpoint: h:5", NULL, 0},
        {UP_TO_4 "--rdzv-id=none|x", "SLURM_JOB_ID=77", "run id: none|endpoint: h:5", NULL, 0},
        {UP_TO_4 "x", "PET_RDZV_ID=j|DT_TOLD_POD_JOB=train", "run id: j|endpoint: h:5", NULL, 0},
        {UP_TO_4 "x", "", "run id: none|endpoint: h:5", NULL, 0},
        {"--nnodes=2|x", "SLURM_JOB_ID=77", "run id: none|endpoint: 127.0.0.1:29500", NULL, 0}, /* it meets nobody's */
    };
    TOLD_ROWS(&dt_launch_program, rows);
}

#define ONE_JOB_EACH ", and each is a job of its own, on one node; for one job on all of them give "
#define OR_MEANT ", for a job on each --nnodes=1"
#define OR_SRUN "; start it by srun, or with --hosts, or give --nnodes=1 if one is meant"

TEST(a_scheduler_that_started_more_of_us)
{
    static const struct { const char *env, *line; } rows[] = {
        {"SLURM_NNODES=2|SLURM_STEP_NUM_NODES=2", "Slurm started 2 of dtrun" ONE_JOB_EACH
         "--nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=HOST:29400" OR_MEANT},
        {"SLURM_NNODES=8|SLURM_STEP_NUM_NODES=2|SLURM_STEP_NODELIST=gpu[07-08]", "Slurm started 2 of dtrun" ONE_JOB_EACH
         "--nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=gpu07:29400" OR_MEANT},
        {"SLURM_STEP_NUM_NODES=3|SLURM_STEP_NODELIST=cpu1,gpu[1-2]", "Slurm started 3 of dtrun" ONE_JOB_EACH
         "--nnodes=3 --rdzv-backend=c10d --rdzv-endpoint=cpu1:29400" OR_MEANT},
        {"SLURM_STEP_NUM_NODES=2|SLURM_STEP_NODELIST=rack[1-2]-a", "Slurm started 2 of dtrun" ONE_JOB_EACH
         "--nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=HOST:29400" OR_MEANT},
        {"OMPI_COMM_WORLD_SIZE=4", "mpirun started 4 of dtrun" ONE_JOB_EACH
         "--nnodes=4 --rdzv-backend=c10d --rdzv-endpoint=HOST:29400" OR_MEANT},
        {"KUBERNETES_SERVICE_HOST=10.0.0.1|JOB_COMPLETION_INDEX=1|HOSTNAME=llama-1",
         "Kubernetes started this dtrun as one of several" ONE_JOB_EACH
         "--nnodes=N --rdzv-backend=c10d --rdzv-endpoint=llama-0.SERVICE:29400" OR_MEANT},
        {"KUBERNETES_SERVICE_HOST=10.0.0.1|JOB_COMPLETION_INDEX=0|HOSTNAME=other",
         "Kubernetes started this dtrun as one of several" ONE_JOB_EACH
         "--nnodes=N --rdzv-backend=c10d --rdzv-endpoint=HOST:29400" OR_MEANT},
        /* In a batch script, and so one alone. */
        {"SLURM_NNODES=4|SLURM_JOB_NODELIST=n[1-4]", "the allocation has 4 nodes, and this dtrun uses one" OR_SRUN},
        {"SLURM_JOB_NUM_NODES=3", "the allocation has 3 nodes, and this dtrun uses one" OR_SRUN},
        {"SLURM_NNODES=4|OMPI_COMM_WORLD_SIZE=4", "mpirun started 4 of dtrun" ONE_JOB_EACH
         "--nnodes=4 --rdzv-backend=c10d --rdzv-endpoint=HOST:29400" OR_MEANT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char line[512];
        snprintf(line, sizeof line, "nodes: 1|warning: %s", rows[i].line);
        struct told_row row = {.args = "x", .env = rows[i].env, .lines = line};
        told_check_rows(&dt_launch_program, &row, 1);
    }
}

TEST(what_could_be_a_mistake_and_most_often_is_none)
{
    static const char *const rows[][2] = {
        {"--nproc-per-node=2|x|--nproc-per-node=2", "OMP_NUM_THREADS=1"}, /* it is meant for both */
        {"x|--log-dir|l|--role|r|-r|--lr|--nproc|nnodes|-nnodes", ""},    /* a script's own */
        {"--nnodes=1|x", "SLURM_NNODES=2"},
        {"--nnodes=1|x", "SLURM_NNODES=2|SLURM_STEP_NUM_NODES=2"},
        {"--standalone|x", "SLURM_NNODES=2|SLURM_STEP_NUM_NODES=2"},
        {"x", "SLURM_NNODES=1"},
        {"x", "SLURM_NNODES=8|SLURM_STEP_NUM_NODES=1"}, /* a step on one node of eight */
        {"x", "SLURM_NNODES=many"},
        {"x", "OMPI_COMM_WORLD_SIZE=1"},
        {"--nnodes=1|x", "OMPI_COMM_WORLD_SIZE=4"},
        {"x", "JOB_COMPLETION_INDEX=1"}, /* of something else */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct told t;
        CHECK_ROW("%s, with %s", rows[i][0], rows[i][1]);
        told_tell(&t, &dt_launch_program, rows[i][0], rows[i][1]);
        CHECK_OK(t.rc, t.err);
        CHECK(strstr(dt_buf_cstr(&t.text), "warning: ") == NULL);
        told_finish(&t);
    }
}
/* clang-format on */
