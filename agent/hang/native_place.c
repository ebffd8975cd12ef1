/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hang/native_place.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

struct place {
    const char *function, *object; /* NULL: not known */
};

/* -- what the stance says --------------------------------------------------------------------- */

static void add_detail(struct dt_stance *s, const char *lead, const char *text)
{
    char before[sizeof s->detail];
    snprintf(before, sizeof before, "%s", s->detail);
    int used = snprintf(s->detail, sizeof s->detail, "%.*s%s%s", (int)sizeof before / 2, before,
                        *before ? ", " : "", lead);
    snprintf(s->detail + used, sizeof s->detail - (size_t)used, "%.*s",
             (int)sizeof s->detail - used - 1, text);
}

static void put_place(struct dt_stance *s, const struct place *p)
{
    char text[sizeof s->detail];
    if (!*s->where && !*s->function) {
        snprintf(s->function, sizeof s->function, "%.*s", (int)sizeof s->function - 1, p->function);
        return;
    }
    snprintf(text, sizeof text, "%.100s of %.100s", p->function, p->object);
    add_detail(s, "in ", *p->object ? text : p->function);
}

/* -- what was printed ------------------------------------------------------------------------- */

/* Through these everything waits, whatever it does. */
static bool is_of_the_system(const char *object)
{
    static const char *const names[] = {"libc.so", "libc-", "libpthread", "librt.so",
                                        "ld-",     "[vdso", "linux-vdso"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(object, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* The innermost call that is the program's own; else the innermost whose name is known. */
static struct place choose(const struct dt_json *doc, const struct cJSON *calls)
{
    struct place best = {NULL, NULL}, p;
    struct dt_err err;
    for (const struct cJSON *c = dt_json_first(calls); c; c = dt_json_next(c)) {
        if (dt_json_string(doc, c, "function", &p.function, &err) < 0 ||
            dt_json_string(doc, c, "object", &p.object, &err) < 0 || !*p.function)
            continue;
        if (!is_of_the_system(p.object))
            return p;
        if (!best.function)
            best = p;
    }
    return best;
}

static struct place place_of(const struct dt_json *doc, const struct cJSON *process, pid_t tid)
{
    const struct cJSON *threads, *calls;
    struct dt_err err;
    int64_t number;
    if (dt_json_array(doc, process, "threads", &threads, &err) < 0)
        return (struct place){NULL, NULL};
    for (const struct cJSON *t = dt_json_first(threads); t; t = dt_json_next(t))
        if (dt_json_int(doc, t, "tid", 1, INT_MAX, &number, &err) == 0 && number == tid &&
            dt_json_array(doc, t, "native", &calls, &err) == 0)
            return choose(doc, calls);
    return (struct place){NULL, NULL};
}

static const struct cJSON *process_of(const struct dt_json *doc, const struct cJSON *look,
                                      pid_t pid)
{
    const struct cJSON *processes;
    struct dt_err err;
    int64_t number;
    if (dt_json_array(doc, look, "processes", &processes, &err) < 0)
        return NULL;
    for (const struct cJSON *p = dt_json_first(processes); p; p = dt_json_next(p))
        if (dt_json_int(doc, p, "pid", 1, INT_MAX, &number, &err) == 0 && number == pid)
            return p;
    return NULL;
}

static const char *why_of(const struct dt_json *doc, const struct cJSON *look,
                          const struct cJSON *process)
{
    const char *why;
    struct dt_err err;
    if (dt_json_has(process, "no_native") &&
        dt_json_string(doc, process, "no_native", &why, &err) == 0)
        return why;
    if (dt_json_has(look, "refused") && dt_json_string(doc, look, "refused", &why, &err) == 0)
        return why;
    return "the kernel or a debugger does not let us stop its threads";
}

/* -- the whole -------------------------------------------------------------------------------- */

static void tell(const struct dt_json *doc, pid_t pid, struct dt_stance *s)
{
    const struct cJSON *look = dt_json_first(doc->root);
    const struct cJSON *process = look ? process_of(doc, look, pid) : NULL;
    struct place p = {NULL, NULL};
    if (process)
        p = place_of(doc, process, pid);
    if (p.function)
        put_place(s, &p);
    else
        add_detail(s, "no calls of C code: ",
                   process ? why_of(doc, look, process) : "the process is gone");
}

/* A sentence on standard error comes before the JSON. */
void dt_native_place_tell(struct dt_bytes text, pid_t pid, struct dt_stance *s)
{
    char line[sizeof s->detail];
    struct dt_json doc = {0};
    struct dt_err err;
    if (text.len > 0 && text.at[0] == '[' &&
        dt_json_parse(&doc, (const char *)text.at, text.len, DT_NATIVE_PLACE_TEXT_MAX, &err) == 0) {
        tell(&doc, pid, s);
        dt_json_finish(&doc);
        return;
    }
    const uint8_t *end = text.len > 0 ? memchr(text.at, '\n', text.len) : NULL;
    size_t len = end ? (size_t)(end - text.at) : 0;
    snprintf(line, sizeof line, "%.*s", (int)(len < sizeof line ? len : sizeof line - 1),
             len > 0 ? (const char *)text.at : "");
    add_detail(s, "no calls of C code: ",
               len > 0 && text.at[0] != '[' ? line : "reading them takes too long");
}
