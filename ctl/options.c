/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/options.h"

#include "base/addr.h"
#include "base/str.h"
#include "rendezvous/protocol/messages.h"
#include "rendezvous/protocol/spec.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS_MAX (2 + DT_CTL_RANKS_MAX) /* of a command and its arguments */
#define INTERVAL_LEAST (DT_SECOND / 5)
#define INTERVAL_MOST (3600 * DT_SECOND)

static int parse_endpoint(const char *value, void *target, struct dt_err *err)
{
    return dt_addr_check(value, err) < 0 ? -1 : dt_opt_string(value, target, err);
}

static int parse_interval(const char *value, void *target, struct dt_err *err)
{
    return dt_str_to_duration(value, INTERVAL_LEAST, INTERVAL_MOST, target, err);
}

static int parse_since(const char *value, void *target, struct dt_err *err)
{
    return dt_ctl_since_read(value, target, err);
}

/* "10", or "all". */
static int parse_lines(const char *value, void *target, struct dt_err *err)
{
    struct dt_ctl_lines *lines = target;
    int64_t count = DT_TAIL_ALL;
    if (strcmp(value, "all") != 0 && dt_str_to_int(value, 0, DT_TAIL_LINES_MOST, &count, NULL) < 0)
        return dt_err_set(err, DT_E_USAGE, "\"%s\" is no number of lines; give 0 to %d, or \"all\"",
                          value, DT_TAIL_LINES_MOST);
    *lines = (struct dt_ctl_lines){true, (int)count};
    return 0;
}

static int parse_prefix(const char *value, void *target, struct dt_err *err)
{
    if (strcmp(value, "auto") != 0 && strcmp(value, "never") != 0)
        return dt_err_set(err, DT_E_USAGE, "\"%s\" is not one of auto, never", value);
    return dt_opt_string(value, target, err);
}

/* -- what follows a command's name ------------------------------------------------------------- */

/* "3", or "8-15". */
static int read_rank(const char *word, struct dt_rank_range *out, struct dt_err *err)
{
    char first[32];
    const char *dash = strchr(word, '-');
    int64_t low, high;
    snprintf(first, sizeof first, "%.*s", (int)(dash ? dash - word : 31), word);
    if (dt_str_to_int(first, 0, INT_MAX, &low, NULL) < 0 ||
        dt_str_to_int(dash ? dash + 1 : word, low, INT_MAX, &high, NULL) < 0)
        return dt_err_set(err, DT_E_USAGE, "\"%s\" is no rank; give a number, or a range as 8-15",
                          word);
    *out = (struct dt_rank_range){(int)low, (int)high};
    return 0;
}

static int read_ranks(struct dt_ctl_options *o, const char *const *words, int count,
                      struct dt_err *err)
{
    if (count > DT_CTL_RANKS_MAX)
        return dt_err_set(err, DT_E_USAGE, "at most %d ranks or ranges of them are taken",
                          DT_CTL_RANKS_MAX);
    for (; (int)o->ranks_len < count; o->ranks_len++)
        if (read_rank(words[o->ranks_len], &o->ranks[o->ranks_len], err) < 0)
            return -1;
    return 0;
}

static int read_folders(struct dt_ctl_options *o, const char *const *words, int count,
                        struct dt_err *err)
{
    if (count > DT_CTL_FOLDERS_MAX)
        return dt_err_set(err, DT_E_USAGE, "at most %d further folders are taken",
                          DT_CTL_FOLDERS_MAX);
    for (int i = 0; i < count; i++)
        o->folders[o->folders_len++] = words[i];
    return 0;
}

/* -- tables ----------------------------------------------------------------------------------- */

#define AT(field) .at = offsetof(struct dt_ctl_options, field)

