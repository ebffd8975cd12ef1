/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/options.h"

#include "launcher/values.h"

#include <stddef.h>
#include <string.h>

#define AT(field) .at = offsetof(struct dt_launch_options, field)
/* Of torchruns after 1.13, whose abbreviations go on to be what they were. */
#define LATER .later = true
#define OWN .exact = true, .env_prefix = "DTRUN_", .group = "Not in torchrun"
#define ELASTIC .exact = true, .env_prefix = "DTRUN_", .group = DT_LAUNCH_ELASTIC_GROUP
#define FLEET .exact = true, .env_prefix = "DTRUN_", .no_env = true, .group = DT_LAUNCH_FLEET_GROUP

/* The first row is of dtrun-launch alone. */
/* clang-format off */
static const struct dt_opt launch_opts[] = {
    {.name = "use-env", .no_env = true, AT(use_env), .group = "Program",
     .help = "tell workers their local rank in LOCAL_RANK only, not in an argument --local-rank=N as well"},

    {.name = "module", .letter = 'm', AT(module), .group = "Program", .help = "SCRIPT is a module, as for python -m"},
    {.name = "no-python", AT(no_python), .group = "Program",
     .help = "execute SCRIPT itself, which may be any program. A compiled program is recognised without this option"},
    {.name = "run-path", AT(run_path), .group = "Program",
     .help = "run SCRIPT with runpy.run_path(), so that the report shows the exception that ended it"},
    {.name = "role", .arg = "NAME", AT(role), .fallback = "default", .group = "Program",
     .help = "name of the workers' role; workers of one role have ranks of their own too"},
    {LATER, .name = "virtual-local-rank", AT(virtual_local_rank), .group = "Program",
     .help = "let each worker see only its own GPU, as device 0, and make it local rank 0"},
    {LATER, .name = "numa-binding", .arg = "KIND", .parse = dt_value_numa_binding, .no_env = true,
     .words = "node socket exclusive core-complex", AT(numa_binding), .group = "Program",
     .help = "keep each worker on the processors near its GPU: on their NUMA node, their socket, its exclusive "
             "share of the node's cores, or one core-complex"},
    {.name = "start-method", .arg = "METHOD", .parse = dt_value_start_method, .parse_env = dt_opt_string,
     .finish = dt_opt_finish_string, .words = "spawn fork forkserver", AT(start_method), .group = "Program",
     .help = "accepted for compatibility with torchrun, without effect: workers are always programs of their own"},

    {.name = "nnodes", .arg = "N", AT(nnodes), .fallback = "1:1", .group = DT_LAUNCH_NODES_GROUP,
     .help = "number of nodes, or MIN:MAX of them"},
    {.name = "nproc-per-node", .arg = "N", .words = "auto cpu gpu", AT(nproc_per_node), .fallback = "1",
     .group = DT_LAUNCH_NODES_GROUP,
     .help = "workers on this node: a number, cpu (one per processor), gpu (one per GPU), or auto (gpu where there "
             "are any, else cpu)"},
    {.name = "node-rank", .arg = "N", .parse = dt_value_int, AT(node_rank), .fallback = "0", .group = DT_LAUNCH_NODES_GROUP,
     .help = "number of this node, counted from 0"},
    {.name = "master-addr", .arg = "HOST", AT(master_addr), .fallback = "127.0.0.1", .group = DT_LAUNCH_NODES_GROUP,
     .help = "address of node 0, as the other nodes reach it"},
    {.name = "master-port", .arg = "PORT", .parse = dt_value_int, AT(master_port), .group = DT_LAUNCH_NODES_GROUP,
     .help = "port of the store on node 0 (default: 29500; any free port in a job of one node, and in each round of "
             "a c10d job)"},

    {.name = "standalone", AT(standalone), .group = DT_LAUNCH_RDZV_GROUP,
     .help = "run a job of this node alone, on a free port; --rdzv-backend, --rdzv-endpoint and --rdzv-id have no "
             "effect"},
    {.name = "rdzv-backend", .arg = "NAME", .words = "static c10d", AT(rdzv_backend), .fallback = "static",
     .group = DT_LAUNCH_RDZV_GROUP, .help = "how nodes find each other: static or c10d"},
    {.name = "rdzv-endpoint", .arg = "HOST[:PORT]", AT(rdzv_endpoint), .group = DT_LAUNCH_RDZV_GROUP,
     .help = "where the nodes meet; with static it replaces --master-addr and --master-port"},
    {.name = "rdzv-id", .arg = "ID", AT(rdzv_id), .fallback = DT_RUN_ID_OF_NOBODY, .group = DT_LAUNCH_RDZV_GROUP,
     .help = "name of the job, the same on all its nodes"},
    {.name = "rdzv-conf", .arg = "KEY=VALUE,...", AT(rdzv_conf), .group = DT_LAUNCH_RDZV_GROUP,
     .help = "settings of the rendezvous: timeout (static, 900), join_timeout (600), read_timeout (60), in seconds, "
             "..."},
    {LATER, .name = "local-addr", .arg = "HOST", AT(local_addr), .group = DT_LAUNCH_RDZV_GROUP,
     .help = "address of this node, as the other nodes reach it"},

    {.name = "max-restarts", .arg = "N", .parse = dt_value_int, AT(run.max_restarts), .fallback = "0",
     .group = "Failures and signals", .help = "how often the workers are started again after a failure"},
    {.name = "monitor-interval", .arg = "SECONDS", .parse = dt_value_float, AT(monitor_interval), .fallback = "0.1",
     .group = "Failures and signals",
     .help = "accepted for compatibility with torchrun, without effect: dtrun notices the end of a worker at once"},
    {LATER, .name = "signals-to-handle", .arg = "LIST", AT(signals_to_handle), .fallback = "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
     .group = "Failures and signals", .help = "signals that are passed on to the workers and end the job"},
    {LATER, .name = "shutdown-timeout", .arg = "SECONDS", .parse = dt_value_seconds, AT(shutdown_timeout),
     .group = "Failures and signals",
     .help = "how long workers may take to end after the signal, before SIGKILL (default: "
             "TORCH_ELASTIC_SHUTDOWN_TIMEOUT, or 30)"},
    {.name = "exit-barrier-timeout", .arg = "SECONDS", .parse = dt_value_seconds, .exact = true, AT(exit_barrier_timeout),
     .group = "Failures and signals",
     .help = "how long to wait after success until the other nodes end too (default: "
             "TORCH_ELASTIC_EXIT_BARRIER_TIMEOUT, or 300)"},

    {.name = "log-dir", .arg = "DIR", .completes = DT_OPT_DIRECTORY, AT(log_dir), .group = "Output",
     .help = "folder for the workers' files (default: a new one in $TMPDIR or /tmp); /dev/null keeps no files"},
    {.name = "redirects", .letter = 'r', .arg = "WHAT", AT(redirects), .fallback = "0", .group = "Output",
     .help = "write output to files: 1 is stdout, 2 stderr, 3 both; for all workers, or for some as "
             "LOCALRANK:WHAT,..."},
    {.name = "tee", .letter = 't', .arg = "WHAT", AT(tee), .fallback = "0", .group = "Output",
     .help = "write output to files as --redirects does, and show it with a prefix"},
    {LATER, .name = "local-ranks-filter", .arg = "LIST", AT(local_ranks_filter), .group = "Output",
     .help = "show the output of these local ranks only"},
    {LATER, .name = "duplicate-stdout-filters", .arg = "LIST", AT(stdout_filters), .group = "Output",
     .help = "copy lines of teed stdout that contain one of these texts to filtered_stdout.log; `,,` is a comma"},
    {LATER, .name = "duplicate-stderr-filters", .arg = "LIST", AT(stderr_filters), .group = "Output",
     .help = "do the same with stderr, to filtered_stderr.log"},
    {LATER, .name = "event-log-handler", .arg = "NAME", .words = "null console", AT(event_log_handler), .fallback = "null",
     .group = "Output", .help = "where events go: null, console (JSON lines on stderr), or file:PATH"},
    {LATER, .name = "logs-specs", .arg = "NAME", .no_env = true, .hidden = true, AT(logs_specs)},

    {OWN, .name = "print-config", .no_env = true, AT(print_config),
     .help = "print what this command line means and which options have no effect, then exit"},
    {OWN, .name = "look", .arg = "PID", .parse = dt_value_pid, .finish = dt_opt_finish_strings, .repeat = true, .no_env = true,
     AT(look), .help = "print what process PID and its descendants are doing, with Python's stacks, then exit; none of "
             "them is stopped"},
    {OWN, .name = "json", .no_env = true, AT(json), .help = "print what --look sees, or what doctor finds, as JSON"},
    {OWN, .name = "native", .no_env = true, AT(native), .help = "let --look show calls of C code, too; each thread is "
             "stopped for a moment, as by a debugger"},
    {OWN, .name = "check-folder", .arg = "DIR", .parse = dt_opt_append, .finish = dt_opt_finish_strings, .repeat = true,
     .no_env = true, .completes = DT_OPT_DIRECTORY, AT(check_folder),
     .help = "let doctor look at this folder, too: whether it can be written to, how much room it has, how fast it is, "
             "and whether all nodes see the same one"},
    {OWN, .name = "check-file", .arg = "FILE", .parse = dt_opt_append, .finish = dt_opt_finish_strings, .repeat = true,
     .no_env = true, .completes = DT_OPT_FILE, AT(check_file),
     .help = "let doctor look whether all nodes see this file, and the same one"},
    {OWN, .name = "check-compute", .arg = "WHAT", .parse = dt_value_compute, .words = "gpus cpu off", .no_env = true,
     AT(check_compute), .fallback = "gpus",
     .help = "let doctor make each GPU multiply matrices and remember bytes (gpus), or the processors (cpu), for a few "
             "seconds, or nothing (off)"},
    {OWN, .name = "preflight", .arg = "HOW", .parse = dt_value_preflight, .words = "auto off fast full", AT(preflight),
     .fallback = "auto",
     .help = "look for what is wrong with this host when the job starts: not at all (off); while nodes join, for 2 "
             "seconds at most, and only say what will break the job (fast); first, and do not start a job that will "
             "break (full); or fast in a job of several nodes (auto)"},
    {OWN, .name = "exit-code", .arg = "RULE", .parse = dt_value_exit_code, .words = "torchrun root-cause", AT(exit_code),
     .fallback = "torchrun", .help = "exit with 1 after any failure (torchrun), or with the status of the worker "
             "that failed first, which after a signal is 128 plus its number (root-cause)"},
    {OWN, .name = "retry-deterministic", AT(run.retry_deterministic),
     .help = "start the workers again also after a failure that can only come again, such as an argument that the script "
             "does not take, until --max-restarts is used up"},
    {OWN, .name = "keep-workers", .arg = "WHEN", .parse = dt_value_keep_workers, .words = "auto never", AT(end_workers),
     .fallback = "auto",
     .help = "after a failure, keep the workers that still run and start only the others again, if all that run say "
             "that they can go on, as those of dtrun-train do (auto), or start all workers again (never)"},
    {OWN, .name = "omp-threads", .arg = "N", .parse = dt_value_omp_threads, .words = "auto torchrun", AT(omp_threads),
     .fallback = "torchrun", .help = "OMP_NUM_THREADS for the workers: a number; auto, each worker's share of the "
             "processors; or torchrun, 1 if there are several workers. auto and torchrun do not replace a value that "
             "is already set"},
    {OWN, .name = "stop-order", .arg = "ORDER", .parse = dt_value_stop_order, .words = "group leader",
     AT(stop_leaders_first), .fallback = "group",
     .help = "which processes get the signal to end: a worker's whole process group at once (group), or the worker "
             "itself first (leader)"},
    {OWN, .name = "forward-signals", .arg = "LIST", .parse = dt_value_signals, AT(forward_signals),
     .help = "signals that are passed on to the workers and do not end the job, such as SIGUSR1,SIGUSR2"},
    {OWN, .name = "inherit-streams", AT(inherit_streams),
     .help = "let workers inherit dtrun's own stdout and stderr where these are neither redirected nor teed; the "
             "report then shows no last output"},
    {OWN, .name = "whole-lines", AT(whole_lines),
     .help = "pass on the output of workers in whole lines only, so that lines of several workers do not mix; --hosts "
             "implies it"},
    {OWN, .name = "partial-line-after", .arg = "TIME", .parse = dt_opt_duration, AT(partial_line_after), .fallback = "0",
     .help = "show an unfinished line of teed output after this time; 0 waits for the end of the line"},
    {OWN, .name = "collapse-lines", AT(collapse_lines), .help = "show a line only once if several ranks print it"},
    {OWN, .name = "strip-codes", AT(strip_codes), .help = "remove terminal codes from files"},
    {OWN, .name = "keep-logs", .arg = "WHICH", .parse = dt_value_keep_logs, .words = "all failed", AT(keep_logs),
     .fallback = "all", .help = "keep files always (all), or only if the job failed (failed)"},
    {OWN, .name = "keep-log-runs", .arg = "N", .parse = dt_opt_count, AT(log_limits.runs), .fallback = "0",
     .help = "keep the last N runs of this host in --log-dir and remove earlier ones; 0 keeps any number"},
    {OWN, .name = "keep-log-days", .arg = "N", .parse = dt_opt_count, AT(log_limits.days), .fallback = "0",
     .help = "remove runs of this host from --log-dir that ended more than N days ago; 0 keeps them"},
    {OWN, .name = "keep-log-size", .arg = "SIZE", .parse = dt_value_size, AT(log_limits.size), .fallback = "0",
     .help = "remove the earliest runs of this host from --log-dir when all take more than SIZE, such as 20G; 0 keeps them"},
    {OWN, .name = "store-listen", .arg = "ADDR", .parse = dt_value_store_listen, .finish = dt_opt_finish_string, AT(store_listen),
     .help = "serve the store on this address only (default: loopback for one node, else every address)"},
    {OWN, .name = "store-allow", .arg = "CIDR", .parse = dt_opt_cidr, .repeat = true, AT(store_allow),
     .help = "let only clients from this range connect to the store"},
    {OWN, .name = "health-port", .arg = "PORT", .parse = dt_value_port, AT(health_port),
     .help = "answer GET /healthz on this port (default: TORCHELASTIC_HEALTH_CHECK_PORT, or none)"},
    {OWN, .name = "health-address", .arg = "ADDR", .parse = dt_value_health_address, .finish = dt_opt_finish_string,
     AT(health_address),
     .help = "open the health port on this address only (default: every address, as Kubernetes probes from the "
             "address of the node)"},
    {OWN, .name = "upload", .arg = "DIR=URL", .parse = dt_opt_append, .finish = dt_opt_finish_strings, .repeat = true,
     AT(upload), .completes = DT_OPT_DIRECTORY,
     .help = "upload each file and folder in DIR to URL, s3://BUCKET/PREFIX or file:///FOLDER, once it is complete: "
             "nobody has it open for writing, and it has not changed for a while"},
    {OWN, .name = "upload-cmd", .arg = "COMMAND", AT(upload_cmd),
     .help = "upload by this shell command, which finds the file in DTRUN_UPLOAD_FILE and the name of its copy in "
             "DTRUN_UPLOAD_KEY; --upload may then be a DIR alone"},
    {OWN, .name = "upload-after", .arg = "TIME", .parse = dt_opt_duration, AT(upload_after), .fallback = "10s",
     .help = "a file counts as complete when it has not changed for this time"},
    {OWN, .name = "upload-timeout", .arg = "TIME", .parse = dt_opt_duration, AT(upload_timeout), .fallback = "10m",
     .help = "how long to wait at the end of the job for uploads; after a signal that ends it, "
             "--shutdown-timeout if that is shorter"},
    {OWN, .name = "hang-after", .arg = "TIME", .parse = dt_value_hang_after, .words = "auto off", AT(hang_after),
     .fallback = "auto",
     .help = "say which worker keeps the others waiting, and at which line, after the job has stood still so long: a "
             "number of seconds, auto (5 median steps; 10 seconds where workers tell no steps), or off"},
    {OWN, .name = "on-hang", .arg = "WHAT", .parse = dt_value_on_hang, .words = "log restart stop", AT(on_hang),
     .fallback = "log",
     .help = "what to do when --hang-after finds a hang: only say so (log), count that worker as failed, which costs a "
             "restart (restart), or end the job (stop)"},
    {OWN, .name = "on-straggler", .arg = "WHAT", .parse = dt_value_on_straggler, .words = "log drain off", AT(on_straggler),
     .fallback = "log",
     .help = "what to do about a worker that holds the others up step after step: say so (log), also let a spare take "
             "the place of its node (drain), or do not look for one (off)"},
    {OWN, .name = "look-on-signal", .arg = "SIGNAL", .parse = dt_value_look_signal, .words = "SIGQUIT none",
     AT(look_signal), .fallback = "SIGQUIT",
     .help = "when dtrun gets this signal, print what all workers are doing and go on; none: no signal does this. A "
             "signal that ends the job does so when it comes again within 2 seconds"},
    {OWN, .name = "no-look", AT(no_look), .help = "never look at what workers do: neither for hangs nor on a signal"},
    {OWN, .name = "nccl-profiler", .arg = "EVENTS", .parse = dt_value_nccl_profiler, .words = "calls kernels off", AT(nccl_profiler),
     .fallback = "calls",
     .help = "let NCCL in the workers tell dtrun which collective each rank has entered (calls), and also which the "
             "GPU has ended, at the price of some work of NCCL's for each collective (kernels); or nothing (off)"},
    {OWN, .name = "log-level", .arg = "LEVEL", .parse = dt_opt_log_level, .words = "error warn info debug", AT(log_level),
     .help = "log messages of this level and worse ones: error, warn, info or debug (default: what LOGLEVEL says, or "
             "warn)"},
    {OWN, .name = "log-format", .arg = "FORMAT", .parse = dt_opt_log_format, .words = "text json", AT(log_format),
     .fallback = "text",
     .help = "format of dtrun's own log: text for people, json for one object a line. What workers print, and the "
             "report of a failure, stay as they are"},

    {ELASTIC, .name = "spares", .arg = "N", .parse = dt_value_spares, AT(run.spares), .fallback = "0",
     .help = "number of standby nodes beyond the maximum of --nnodes; they wait until another node is lost"},
    {ELASTIC, .name = "spare-policy", .arg = "POLICY", .parse = dt_value_spare_policy, .words = "extra fixed",
     AT(run.fixed_world), .fallback = "extra",
     .help = "how many nodes run: as many as come, up to the maximum of --nnodes (extra), or always its minimum, "
             "with all other nodes as spares (fixed)"},
    {ELASTIC, .name = "rank-policy", .arg = "POLICY", .parse = dt_value_rank_policy, .words = "stable torchrun",
     AT(run.torchrun_ranks), .fallback = "stable",
     .help = "whether nodes keep their ranks in a new round where possible (stable), or are sorted by name again "
             "(torchrun)"},
    {ELASTIC, .name = "grow-interval", .arg = "TIME", .parse = dt_opt_duration, AT(run.grow_interval), .fallback = "5s",
     .help = "let late nodes join at most once in this time, together with all others that come within 5 seconds of "
             "each other; 0 lets each node join at once"},
    {ELASTIC, .name = "max-node-losses", .arg = "N", .parse = dt_value_node_losses, .words = "unlimited",
     AT(run.max_node_losses), .fallback = "unlimited",
     .help = "how many nodes may be lost before the job ends; a lost node costs no restart"},
    {ELASTIC, .name = "restart-reset", .arg = "TIME", .parse = dt_value_restart_reset, .words = "never", AT(run.restart_reset),
     .fallback = "never",
     .help = "restore all of --max-restarts after this time without a failure, and also after each new step that "
             "workers or --progress-file report; never does neither"},
    {ELASTIC, .name = "no-progress-cycles", .arg = "N", .parse = dt_opt_count, AT(run.no_progress), .fallback = "3",
     .help = "end the job after this many failed rounds in a row without a new step; 0 never does"},
    {ELASTIC, .name = "quarantine-after", .arg = "N", .parse = dt_opt_count, AT(run.strikes), .fallback = "3",
     .help = "quarantine a node that caused this many failures within an hour; 0 never does"},
    {ELASTIC, .name = "quarantine-time", .arg = "TIME", .parse = dt_value_quarantine_time, AT(run.quarantine), .fallback = "10m",
     .help = "length of a node's first quarantine; each further one is twice as long"},
    {ELASTIC, .name = "reconnect-grace", .arg = "TIME", .parse = dt_opt_duration, AT(run.reconnect_grace), .fallback = "100ms",
     .help = "how long a node whose connection closed may take to reconnect before it counts as lost; a living agent "
             "tries at once"},
    {ELASTIC, .name = "on-daemon-loss", .arg = "WHAT", .parse = dt_value_daemon_loss, .words = "keep stop",
     AT(stop_when_away), .fallback = "keep",
     .help = "whether workers keep running (keep) or are stopped (stop) while the rendezvous cannot be reached"},
    {ELASTIC, .name = "allow-mixed-nodes", AT(run.mixed),
     .help = "let nodes of this job run different commands, or belong to different users; give this option on all "
             "nodes"},
    {ELASTIC, .name = "token-file", .arg = "FILE", .completes = DT_OPT_FILE, AT(token_file),
     .help = "file with a secret; agents and the rendezvous prove to each other that they know it"},
    {ELASTIC, .name = "http", .arg = "ADDR:PORT", .parse = dt_value_http, .finish = dt_opt_finish_strings, .repeat = true,
     AT(http),
     .help = "where this dtrun hosts the rendezvous, answer HTTP on this address: a page for people, /metrics for "
             "Prometheus, /status.json, /events, /healthz and /readyz. An address that other hosts reach needs --http-token-file"},
    {ELASTIC, .name = "http-token-file", .arg = "FILE", .completes = DT_OPT_FILE, AT(http_token_file),
     .help = "answer HTTP requests only with the secret in this file, as \"Authorization: Bearer SECRET\""},
    {ELASTIC, .name = "run-token-file", .arg = "FILE", .completes = DT_OPT_FILE, AT(run_token_file),
     .help = "file with a secret of this job; from its first node on, only those who know the secret join the job, "
             "pause it, or ask it to save"},
    {ELASTIC, .name = "node-name", .arg = "NAME", .parse = dt_value_node_name, .finish = dt_opt_finish_string, AT(node_name),
     .help = "name of this node (default: the name of the host)"},
    {ELASTIC, .name = "domain-key", .arg = "KEY", .parse = dt_value_domain, .finish = dt_opt_finish_string, AT(domain),
     .help = "rack, switch or other group of this node; a spare of the same group replaces a lost node first"},
    {ELASTIC, .name = "progress-file", .arg = "FILE", .completes = DT_OPT_FILE, AT(progress_file),
     .help = "file to which a worker writes the number of its last step or last checkpoint; dtrun reads this file "
             "instead of the workers' progress pages"},

    {FLEET, .name = "hosts", .arg = "HOST[:N],...", .parse = dt_opt_string, AT(hosts),
     .help = "run the job on these hosts, with N workers on each or as many as --nproc-per-node says; this dtrun starts "
             "an agent on each and shows what they print"},
    {FLEET, .name = "hostfile", .arg = "FILE", .completes = DT_OPT_FILE, AT(hostfile),
     .help = "the same hosts as lines of a file: HOST, HOST:N or HOST slots=N"},
    {FLEET, .name = "launch-agent", .arg = "HOW", .words = "ssh srun", AT(launch_agent), .fallback = "ssh",
     .help = "how to start a program on a host: ssh, srun, or a command with {host} where the host's name is to "
             "stand, such as \"ssh -p 2222 {host}\""},
    {FLEET, .name = "export", .arg = "NAME[=VALUE],...", .parse = dt_opt_append, .finish = dt_opt_finish_strings,
     .repeat = true, AT(export),
     .help = "variables of the environment for the agents on the hosts and their workers"},
    {FLEET, .name = "remote-dtrun", .arg = "PATH", .completes = DT_OPT_FILE, AT(remote_dtrun),
     .help = "where dtrun is on the hosts (default: the path by which this one was called, or dtrun in their PATH)"},
    {FLEET, .name = "fleet-agent", .hidden = true, AT(fleet_agent), .help = "take arguments from standard input"},
    {0},
};
/* clang-format on */

