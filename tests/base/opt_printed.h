/* SPDX-License-Identifier: Apache-2.0 */
/* A program whose options hold everything that a document has to escape, what is printed of it, and
 * shells to try that in. */
#ifndef DT_TESTS_BASE_OPT_PRINTED_H
#define DT_TESTS_BASE_OPT_PRINTED_H

#include "base/fs.h"
#include "base/opt/opt.h"
#include "tests/lib/check.h"

#include <sys/wait.h>

static const struct dt_opt table[] = {
    {.name = "verbose",
     .letter = 'v',
     .group = "Talk",
     .help = "say more. Don't whisper: [loud] \\ `ok`"},
    {.name = "format", .letter = 'f', .arg = "Fo", .words = "text json", .help = ".dots first"},
    {.name = "config-file",
     .arg = "FILE",
     .completes = DT_OPT_FILE,
     .fallback = "/etc/a \"b\".conf"},
    {.name = "log-dir",
     .arg = "DIR",
     .completes = DT_OPT_DIRECTORY,
     .repeat = true,
     .group = "Talk"},
    {.name = "plain",
     .arg = "X|Y Z",
     .fallback = ".",
     .help = "a help that is so long that it has to be folded somewhere, which 'quotes' at the "
             "start of a line must survive. Also a second sentence"},
    {.name = "secret", .hidden = true},
    {0},
};

static const struct dt_opt_program program = {
    .name = "dt-test",
    .usage = "[options]",
    .version = "1",
    .table = table,
    .env_prefix = "DT_",
};

static inline char *printed_of(const struct dt_opt_program *p,
                               void (*print)(const struct dt_opt_program *, FILE *))
{
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);
    print(p, f);
    fclose(f);
    return text;
}

static inline char *printed(void (*print)(const struct dt_opt_program *, FILE *))
{
    return printed_of(&program, print);
}

/* Runs COMMAND with TEXT in the file $F; what it prints, "" when nothing. */
static inline const char *run(const char *text, const char *command, char out[4096], int *status)
{
    char path[] = "/tmp/dtrun-test-docs-XXXXXX";
    struct dt_err err = {0};
    close(mkstemp(path));
    CHECK_OK(dt_fs_replace(path, text, strlen(text), 0600, &err), err);
    setenv("F", path, 1);
    FILE *p = popen(command, "r");
    size_t n = p ? fread(out, 1, 4095, p) : 0;
    out[n] = '\0';
    *status = p ? pclose(p) : -1;
    unlink(path);
    return out;
}

static inline bool have(const char *command)
{
    char line[128];
    snprintf(line, sizeof line, "command -v %s > /dev/null", command);
    return system(line) == 0;
}

#endif
