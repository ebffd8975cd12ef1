/* SPDX-License-Identifier: Apache-2.0 */
/* What dtrun can be told: torchrun's command line, spelling for spelling, and what is dtrun's own.
 *
 * torchrun decides much of what is right only after parsing, and ends with 1 where a usage error
 * would be 2. So what it takes as plain text is plain text here too, and
 * launcher/planning/planning.h reads it. Options of dtrun alone are read at once, cannot be
 * abbreviated, and so make none of torchrun's abbreviations ambiguous; in the environment they are
 * DTRUN_*, torchrun's are PET_*. */
#ifndef DT_LAUNCHER_OPTIONS_H
#define DT_LAUNCHER_OPTIONS_H

#include "agent/plan.h"
#include "base/err.h"
#include "base/log.h"
#include "base/opt/opt.h"
#include "preflight/probe.h"

#include <stdbool.h>
#include <stdint.h>

/* Where the workers of a job are, and how its nodes meet: what hardly a script has options for. */
#define DT_LAUNCH_NODES_GROUP "Nodes and workers"
#define DT_LAUNCH_RDZV_GROUP "Rendezvous"

/* Options of these are for elastic jobs, others note that they have no effect. */
#define DT_LAUNCH_ELASTIC_GROUP "Elastic jobs"

/* Of these, the agents that they start on other hosts hear nothing. */
#define DT_LAUNCH_FLEET_GROUP "Several hosts from one terminal"

/* How OMP_NUM_THREADS is chosen. */
enum dt_launch_omp { DT_OMP_TORCHRUN, DT_OMP_AUTO, DT_OMP_GIVEN };

struct dt_launch_threads {
    enum dt_launch_omp how;
    int count; /* of DT_OMP_GIVEN */
};

/* Texts are as written. */
struct dt_launch_options {
    /* torchrun's */
    char *nnodes, *nproc_per_node, *role;
    char *rdzv_backend, *rdzv_endpoint, *rdzv_id, *rdzv_conf, *local_addr;
    bool standalone;
    int node_rank;
    char *master_addr;
    int master_port;
    bool module, no_python, run_path, virtual_local_rank;
    char *start_method;
    enum dt_plan_bind numa_binding;
    double monitor_interval;
    char *signals_to_handle;
    dt_ms shutdown_timeout, exit_barrier_timeout;
    char *log_dir, *redirects, *tee, *local_ranks_filter;
    char *stdout_filters, *stderr_filters, *logs_specs, *event_log_handler;

    /* dtrun's own */
    struct dt_opt_strings look; /* pids */
    bool json, native;
    struct dt_opt_strings check_folder, check_file; /* of dtrun doctor */
    enum dt_compute_what check_compute;
    bool doctor; /* not from the table: DT_LAUNCH_DOCTOR stood before the options */
    enum dt_plan_preflight preflight;
    bool print_config, stop_leaders_first, inherit_streams, whole_lines, collapse_lines,
        strip_codes;
    enum dt_plan_exit exit_code;
    struct dt_launch_threads omp_threads;
    uint64_t forward_signals;
    dt_ms partial_line_after;
    enum dt_plan_keep_logs keep_logs;
    struct dt_log_limits log_limits;
    bool end_workers; /* --keep-workers never */
    char *store_listen;
    struct dt_opt_cidrs store_allow;
    int health_port;
    char *health_address;
    struct dt_opt_strings upload;
    char *upload_cmd;
    dt_ms upload_after, upload_timeout;
    bool no_look;
    dt_ms hang_after;
    enum dt_plan_on_hang on_hang;
    enum dt_plan_on_straggler on_straggler;
    int look_signal;
    enum dt_plan_nccl nccl_profiler;
    enum dt_log_level log_level;
    enum dt_log_format log_format;

    /* ... for elastic jobs */
    struct dt_run_spec run; /* what options say of it */
    bool stop_when_away;
    char *token_file, *run_token_file, *node_name, *domain, *progress_file;
    struct dt_opt_strings http;
    char *http_token_file;

    /* ... to start agents on other hosts */
    char *hosts, *hostfile, *launch_agent, *remote_dtrun;
    struct dt_opt_strings export;
    bool fleet_agent; /* such an agent: its order comes on standard input */

    /* of dtrun-launch */
    bool use_env;

    /* Not from the table. */
    const struct dt_opt_program *program;
    struct dt_opt_result result;
    char *const *operands; /* the script and what is its, nothing with a look; NULL-ended; the
                              caller's */
};

/* dtrun, for torchrun, and dtrun-launch, for torch.distributed.launch. Also read by the generator
 * of man page and completions. */
extern const struct dt_opt_program dt_launch_program, dt_legacy_program;

/* Reads ARGV and ENV (as environ(7)). When RESULT asks for help or a version, nothing else is set.
 * End with dt_launch_options_finish() also after a failure. */
int dt_launch_options_read(struct dt_launch_options *o, const struct dt_opt_program *program,
                           int argc, char *const *argv, char *const *env, struct dt_err *err);
/* The same of a line whose first word was DT_LAUNCH_DOCTOR: SCRIPT may be missing. */
#define DT_LAUNCH_DOCTOR "doctor"
int dt_launch_options_read_doctor(struct dt_launch_options *o, const struct dt_opt_program *program,
                                  int argc, char *const *argv, char *const *env,
                                  struct dt_err *err);
void dt_launch_options_finish(struct dt_launch_options *o);

/* Whether somebody said anything about the option NAME, be it what it is anyway. */
bool dt_launch_options_gave(const struct dt_launch_options *o, const char *name);

#endif
