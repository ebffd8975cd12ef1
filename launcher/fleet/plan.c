/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/fleet/plan.h"

#include "base/auto.h"
#include "base/fs.h"
#include "base/str.h"
#include "launcher/words.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool dt_fleet_is_asked(const struct dt_launch_options *o)
{
    return o->hosts || o->hostfile;
}

static int no_memory(struct dt_err *err)
{
    return dt_err_set(err, DT_E_MEMORY, "no memory for the plan of the hosts");
}

/* -- whom ------------------------------------------------------------------------------------- */

static int read_hosts(struct dt_fleet_plan *p, struct dt_err *err)
{
    const struct dt_launch_options *o = p->o;
    if (o->hosts && o->hostfile)
        return dt_err_set(err, DT_E_USAGE, "--hosts and --hostfile: drop one of the two");
    if (o->hosts)
        return dt_fleet_hosts_read(&p->hosts, o->hosts, err) < 0 ? dt_err_wrap(err, "--hosts") : 0;
    struct dt_buf text = {0};
    int rc = dt_fs_read_any(o->hostfile, DT_FLEET_FILE_MAX, &text, err);
    if (rc == 0)
        rc = dt_fleet_hosts_read_file(&p->hosts, (struct dt_bytes){text.at, text.len}, o->hostfile,
                                      err);
    dt_buf_finish(&text);
    return rc < 0 ? dt_err_wrap(err, "--hostfile") : 0;
}