/* clang-format off */
static const struct dt_opt ctl_opts[] = {
    {.name = "endpoint", .arg = "HOST[:PORT]", .parse = parse_endpoint, .finish = dt_opt_finish_string,
     .env = DT_CTL_RENDEZVOUS_ENV, AT(endpoint), .fallback = DT_RENDEZVOUS_LOOPBACK, .group = "Where",
     .help = "address of the rendezvous: the --rdzv-endpoint of the job, or unix:/PATH"},
    {.name = "token-file", .arg = "FILE", .completes = DT_OPT_FILE,
     AT(token_file), .group = "Where",
     .help = "prove to the rendezvous that you know the token in this file, and accept only a rendezvous that knows "
             "it. Other users must not be able to read the file"},
    {.name = "run-token-file", .arg = "FILE", .completes = DT_OPT_FILE,
     AT(run_token_file), .group = "Where",
     .help = "with run commands and logs: prove that you know the token of the run, which is in this file"},
    {.name = "operator-token-file", .arg = "FILE", .completes = DT_OPT_FILE,
     AT(operator_token_file), .group = "Where",
     .help = "with node and run commands, and with logs: prove that you know the operator's token, which is in this file"},
    {.name = "timeout", .arg = "TIME", .parse = dt_opt_duration,
     AT(timeout), .fallback = "10s", .group = "Where",
     .help = "how long to wait for the connection, and for each answer; with run wait on the command line: for the "
             "end of the run, which is waited for as long as it takes where this is not given"},

    {.name = "json", .no_env = true, AT(json), .group = "What",
     .help = "print one JSON object, for programs; with events and logs, one on each line"},
    {.name = "quiet", .letter = 'q', .no_env = true, AT(quiet), .group = "What",
     .help = "with run list and node list: print the names alone, one on each line"},
    {.name = "quarantined", .no_env = true, AT(quarantined), .group = "What",
     .help = "with node list: show the nodes that are kept out or watched, and why"},
    {.name = "native", .no_env = true, AT(native), .group = "What",
     .help = "with look: say in which function of C code each worker is, too. Each thread is stopped for some milliseconds"},
    {.name = "follow", .letter = 'f', .no_env = true, AT(follow), .group = "What",
     .help = "with events and logs: go on with what comes next, until it is interrupted or the run of the logs ends"},
    {.name = "since", .arg = "TIME|NUMBER", .parse = parse_since, .no_env = true, AT(since), .group = "What",
     .help = "with events: begin with the event of this number, or with what happened at this time: 10m ago, or "
             "2026-11-23T07:00"},
    {.name = "interval", .arg = "TIME", .parse = parse_interval, .no_env = true, AT(interval), .group = "What",
     .help = "with top: how often to ask; every 2 seconds where this is not given"},
    {.name = "once", .no_env = true, AT(once), .group = "What",
     .help = "with top: print one picture as text"},
    {.name = "lines", .letter = 'n', .arg = "N|all", .parse = parse_lines, .no_env = true, AT(lines), .group = "What",
     .help = "with logs: begin with the last N lines of each worker's stdout and stderr; 10 by default"},
    {.name = "node", .arg = "NAME", .no_env = true, AT(node), .group = "What",
     .help = "with logs: show the workers of this node only"},
    {.name = "prefix", .arg = "auto|never", .words = "auto never", .parse = parse_prefix,
     .finish = dt_opt_finish_string, .no_env = true, AT(prefix), .group = "What",
     .help = "with logs: put the rank in front of each line, unless a single RANK is given (auto), or do not (never)"},
    {.name = "all", .no_env = true, AT(all), .group = "What",
     .help = "with node undrain: let back every node that is kept out, instead of one"},
    {.name = "why", .arg = "TEXT", .no_env = true, AT(why), .group = "What",
     .help = "with node drain, run pause, run restart and run stop: the reason, for everybody who looks later"},

    {.name = "output", .letter = 'o', .arg = "FILE", .completes = DT_OPT_FILE, .no_env = true, AT(output),
     .group = "Report", .help = "with report: write the page to FILE instead of standard output"},
    {.name = "metrics", .arg = "FILE", .completes = DT_OPT_FILE, .no_env = true, AT(metrics), .group = "Report",
     .help = "with report: the lines of JSON that dtrun-train wrote, where the run does not say or they were moved"},
    {.name = "checkpoints", .arg = "DIR", .completes = DT_OPT_DIRECTORY, .no_env = true, AT(checkpoints),
     .group = "Report", .help = "with report: the folder of its checkpoints, likewise"},
    {0},
};

