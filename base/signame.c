/* SPDX-License-Identifier: Apache-2.0 */
#include "base/signame.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* clang-format off */
static const char *const names[] = {
    [SIGHUP] = "SIGHUP", [SIGINT] = "SIGINT", [SIGQUIT] = "SIGQUIT", [SIGILL] = "SIGILL",
    [SIGTRAP] = "SIGTRAP", [SIGABRT] = "SIGABRT", [SIGBUS] = "SIGBUS", [SIGFPE] = "SIGFPE",
    [SIGKILL] = "SIGKILL", [SIGUSR1] = "SIGUSR1", [SIGSEGV] = "SIGSEGV", [SIGUSR2] = "SIGUSR2",
    [SIGPIPE] = "SIGPIPE", [SIGALRM] = "SIGALRM", [SIGTERM] = "SIGTERM",
    [SIGSTKFLT] = "SIGSTKFLT", [SIGCHLD] = "SIGCHLD", [SIGCONT] = "SIGCONT",
    [SIGSTOP] = "SIGSTOP", [SIGTSTP] = "SIGTSTP", [SIGTTIN] = "SIGTTIN", [SIGTTOU] = "SIGTTOU",
    [SIGURG] = "SIGURG", [SIGXCPU] = "SIGXCPU", [SIGXFSZ] = "SIGXFSZ",
    [SIGVTALRM] = "SIGVTALRM", [SIGPROF] = "SIGPROF", [SIGWINCH] = "SIGWINCH",
    [SIGIO] = "SIGIO", [SIGPWR] = "SIGPWR", [SIGSYS] = "SIGSYS",
};
/* clang-format on */

const char *dt_signame(int number)
{
    if (number == SIGRTMIN)
        return "SIGRTMIN";
    if (number == SIGRTMAX)
        return "SIGRTMAX";
    return number > 0 && (size_t)number < sizeof names / sizeof *names ? names[number] : NULL;
}

const char *dt_signame_text(int number, char out[DT_SIGNAME_TEXT])
{
    const char *name = dt_signame(number);
    if (name)
        snprintf(out, DT_SIGNAME_TEXT, "%s", name);
    else
        snprintf(out, DT_SIGNAME_TEXT, "signal %d", number);
    return out;
}

int dt_signame_number(const char *name, size_t len)
{
    size_t prefix = len > 3 && strncasecmp(name, "SIG", 3) == 0 ? 0 : 3;
    for (int n = 1; n < NSIG; n++) {
        const char *own = dt_signame(n);
        if (own && strlen(own + prefix) == len && strncasecmp(own + prefix, name, len) == 0)
            return n;
    }
    return 0;
}

bool dt_signame_catchable(int number)
{
    switch (number) {
    case SIGKILL:
    case SIGSTOP:
    case SIGCHLD:
    case SIGSEGV:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
    case SIGTRAP:
    case SIGABRT:
    case SIGSYS:
        return false;
    default:
        return number > 0 && number < NSIG;
    }
}

bool dt_signame_next(const char **at, const char **name, size_t *len)
{
    if (!*at)
        return false;
    const char *from = *at, *comma = strchr(from, ',');
    const char *end = comma ? comma : from + strlen(from);
    *at = comma ? comma + 1 : NULL;
    while (from < end && isspace((unsigned char)*from))
        from++;
    while (end > from && isspace((unsigned char)end[-1]))
        end--;
    *name = from;
    *len = (size_t)(end - from);
    return true;
}

void dt_signame_list(uint64_t set, struct dt_buf *out)
{
    const char *comma = "";
    for (int n = 1; n < 64; n++) {
        const char *name = set >> n & 1 ? dt_signame(n) : NULL;
        if (!name)
            continue;
        dt_buf_put_str(out, comma);
        dt_buf_put_str(out, name);
        comma = ",";
    }
}
