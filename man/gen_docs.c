/* SPDX-License-Identifier: Apache-2.0 */
/* Build-time generator: option tables to man pages and shell completions.
 *
 *   gen_docs man PROGRAM PAGE.in > PAGE     the line @OPTIONS@ of PAGE.in becomes the lists
 *   gen_docs bash|zsh|fish PROGRAM > FILE */
#include "base/auto.h"
#include "base/opt_docs.h"
#include "launcher/options.h"
#include "rendezvous/options.h"

#include <stdio.h>
#include <string.h>

/* A program of the project is a row here, and one in man/meson.build. */
static const struct dt_opt_program *const programs[] = {
    &dt_launch_program,
    &dt_legacy_program,
    &dt_rendezvous_program,
    NULL,
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

static int print_page(const struct dt_opt_program *program, const char *path)
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
        if (strcmp(line, "@OPTIONS@\n") == 0) {
            dt_opt_print_mdoc(program, stdout);
            filled++;
        } else {
            fputs(line, stdout);
        }
    }
    if (filled != 1)
        fprintf(stderr, "gen_docs: %s has %d lines @OPTIONS@, not one\n", path, filled);
    return filled != 1;
}

int main(int argc, char **argv)
{
    const struct dt_opt_program *program = argc >= 3 ? find_program(argv[2]) : NULL;
    if (!program)
        return 1;
    if (argc == 4 && strcmp(argv[1], "man") == 0)
        return print_page(program, argv[3]) || fflush(stdout) != 0;
    for (const struct shell *s = shells; s->name; s++) {
        if (strcmp(argv[1], s->name) == 0) {
            s->print(program, stdout);
            return fflush(stdout) != 0;
        }
    }
    fprintf(stderr, "gen_docs: no document is called %s\n", argv[1]);
    return 1;
}
