/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/daemon/options.h"

#include "base/addr.h"
#include "base/str.h"
#include "rendezvous/daemon/alerting.h"
#include "rendezvous/protocol/messages.h"
#include "rendezvous/web/web.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

/* Names are not looked up here: what options mean must not depend on a name server. */
static int parse_listen(const char *value, void *target, struct dt_err *err)
{
    return dt_addr_check(value, err) < 0 ? -1 : dt_opt_append(value, target, err);
}

static int parse_http(const char *value, void *target, struct dt_err *err)
{
    return dt_web_check_address(value, err) < 0 ? -1 : dt_opt_append(value, target, err);
}

static int parse_number(const char *value, int64_t min, int64_t max, void *target,
                        struct dt_err *err)
{
    int64_t n;
    if (dt_str_to_int(value, min, max, &n, err) < 0)
        return -1;
    *(uint64_t *)target = (uint64_t)n;
    return 0;
}

static int parse_connections(const char *value, void *target, struct dt_err *err)
{
    return parse_number(value, 1, 10000000, target, err);
}

static int parse_per_address(const char *value, void *target, struct dt_err *err)
{
    return parse_number(value, 0, 10000000, target, err);
}

static int parse_runs(const char *value, void *target, struct dt_err *err)
{
    return parse_number(value, 1, 1 << 20, target, err);
}

static int parse_nodes(const char *value, void *target, struct dt_err *err)
{
    return parse_number(value, 1, DT_NODES_MOST, target, err);
}

static int parse_keys(const char *value, void *target, struct dt_err *err)
{
    return parse_number(value, 1, INT64_C(1) << 40, target, err);
}

static int parse_request_keys(const char *value, void *target, struct dt_err *err)
{
    return parse_number(value, 1, 1 << 24, target, err);
}

static int parse_busy_poll(const char *value, void *target, struct dt_err *err)
{
    return parse_number(value, 0, 10000, target, err);
}

/* A key's length must stay below what would make a legacy SET look like a modern hello (c10d.c). */
static int parse_key_size(const char *value, void *target, struct dt_err *err)
{
    return dt_str_to_size(value, 1, 32768, target, err);
}

static int parse_value_size(const char *value, void *target, struct dt_err *err)
{
    return dt_str_to_size(value, 1, UINT64_C(512) << 20, target, err);
}

/* What goes to libuv in one piece has a length of 32 bits. */
static int parse_peer_buffer(const char *value, void *target, struct dt_err *err)
{
    return dt_str_to_size(value, 1, UINT64_C(2) << 30, target, err);
}

static int parse_total_size(const char *value, void *target, struct dt_err *err)
{
    return dt_str_to_size(value, 1, UINT64_C(1) << 50, target, err);
}

/* Below that even small requests would not find room. */
static int parse_buffered(const char *value, void *target, struct dt_err *err)
{
    return dt_str_to_size(value, 1u << 20, UINT64_C(1) << 50, target, err);
}

static int parse_legacy(const char *value, void *target, struct dt_err *err)
{
    bool l2 = strcmp(value, "2.1") == 0;
    if (!l2 && strcmp(value, "1.13") != 0)
        return dt_err_set(
            err, DT_E_USAGE,
            "\"%s\" is no PyTorch that speaks the legacy protocol; give 1.13 (also for "
            "2.0) or 2.1",
            value);
    *(enum dt_c10d_dialect *)target = l2 ? DT_C10D_L2 : DT_C10D_L1;
    return 0;
}

static int parse_weight(const char *value, void *target, struct dt_err *err)
{
    for (int w = DT_EVENT_INFO; w <= DT_EVENT_ERROR; w++)
        if (strcmp(value, dt_event_weight_name((enum dt_event_weight)w)) == 0) {
            *(enum dt_event_weight *)target = (enum dt_event_weight)w;
            return 0;
        }
    return dt_err_set(err, DT_E_USAGE,
                      "\"%.100s\" is no weight of alerts; give info, warning or error", value);
}

#define AT(field) .at = offsetof(struct dt_rendezvous_options, field)

