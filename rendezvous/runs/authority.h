/* SPDX-License-Identifier: Apache-2.0 */
/* Who may hold up, save or drain what: people ask, and some of that is others'. Three things tell
 * whose wish it is, the surest first: a key that was proved, the user at the other end of a
 * connection that does not leave this host, and the name that whoever asks gives itself, which
 * keeps people out of each other's way and nobody who lies. Pure. */
#ifndef DT_RENDEZVOUS_RUNS_AUTHORITY_H
#define DT_RENDEZVOUS_RUNS_AUTHORITY_H

#include "rendezvous/rdzv/rdzv.h"

#include <stdbool.h>
#include <stddef.h>

enum dt_asker_user {
    DT_ASKER_UNKNOWN, /* it asks over a network, or the kernel does not say */
    DT_ASKER_OURS,    /* root, or the user of this server, on this host */
    DT_ASKER_ANOTHER, /* of this host */
};

struct dt_asker {
    const char *key;         /* proved on this connection; "": none */
    enum dt_asker_user user; /* as the kernel says */
    const char *name;        /* as it says itself; "": it does not */
};

/* Each: OPERATOR_KEY is "" where the operator has no token. False, and WHY: what WHO wants is not
 * WHO's to want. */

/* Of RUN, as to hold it up. */
bool dt_authority_over_run(const char *operator_key, const struct dt_asker *who,
                           const struct dt_rdzv *run, char *why, size_t size);
/* Of what its workers print, which may hold secrets: whoever began it, by a name that is said. */
bool dt_authority_over_logs(const char *operator_key, const struct dt_asker *who,
                            const struct dt_rdzv *run, char *why, size_t size);
/* Of nodes, whose hosts all runs may use. GUARDED: one of these runs has a token of its own. */
bool dt_authority_over_nodes(const char *operator_key, const struct dt_asker *who, bool guarded,
                             char *why, size_t size);

/* The reason that people are told later: that of the DRAIN or PAUSE message M, or else whose wish
 * it is; "" where neither is said. */
const char *dt_authority_reason(const struct dt_message *m, char *out, size_t size);
/* Whose wish M is and the reason, for those whose work it ends: "by ada: a demonstration"; "" where
 * neither is said. */
const char *dt_authority_signature(const struct dt_message *m, char *out, size_t size);

#endif
