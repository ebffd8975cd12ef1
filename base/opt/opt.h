/* SPDX-License-Identifier: Apache-2.0 */
/* Options, declared once: a table of rows from which the command line, the environment, a config
 * file, --help, the man page and the completions are all derived.
 *
 * Sources, strongest first: command line, environment, config file, the row's fallback. Only the
 * strongest source that names an option is parsed, each of its occurrences in turn: so the last one
 * wins, a repeatable option collects one source's values and never a mixture, and a bad value that
 * something stronger replaces hurts nobody. In long names `_` and `-` are alike. The first argument
 * that is no option ends them; all behind it is the caller's. Errors name what the person wrote:
 * `--listen: ...`, `DTRUN_RENDEZVOUS_LISTEN: ...`, `/etc/x.conf:7: listen: ...`. */
#ifndef DT_BASE_OPT_OPT_H
#define DT_BASE_OPT_OPT_H

#include "base/addr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Reads VALUE into TARGET; DT_E_USAGE when it makes no sense. A flag gets "yes" or "no". */
typedef int (*dt_opt_parse_fn)(const char *value, void *target, struct dt_err *err);

/* What a shell offers as a value. */
enum dt_opt_value_kind { DT_OPT_ANYTHING, DT_OPT_FILE, DT_OPT_DIRECTORY };

/* Where a value comes from, weakest first. */
enum dt_opt_source { DT_OPT_FROM_FALLBACK, DT_OPT_FROM_CONFIG, DT_OPT_FROM_ENV, DT_OPT_FROM_ARGS };

#define DT_OPT_ROWS_MAX 128

/* A table ends with a zeroed row and has at most DT_OPT_ROWS_MAX others. */
struct dt_opt {
    const char *name; /* the spelling with dashes */
    char letter;
    const char *arg;           /* how help calls the value; NULL: a flag, which takes none */
    dt_opt_parse_fn parse;     /* NULL: dt_opt_flag or dt_opt_string, by what .arg says */
    dt_opt_parse_fn parse_env; /* for the environment, where torchrun checks less; NULL: .parse */
    void (*finish)(void *target); /* frees what .parse made and zeroes TARGET; NULL: nothing to
                                   * free, or one of the parsers below made it */
    size_t at;                    /* offsetof the target in the options struct */
    /* Parsed when no source has the option; several of a repeatable one as in env. */
    const char *fallback;
    const char *group;      /* heading in help */
    const char *help;       /* whole sentences or none: "most keys the store will hold" */
    const char *words;      /* "text json": all values there are, for completions */
    const char *env_prefix; /* of this row instead of the program's, whose .env_flag it does not
                             * follow either */
    const char *env;        /* its variable; NULL: the prefix and .name make one */
    enum dt_opt_value_kind completes;
    bool repeat;    /* each occurrence is parsed again, and .parse appends */
    bool no_env;    /* not in the environment */
    bool no_config; /* not in a config file */
    bool exact;     /* no abbreviation stands for it, so a new row cannot make an old abbreviation
                       ambiguous */
    bool later;     /* an abbreviation that it shares with rows which are not is theirs */
    bool hidden;    /* works, but help and documents are silent about it */
};

/* An option of other programs, with its dashes, and what to write instead: a part of a sentence. */
struct dt_opt_foreign {
    const char *written, *hint;
};

/* Names that only the program can find out, such as those of jobs, and where they may stand. */
struct dt_opt_listing {
    const char *ask;             /* the command that prints them, one on each line */
    const char *const *commands; /* behind these, which .commands has too; ends with NULL */
};

struct dt_opt_program {
    const char *name;
    const char *summary; /* what it does, a sentence */
    const char *usage;   /* behind the name: "[options]" */
    const char *example; /* a whole command line for help; NULL: none */
    const char *version; /* NULL: there is no --version */
    const struct dt_opt *table;
    const char *env_prefix; /* "DTRUN_RENDEZVOUS_"; NULL: the environment is not looked at */
    /* What a flag's text in the environment means; NULL: yes, true, on, 1 and their opposites. */
    int (*env_flag)(const char *value, bool *on, struct dt_err *err);
    /* The row whose value is the path of the config file; NULL: none. A file that is named by
     * nothing but that row's fallback may be missing. */
    const char *config_option;
    const struct dt_opt_foreign *foreign; /* ends with a zeroed row; NULL: none */
    /* What operands begin with: "status", "node list"; a second word FILE stands for files. Options
     * may stand behind them then; without commands the first operand ends the options. For
     * completions. Ends with NULL; NULL: none. */
    const char *const *commands;
    /* For completions, which run the program to ask for names; ends with a zeroed row. NULL: none.
     */
    const struct dt_opt_listing *listings;
    /* Options with a value that it is to be asked with, where the line has them: "endpoint". Ends
     * with NULL. */
    const char *const *listing_options;
    /* A word that may stand before all options, where no command does: for completions, as the
     * caller takes it off. NULL: none. */
    const char *first_word;
    void (*put_more)(FILE *out); /* what --help has besides options; NULL: nothing */
    bool takes_operands;         /* else an argument that is no option is an error */
};