/* clang-format off */
static const struct dt_opt rendezvous_opts[] = {
    {.name = "listen", .arg = "ADDR:PORT", .parse = parse_listen, .finish = dt_opt_finish_strings, .repeat = true,
     AT(listen), .fallback = DT_RENDEZVOUS_LOOPBACK, .group = "Where",
     .help = "serve on this address: HOST:PORT, [IPV6]:PORT, *:PORT for every address, or unix:/PATH; "
             "port 0 takes a free one. Sockets that systemd hands over replace all of these addresses"},
    {.name = "allow", .arg = "CIDR", .parse = dt_opt_cidr, .repeat = true,
     AT(allow), .group = "Where",
     .help = "let only clients from this range connect, such as 10.0.0.0/8 or fd00::/8. Without this option every "
             "client that reaches an address may connect. The permissions of its file protect a unix socket"},
    {.name = "token-file", .arg = "FILE", .completes = DT_OPT_FILE,
     AT(token_file), .group = "Where",
     .help = "serve only agents and people who know the secret in this file. Other users must not be able to read "
             "the file. PyTorch's clients cannot prove that they know a secret: see --allow-c10d"},
    {.name = "operator-token-file", .arg = "FILE", .completes = DT_OPT_FILE,
     AT(operator_token_file), .group = "Where",
     .help = "let only those who know the secret in this file drain nodes, and do what they like with the runs of "
             "others; beside them, root and the user of the daemon on this host"},
    {.name = "allow-c10d", .arg = "CIDR", .parse = dt_opt_cidr, .repeat = true,
     AT(allow_c10d), .fallback = "127.0.0.0/8 ::1", .group = "Where",
     .help = "with --token-file, serve the store to PyTorch's processes in this range only. Without a token, --allow "
             "alone decides"},
    {.name = "http", .arg = "ADDR:PORT", .parse = parse_http, .finish = dt_opt_finish_strings, .repeat = true,
     AT(http), .group = "Where",
     .help = "answer HTTP on this address, too: a page for people, /metrics for Prometheus, /status.json, /events, "
             "/healthz and /readyz. An address that other hosts reach needs --http-token-file. --allow does not apply"},
    {.name = "http-token-file", .arg = "FILE", .completes = DT_OPT_FILE,
     AT(http_token_file), .group = "Where",
     .help = "answer HTTP requests only with the secret in this file, as \"Authorization: Bearer SECRET\"; only the "
             "page, which tells nothing by itself, /healthz and /readyz are open to everybody. Other users must not be able to read the file"},
    {.name = "share-default-id", AT(share_default_id), .group = "Where",
     .help = "let the nodes of all jobs that were given no --rdzv-id meet in one run, none, whatever they run and "
             "whoever runs them: for scripts that rely on it. Without this option the daemon refuses another command "
             "or user there, and jobs of a scheduler meet under its id of the job"},
    {.name = "legacy-dialect", .arg = "VERSION", .parse = parse_legacy, .words = "1.13 2.1",
     AT(legacy), .fallback = "1.13", .group = "Where",
     .help = "how to read clients older than PyTorch 2.2: 1.13 (also 2.0), or 2.1, which numbers its operations "
             "differently and cannot be recognised"},

    {.name = "max-connections", .arg = "N", .parse = parse_connections,
     AT(max_connections), .fallback = "65536", .group = "Limits",
     .help = "largest number of clients at a time; further clients wait until one leaves. The limit of open files "
             "can lower it"},
    {.name = "max-connections-per-address", .arg = "N", .parse = parse_per_address,
     AT(max_per_address), .fallback = "0", .group = "Limits",
     .help = "largest number of clients from one address, or one /64 of IPv6; further connections are closed. 0 "
             "means a quarter of --max-connections, or of what the limit of open files leaves, but at least 1024. "
             "Loopback and unix sockets do not count"},
    {.name = "max-runs", .arg = "N", .parse = parse_runs,
     AT(max_runs), .fallback = "1024", .group = "Limits", .help = "largest number of elastic jobs at a time"},
    {.name = "max-nodes", .arg = "N", .parse = parse_nodes,
     AT(max_nodes), .fallback = "65536", .group = "Limits",
     .help = "largest number of nodes in all elastic jobs together"},
    {.name = "max-keys", .arg = "N", .parse = parse_keys,
     AT(max_keys), .fallback = "16777216", .group = "Limits", .help = "largest number of keys and queues in the "
             "store"},
    {.name = "max-key-size", .arg = "SIZE", .parse = parse_key_size,
     AT(max_key_size), .fallback = "8K", .group = "Limits", .help = "longest key"},
    {.name = "max-value-size", .arg = "SIZE", .parse = parse_value_size,
     AT(max_value_size), .fallback = "16M", .group = "Limits", .help = "largest value, also after an append"},
    {.name = "max-total-size", .arg = "SIZE", .parse = parse_total_size,
     AT(max_total_size), .fallback = "4G", .group = "Limits",
     .help = "largest amount of memory for keys, values, queues and waits together"},
    {.name = "max-request-keys", .arg = "N", .parse = parse_request_keys,
     AT(max_request_keys), .fallback = "131072", .group = "Limits",
     .help = "largest number of keys in one request that takes several"},
    {.name = "max-peer-buffer", .arg = "SIZE", .parse = parse_peer_buffer,
     AT(max_peer_buffer), .fallback = "64M", .group = "Limits",
     .help = "largest request, and largest answer, of one client; at least twice --max-value-size and 64K"},
    {.name = "max-buffered", .arg = "SIZE", .parse = parse_buffered,
     AT(max_buffered), .fallback = "1G", .group = "Limits",
     .help = "largest amount of memory for unfinished requests and answers of all clients together; beyond that, "
             "requests wait"},
    {.name = "idle-timeout", .arg = "TIME", .parse = dt_opt_duration,
     AT(idle_timeout), .fallback = "0", .group = "Limits",
     .help = "close clients that send nothing for this time, unless they wait for a key; 0 never does. PyTorch "
             "1.13 keeps a silent second connection and burns a core when it is closed"},

    {.name = "alert-url", .arg = "URL", .parse = dt_opt_append, .finish = dt_opt_finish_strings, .repeat = true,
     AT(alert_url), .group = "Alerts",
     .help = "post alerts to this address: a webhook of Slack, Alertmanager's /api/v2/alerts, or JSON for anything else. "
             "Such an address often is a secret, and other users see command lines and the configuration file: write it "
             "into the environment"},
    {.name = "alert-cmd", .arg = "COMMAND", .parse = dt_opt_append, .finish = dt_opt_finish_strings, .repeat = true,
     AT(alert_cmd), .no_env = true, /* whose lists end at blanks */ .group = "Alerts",
     .help = "let sh run this command for each alert, with the alert as JSON on its standard input"},
    {.name = "alert-mail", .arg = "ADDRESS", .parse = dt_opt_append, .finish = dt_opt_finish_strings, .repeat = true,
     AT(alert_mail), .group = "Alerts", .help = "send alerts to this address, by the program sendmail"},
    {.name = "alert-level", .arg = "WEIGHT", .parse = parse_weight, .words = "info warning error",
     AT(alert_level), .fallback = "info", .group = "Alerts",
     .help = "send alerts of this weight and heavier ones: info (runs that ended well, too), warning or error"},
    {.name = "alert-cooldown", .arg = "TIME", .parse = dt_opt_duration,
     AT(alert_cooldown), .fallback = "5m", .group = "Alerts",
     .help = "how long an alert that comes and goes is not sent again"},

    {.name = "busy-poll", .arg = "MICROSECONDS", .parse = parse_busy_poll,
     AT(busy_poll), .fallback = "100", .group = "Running",
     .help = "after a request, poll for the next one for this time before sleeping. Polling makes a round trip two "
             "to three times shorter and takes a processor only while requests keep coming: it becomes rarer when it "
             "finds nothing. 0 never polls"},
    {.name = "state-dir", .arg = "DIR", .completes = DT_OPT_DIRECTORY,
     AT(state_dir), .group = "Running",
     .help = "folder for what must survive a restart: elastic jobs, which nodes are kept out, events, and alerts that "
             "are open. The daemon creates it if needed. Without this option a restarted daemon learns of running jobs "
             "from their agents, and the rest is lost, the events among it"},
    {.name = "event-log", .arg = "FILE", .completes = DT_OPT_FILE,
     AT(event_log), .group = "Running",
     .help = "append each event to this file, as a line of JSON. SIGHUP opens the file anew, after logrotate has moved "
             "it away"},
    {.name = "drain-timeout", .arg = "TIME", .parse = dt_opt_duration,
     AT(drain_timeout), .fallback = "5s", .group = "Running",
     .help = "how long clients may take after SIGTERM to read the answers that are still due"},
    {.name = "config", .arg = "FILE", .completes = DT_OPT_FILE, .no_config = true,
     AT(config_file), .group = "Running",
     .help = "read options from lines `name = value`; SIGHUP reads them again"},
    {.name = "check-config", .no_env = true, .no_config = true,
     AT(check_config), .group = "Running", .help = "check options and configuration file, then exit"},
    {.name = "log-level", .arg = "LEVEL", .parse = dt_opt_log_level, .words = "error warn info debug",
     AT(log_level), .fallback = "info", .group = "Running",
     .help = "log messages of this level and worse ones: error, warn, info or debug"},
    {.name = "log-format", .arg = "FORMAT", .parse = dt_opt_log_format, .words = "text json",
     AT(log_format), .fallback = "text", .group = "Running",
     .help = "format of the log: text for people, json for one object a line"},
    {0},
};
/* clang-format on */

