/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/fleet/refusal.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define NOT_FOUND 127 /* exit statuses of a shell */
#define NOT_EXECUTABLE 126
#define USAGE 2
#define ANY (-1000)

enum refusal_kind { NO_PROGRAM, NO_RIGHT, OTHER_PROGRAM, HOST_KEY, PASSWORD, UNREACHABLE, ENDED };

/* The first row that fits counts. Words are those of OpenSSH, shells and dtrun. */
static const struct {
    int status;
    const char *words; /* of the last line; NULL: any */
    enum refusal_kind kind;
} rows[] = {
    {NOT_FOUND, NULL, NO_PROGRAM},
    {NOT_EXECUTABLE, NULL, NO_RIGHT},
    {USAGE, "no such option", OTHER_PROGRAM},
    {ANY, "ost key verification failed", HOST_KEY},
    {ANY, "Permission denied (", PASSWORD},
    {ANY, "Too many authentication failures", PASSWORD},
    {ANY, "lists the options", OTHER_PROGRAM},
    {ANY, "ssh: ", UNREACHABLE},
    {255, NULL, UNREACHABLE},
    {ANY, NULL, ENDED},
};

static enum refusal_kind find_kind(const struct dt_fleet_refusal *r)
{
    size_t i = 0;
    while ((rows[i].status != ANY && rows[i].status != r->status) ||
           (rows[i].words && !strstr(r->last_line, rows[i].words)))
        i++;
    return rows[i].kind;
}

void dt_fleet_refusal_tell(const struct dt_fleet_refusal *r, struct dt_err *err)
{
    const char *said = *r->last_line ? r->last_line : "it said nothing";
    bool known = r->own_path && strcmp(r->own_path, r->remote) != 0;
    switch (find_kind(r)) {
    case NO_PROGRAM:
        dt_err_set(
            err, DT_E_RUNTIME,
            "%s: `%s` was not found there; install dtrun on that host, or give its path with "
            "--remote-dtrun%s%s%s",
            r->host, r->remote, known ? " (here it is " : "", known ? r->own_path : "",
            known ? ")" : "");
        break;
    case NO_RIGHT:
        dt_err_set(err, DT_E_RUNTIME, "%s: `%s` cannot be executed there: %s", r->host, r->remote,
                   said);
        break;
    case OTHER_PROGRAM:
        dt_err_set(err, DT_E_RUNTIME,
                   "%s: `%s` there is too old to be started from here; install dtrun " DT_VERSION
                   " on that host, or give its path with --remote-dtrun",
                   r->host, r->remote);
        break;
    case HOST_KEY:
        dt_err_set(err, DT_E_RUNTIME,
                   "%s: ssh does not know, or does not believe, the host's key; connect once by "
                   "hand: ssh %s",
                   r->host, r->host);
        break;
    case PASSWORD:
        dt_err_set(err, DT_E_RUNTIME,
                   "%s: no login without a password: %s; set up a key: ssh-copy-id %s", r->host,
                   said, r->host);
        break;
    case UNREACHABLE:
        dt_err_set(err, DT_E_RUNTIME, "%s: cannot be reached: %s", r->host, said);
        break;
    case ENDED:
        dt_err_set(err, DT_E_RUNTIME, "%s: %s %s %d before dtrun began there: %s", r->host,
                   r->agent, r->status < 0 ? "was ended by signal" : "ended with status",
                   r->status < 0 ? -r->status : r->status, said);
        break;
    }
}