/* Each host would be told something else than what was given here for all. */
static int refuse_what_differs(const struct dt_fleet_plan *p, struct dt_err *err)
{
    static const struct {
        const char *option, *why;
    } rows[] = {
        {"standalone", "a job on several hosts cannot be a job of one"},
        {"node-rank", "the hosts have their ranks in the order in which they are listed"},
        {"node-name", "each node has the name of its host in the list"},
        {"local-addr", "each host has an address of its own"},
        {"master-addr", "the first host is where nodes meet; --rdzv-endpoint names another place"},
        {"master-port", "the nodes meet on a free port; --rdzv-endpoint names another place"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (dt_launch_options_gave(p->o, rows[i].option))
            return dt_err_set(err, DT_E_USAGE, "--%s: does not go with --hosts: %s", rows[i].option,
                              rows[i].why);
    if (dt_launch_options_gave(p->o, "rdzv-backend") && strcmp(p->o->rdzv_backend, "c10d") != 0)
        return dt_err_set(err, DT_E_USAGE,
                          "--rdzv-backend: the nodes of --hosts meet by c10d; leave it out");
    return 0;
}

static int check_workers(const struct dt_fleet_plan *p, struct dt_err *err)
{
    bool given = dt_launch_options_gave(p->o, "nproc-per-node");
    for (size_t i = 0; given && i < p->hosts.len; i++)
        if (p->hosts.at[i].slots)
            return dt_err_set(err, DT_E_USAGE,
                              "--nproc-per-node=%s: host %s is listed with %d workers; drop one of "
                              "the two",
                              p->o->nproc_per_node, p->hosts.at[i].name, p->hosts.at[i].slots);
    return 0;
}

/* How many of the hosts the job needs: all but spares, or what --nnodes says. */
static int count_nodes(struct dt_fleet_plan *p, struct dt_err *err)
{
    const char *text = p->o->nnodes, *colon = strchr(text, ':');
    size_t spares = (size_t)p->o->run.spares;
    int64_t most, least;
    char first[16] = "";
    if (!dt_launch_options_gave(p->o, "nnodes")) {
        if (spares >= p->hosts.len)
            return dt_err_set(err, DT_E_USAGE,
                              "--spares=%zu: of %zu hosts, one at least has to run the job", spares,
                              p->hosts.len);
        p->least = p->hosts.len - spares;
        return 0;
    }
    size_t len = colon ? (size_t)(colon - text) : strlen(text);
    if (len < sizeof first)
        memcpy(first, text, len);
    if (dt_str_to_int(first, 1, DT_NODES_WISHED_MOST, &least, NULL) < 0 ||
        dt_str_to_int(colon ? colon + 1 : first, least, DT_NODES_WISHED_MOST, &most, NULL) < 0)
        return dt_err_set(err, DT_E_USAGE, "--nnodes: \"%s\" is not N or MIN:MAX", text);
    if ((size_t)most + spares != p->hosts.len)
        return dt_err_set(err, DT_E_USAGE,
                          "--nnodes=%s: %zu hosts are listed, for %lld nodes and %zu spares; leave "
                          "--nnodes out to have all of them run",
                          text, p->hosts.len, (long long)most, spares);
    p->least = (size_t)least;
    return 0;
}

/* -- by what ---------------------------------------------------------------------------------- */

static int split_command(struct dt_fleet_plan *p, struct dt_err *err)
{
    const char *text = p->o->launch_agent;
    bool names_host = strstr(text, "{host}") != NULL;
    if (!names_host)
        return dt_err_set(
            err, DT_E_USAGE,
            "--launch-agent: \"%s\" is neither ssh nor srun, and a command has {host} "
            "where the host's name is to stand, as in \"ssh -p 2222 {host}\"",
            text);
    p->way = DT_FLEET_COMMAND;
    for (const char *at = text + strspn(text, " "); *at; at += strspn(at, " ")) {
        size_t len = strcspn(at, " ");
        if (dt_words_push(&p->command, err, "%.*s", (int)len, at) < 0)
            return -1;
        at += len;
    }
    return 0;
}

static int choose_way(struct dt_fleet_plan *p, struct dt_err *err)
{
    const char *text = p->o->launch_agent;
    if (strcmp(text, "pdsh") == 0)
        return dt_err_set(err, DT_E_USAGE,
                          "--launch-agent: pdsh does not pass its standard input on, by which the "
                          "hosts are told what to run; give ssh, or srun in a job of Slurm");
    bool ssh = strcmp(text, "ssh") == 0;
    if (!ssh && strcmp(text, "srun") != 0)
        return split_command(p, err);
    p->way = ssh ? DT_FLEET_SSH : DT_FLEET_SRUN;
    return 0;
}

/* Means the same to every shell, and where there is none. */
static bool is_plain(const char *path)
{
    for (const char *c = path; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("/._-+@%:,", *c))
            return false;
    return true;
}

/* Between single quotes sh, bash, zsh, fish and csh read all of it alike: fish has a meaning for \,
 * csh for ! and the end of a line. */
static bool is_quotable(const char *path)
{
    for (const char *c = path; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f || strchr("'!\\", *c))
            return false;
    return true;
}

/* Whether what is executed here passes through one shell, that of the login: ssh, and a command
 * that is ssh with options of one word each and then the host. More words may be a second ssh. */
static bool has_one_shell(const struct dt_fleet_plan *p)
{
    char *const *word = p->command;
    if (p->way != DT_FLEET_COMMAND)
        return p->way == DT_FLEET_SSH;
    const char *slash = strrchr(*word, '/');
    if (strcmp(slash ? slash + 1 : *word, "ssh") != 0)
        return false;
    for (word++; *word && **word == '-'; word++)
        ;
    return *word && strstr(*word, "{host}") && !word[1];
}

static int refuse_path(const char *path, const char *why, struct dt_err *err)
{
    return dt_err_set(err, DT_E_USAGE,
                      "--remote-dtrun: \"%s\" %s; make a link to it with a plain name", path, why);
}

static int choose_word(struct dt_fleet_plan *p, struct dt_err *err)
{
    const char *path = p->remote;
    if (!*path || *path == '-')
        return dt_err_set(err, DT_E_USAGE, "--remote-dtrun: \"%s\" is no path", path);
    if (is_plain(path) || p->way == DT_FLEET_SRUN) {
        p->word = strdup(path);
        return p->word ? 0 : no_memory(err);
    }
    if (!is_quotable(path))
        return refuse_path(path, "has a character that a shell might change", err);
    if (!has_one_shell(p))
        return refuse_path(
            path, "has a character that --launch-agent might hand to no shell, or to several", err);
    return asprintf(&p->word, "'%s'", path) < 0 ? no_memory(err) : 0;
}

/* Who called this one by a path means that one; who called it by its name means that of each host,
 * whose folders may be others. */
static int choose_remote(struct dt_fleet_plan *p, const struct dt_facts *facts, struct dt_err *err)
{
    const char *called = facts->program ?: "", *given = p->o->remote_dtrun;
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    p->own_path = *self ? strdup(self) : NULL;
    const char *remote = given ? given : strchr(called, '/') && *self ? self : p->o->program->name;
    p->remote = strdup(remote);
    return p->remote ? choose_word(p, err) : no_memory(err);
}

/* -- with what -------------------------------------------------------------------------------- */

struct passing {
    char ***words;
    int rc;
    struct dt_err *err;
};

static void pass_option(void *arg, const struct dt_opt *o, char *const *words, int count)
{
    struct passing *p = arg;
    static const char *const kept[] = {"rdzv-conf", "token-file", "print-config"};
    bool ours = strcmp(dt_opt_group(o), DT_LAUNCH_FLEET_GROUP) == 0;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        ours = ours || strcmp(o->name, kept[i]) == 0;
    for (int i = 0; i < count && !ours && p->rc == 0; i++)
        p->rc = dt_words_push(p->words, p->err, "%s", words[i]);
}

static int pass_options(struct dt_fleet_plan *p, int argc, char *const *argv, struct dt_err *err)
{
    struct passing passing = {&p->passed, 0, err};
    dt_opt_each_given(p->o->program, argc, argv, pass_option, &passing);
    return passing.rc;
}

/* NAME or NAME=VALUE, LEN bytes of it. */
static int export_one(struct dt_fleet_plan *p, const struct dt_facts *facts, const char *at,
                      size_t len, struct dt_err *err)
{
    DT_AUTO_FREE char *name = strndup(at, len);
    if (!name)
        return no_memory(err);
    char *equals = strchr(name, '=');
    size_t n = equals ? (size_t)(equals - name) : len;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)name[i]) && name[i] != '_')
            n = 0;
    if (n == 0)
        return dt_err_set(err, DT_E_USAGE, "--export: \"%s\" is not NAME or NAME=VALUE", name);
    if (equals)
        return dt_words_push(&p->env, err, "%s", name);
    const char *value = dt_facts_env(facts, name);
    if (!value)
        return dt_err_set(err, DT_E_USAGE, "--export: %s is not set here; write %s=VALUE", name,
                          name);
    return dt_words_push(&p->env, err, "%s=%s", name, value);
}

