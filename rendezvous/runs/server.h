/* SPDX-License-Identifier: Apache-2.0 */
/* The rendezvous of all runs behind the port of a store server: connections that begin with "DTRN"
 * become agents and people with dtrun-ctl. A thin shell around dt_rdzv: it greets, decodes, finds
 * the run, carries actions out, arms one timer, and holds sends back until the journal is durable.
 * All calls belong to the loop's thread. */
#ifndef DT_RENDEZVOUS_RUNS_SERVER_H
#define DT_RENDEZVOUS_RUNS_SERVER_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "rendezvous/journal/journal.h"
#include "rendezvous/protocol/proof.h"
#include "rendezvous/store/server.h"

struct dt_rdzv_server;
struct dt_chronicle;
struct dt_rdzv_runs;

struct dt_rdzv_server_config {
    const char *host;  /* "daemon" or "agent": what our hello says */
    const char *token; /* secret; NULL: none is asked for. Copied */
    size_t token_len;
    const struct dt_token *operator_token; /* NULL: there is none. Not kept */
    const char *state_dir;                 /* NULL: no journal */
    size_t runs;                           /* how many there may be */
    size_t nodes;                          /* ... and nodes, of all */
    dt_ms patience;                        /* for a greeting, and with who has no part in any run */
    bool share_default_id;                 /* jobs that nobody named may meet under one name */
};
#define DT_RDZV_SERVER_CONFIG_DEFAULT                                                              \
    ((struct dt_rdzv_server_config){                                                               \
        .host = "daemon", .runs = 1024, .nodes = 65536, .patience = 10 * DT_SECOND})

/* Serves behind STORE, which must live until this is closed; its store gets the hello key, also
 * after dt_store_server_renew(). Runs of the journal are there again, and wait for their agents. */
struct dt_rdzv_server *dt_rdzv_server_open(uv_loop_t *loop, struct dt_store_server *store,
                                           const struct dt_rdzv_server_config *config,
                                           struct dt_err *err);

struct dt_rdzv_server_counters {
    uint64_t frames_in, frames_out, bytes_in, bytes_out;
    uint64_t refused; /* wrong token, wrong version, not a frame */
    size_t runs, nodes;
};
/* What happened here; good until dt_rdzv_server_close() calls back. */
struct dt_chronicle *dt_rdzv_server_chronicle(struct dt_rdzv_server *s);

const struct dt_rdzv_server_counters *dt_rdzv_server_counters(const struct dt_rdzv_server *s);

/* Its runs, for whoever shows them to people: nobody else changes them. */
const struct dt_rdzv_runs *dt_rdzv_server_runs(const struct dt_rdzv_server *s);

/* Where HTTP is answered, for people who ask: addresses, with blanks between them; "": nowhere. */
void dt_rdzv_server_set_http(struct dt_rdzv_server *s, const char *places);

/* Who tests alerts, which takes its time: TEST says later, by dt_rdzv_server_alert_tested(), what
 * came of it, to the NUMBER that it was asked with. Without it people are told that there are no
 * receivers. NULL: not any more. */
typedef void dt_alert_test_fn(void *arg, uint64_t number);
void dt_rdzv_server_set_alert_test(struct dt_rdzv_server *s, dt_alert_test_fn *test, void *arg);
void dt_rdzv_server_alert_tested(struct dt_rdzv_server *s, uint64_t number, bool done,
                                 const char *why);

/* Whether any run goes on, or has members that are not told yet how it ended. */
bool dt_rdzv_server_busy(const struct dt_rdzv_server *s);

/* Ends all runs (WHY, unless NULL: then they stay in the journal and agents come again later), lets
 * agents take what they are told for up to 2 s, and frees it; ON_CLOSED (may be NULL) is called.
 * Before the store server is closed. A second call, before ON_CLOSED, only cuts those seconds
 * short.
 */
void dt_rdzv_server_close(struct dt_rdzv_server *s, const char *why, void (*on_closed)(void *arg),
                          void *arg);

#endif
