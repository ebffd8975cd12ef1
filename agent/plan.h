/* SPDX-License-Identifier: Apache-2.0 */
/* What one agent is to do, checked and complete: the launcher makes it out of options, the agent
 * carries it out. Plain data; a person's mistakes have all been answered before one exists. */
#ifndef DT_AGENT_PLAN_H
#define DT_AGENT_PLAN_H

#include "agent/log_runs.h"
#include "base/addr.h"
#include "base/clock.h"
#include "base/err.h"
#include "rendezvous/protocol/messages.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bits of a worker's streams, as in --redirects and --tee. */
#define DT_STDOUT 1u
#define DT_STDERR 2u

enum dt_plan_backend { DT_BACKEND_STATIC, DT_BACKEND_C10D };
enum dt_plan_is_host { DT_HOST_INFERRED, DT_HOST_YES, DT_HOST_NO };
enum dt_plan_bind {
    DT_BIND_NONE,
    DT_BIND_NODE,
    DT_BIND_SOCKET,
    DT_BIND_EXCLUSIVE,
    DT_BIND_COMPLEX
};
enum dt_plan_exit { DT_EXIT_TORCHRUN, DT_EXIT_ROOT_CAUSE };
/* What a worker that holds the others up leads to: nothing is measured, or it is said, or its node
 * also makes room for a spare. */
enum dt_plan_on_straggler { DT_ON_STRAGGLER_LOG, DT_ON_STRAGGLER_DRAIN, DT_ON_STRAGGLER_OFF };
enum dt_plan_on_hang { DT_ON_HANG_LOG, DT_ON_HANG_RESTART, DT_ON_HANG_STOP };
enum dt_plan_nccl { DT_NCCL_CALLS, DT_NCCL_KERNELS, DT_NCCL_OFF };
/* AUTO becomes one of the others when a plan is made. */
enum dt_plan_preflight {
    DT_PREFLIGHT_AUTO,
    DT_PREFLIGHT_OFF,
    DT_PREFLIGHT_FAST,
    DT_PREFLIGHT_FULL
};
enum dt_plan_keep_logs { DT_KEEP_ALL_LOGS, DT_KEEP_LOGS_OF_FAILURE };

#define DT_HANG_AUTO (-1) /* as long as their steps, or else their stacks, tell */

/* Where a worker's output goes, beside dtrun's own streams. */
struct dt_plan_streams {
    unsigned redirect, tee; /* DT_STDOUT, DT_STDERR; teed streams show although redirected */
    bool hidden;            /* --local-ranks-filter leaves it off the console */
};

struct dt_plan_upload {
    char *dir;
    char *url; /* NULL: the command knows */
};

/* NULL-ended lists and all strings are owned, NULL where absent. */
struct dt_plan {
    /* What runs. */
    char **argv;             /* of every worker; $local_rank is not put in yet */
    char *title;             /* how reports and events call it: "train.py" */
    char *python_from;       /* what named the interpreter in argv; NULL: there is none in it */
    int nproc;               /* workers on this node */
    char *role;              /* never NULL */
    bool virtual_local_rank; /* each worker is 0 and sees one device */
    int omp_threads;         /* OMP_NUM_THREADS for the workers; 0: leave it alone */
    char *ctype;             /* LC_CTYPE for the workers; NULL: leave it alone */

    /* Where the nodes meet. */
    enum dt_plan_backend backend;
    int min_nodes, max_nodes; /* static: both are the number of nodes */
    int node_rank;
    char *run_id; /* never NULL nor empty */
    /* What a rendezvous where many people meet calls the run instead, as nobody named it, and
     * where that is from: "SLURM_JOB_ID". NULL: the same. */
    char *scheduled_id, *scheduled_by;
    char *endpoint_host;   /* as written; it becomes MASTER_ADDR of a static job. Never NULL */
    int endpoint_port;     /* 0: any free one, of a job of one node */
    char *local_addr;      /* how the others reach this node */
    dt_ms join_timeout;    /* until all are there */
    dt_ms read_timeout;    /* for the store to answer */
    dt_ms barrier_timeout; /* at the end, for the others to finish */
    bool identical;        /* ranks follow from the node's rank, nothing is exchanged */
    char *store_listen;    /* ADDR to serve the store on; NULL: loopback for one node, else all */
    struct dt_cidr *store_allow;
    size_t store_allow_count;

