/* SPDX-License-Identifier: Apache-2.0 */
/* Build-time generator: option tables to man pages and shell completions.
 *
 *   gen_docs man PROGRAM PAGE.in > PAGE     the line @OPTIONS@ of PAGE.in becomes the lists
 *   gen_docs example FILE PAGE.in > PAGE    the line @EXAMPLE@ becomes the file
 *   gen_docs bash|zsh|fish PROGRAM > FILE */
#include "base/auto.h"
#include "base/opt/complete.h"
#include "base/opt/docs.h"
#include "ctl/options.h"
#include "launcher/options.h"
#include "rendezvous/daemon/options.h"
#include "worker_runtime/train/options.h"

#include <stdio.h>
#include <string.h>

/* A program of the project is a row here, and one in man/meson.build. */
static const struct dt_opt_program *const programs[] = {
    &dt_ctl_program,        &dt_launch_program, &dt_legacy_program,
    &dt_rendezvous_program, &dt_train_program,  NULL,
};

struct shell {
    const char *name;
    void (*print)(const struct dt_opt_program *program, FILE *out);
};

static const struct shell shells[] = {
    {"bash", dt_opt_print_bash},
    {"zsh", dt_opt_print_zsh},
    {"fish", dt_opt_print_fish},
    {0},
};

static const struct dt_opt_program *find_program(const char *name)
{
    for (size_t i = 0; programs[i]; i++)
        if (strcmp(programs[i]->name, name) == 0)
            return programs[i];
    fprintf(stderr, "gen_docs: %s is not in its table of programs\n", name);
    return NULL;
}

static int print_options(const char *program, FILE *out)
{
    const struct dt_opt_program *p = find_program(program);
    if (p)
        dt_opt_print_mdoc(p, out);
    return p ? 0 : -1;
}

/* As it is, though a page has its own meaning for a backslash and for what a line begins with. */
static int print_example(const char *path, FILE *out)
{
    DT_AUTO_FILE in = fopen(path, "r");
    if (!in) {
        perror(path);
        return -1;
    }
    int c, before = '\n';
    while ((c = getc(in)) != EOF) {
        if (before == '\n' && (c == '.' || c == '\''))
            fputs("\\&", out);
        if (c == '\\')
            fputs("\\e", out);
        else
            putc(c, out);
        before = c;
    }
    return 0;
}

/* A page in which one line is MARK, in whose place FILL prints WHAT. */
static int print_page(const char *path, const char *mark, const char *what,
                      int (*fill)(const char *what, FILE *out))
{
    DT_AUTO_FILE in = fopen(path, "r");
    if (!in) {
        perror(path);
        return 1;
    }
    DT_AUTO_FREE char *line = NULL;
    size_t size = 0;
    int filled = 0;
    while (getline(&line, &size, in) >= 0) {
        if (strcmp(line, mark) != 0)
            fputs(line, stdout);
        else if (fill(what, stdout) < 0)
            return 1;
        else
            filled++;
    }
    if (filled != 1)
        fprintf(stderr, "gen_docs: %s has %d lines %.9s, not one\n", path, filled, mark);
    return filled != 1;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "man") == 0)
        return print_page(argv[3], "@OPTIONS@\n", argv[2], print_options) || fflush(stdout) != 0;
    if (argc == 4 && strcmp(argv[1], "example") == 0)
        return print_page(argv[3], "@EXAMPLE@\n", argv[2], print_example) || fflush(stdout) != 0;
    const struct dt_opt_program *program = argc == 3 ? find_program(argv[2]) : NULL;
    if (!program)
        return 1;
    for (const struct shell *s = shells; s->name; s++) {
        if (strcmp(argv[1], s->name) == 0) {
            s->print(program, stdout);
            return fflush(stdout) != 0;
        }
    }
    fprintf(stderr, "gen_docs: no document is called %s\n", argv[1]);
    return 1;
}
