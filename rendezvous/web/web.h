/* SPDX-License-Identifier: Apache-2.0 */
/* A rendezvous over HTTP: whether it lives, what it knows, what happens. docs/http.md has what
 * there is. It runs on the loop of the server that it shows, and takes little of each turn: long
 * answers are made in slices while the client takes them, metrics once a second at most. All calls
 * belong to the loop's thread. */
#ifndef DT_RENDEZVOUS_WEB_WEB_H
#define DT_RENDEZVOUS_WEB_WEB_H

#include "rendezvous/alerts/alerts.h"
#include "rendezvous/runs/server.h"

struct dt_web;

struct dt_web_config {
    const char *host; /* "daemon" or "agent": as in the server's hello */
    struct dt_rdzv_server *server;
    const struct dt_store_server *store;
    const struct dt_alerts *alerts; /* NULL: nobody is alerted */
    char *const *at;                /* ADDR:PORT of each listener */
    size_t count;
    const char *token_file; /* NULL: only addresses of this machine are served */
};

#define DT_WEB_FILES 96 /* that a listener may have open */

/* Whether TEXT can be one of CONFIG's addresses, but for what a name server says. */
int dt_web_check_address(const char *text, struct dt_err *err);
/* Whether it may be one with a TOKEN, or without: others than this host do not reach it then. */
int dt_web_check_reach(const char *text, bool token, struct dt_err *err);

/* NULL and *err, that names the option: a mistake of a person's, or an address that cannot be had.
 */
struct dt_web *dt_web_open(uv_loop_t *loop, const struct dt_web_config *config, struct dt_err *err);

/* The server is about to end: from here on nothing of it or of its alerts is looked at, and /readyz
 * says so. */
void dt_web_detach(struct dt_web *w);

/* Nothing is answered from here on. */
void dt_web_close(struct dt_web *w, void (*on_closed)(void *arg), void *arg);

#endif
