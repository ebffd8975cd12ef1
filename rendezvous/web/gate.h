/* SPDX-License-Identifier: Apache-2.0 */
/* Who may ask a server over HTTP. With a token, whoever says it. Without one only this machine is
 * served, and then a page of another site, whose name was made to mean this machine, must not be
 * able to read the answers: so the request has to name the host as an address or as localhost.
 * Pure.
 */
#ifndef DT_RENDEZVOUS_WEB_GATE_H
#define DT_RENDEZVOUS_WEB_GATE_H

#include "rendezvous/protocol/proof.h"

enum dt_web_entry {
    DT_WEB_ENTRY_GOOD,
    DT_WEB_ENTRY_NO_TOKEN,
    DT_WEB_ENTRY_WRONG_TOKEN,
    DT_WEB_ENTRY_WRONG_HOST,
};

/* AUTHORIZATION and HOST are these headers of a request; NULL: it has none. TOKEN is empty where
 * none is asked for. How long it takes says nothing about where a wrong token differs. */
enum dt_web_entry dt_web_gate(const struct dt_token *token, const char *authorization,
                              const char *host);

/* Whether a header can carry it: printable ASCII, no blanks. */
int dt_web_gate_check(const struct dt_token *token, struct dt_err *err);

#endif