static const char *const names[DT_CTL_COMMANDS + 1] = {
    [DT_CTL_STATUS] =       "status",
    [DT_CTL_TOP] =          "top",
    [DT_CTL_LOOK] =         "look",
    [DT_CTL_LOGS] =         "logs",
    [DT_CTL_HISTORY] =      "history",
    [DT_CTL_EVENTS] =       "events",
    [DT_CTL_ALERT_TEST] =   "alert test",
    [DT_CTL_RUN_LIST] =     "run list",
    [DT_CTL_RUN_WAIT] =     "run wait",
    [DT_CTL_RUN_SAVE] =     "run save",
    [DT_CTL_RUN_PAUSE] =    "run pause",
    [DT_CTL_RUN_RESUME] =   "run resume",
    [DT_CTL_RUN_RESTART] =  "run restart",
    [DT_CTL_RUN_STOP] =     "run stop",
    [DT_CTL_NODE_LIST] =    "node list",
    [DT_CTL_NODE_DRAIN] =   "node drain",
    [DT_CTL_NODE_UNDRAIN] = "node undrain",
    [DT_CTL_DOCTOR] =       "doctor",
    [DT_CTL_REPORT] =       "report",
};

static const struct command {
    const char *arg; /* NULL: takes none */
    bool must;       /* be given */
    /* What may follow it; NULL: nothing. */
    int (*read_more)(struct dt_ctl_options *o, const char *const *words, int count, struct dt_err *err);
    const char *help;
} commands[DT_CTL_COMMANDS] = {
    [DT_CTL_STATUS] =       {.arg = "[RUN]", .help = "show the state of all runs, or of one"},
    [DT_CTL_TOP] =          {.arg = "[RUN]", .help = "show runs, nodes and events on the whole terminal, live"},
    [DT_CTL_LOOK] =         {"RUN [RANK...]", true, read_ranks, "show where in the program each worker stands"},
    [DT_CTL_LOGS] =         {"RUN [RANK...]", true, read_ranks, "show what workers have printed last"},
    [DT_CTL_HISTORY] =      {"RUN", true, NULL, "show why each round ended, what it cost, and what was decided"},
    [DT_CTL_EVENTS] =       {.arg = "[RUN]", .help = "show what happened, in all runs or in one"},
    [DT_CTL_ALERT_TEST] =   {.help = "send a test to each receiver of alerts, and say how each took it"},
    [DT_CTL_RUN_LIST] =     {.help = "show each run on a line of its own"},
    [DT_CTL_RUN_WAIT] =     {"RUN", true, NULL, "wait until the run has ended, and tell by the exit status how"},
    [DT_CTL_RUN_SAVE] =     {"RUN", true, NULL, "let workers make a checkpoint after their step"},
    [DT_CTL_RUN_PAUSE] =    {"RUN", true, NULL, "let workers save and end, and start none until run resume"},
    [DT_CTL_RUN_RESUME] =   {"RUN", true, NULL, "let a paused run go on"},
    [DT_CTL_RUN_RESTART] =  {"RUN", true, NULL, "end the round of a run and begin another, with new workers"},
    [DT_CTL_RUN_STOP] =     {"RUN", true, NULL, "end a run on all its nodes"},
    [DT_CTL_NODE_LIST] =    {.help = "show each node that has joined, on a line of its own"},
    [DT_CTL_NODE_DRAIN] =   {"NAME", true, NULL, "take a node out of its job and keep it out"},
    [DT_CTL_NODE_UNDRAIN] = {"NAME", true, NULL, "let a node back in; this ends a quarantine too"},
    [DT_CTL_DOCTOR] =       {.help = "find out what is wrong with the rendezvous, or the way to it"},
    [DT_CTL_REPORT] =       {"DIR...", true, read_folders, "make a page about a run, of the files it left in DIR"},
};

