/* SPDX-License-Identifier: Apache-2.0 */
/* What there is more to an elastic job: what its nodes have to agree on, and how this one presents
 * itself. Where a scheduler started the nodes its environment knows things nobody has to write. */
#include "launcher/planning/inside.h"

#include "base/utf8.h"
#include "launcher/words.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* From the last signal until the processes and their output are surely gone. */
#define AFTER_KILL (5 * DT_SECOND)

/* -- --rdzv-conf ------------------------------------------------------------------------------ */

static int note_idle_keys(struct dt_planning *c, const struct dt_rdzv_conf *conf)
{
    if (dt_rdzv_conf_find(conf, "close_timeout") &&
        dt_planning_needless(c, "rdzv-conf", "close_timeout: the end of a job is told at once") < 0)
        return -1;
    if (!dt_rdzv_conf_find(conf, "heartbeat_timeout"))
        return 0;
    return dt_planning_needless(c, "rdzv-conf",
                                "heartbeat_timeout: nobody waits for the answer to a heartbeat");
}

static int check_beats(struct dt_planning *c, dt_ms beat, dt_ms beats)
{
    if (beat > DT_BEAT_MOST)
        return dt_planning_fail(c, "rdzv-conf", "keep_alive_interval is %lld; give 1 to %lld",
                                (long long)(beat / DT_SECOND),
                                (long long)(DT_BEAT_MOST / DT_SECOND));
    if (beats / DT_SECOND > DT_BEATS_MOST)
        return dt_planning_fail(c, "rdzv-conf", "keep_alive_max_attempt is %lld; give 1 to %d",
                                (long long)(beats / DT_SECOND), DT_BEATS_MOST);
    return 0;
}

int dt_planning_elastic_conf(struct dt_planning *c, const struct dt_rdzv_conf *conf)
{
    struct dt_run_spec *run = &c->plan->run;
    dt_ms beats = 3 * DT_SECOND, unused; /* a count, read as torchrun reads all of them */
    run->last_call = 30 * DT_SECOND;
    run->beat = 5 * DT_SECOND;
    if (dt_rdzv_conf_seconds(conf, "last_call_timeout", &run->last_call, c->err) < 0 ||
        dt_rdzv_conf_seconds(conf, "keep_alive_interval", &run->beat, c->err) < 0 ||
        dt_rdzv_conf_seconds(conf, "keep_alive_max_attempt", &beats, c->err) < 0 ||
        dt_rdzv_conf_seconds(conf, "close_timeout", &unused, c->err) < 0 ||
        dt_rdzv_conf_seconds(conf, "heartbeat_timeout", &unused, c->err) < 0)
        return dt_planning_wrap(c, "rdzv-conf");
    if (!dt_plan_is_elastic(c->plan))
        return 0;
    run->join_timeout = c->plan->join_timeout;
    run->beats = (int)(beats / DT_SECOND);
    return check_beats(c, run->beat, beats) < 0 ? -1 : note_idle_keys(c, conf);
}

/* -- what a scheduler says -------------------------------------------------------------------- */

/* Not SLURM_PROCID, which counts tasks: a batch script and all that it starts itself is task 0. */
static int choose_order(struct dt_planning *c)
{
    static const char *const variables[] = {"GROUP_RANK", "SLURM_NODEID", "JOB_COMPLETION_INDEX",
                                            "PMI_RANK", NULL};
    struct dt_plan *p = c->plan;
    p->order = dt_planning_env_number(c, variables, 0, -1);
    if (!dt_launch_options_gave(c->o, "node-rank"))
        return 0;
    if (c->o->node_rank < 0 || c->o->node_rank > DT_NODES_WISHED_MOST)
        return dt_planning_fail(
            c, "node-rank", "%d is no place a node can wish for; give 0 or more", c->o->node_rank);
    p->order = p->node_rank = c->o->node_rank;
    return 0;
}

static int ask_scheduler(struct dt_planning *c)
{
    static const char *const sizes[] = {"SLURM_NNODES", "SLURM_JOB_NUM_NODES", NULL};
    c->plan->expected_nodes = dt_planning_env_number(c, sizes, 1, 0);
    return dt_planning_job_id(c) < 0 ? -1 : choose_order(c);
}

/* -- this node -------------------------------------------------------------------------------- */

static int check_length(struct dt_planning *c, const char *option, const char *text, size_t size)
{
    if (!text || strlen(text) < size)
        return 0;
    return dt_planning_fail(
        c, option, "\"%.40s...\" has %zu bytes; in a job of several nodes %zu are the most", text,
        strlen(text), size - 1);
}

/* It goes to and fro as JSON. What is no character would come back as another, and an agent does
 * not listen to what is said to a run of another name. */
static int check_run_id(struct dt_planning *c)
{
    if (!dt_utf8_is_all(c->plan->run_id))
        return dt_planning_fail(c, "rdzv-id",
                                "\"%s\" is no UTF-8, in which nodes tell each other what they "
                                "join; give another one",
                                c->plan->run_id);
    return check_length(c, "rdzv-id", c->plan->run_id, DT_RUN_ID_MAX);
}

/* It becomes MASTER_ADDR, which workers look up as it is. */
static int check_local_addr(struct dt_planning *c)
{
    const char *text = c->plan->local_addr, *colon = text ? strchr(text, ':') : NULL;
    bool port = colon && !strchr(colon + 1, ':'); /* IPv6 has more of them */
    if (!text || (!port && *text != '['))
        return 0;
    return dt_planning_fail(c, "local-addr",
                            "\"%s\" is more than an address; leave port and brackets away", text);
}