_Static_assert(sizeof launch_opts / sizeof *launch_opts <= DT_OPT_ROWS_MAX, "too many rows");

#define USAGE "[options] SCRIPT [ARG...]"

#define COUNT_WORKERS "--nproc-per-node is the number of workers on a node"
#define COUNT_NODES "--nnodes is the number of nodes"
#define THE_HOSTS "--hosts or --hostfile starts a job on several hosts"

/* Of mpirun, accelerate and deepspeed; the first one of dtrun-launch. */
static const struct dt_opt_foreign foreign_opts[] = {
    {"--use-env", "leave it out: workers find LOCAL_RANK anyway"},
    {"-n", COUNT_WORKERS},
    {"-np", COUNT_WORKERS},
    {"--gpus", COUNT_WORKERS},
    {"--num-gpus", COUNT_WORKERS},
    {"--num-processes", COUNT_WORKERS},
    {"--num-nodes", COUNT_NODES},
    {"--num-machines", COUNT_NODES},
    {"--machine-rank", "--node-rank is the number of this node"},
    {"--main-process-ip", "--master-addr names node 0"},
    {"--main-process-port", "--master-port is the port of node 0"},
    {"-H", THE_HOSTS},
    {"--host", THE_HOSTS},
    {NULL, NULL},
};