/* A shell does not wait for long. */
static const struct dt_opt_listing listings[] = {
    {"run list --quiet --timeout 1s",
     (const char *const[]){"status", "top", "look", "logs", "history", "events", "run wait", "run save", "run pause", "run resume",
                           "run restart", "run stop", NULL}},
    {"node list --quiet --timeout 1s", (const char *const[]){"node drain", NULL}},
    {"node list --quarantined --quiet --timeout 1s", (const char *const[]){"node undrain", NULL}},
    {0},
};
/* clang-format on */

static void put_commands(FILE *out)
{
    fputs("\nCommands:\n", out);
    for (int i = 0; i < DT_CTL_COMMANDS; i++) {
        const struct command *c = &commands[i];
        char shape[64];
        snprintf(shape, sizeof shape, "%s %s", names[i], c->arg ? c->arg : "");
        fprintf(out, "  %-25s %s\n", shape, c->help);
    }
}

const struct dt_opt_program dt_ctl_program = {
    .name = "dtrun-ctl",
    .summary =
        "Shows the jobs at a rendezvous and what their workers do and print, pauses, restarts,\n"
        "stops and awaits jobs, takes nodes out of them, and reports on a run.",
    .usage = "[options] COMMAND",
    .example = "dtrun-ctl status --endpoint node0:29400",
    .version = DT_VERSION,
    .table = ctl_opts,
    .env_prefix = "DTRUN_",
    .commands = names,
    .listings = listings,
    .listing_options = (const char *const[]){"endpoint", "token-file", NULL},
    .put_more = put_commands,
    .takes_operands = true,
};

/* -- the words -------------------------------------------------------------------------------- */

/* How many of WORDS the NAME of a command takes; 0: they are not its name. */
static int takes(const char *name, const char *const *words, int count)
{
    int n = 0;
    while (*name && n < count) {
        size_t len = strcspn(name, " ");
        if (strlen(words[n]) != len || strncmp(words[n], name, len) != 0)
            return 0;
        name += len + (name[len] == ' ');
        n++;
    }
    return *name ? 0 : n;
}

/* How far GIVEN is from NAME, SIZE_MAX for another word. */
static size_t slips(const char *given, const char *name)
{
    size_t d = dt_str_distance(given, name);
    return d <= dt_str_guess(given) ? d : SIZE_MAX;
}

/* How far WORDS are from NAME, of which people leave out the first word. */
static size_t distance(const char *name, const char *const *words, int count)
{
    const char *last = strrchr(name, ' ');
    char first[16];
    if (!last)
        return slips(words[0], name);
    snprintf(first, sizeof first, "%.*s", (int)(last - name), name);
    bool both = count > 1 && slips(words[0], first) != SIZE_MAX;
    return slips(words[both], last + 1);
}

static bool begins_with(const char *name, const char *word)
{
    size_t len = strlen(word);
    return strncmp(name, word, len) == 0 && name[len] == ' ';
}

/* "node list, node drain, or node undrain?" False: no command begins with WORD and goes on. */
static bool ask_which(const char *word, struct dt_err *err)
{
    const char *fitting[DT_CTL_COMMANDS];
    char text[256] = "";
    size_t count = 0, used = 0;
    for (int i = 0; i < DT_CTL_COMMANDS; i++)
        if (begins_with(names[i], word))
            fitting[count++] = names[i];
    for (size_t i = 0; i < count && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s%s", i ? ", " : "",
                                 i > 0 && i + 1 == count ? "or " : "", fitting[i]);
    if (count > 0)
        dt_err_set(err, DT_E_USAGE, "%s?", text);
    return count > 0;
}

