/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/runs/authority.h"

#include <stdio.h>
#include <string.h>

static bool shows(const struct dt_asker *who, const char *key)
{
    return *key && strcmp(who->key, key) == 0;
}

/* Whoever can read the files of this server, or stop it, needs no token for less. */
static bool is_operator(const char *operator_key, const struct dt_asker *who)
{
    return who->user == DT_ASKER_OURS || shows(who, operator_key);
}

static const char *how_to_operate(const char *operator_key)
{
    return *operator_key ? "with the --operator-token-file"
                         : "as root or the user of the rendezvous on its host, which may also be "
                           "started with an --operator-token-file";
}

bool dt_authority_over_run(const char *operator_key, const struct dt_asker *who,
                           const struct dt_rdzv *run, char *why, size_t size)
{
    const char *owner = run->spec.user;
    if (is_operator(operator_key, who) || shows(who, run->key))
        return true;
    if (*run->key)
        snprintf(why, size,
                 "the run has a token of its own; give its --run-token-file, or ask as the "
                 "operator: %s",
                 how_to_operate(operator_key));
    else if (*owner && *who->name && strcmp(owner, who->name) != 0)
        snprintf(why, size, "the run is %.60s's; ask as that user, or as the operator: %s", owner,
                 how_to_operate(operator_key));
    else
        return true;
    return false;
}

bool dt_authority_over_logs(const char *operator_key, const struct dt_asker *who,
                            const struct dt_rdzv *run, char *why, size_t size)
{
    const char *owner = run->spec.user;
    bool unnamed = *owner && !*who->name && !shows(who, run->key);
    if (!unnamed || is_operator(operator_key, who))
        return dt_authority_over_run(operator_key, who, run, why, size);
    snprintf(why, size,
             "the run is %.60s's, and who asks is not known; ask as that user, or as "
             "the operator: %s",
             owner, how_to_operate(operator_key));
    return false;
}

bool dt_authority_over_nodes(const char *operator_key, const struct dt_asker *who, bool guarded,
                             char *why, size_t size)
{
    bool anybody = !*operator_key && !guarded && who->user == DT_ASKER_UNKNOWN;
    if (anybody || is_operator(operator_key, who))
        return true;
    snprintf(why, size, "nodes are the operator's%s; ask %s",
             guarded ? ", and a run with a token of its own is there" : "",
             how_to_operate(operator_key));
    return false;
}

const char *dt_authority_reason(const struct dt_message *m, char *out, size_t size)
{
    if (*m->why)
        snprintf(out, size, "%s", m->why);
    else
        snprintf(out, size, "%s%s", *m->user ? "by " : "", m->user);
    return out;
}

const char *dt_authority_signature(const struct dt_message *m, char *out, size_t size)
{
    snprintf(out, size, "%s%s%s%s", *m->user ? "by " : "", m->user, *m->user && *m->why ? ": " : "",
             m->why);
    return out;
}
