/* SPDX-License-Identifier: Apache-2.0 */
/* What dtrun-rendezvous can be told, on the command line, in the environment (DTRUN_RENDEZVOUS_*)
 * and in a file. */
#ifndef DT_RENDEZVOUS_DAEMON_OPTIONS_H
#define DT_RENDEZVOUS_DAEMON_OPTIONS_H

#include "base/err.h"
#include "base/log.h"
#include "base/opt/opt.h"
#include "rendezvous/events/event.h"
#include "rendezvous/runs/server.h"
#include "rendezvous/store/server.h"

#include <stdbool.h>

struct dt_rendezvous_options {
    char *config_file;
    struct dt_opt_strings listen; /* as given; host names are looked up when the daemon starts */
    struct dt_opt_cidrs allow, allow_c10d;
    char *token_file, *operator_token_file, *state_dir, *event_log;
    struct dt_opt_strings http; /* as given */
    char *http_token_file;
    uint64_t max_runs, max_nodes;
    uint64_t max_connections, max_per_address, max_keys, max_request_keys;
    uint64_t max_key_size, max_value_size, max_total_size;
    uint64_t max_peer_buffer, max_buffered;
    uint64_t busy_poll; /* microseconds */
    dt_ms idle_timeout, drain_timeout, alert_cooldown;
    struct dt_opt_strings alert_url, alert_cmd, alert_mail;
    enum dt_event_weight alert_level;
    enum dt_c10d_dialect legacy;
    enum dt_log_level log_level;
    enum dt_log_format log_format;
    bool check_config, share_default_id;
};

/* Also read by the generator of man page and completions. */
extern const struct dt_opt_program dt_rendezvous_program;

/* Reads all sources into *O and checks what only the whole can tell. RESULT says whether --help or
 * --version was asked for; O is then empty. End with dt_rendezvous_options_finish() also after a
 * failure. */
int dt_rendezvous_options_read(struct dt_rendezvous_options *o, int argc, char *const *argv,
                               struct dt_opt_result *result, struct dt_err *err);
void dt_rendezvous_options_finish(struct dt_rendezvous_options *o);

/* The part of them that the store's server is made of. The lists are borrowed from O; that of
 * --allow-c10d is for where a token is asked for. */
struct dt_store_server_config dt_rendezvous_options_server(const struct dt_rendezvous_options *o);
/* The part for the rendezvous behind it, but the token, whose file is not read here. */
struct dt_rdzv_server_config dt_rendezvous_options_rdzv(const struct dt_rendezvous_options *o);

#endif