static void put_doctor(FILE *out)
{
    fputs("\ndtrun " DT_LAUNCH_DOCTOR
          " [options] [SCRIPT] starts nothing; it says what is wrong with\n"
          "this host and, if it runs on all nodes of a job, between them.\n",
          out);
}

const struct dt_opt_program dt_launch_program = {
    .name = "dtrun",
    .summary = "Starts and supervises the workers of a distributed job on this node.",
    .usage = USAGE,
    .example = "dtrun --nproc-per-node 8 --max-restarts 3 train.py --lr 1e-4",
    .version = DT_VERSION,
    .table = launch_opts + 1,
    .env_prefix = "PET_",
    .env_flag = dt_value_pet_flag,
    .foreign = foreign_opts,
    .first_word = DT_LAUNCH_DOCTOR,
    .put_more = put_doctor,
    .takes_operands = true,
};

const struct dt_opt_program dt_legacy_program = {
    .name = "dtrun-launch",
    .summary = "Does what dtrun does, for scripts that expect an argument --local-rank.",
    .usage = USAGE,
    .example = "dtrun-launch --nproc-per-node 8 train.py --lr 1e-4",
    .version = DT_VERSION,
    .table = launch_opts,
    .env_prefix = "PET_",
    .env_flag = dt_value_pet_flag,
    .foreign = foreign_opts,
    .takes_operands = true,
};