const struct dt_opt_program dt_rendezvous_program = {
    .name = "dtrun-rendezvous",
    .summary = "Serves the store where the nodes and workers of PyTorch and dtrun jobs meet.",
    .example = "dtrun-rendezvous --listen '*:29400' --allow 10.0.0.0/8",
    .usage = "[options]",
    .version = DT_VERSION,
    .table = rendezvous_opts,
    .env_prefix = "DTRUN_RENDEZVOUS_",
    .config_option = "config",
};

static int check_http(const struct dt_rendezvous_options *o, struct dt_err *err)
{
    if (o->http_token_file && o->http.len == 0)
        return dt_err_set(err, DT_E_USAGE,
                          "--http-token-file: says nothing without --http; give that too");
    for (size_t i = 0; i < o->http.len; i++)
        if (dt_web_check_reach(o->http.at[i], o->http_token_file != NULL, err) < 0)
            return dt_err_wrap(err, "--http");
    return 0;
}

/* Options that only make sense together. */
static int check_whole(const struct dt_rendezvous_options *o, const struct dt_opt_result *result,
                       struct dt_err *err)
{
    char text[32];
    uint64_t least = 2 * o->max_value_size + (64u << 10); /* a COMPARE_SET carries two values */
    if (o->max_peer_buffer < least)
        return dt_err_set(
            err, DT_E_USAGE,
            "--max-peer-buffer: too small for requests with values of --max-value-size; "
            "give at least %s",
            dt_str_from_size((least + 0xfffff) & ~UINT64_C(0xfffff), text, sizeof text));
    if (o->max_buffered < o->max_peer_buffer)
        return dt_err_set(err, DT_E_USAGE,
                          "--max-buffered: smaller than --max-peer-buffer, which is %s",
                          dt_str_from_size(o->max_peer_buffer, text, sizeof text));
    if (dt_alerting_check(o, err) < 0)
        return -1;
    bool ranges = dt_opt_source_of(&dt_rendezvous_program, result, "allow-c10d");
    if (ranges && !o->token_file)
        return dt_err_set(err, DT_E_USAGE,
                          "--allow-c10d: says nothing without --token-file; give that too, or say "
                          "who may connect with --allow");
    return check_http(o, err);
}