static int check_token_file(struct dt_planning *c, const char *option, const char *path)
{
    struct stat st;
    if (!path)
        return 0;
    if (stat(path, &st) < 0 || access(path, R_OK) < 0)
        return dt_planning_fail(c, option, "\"%s\" cannot be read: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return dt_planning_fail(c, option, "\"%s\" is no file", path);
    return 0;
}

/* Each node may be given it; only the one that hosts the rendezvous answers. */
static int choose_http(struct dt_planning *c)
{
    const struct dt_launch_options *o = c->o;
    struct dt_plan *p = c->plan;
    for (size_t i = 0; i < o->http.len; i++)
        if (dt_words_push(&p->http, c->err, "%s", o->http.at[i]) < 0)
            return -1;
    if (p->http && p->is_host == DT_HOST_NO &&
        dt_planning_ignore(c, "http", "this node does not host the rendezvous: is_host is 0") < 0)
        return -1;
    if (!p->http && dt_planning_ignore(c, "http-token-file", "there is no --http") < 0)
        return -1;
    if (p->http && check_token_file(c, "http-token-file", o->http_token_file) < 0)
        return -1;
    return dt_planning_set(c, &p->http_token_file, o->http_token_file);
}

static int present_node(struct dt_planning *c)
{
    const struct dt_launch_options *o = c->o;
    struct dt_plan *p = c->plan;
    if (check_run_id(c) < 0 || check_length(c, "role", p->role, DT_ROLE_MAX) < 0 ||
        check_length(c, "local-addr", p->local_addr, DT_NODE_ADDR_MAX) < 0 ||
        check_local_addr(c) < 0 || check_token_file(c, "token-file", o->token_file) < 0 ||
        check_token_file(c, "run-token-file", o->run_token_file) < 0 || choose_http(c) < 0)
        return -1;
    p->stop_when_away = o->stop_when_away;
    if (dt_planning_set(c, &p->node_name, o->node_name) < 0 ||
        dt_planning_set(c, &p->domain, o->domain) < 0 ||
        dt_planning_set(c, &p->token_file, o->token_file) < 0 ||
        dt_planning_set(c, &p->run_token_file, o->run_token_file) < 0)
        return -1;
    return dt_planning_set(c, &p->progress_file, o->progress_file);
}

/* -- what all agree on ------------------------------------------------------------------------ */

/* Of the script and how it is run. Not of its arguments nor the interpreter's path, which may well
 * be each node's own. */
static uint64_t hash_command(const struct dt_launch_options *o)
{
    uint64_t how = (uint64_t)o->module | (uint64_t)o->no_python << 1 | (uint64_t)o->run_path << 2;
    return XXH3_64bits_withSeed(o->operands[0], strlen(o->operands[0]), how);
}

/* The options have said the rest. */
static void fill_spec(struct dt_planning *c)
{
    const struct dt_launch_options *o = c->o;
    struct dt_plan *p = c->plan;
    struct dt_run_spec *run = &p->run;
    run->min_nodes = p->min_nodes;
    run->max_nodes = p->max_nodes;
    run->stop_bound = dt_clock_after(p->shutdown_timeout, AFTER_KILL);
    run->command = hash_command(o);
    snprintf(run->script, sizeof run->script, "%s%s", o->module ? "-m " : "", o->operands[0]);
    snprintf(run->user, sizeof run->user, "%s", c->facts->user);
}

/* A rendezvous would not take it, and nobody but the one who gave it knows what was meant. */
static int check_spec(struct dt_planning *c)
{
    struct dt_err beyond;
    size_t row;
    if (dt_spec_check(&c->plan->run, &row, &beyond) == 0)
        return 0;
    const char *option = dt_spec_looks[row].option;
    if (!option)
        return dt_err_set(c->err, DT_E_RUNTIME, "%s: %s", dt_spec_fields[row].name, beyond.text);
    dt_planning_fail(c, option, "%s", beyond.text);
    c->err->code = DT_E_USAGE; /* of an option that is ours */
    return -1;
}

/* A row of the group that somebody gave is noted by itself, and a new one cannot be forgotten. */
static int note_no_effect(struct dt_planning *c)
{
    for (const struct dt_opt *o = c->o->program->table; o->name; o++)
        if (strcmp(dt_opt_group(o), DT_LAUNCH_ELASTIC_GROUP) == 0 &&
            dt_planning_ignore(c, o->name,
                               "only a job with --rdzv-backend=c10d and an --rdzv-endpoint is "
                               "elastic") < 0)
            return -1;
    return 0;
}

int dt_planning_elastic(struct dt_planning *c)
{
    const struct dt_launch_options *o = c->o;
    if (!dt_plan_is_elastic(c->plan))
        return note_no_effect(c);
    if (ask_scheduler(c) < 0 || present_node(c) < 0)
        return -1;
    fill_spec(c);
    if (check_spec(c) < 0)
        return -1;
    if (o->run.fixed_world && o->run.spares == 0 && c->plan->min_nodes == c->plan->max_nodes)
        return dt_planning_ignore(c, "spare-policy", "--nnodes has no range, so nobody is a spare");
    return 0;
}
