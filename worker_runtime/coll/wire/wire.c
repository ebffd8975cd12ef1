/* SPDX-License-Identifier: Apache-2.0 */
/* Which wire: our own over TCP, or with DTRUN_WIRE=ucx that of UCX, for networks that TCP does not
 * make full use of. UCX 1.13 is not the default since it ends the process by assertions of its own,
 * about every second time, when a peer of several connected ones is killed. */
#include "worker_runtime/coll/wire/wire.h"

#include "worker_runtime/coll/wire/tcp/tcp.h"

#include <stdlib.h>
#include <string.h>

/* clang-format off */
static const struct { const char *name, *value; } settings[] = {
    /* A crash of the program is the program's; UCX would print and stop for a debugger. */
    {"UCX_HANDLE_ERRORS",        "none"},
    {"UCX_ERROR_SIGNALS",        ""},
    /* We say what is wrong ourselves, and a library does not print. */
    {"UCX_LOG_LEVEL",            "fatal"},
    {"UCX_WARN_UNUSED_ENV_VARS", "n"},
    /* A host that lost its power or its cable sends no reset: idle connections are probed, TCP's by
     * the kernel, others by UCX, and are given up after some ten seconds. */
    {"UCX_KEEPALIVE_INTERVAL",   "5s"},
    {"UCX_TCP_KEEPIDLE",         "5s"},
    {"UCX_TCP_KEEPINTVL",        "1s"},
    {"UCX_TCP_KEEPCNT",          "5"},
};
/* clang-format on */

const struct dt_wire_ops *dt_wire_load(struct dt_err *err)
{
    const char *which = getenv("DTRUN_WIRE");
    if (!which || !*which || strcmp(which, "tcp") == 0)
        return &dt_wire_tcp;
    if (strcmp(which, "ucx") != 0) {
        dt_err_set(err, DT_E_USAGE, "DTRUN_WIRE in the environment is \"%.40s\"; give tcp or ucx",
                   which);
        return NULL;
    }
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        setenv(settings[i].name, settings[i].value, 0);
    const struct dt_wire_ops *ops =
        dt_plugin_open("worker_runtime/coll/ucx", DT_WIRE_ABI, sizeof(struct dt_wire_ops), err);
    if (!ops)
        dt_err_wrap(err, "DTRUN_WIRE=ucx needs UCX (Debian: libucx0) and "
                         "dtrun's helper library dt_ucx.so; install both, or unset DTRUN_WIRE");
    return ops;
}