struct dt_opt_result {
    bool help, version; /* asked for; nothing behind that was read and OPTIONS is untouched */
    int operands;       /* argv[operands] is the first that is no option; argc when there is none */
    unsigned char from[DT_OPT_ROWS_MAX]; /* an enum dt_opt_source for each row of the table */
};

/* Fills OPTIONS, a zeroed struct of the caller, who ends it with dt_opt_finish() also on failure.
 * ENV is as environ(7) or NULL. Nothing is kept, so a reload parses the same argv again into a
 * fresh struct. */
int dt_opt_parse(const struct dt_opt_program *program, int argc, char *const *argv,
                 char *const *env, void *options, struct dt_opt_result *result, struct dt_err *err);

/* A config file has lines `name = value`, or `name` for a flag; lines that start with # and blank
 * ones are skipped. */
#define DT_OPT_CONFIG_MAX ((size_t)1 << 20) /* bytes */

void dt_opt_finish(const struct dt_opt_program *program, void *options);

/* Calls FN for each option of a command line that dt_opt_parse() has taken, with the words that it
 * stands in: for a program that passes some of them on. */
void dt_opt_each_given(const struct dt_opt_program *program, int argc, char *const *argv,
                       void (*fn)(void *arg, const struct dt_opt *o, char *const *words, int count),
                       void *arg);

/* Where the row NAME has its value from, as RESULT tells. */
enum dt_opt_source dt_opt_source_of(const struct dt_opt_program *program,
                                    const struct dt_opt_result *result, const char *name);

/* What the person wrote for the row NAME: "--max-keys", or "DTRUN_RENDEZVOUS_MAX_KEYS". Cut to
 * SIZE. */
const char *dt_opt_written(const struct dt_opt_program *program, const struct dt_opt_result *result,
                           const char *name, char *out, size_t size);

/* For 80 columns. */
void dt_opt_help(const struct dt_opt_program *program, FILE *out);

/* Rows no table has to hold: --help, and --version where there is one. Ends with a zeroed row. */
const struct dt_opt *dt_opt_builtins(const struct dt_opt_program *program);

/* The row that NAME spells in full, also --help and --version, or NULL. */
const struct dt_opt *dt_opt_named(const struct dt_opt_program *program, const char *name,
                                  size_t len);

/* The heading that O stands under, and whether O is the first row of TABLE that shows under it. */
const char *dt_opt_group(const struct dt_opt *o);
bool dt_opt_opens_group(const struct dt_opt *table, const struct dt_opt *o);

/* "DTRUN_RENDEZVOUS_MAX_KEYS", or "" where the environment has no such option. Cut to SIZE. */
const char *dt_opt_env_name(const struct dt_opt_program *program, const struct dt_opt *opt,
                            char *out, size_t size);

/* Parsers for the targets that need no words. */
struct dt_opt_strings {
    char **at;
    size_t len;
};

struct dt_opt_cidrs {
    struct dt_cidr *at;
    size_t len;
};

int dt_opt_flag(const char *value, void *bool_target, struct dt_err *err);
int dt_opt_string(const char *value, void *char_ptr_target, struct dt_err *err); /* owned */
int dt_opt_append(const char *value, void *strings_target, struct dt_err *err);  /* owned */
int dt_opt_cidr(const char *value, void *cidrs_target, struct dt_err *err);      /* appends */
/* The .finish of a parser that ends in dt_opt_string(), or in dt_opt_append(). */
void dt_opt_finish_string(void *char_ptr_target);
void dt_opt_finish_strings(void *strings_target);
int dt_opt_count(const char *value, void *int_target, struct dt_err *err); /* 0 and more */
int dt_opt_duration(const char *value, void *dt_ms_target, struct dt_err *err);
int dt_opt_log_level(const char *value, void *dt_log_level_target, struct dt_err *err);
int dt_opt_log_format(const char *value, void *dt_log_format_target, struct dt_err *err);

#endif