/* A look starts nothing, so a script beside it is a mistake. */
static int check_look(const struct dt_launch_options *o, const char *operand, struct dt_err *err)
{
    if (o->look.len > 0 && operand)
        return dt_err_set(err, DT_E_USAGE,
                          "--look starts nothing: leave \"%s\" out, or write --look before each of "
                          "several processes",
                          operand);
    if (o->look.len == 0 && o->native)
        return dt_err_set(err, DT_E_USAGE, "--native: goes with --look only");
    return 0;
}

/* What only says something has no meaning when a job starts. */
static int check_launch(const struct dt_launch_options *o, struct dt_err *err)
{
    if (o->look.len == 0 && o->json)
        return dt_err_set(err, DT_E_USAGE, "--json: goes with --look or `%s doctor` only",
                          dt_launch_program.name);
    if (o->check_folder.len > 0 || o->check_file.len > 0)
        return dt_err_set(err, DT_E_USAGE, "--check-%s: goes with `%s doctor` only",
                          o->check_folder.len > 0 ? "folder" : "file", dt_launch_program.name);
    if (dt_launch_options_gave(o, "check-compute"))
        return dt_err_set(err, DT_E_USAGE, "--check-compute: goes with `%s doctor` only",
                          dt_launch_program.name);
    return 0;
}