int dt_rendezvous_options_read(struct dt_rendezvous_options *o, int argc, char *const *argv,
                               struct dt_opt_result *result, struct dt_err *err)
{
    *o = (struct dt_rendezvous_options){0};
    if (dt_opt_parse(&dt_rendezvous_program, argc, argv, environ, o, result, err) < 0)
        return -1;
    return result->help || result->version ? 0 : check_whole(o, result, err);
}

void dt_rendezvous_options_finish(struct dt_rendezvous_options *o)
{
    dt_opt_finish(&dt_rendezvous_program, o);
}

struct dt_store_server_config dt_rendezvous_options_server(const struct dt_rendezvous_options *o)
{
    return (struct dt_store_server_config){
        .store = {.keys = o->max_keys, .bytes = o->max_total_size, .value = o->max_value_size},
        .request = {.key = o->max_key_size,
                    .value = o->max_value_size,
                    .keys = o->max_request_keys,
                    .whole = o->max_peer_buffer},
        .legacy = o->legacy,
        .connections = o->max_connections,
        .per_address = o->max_per_address,
        .peer_bytes = o->max_peer_buffer,
        .buffered_bytes = o->max_buffered,
        .idle_timeout = o->idle_timeout,
        .turn = DT_STORE_TURN,
        .spin = o->busy_poll * 1000,
        .allow = o->allow.at,
        .allow_count = o->allow.len,
        .allow_c10d = o->allow_c10d.at,
        .allow_c10d_count = o->allow_c10d.len,
    };
}

struct dt_rdzv_server_config dt_rendezvous_options_rdzv(const struct dt_rendezvous_options *o)
{
    struct dt_rdzv_server_config c = DT_RDZV_SERVER_CONFIG_DEFAULT;
    c.state_dir = o->state_dir;
    c.runs = o->max_runs;
    c.nodes = o->max_nodes;
    c.share_default_id = o->share_default_id;
    return c;
}