/* What stands for options of dtrun goes along without being asked for. */
static int export_all(struct dt_fleet_plan *p, const struct dt_facts *facts, struct dt_err *err)
{
    for (char *const *e = facts->env; e && *e; e++)
        if ((strncmp(*e, "PET_", 4) == 0 || strncmp(*e, "DTRUN_", 6) == 0) &&
            strncmp(*e, "DTRUN_TOKEN_FILE=", 17) != 0 && dt_words_push(&p->env, err, "%s", *e) < 0)
            return -1;
    for (size_t i = 0; i < p->o->export.len; i++) {
        for (const char *at = p->o->export.at[i];; at++) {
            size_t len = strcspn(at, ",");
            if (export_one(p, facts, at, len, err) < 0)
                return -1;
            at += len;
            if (!*at)
                break;
        }
    }
    return 0;
}

static int settle_meeting(struct dt_fleet_plan *p, const struct dt_facts *facts, struct dt_err *err)
{
    const char *endpoint = p->o->rdzv_endpoint;
    p->own_endpoint = !endpoint || !*endpoint;
    for (size_t i = 0; i < sizeof facts->random; i++)
        snprintf(p->job + 2 * i, sizeof p->job - 2 * i, "%02x", facts->random[i]);
    p->cwd = getcwd(NULL, 0);
    if (!p->cwd)
        return dt_err_set(err, DT_E_RUNTIME, "the working directory is gone");
    if (p->o->token_file && dt_proof_read_token(p->o->token_file, &p->token, err) < 0)
        return dt_err_wrap(err, "--token-file");
    return 0;
}