    /* Of an elastic job. */
    struct dt_run_spec run;
    enum dt_plan_is_host is_host;
    int order;             /* the seat this node wishes for; -1: none */
    int expected_nodes;    /* that the scheduler started; 0: unknown */
    char *node_name;       /* NULL: the host's */
    char *domain;          /* NULL: none */
    char *token_file;      /* holds the secret of the control protocol; NULL: none */
    char *run_token_file;  /* ... and that of this run */
    bool stop_when_away;   /* workers end when the rendezvous cannot be reached */
    char *progress_file;   /* a worker writes its step there; NULL: none */
    char **http;           /* ADDR:PORT where a rendezvous that we host answers HTTP */
    char *http_token_file; /* holds the secret that it asks for; NULL: none */

    /* When something fails, or somebody wants it to end. */
    int max_restarts;
    bool keep_workers;        /* those that can stay when others fail are not started again */
    bool retry_deterministic; /* also what can only fail again is started again */
    uint64_t stop_signals;    /* bit N: signal N ends the job and goes to the workers */
    uint64_t forward_signals; /* bit N: signal N goes to the workers and nothing ends */
    dt_ms shutdown_timeout;   /* from the signal to SIGKILL */
    bool stop_leaders_first;
    enum dt_plan_exit exit_policy;

    /* Output. */
    char *log_dir;                           /* NULL: a fresh one in a temporary folder */
    bool no_logs;                            /* --log-dir /dev/null */
    struct dt_plan_streams *streams;         /* one for each local rank */
    char *line_prefix;                       /* template; NULL: torchrun's "[role0]:" */
    char **stdout_filters, **stderr_filters; /* lines with one of these go to a file of their own */
    bool inherit_streams;                    /* workers get our descriptors as they are */
    bool whole_lines;                        /* neither redirected nor teed, shown line by line */
    dt_ms partial_line_after;                /* show an unfinished line after that; 0: never */
    bool collapse_lines;                     /* show what several ranks say alike once */
    bool strip_codes;                        /* take terminal codes out of files */
    enum dt_plan_keep_logs keep_logs;
    struct dt_log_limits log_limits; /* of earlier runs in log_dir */

    /* Watching. */
    enum dt_plan_preflight preflight; /* what is looked at before the workers start */
    enum dt_plan_bind bind;
    char *event_log;      /* "null", "console" or "file:PATH". Never NULL */
    int health_port;      /* 0: none */
    char *health_address; /* NULL: every one */
    bool watchdog;        /* serve the file timers of workers */
    char *watchdog_path;  /* NULL: a fresh one in a temporary folder */
    char *nccl_profiler;  /* the plugin that NCCL in the workers loads; NULL: none of ours */
    enum dt_plan_nccl nccl_events; /* what it is to tell */
    char *error_file;              /* where we leave our own last word: TORCHELASTIC_ERROR_FILE */
    bool no_look;     /* nobody looks at what workers do; then the next three are "never" */
    dt_ms hang_after; /* they have stood still; DT_HANG_AUTO, or DT_FOREVER: never */
    enum dt_plan_on_hang on_hang;
    int look_signal; /* shows what they do; 0: none does */
    enum dt_plan_on_straggler on_straggler;
    /* PyTorch's flight recorder: the variable that tells workers where to dump, beside the one of
     * the pipe by which they are asked. NULL: leave all of that alone. */
    const char *flight_dump;
    bool flight_buffer; /* set TORCH_FR_BUFFER_SIZE too */

    /* Copies of what workers save. */
    struct dt_plan_upload *uploads;
    size_t upload_count;
    char *upload_cmd;     /* NULL: dtrun transfers itself */
    dt_ms upload_after;   /* what has not changed for so long is complete */
    dt_ms upload_timeout; /* at the end of the job */

    char **ignored;  /* sentences about options that have no effect here */
    char **needless; /* ... about options that change nothing wherever they stand: no warning */
};

#define DT_PLAN_HOST_MAX 256
#define DT_PLAN_ENDPOINT (DT_PLAN_HOST_MAX + 16)

/* "HOST:PORT" of the endpoint, as all nodes know it. -1: no host has so long a name. */
int dt_plan_endpoint(const struct dt_plan *plan, char out[DT_PLAN_ENDPOINT], struct dt_err *err);

/* Whether nodes come and go: a c10d job that meets at an endpoint, be it of one node. */
bool dt_plan_is_elastic(const struct dt_plan *plan);

/* Whether more than this node may take part, as one of the world or standing by. */
bool dt_plan_has_others(const struct dt_plan *plan);

/* Frees what it holds; fine on zeroed memory. */
void dt_plan_finish(struct dt_plan *plan);

#endif
