/* SPDX-License-Identifier: Apache-2.0 */
/* The one error value: what failed, which one, why, and what to try. It lives on the caller's
 * stack, so failing allocates nothing and nothing is to be released. It is the last parameter of
 * what can fail and is filled where the cause is known; callers that know more add a name.
 * Installed as dtrun/err.h: it includes nothing of ours. */
#ifndef DT_BASE_ERR_H
#define DT_BASE_ERR_H

/* What libdtrun shows to the programs that use it. */
#define DT_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of failure; the first two double as exit statuses (DT_E_RUNTIME 1, DT_E_USAGE 2). */
enum dt_err_code {
    DT_E_NONE = 0,
    DT_E_RUNTIME = 1,  /* something met while running */
    DT_E_USAGE = 2,    /* a person wrote an option or a config that cannot be */
    DT_E_PROTOCOL,     /* a peer broke the rules of the wire */
    DT_E_LIMIT,        /* a stated limit was reached */
    DT_E_TIMEOUT,      /* the time the caller allowed is over */
    DT_E_DISCONNECTED, /* the other side went away */
    DT_E_MEMORY,       /* no memory */
    DT_E_CANCELED,     /* the caller itself called it off */
    DT_E_ELSEWHERE,    /* another process of the job failed, and says why */
};

struct dt_err {
    enum dt_err_code code;
    char text[512];
};

/* Fills ERR (which may be NULL) and returns -1, so that failing is one line. */
DT_API int dt_err_set(struct dt_err *err, enum dt_err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* As dt_err_set(), with ": " and the text of errno value ERRNUM behind the message. */
DT_API int dt_err_errno(struct dt_err *err, enum dt_err_code code, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Puts "CONTEXT: " in front of the text; the code stays. Returns -1. */
DT_API int dt_err_wrap(struct dt_err *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The exit status that stands for this error: 2 for usage, else 1. */
DT_API int dt_err_exit_status(const struct dt_err *err);

#ifdef __cplusplus
}
#endif

#endif