int dt_fleet_plan_make(const struct dt_launch_options *o, int argc, char *const *argv,
                       const struct dt_facts *facts, struct dt_fleet_plan *p, struct dt_err *err)
{
    *p = (struct dt_fleet_plan){.o = o};
    if (read_hosts(p, err) < 0 || refuse_what_differs(p, err) < 0 || check_workers(p, err) < 0 ||
        count_nodes(p, err) < 0 || choose_way(p, err) < 0 || choose_remote(p, facts, err) < 0 ||
        pass_options(p, argc, argv, err) < 0 || export_all(p, facts, err) < 0)
        return -1;
    return settle_meeting(p, facts, err);
}

void dt_fleet_plan_finish(struct dt_fleet_plan *p)
{
    dt_fleet_hosts_finish(&p->hosts);
    dt_words_free(p->command);
    dt_words_free(p->passed);
    dt_words_free(p->env);
    free(p->remote);
    free(p->word);
    free(p->own_path);
    free(p->cwd);
    dt_token_finish(&p->token);
    *p = (struct dt_fleet_plan){0};
}

/* -- for each host ---------------------------------------------------------------------------- */

/* Nobody is asked for a password, a host that cannot be reached is known as such after ten seconds,
 * and one that falls silent after fifteen. No connection that others share is opened: its process
 * would stay, and keep our pipes. */
static const char *const ssh_words[] = {"ssh",
                                        "-Tx",
                                        "-oBatchMode=yes",
                                        "-oConnectTimeout=10",
                                        "-oServerAliveInterval=5",
                                        "-oServerAliveCountMax=3",
                                        "-oControlMaster=no",
                                        "--",
                                        "{host}",
                                        NULL};

/* A step of its own on that node, beside the one that this dtrun may be in. */
static const char *const srun_words[] = {"srun",       "--overlap",         "--nodes=1",
                                         "--ntasks=1", "--nodelist={host}", NULL};

static int push_with_host(char ***call, const char *word, const char *host, struct dt_err *err)
{
    const char *at = strstr(word, "{host}");
    if (!at)
        return dt_words_push(call, err, "%s", word);
    return dt_words_push(call, err, "%.*s%s%s", (int)(at - word), word, host,
                         at + strlen("{host}"));
}

char **dt_fleet_plan_call(const struct dt_fleet_plan *p, size_t i, struct dt_err *err)
{
    const char *const *words = p->way == DT_FLEET_SSH    ? ssh_words
                               : p->way == DT_FLEET_SRUN ? srun_words
                                                         : (const char *const *)p->command;
    char **call = NULL;
    int rc = 0;
    for (; *words && rc == 0; words++)
        rc = push_with_host(&call, *words, p->hosts.at[i].name, err);
    if (rc == 0 && dt_words_push(&call, err, "%s", p->word) == 0 &&
        dt_words_push(&call, err, "--fleet-agent") == 0)
        return call;
    dt_words_free(call);
    return NULL;
}

static int push_meeting(const struct dt_fleet_plan *p, size_t i, int port, char ***argv,
                        struct dt_err *err)
{
    const char *conf = p->o->rdzv_conf ?: "", *first = dt_fleet_host_label(&p->hosts.at[0]);
    bool colons = strchr(first, ':') != NULL; /* of an IPv6 address */
    if (!p->own_endpoint)
        return *conf ? dt_words_push(argv, err, "--rdzv-conf=%s", conf) : 0;
    if (dt_words_push(argv, err, "--rdzv-endpoint=%s%s%s:%d", colons ? "[" : "", first,
                      colons ? "]" : "", port) < 0)
        return -1;
    return dt_words_push(argv, err, "--rdzv-conf=%s%sis_host=%s", conf, *conf ? "," : "",
                         i == 0 ? "true" : "false");
}