static int no_command(const char *const *words, int count, struct dt_err *err)
{
    if (count == 0)
        return dt_err_set(err, DT_E_USAGE, "which command? See dtrun-ctl --help");
    if (count == 1 && ask_which(words[0], err))
        return -1;
    size_t best = SIZE_MAX;
    const char *meant = NULL;
    for (int i = 0; i < DT_CTL_COMMANDS; i++) {
        size_t d = distance(names[i], words, count);
        bool as_many_words = count > 1 && strchr(names[i], ' ');
        if (d < best || (d == best && meant && as_many_words && !strchr(meant, ' '))) {
            best = d;
            meant = names[i];
        }
    }
    return dt_err_set(err, DT_E_USAGE, "there is no command \"%s%s%s\"; %s%s%s", words[0],
                      count > 1 ? " " : "", count > 1 ? words[1] : "",
                      meant ? "did you mean " : "see dtrun-ctl --help", meant ? meant : "",
                      meant ? "?" : "");
}

static int read_command(struct dt_ctl_options *o, const char *const *words, int count,
                        struct dt_err *err)
{
    int used = 0;
    o->command = DT_CTL_STATUS;
    while ((used = takes(names[o->command], words, count)) == 0)
        if (++o->command == DT_CTL_COMMANDS)
            return no_command(words, count, err);
    const struct command *c = &commands[o->command];
    const char *name = names[o->command];
    if (c->read_more && count > used + 1 &&
        c->read_more(o, words + used + 1, count - used - 1, err) < 0)
        return dt_err_wrap(err, "%s", name);
    if (!c->read_more && count > used + (c->arg != NULL))
        return dt_err_set(err, DT_E_USAGE, "%s: what is \"%s\"? It takes %s", name,
                          words[used + (c->arg != NULL)], c->arg ? "one name" : "no name");
    if (c->must && !o->all && (count == used || !*words[used]))
        return dt_err_set(err, DT_E_USAGE, "%s: which %s? Give its name", name,
                          strstr(c->arg, "RUN")   ? "run"
                          : strstr(c->arg, "DIR") ? "folder"
                                                  : "node");
    o->name = count > used ? words[used] : "";
    return 0;
}

static bool takes_reason(enum dt_ctl_command c)
{
    return c == DT_CTL_NODE_DRAIN || c == DT_CTL_RUN_PAUSE || c == DT_CTL_RUN_RESTART ||
           c == DT_CTL_RUN_STOP;
}

/* Options of logs alone. */
static int check_logs(const struct dt_ctl_options *o, struct dt_err *err)
{
    if (o->command == DT_CTL_LOGS)
        return o->json && o->prefix ? dt_err_set(err, DT_E_USAGE, "--prefix, or --json?") : 0;
    if (o->lines.given || o->node || o->prefix)
        return dt_err_set(err, DT_E_USAGE, "%s goes with logs",
                          o->lines.given ? "--lines"
                          : o->node      ? "--node"
                                         : "--prefix");
    if (o->follow && o->command != DT_CTL_EVENTS)
        return dt_err_set(err, DT_E_USAGE, "--follow goes with events and logs");
    return 0;
}

