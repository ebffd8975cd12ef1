/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/failure/core.h"

#include "base/buf.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What a specifier of core(5) becomes. True: it tells processes apart. */
static bool put_specifier(const struct dt_core *core, char specifier, struct dt_buf *out)
{
    switch (specifier) {
    case '%':
        dt_buf_put_u8(out, '%');
        return false;
    case 'p':
        dt_buf_printf(out, "%d", (int)core->pid);
        return true;
    case 'u':
        dt_buf_printf(out, "%u", (unsigned)getuid());
        return false;
    case 'g':
        dt_buf_printf(out, "%u", (unsigned)getgid());
        return false;
    case 's':
        dt_buf_printf(out, "%d", core->signum);
        return false;
    default: /* P, i, I: numbers in another namespace, or of a thread */
        dt_buf_put_u8(out, '*');
        return strchr("PiI", specifier) != NULL;
    }
}

static bool put_name(const struct dt_core *core, struct dt_buf *out)
{
    bool own = false;
    for (const char *c = core->pattern; *c; c++) {
        if (*c != '%')
            dt_buf_put_u8(out, (uint8_t)*c);
        else if (c[1])
            own |= put_specifier(core, *++c, out);
    }
    if (!strstr(core->pattern, "%p") && core->uses_pid) {
        dt_buf_printf(out, ".%d", (int)core->pid);
        own = true;
    }
    return own;
}

static void describe_program(const struct dt_core *core, struct dt_buf *out)
{
    const char *program = core->pattern + 1 + strspn(core->pattern + 1, " ");
    int length = (int)strcspn(program, " ");
    if (strstr(program, "systemd-coredump"))
        dt_buf_printf(out, "see it by: coredumpctl info %d", (int)core->pid);
    else
        dt_buf_printf(out, "%.*s has it, as kernel.core_pattern says", length, program);
}

const char *dt_core_where(const struct dt_core *core, char *out, size_t size)
{
    struct dt_buf text = {0};
    if (core->pattern[0] == '|') {
        describe_program(core, &text);
    } else {
        if (core->pattern[0] != '/')
            dt_buf_printf(&text, "%s/", core->folder);
        if (!put_name(core, &text))
            dt_buf_put_str(&text, ", which the next one overwrites: set kernel.core_uses_pid to 1");
    }
    snprintf(out, size, "%s", dt_buf_cstr(&text));
    dt_buf_finish(&text);
    return out;
}