static int push_own(const struct dt_fleet_plan *p, size_t i, int port, char ***argv,
                    struct dt_err *err)
{
    const struct dt_fleet_host *host = &p->hosts.at[i];
    if (!dt_launch_options_gave(p->o, "nnodes") &&
        dt_words_push(argv, err, "--nnodes=%zu", p->least) < 0)
        return -1;
    if (host->slots && dt_words_push(argv, err, "--nproc-per-node=%d", host->slots) < 0)
        return -1;
    if (!dt_launch_options_gave(p->o, "rdzv-id") &&
        dt_words_push(argv, err, "--rdzv-id=%s", p->job) < 0)
        return -1;
    if (!p->o->inherit_streams && dt_words_push(argv, err, "--whole-lines") < 0)
        return -1;
    if (dt_words_push(argv, err, "--rdzv-backend=c10d") < 0 ||
        push_meeting(p, i, port, argv, err) < 0 ||
        dt_words_push(argv, err, "--node-rank=%zu", i) < 0)
        return -1;
    return dt_words_push(argv, err, "--node-name=%s", dt_fleet_host_label(host));
}

static int copy_all(char *const *words, char ***to, struct dt_err *err)
{
    for (; words && *words; words++)
        if (dt_words_push(to, err, "%s", *words) < 0)
            return -1;
    return 0;
}

int dt_fleet_plan_order(const struct dt_fleet_plan *p, size_t i, int port,
                        struct dt_fleet_order *order, struct dt_err *err)
{
    *order = (struct dt_fleet_order){0};
    if (dt_words_push(&order->argv, err, "%s", p->o->program->name) < 0 ||
        (p->o->doctor && dt_words_push(&order->argv, err, DT_LAUNCH_DOCTOR) < 0) ||
        copy_all(p->passed, &order->argv, err) < 0 || push_own(p, i, port, &order->argv, err) < 0 ||
        dt_words_push(&order->argv, err, "--") < 0 ||
        copy_all(p->o->operands, &order->argv, err) < 0 || copy_all(p->env, &order->env, err) < 0)
        return -1;
    order->cwd = strdup(p->cwd);
    order->token = malloc(p->token.len + 1);
    if (!order->cwd || !order->token)
        return no_memory(err);
    memcpy(order->token, p->token.secret, p->token.len);
    order->token_len = p->token.len;
    return 0;
}

/* -- for people ------------------------------------------------------------------------------- */

/* Between quotation marks where a shell would change it. */
static void print_word(const char *word, FILE *out)
{
    bool plain = *word && !word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                             "0123456789/._-+@%:,=")];
    if (plain) {
        fputs(word, out);
        return;
    }
    putc('\'', out);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", out);
        else
            putc(*word, out);
    putc('\'', out);
}

static void print_line(const char *label, char *const *words, FILE *out)
{
    fputs(label, out);
    for (; *words; words++) {
        putc(' ', out);
        print_word(*words, out);
    }
    putc('\n', out);
}

int dt_fleet_plan_print(const struct dt_fleet_plan *p, FILE *out, struct dt_err *err)
{
    if (p->own_endpoint)
        fprintf(out, "rendezvous: on %s, at a port that is free there, shown as 0\n",
                p->hosts.at[0].name);
    for (size_t i = 0; i < p->hosts.len; i++) {
        struct dt_fleet_order order = {0};
        char **call = dt_fleet_plan_call(p, i, err);
        int rc = call ? dt_fleet_plan_order(p, i, 0, &order, err) : -1;
        if (rc == 0) {
            fprintf(out, "host %s:\n", p->hosts.at[i].name);
            print_line("  here:", call, out);
            print_line("  there:", order.argv, out);
        }
        dt_fleet_order_finish(&order);
        dt_words_free(call);
        if (rc < 0)
            return -1;
    }
    return 0;
}
