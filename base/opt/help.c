/* SPDX-License-Identifier: Apache-2.0 */
/* --help, for 80 columns. */
#include "base/opt/opt.h"

#include "base/buf.h"

#include <string.h>

#define WIDTH 79
#define HELP_COLUMN 28

/* Prints TEXT in the columns from HELP_COLUMN on; the cursor stands at COLUMN. */
static void wrap(FILE *out, const char *text, int column)
{
    if (column > HELP_COLUMN - 2) {
        fputc('\n', out);
        column = 0;
    }
    fprintf(out, "%*s", HELP_COLUMN - column, "");
    column = HELP_COLUMN;
    while (*text) {
        int n = (int)strcspn(text, " ");
        if (column > HELP_COLUMN && column + 1 + n > WIDTH) {
            fprintf(out, "\n%*s", HELP_COLUMN, "");
            column = HELP_COLUMN;
        }
        bool first = column == HELP_COLUMN;
        fprintf(out, "%s%.*s", first ? "" : " ", n, text);
        column += n + !first;
        text += n;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static void print_row(const struct dt_opt *o, FILE *out)
{
    struct dt_buf text = {0};
    int n = o->letter ? fprintf(out, "  -%c, ", o->letter) : fprintf(out, "      ");
    n += fprintf(out, "--%s", o->name);
    if (o->arg)
        n += fprintf(out, " %s", o->arg);
    dt_buf_put_str(&text, o->help ? o->help : "");
    if (o->arg && o->fallback && *o->fallback)
        dt_buf_printf(&text, " (default: %s%s)", o->fallback, o->repeat ? "; can repeat" : "");
    else if (o->repeat)
        dt_buf_put_str(&text, " (can repeat)");
    wrap(out, dt_buf_cstr(&text), n);
    dt_buf_finish(&text);
}

const char *dt_opt_group(const struct dt_opt *o)
{
    return o->group ? o->group : "Options";
}

bool dt_opt_opens_group(const struct dt_opt *table, const struct dt_opt *o)
{
    if (o->hidden)
        return false;
    for (const struct dt_opt *before = table; before < o; before++)
        if (!before->hidden && strcmp(dt_opt_group(before), dt_opt_group(o)) == 0)
            return false;
    return true;
}

static void print_groups(const struct dt_opt *table, FILE *out)
{
    for (const struct dt_opt *head = table; head->name; head++) {
        if (!dt_opt_opens_group(table, head))
            continue;
        fprintf(out, "\n%s:\n", dt_opt_group(head));
        for (const struct dt_opt *o = head; o->name; o++)
            if (!o->hidden && strcmp(dt_opt_group(o), dt_opt_group(head)) == 0)
                print_row(o, out);
    }
}

/* The first row that the environment names, with its own prefix or with the program's. */
static const struct dt_opt *find_example(const struct dt_opt_program *p, bool own_prefix,
                                         char *name, size_t size)
{
    const struct dt_opt *o = p->table;
    while (o->name && (o->hidden || (o->env_prefix != NULL) != own_prefix ||
                       !*dt_opt_env_name(p, o, name, size)))
        o++;
    return o->name ? o : NULL;
}

/* One sentence instead of a name in each row. */
static void print_other_sources(const struct dt_opt_program *p, FILE *out)
{
    char name[128] = "", own[128] = "";
    const struct dt_opt *example = find_example(p, false, name, sizeof name);
    const struct dt_opt *other = find_example(p, true, own, sizeof own);
    if (example)
        fprintf(out, "\nThe environment can hold options too: --%s is\n%s", example->name, name);
    if (example && other)
        fprintf(out, ", --%s is %s", other->name, own);
    if (example)
        fputc('.', out);
    if (p->config_option)
        fprintf(out, "\nThe file of --%s holds lines NAME = VALUE; # starts a comment line.",
                p->config_option);
    if (example || p->config_option)
        fputc('\n', out);
}

void dt_opt_help(const struct dt_opt_program *program, FILE *out)
{
    fprintf(out, "Usage: %s %s\n", program->name, program->usage);
    if (program->summary)
        fprintf(out, "%s\n", program->summary);
    if (program->example)
        fprintf(out, "For example: %s\n", program->example);
    print_groups(program->table, out);
    fprintf(out, "\nOther:\n");
    for (const struct dt_opt *o = dt_opt_builtins(program); o->name; o++)
        print_row(o, out);
    print_other_sources(program, out);
    if (program->put_more)
        program->put_more(out);
    if (program->version) /* else it is not installed, and has none */
        fprintf(out, "\nThe manual says more: man %s\n", program->name);
}