static bool has_script(const struct dt_launch_options *o, int argc)
{
    return o->result.operands < argc;
}

/* Help and version come before all mistakes. */
static int read_line(struct dt_launch_options *o, const struct dt_opt_program *program, int argc,
                     char *const *argv, char *const *env, bool *asks, struct dt_err *err)
{
    *o = (struct dt_launch_options){.program = program, .log_level = DT_LOG_WARN};
    if (dt_opt_parse(program, argc, argv, env, o, &o->result, err) < 0)
        return -1;
    *asks = o->result.help || o->result.version;
    o->operands = argv + o->result.operands;
    return *asks ? 0 : check_look(o, has_script(o, argc) ? *o->operands : NULL, err);
}

int dt_launch_options_read(struct dt_launch_options *o, const struct dt_opt_program *program,
                           int argc, char *const *argv, char *const *env, struct dt_err *err)
{
    bool asks;
    if (read_line(o, program, argc, argv, env, &asks, err) < 0)
        return -1;
    if (asks)
        return 0;
    if (check_launch(o, err) < 0)
        return -1;
    if (!has_script(o, argc) && o->look.len == 0 && !o->fleet_agent)
        return dt_err_set(err, DT_E_USAGE, "SCRIPT is missing: %s %s", program->name,
                          program->usage);
    return 0;
}

int dt_launch_options_read_doctor(struct dt_launch_options *o, const struct dt_opt_program *program,
                                  int argc, char *const *argv, char *const *env, struct dt_err *err)
{
    bool asks;
    if (read_line(o, program, argc, argv, env, &asks, err) < 0)
        return -1;
    if (!asks && o->look.len > 0)
        return dt_err_set(err, DT_E_USAGE, "--look: has nothing to do with doctor; leave one out");
    o->doctor = true;
    return 0;
}

void dt_launch_options_finish(struct dt_launch_options *o)
{
    dt_opt_finish(o->program, o);
}

bool dt_launch_options_gave(const struct dt_launch_options *o, const char *name)
{
    return dt_opt_source_of(o->program, &o->result, name) != DT_OPT_FROM_FALLBACK;
}