static int check_whole(const struct dt_ctl_options *o, struct dt_err *err)
{
    if (o->json && o->command == DT_CTL_REPORT)
        return dt_err_set(err, DT_E_USAGE, "report has no --json: what it is made of is JSON");
    if (o->quiet && o->command != DT_CTL_RUN_LIST && o->command != DT_CTL_NODE_LIST)
        return dt_err_set(err, DT_E_USAGE, "--quiet goes with run list and node list");
    if (o->quiet && o->json)
        return dt_err_set(err, DT_E_USAGE, "--quiet, or --json?");
    if (o->json && o->command == DT_CTL_TOP)
        return dt_err_set(err, DT_E_USAGE, "top has no --json: status has");
    if ((o->interval || o->once) && o->command != DT_CTL_TOP)
        return dt_err_set(err, DT_E_USAGE, "%s goes with top", o->once ? "--once" : "--interval");
    if (o->quarantined && o->command != DT_CTL_NODE_LIST)
        return dt_err_set(err, DT_E_USAGE, "--quarantined goes with node list");
    if ((o->since.number || o->since.at_us || o->since.ago) && o->command != DT_CTL_EVENTS)
        return dt_err_set(err, DT_E_USAGE, "--since goes with events");
    if (o->native && o->command != DT_CTL_LOOK)
        return dt_err_set(err, DT_E_USAGE, "--native goes with look");
    if ((o->output || o->metrics || o->checkpoints) && o->command != DT_CTL_REPORT)
        return dt_err_set(err, DT_E_USAGE, "%s goes with report",
                          o->output    ? "--output"
                          : o->metrics ? "--metrics"
                                       : "--checkpoints");
    if (o->why && !takes_reason(o->command))
        return dt_err_set(err, DT_E_USAGE,
                          "--why goes with node drain, run pause, run restart and run stop");
    if (o->all && o->command != DT_CTL_NODE_UNDRAIN)
        return dt_err_set(err, DT_E_USAGE, "--all goes with node undrain");
    if (o->all && *o->name)
        return dt_err_set(err, DT_E_USAGE, "node undrain: %s, or --all?", o->name);
    return check_logs(o, err);
}

/* -- all of it -------------------------------------------------------------------------------- */

/* An argument that is no option ends them, and people write some behind it: so each such word is
 * taken out of ARGS, and the rest read again; the environment last, as an option behind a word goes
 * before it. Returns how many there were, at most WORDS_MAX + 1. */
static int read_options(struct dt_ctl_options *o, int argc, char **args,
                        const char *words[WORDS_MAX + 1], struct dt_opt_result *result,
                        struct dt_err *err)
{
    int count = 0;
    for (;; count++) {
        if (dt_opt_parse(&dt_ctl_program, argc, args, NULL, o, result, err) < 0)
            return -1;
        dt_ctl_options_finish(o);
        if (result->help || result->version || result->operands == argc || count > WORDS_MAX)
            break;
        words[count] = args[result->operands];
        memmove(args + result->operands, args + result->operands + 1,
                (size_t)(argc - result->operands) * sizeof *args);
        argc--;
    }
    return dt_opt_parse(&dt_ctl_program, argc, args, environ, o, result, err) < 0 ? -1 : count;
}

int dt_ctl_options_read(struct dt_ctl_options *o, int argc, char *const *argv,
                        struct dt_opt_result *result, struct dt_err *err)
{
    const char *words[WORDS_MAX + 1];
    char **args = malloc(((size_t)argc + 1) * sizeof *args);
    *o = (struct dt_ctl_options){0};
    if (!args)
        return dt_err_set(err, DT_E_MEMORY, "no memory for the arguments");
    memcpy(args, argv, ((size_t)argc + 1) * sizeof *args);
    int count = read_options(o, argc, args, words, result, err);
    free(args);
    if (count < 0)
        return -1;
    if (result->help || result->version)
        return 0;
    bool timed = dt_opt_source_of(&dt_ctl_program, result, "timeout") == DT_OPT_FROM_ARGS;
    o->wait = timed ? o->timeout : DT_FOREVER;
    o->endpoint_from_env = dt_opt_source_of(&dt_ctl_program, result, "endpoint") == DT_OPT_FROM_ENV;
    return read_command(o, words, count, err) < 0 ? -1 : check_whole(o, err);
}

void dt_ctl_options_finish(struct dt_ctl_options *o)
{
    dt_opt_finish(&dt_ctl_program, o);
    *o = (struct dt_ctl_options){0};
}
