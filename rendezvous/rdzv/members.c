/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/rdzv/members.h"

#include <stdio.h>
#include <stdlib.h>

#define AGENTS_OF_A_HOST 4096    /* of one name */
#define CROWD_LEAST 4            /* members with a say, for more than half of them to be a crowd */
#define CROWD_GRACE ((dt_ms)900) /* when most connections are lost at once */
#define LATE ((dt_ms)50)         /* a look at the time is that much too late: we were held up */

static const char *const link_name[] = {[DT_LINK_ONLINE] = "online", [DT_LINK_SUSPECT] = "suspect"};
static const char *const doing_name[] = {[DT_MEMBER_WAITING] = "waiting",
                                         [DT_MEMBER_RUNNING] = "running",
                                         [DT_MEMBER_STOPPING] = "stopping",
                                         [DT_MEMBER_DONE] = "done"};

const char *dt_link_name(enum dt_link l)
{
    return link_name[l];
}

const char *dt_member_doing_name(enum dt_member_doing d)
{
    return doing_name[d];
}

void dt_members_init(struct dt_members *ms, uint64_t seed)
{
    *ms = (struct dt_members){0};
    dt_map_init(&ms->by_id, offsetof(struct dt_member, id), seed);
    dt_map_init(&ms->by_name, offsetof(struct dt_member_name, text), seed);
    dt_list_init(&ms->all);
    dt_list_init(&ms->unheard);
    dt_list_init(&ms->lost);
    dt_list_init(&ms->restored);
}

void dt_members_finish(struct dt_members *ms)
{
    dt_map_finish(&ms->by_name, NULL);
    dt_map_finish(&ms->by_id, free);
}

/* -- who is there ----------------------------------------------------------------------------- */

static struct dt_bytes id_key(const uint64_t *id)
{
    return (struct dt_bytes){(const uint8_t *)id, sizeof *id};
}

struct dt_member *dt_members_find(const struct dt_members *ms, uint64_t id)
{
    return dt_map_find(&ms->by_id, id_key(&id));
}

struct dt_member *dt_members_find_name(const struct dt_members *ms, const char *name)
{
    struct dt_member_name *n = dt_map_find(&ms->by_name, dt_bytes_of(name));
    return n ? dt_container_of(n, struct dt_member, name) : NULL;
}

/* The name of the NUMBERth agent of a host. */
static void number_name(char out[DT_NODE_NAME_MAX], const char *name, int number)
{
    if (number == 1)
        snprintf(out, DT_NODE_NAME_MAX, "%s", name);
    else
        snprintf(out, DT_NODE_NAME_MAX, "%.*s#%d", DT_NODE_NAME_MAX - 12, name, number);
}

struct dt_member *dt_members_find_forerunner(const struct dt_members *ms,
                                             const struct dt_node_info *info)
{
    char name[DT_NODE_NAME_MAX];
    struct dt_member *m;
    for (int i = 1; i <= AGENTS_OF_A_HOST; i++) {
        number_name(name, info->name, i);
        m = dt_members_find_name(ms, name);
        if (!m)
            return NULL;
        bool rebooted = *info->boot && *m->boot && strcmp(info->boot, m->boot) != 0;
        if (!m->connected || rebooted)
            return m;
    }
    return NULL;
}

static bool choose_name(struct dt_members *ms, struct dt_member *m)
{
    for (int i = 1; i <= AGENTS_OF_A_HOST; i++) {
        number_name(m->name.text, m->said_name, i);
        if (dt_members_find_name(ms, m->name.text))
            continue;
        ms->crowd = i > ms->crowd ? i : ms->crowd;
        return true;
    }
    return false;
}

void dt_members_describe(struct dt_member *m, const struct dt_node_info *info)
{
    snprintf(m->boot, sizeof m->boot, "%s", info->boot);
    snprintf(m->domain, sizeof m->domain, "%s", info->domain);
    snprintf(m->role, sizeof m->role, "%s", info->role);
    snprintf(m->addr, sizeof m->addr, "%s", info->addr);
    m->port = info->port;
    m->workers = info->workers;
    m->order = info->order;
    m->expected = info->expected;
    m->looks = info->looks;
    m->keeps = info->keeps;
    m->tails = info->tails;
}

/* Adds BY to what is counted of M while it is connected. */
static void count_connected(struct dt_members *ms, const struct dt_member *m, int by)
{
    ms->connected += (size_t)by;
    ms->remote += m->local ? 0 : (size_t)by;
}

struct dt_member *dt_members_add(struct dt_members *ms, uint64_t id,
                                 const struct dt_node_info *info, dt_ms now)
{
    struct dt_member *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->id = id;
    snprintf(m->said_name, sizeof m->said_name, "%s", info->name);
    dt_members_describe(m, info);
    if (!choose_name(ms, m) || dt_map_insert(&ms->by_id, m, sizeof m->id) < 0) {
        free(m);
        return NULL;
    }
    if (dt_map_insert(&ms->by_name, &m->name, (uint32_t)strlen(m->name.text)) < 0) {
        dt_map_remove(&ms->by_id, id_key(&id));
        free(m);
        return NULL;
    }
    m->seat = m->round = m->prev_rank = -1;
    m->step = -1;
    m->connected = true;
    m->came = ++ms->comings;
    m->heard = m->joined_at = now;
    dt_list_append(&ms->all, &m->in_all);
    dt_list_append(&ms->unheard, &m->in_time);
    ms->count++;
    count_connected(ms, m, 1);
    ms->counts[m->doing][m->link]++;
    return m;
}

void dt_members_remove(struct dt_members *ms, struct dt_member *m)
{
    ms->counts[m->doing][m->link]--;
    ms->count--;
    if (m->connected)
        count_connected(ms, m, -1);
    ms->disks_low -= m->disk_is_low;
    ms->uploads_behind -= m->upload_is_behind;
    if (ms->count == 0)
        ms->hold = 0;
    dt_list_remove(&m->in_all);
    dt_list_remove(&m->in_time);
    dt_map_remove(&ms->by_name, dt_bytes_of(m->name.text));
    dt_map_remove(&ms->by_id, id_key(&m->id));
    free(m); /* the only free of a member, but for those that are there at the end */
}

/* -- what is known of them -------------------------------------------------------------------- */

static void set_link(struct dt_members *ms, struct dt_member *m, enum dt_link link)
{
    ms->counts[m->doing][m->link]--;
    m->link = link;
    ms->counts[m->doing][m->link]++;
}

void dt_members_set_doing(struct dt_members *ms, struct dt_member *m, enum dt_member_doing doing)
{
    ms->counts[m->doing][m->link]--;
    m->doing = doing;
    ms->counts[m->doing][m->link]++;
}

static void set_connected(struct dt_members *ms, struct dt_member *m, bool connected)
{
    if (m->connected != connected)
        count_connected(ms, m, connected ? 1 : -1);
    m->connected = connected;
}

void dt_members_set_local(struct dt_members *ms, struct dt_member *m, bool local)
{
    bool connected = m->connected;
    set_connected(ms, m, false);
    m->local = local;
    set_connected(ms, m, connected);
}

static void move(struct dt_list *to, struct dt_member *m)
{
    dt_list_remove(&m->in_time);
    dt_list_append(to, &m->in_time);
}

void dt_members_heard(struct dt_members *ms, struct dt_member *m, dt_ms now)
{
    m->heard = now;
    set_connected(ms, m, true);
    m->restored = m->with_crowd = false;
    set_link(ms, m, DT_LINK_ONLINE);
    move(&ms->unheard, m);
}

void dt_members_lost(struct dt_members *ms, struct dt_member *m, dt_ms now)
{
    if (!m->connected)
        return;
    set_connected(ms, m, false);
    m->lost_at = now;
    set_link(ms, m, DT_LINK_SUSPECT);
    move(&ms->lost, m);
    if (ms->connected * 2 < ms->count)
        ms->crowd_until = now + CROWD_GRACE;
}

bool dt_members_is_with_crowd(const struct dt_members *ms, const struct dt_member *m)
{
    return m->with_crowd || (!m->connected && m->lost_at <= ms->crowd_until);
}

void dt_members_mark_restored(struct dt_members *ms, struct dt_member *m, dt_ms now)
{
    set_connected(ms, m, false);
    m->restored = true;
    m->lost_at = now;
    set_link(ms, m, DT_LINK_SUSPECT);
    move(&ms->restored, m);
}

/* -- time ------------------------------------------------------------------------------------- */

static dt_ms sooner(dt_ms a, dt_ms b)
{
    return a < b ? a : b;
}

static dt_ms later(dt_ms a, dt_ms b)
{
    return a > b ? a : b;
}

static dt_ms silence(const struct dt_run_spec *spec)
{
    return spec->beat * spec->beats;
}

/* A beat is missing when half another one has passed since it was due. */
static dt_ms suspicion(const struct dt_run_spec *spec)
{
    return spec->beat + spec->beat / 2;
}

static struct dt_member *first(const struct dt_list *l)
{
    struct dt_node *n = dt_list_first(l);
    return n ? dt_container_of(n, struct dt_member, in_time) : NULL;
}

dt_ms dt_members_check_ourselves(struct dt_members *ms, const struct dt_run_spec *spec, dt_ms now)
{
    dt_ms gap = ms->checked && ms->count ? now - ms->checked : 0;
    ms->checked = now;
    if (gap > spec->reconnect_grace + LATE) /* they may be back, and we have not looked */
        dt_list_each(&ms->lost, n) dt_container_of(n, struct dt_member, in_time)->lost_at = now;
    if (spec->beat == 0 || gap <= spec->beat)
        return 0;
    dt_list_each(&ms->all, n)
    {
        struct dt_member *m = dt_container_of(n, struct dt_member, in_all);
        m->heard = m->lost_at = now;
    }
    return gap;
}

/* Those who have been silent for longer than some limit; the first of the list. */
struct silent {
    size_t all, voters;
};

/* Where nobody is on another host all have a say: they may have come through a proxy on ours. */
static bool is_voter(const struct dt_members *ms, const struct dt_member *m)
{
    return !m->local || ms->remote == 0;
}

static struct silent count_silent(const struct dt_members *ms, dt_ms limit, dt_ms now)
{
    struct silent s = {0};
    dt_list_each(&ms->unheard, n)
    {
        const struct dt_member *m = dt_container_of(n, struct dt_member, in_time);
        if (m->heard + limit >= now)
            break;
        s.all++;
        s.voters += is_voter(ms, m);
    }
    return s;
}

size_t dt_members_voters(const struct dt_members *ms)
{
    return ms->remote ? ms->remote : ms->connected;
}

/* Whether so many are silent at once that the cause may be our own network. */
static bool is_crowd(const struct dt_members *ms, struct silent s)
{
    size_t voters = dt_members_voters(ms);
    return s.voters > 0 && (s.voters == voters || (voters >= CROWD_LEAST && s.voters * 2 > voters));
}

/* Whether a crowd gets more time. A single node is more often dead than our network is down: others
 * wait for it only where they are too few without it. */
static bool is_waited_for(const struct dt_members *ms, const struct dt_run_spec *spec,
                          struct silent s)
{
    return s.voters > 1 || ms->connected - s.all < (size_t)spec->min_nodes;
}

/* Looks whether those who have been silent for longer than LIMIT are a crowd. If so, nobody counts
 * as gone until the last of them has had twice its time. */
static void look_for_crowd(struct dt_members *ms, const struct dt_run_spec *spec, dt_ms limit,
                           dt_ms now)
{
    struct silent s = count_silent(ms, limit, now);
    if (!is_crowd(ms, s))
        return;
    bool waited_for = is_waited_for(ms, spec, s);
    dt_list_each(&ms->unheard, n)
    {
        struct dt_member *m = dt_container_of(n, struct dt_member, in_time);
        if (s.all-- == 0)
            break;
        if (!m->with_crowd && waited_for)
            ms->hold = later(ms->hold, m->heard + 2 * silence(spec));
        m->with_crowd = true;
    }
}

/* When M, whose connection is gone, counts as gone itself. A kernel closes the connections of a
 * process that dies, and an agent that lives is back at once; but a node that was cut off may be
 * slow to open the next one, and so may many that come at once. */
static dt_ms end_of_grace(const struct dt_members *ms, const struct dt_run_spec *spec,
                          const struct dt_member *m)
{
    return later(m->lost_at + spec->reconnect_grace, later(ms->hold, ms->crowd_until));
}

static dt_ms end_of_silence(const struct dt_members *ms, const struct dt_run_spec *spec,
                            const struct dt_member *m)
{
    return later(m->heard + silence(spec), ms->hold);
}

/* When nobody has come back over its network to a server that was started again, that may not be up
 * yet. */
static void excuse_restored(struct dt_members *ms)
{
    dt_list_each(&ms->restored, n)
    {
        dt_container_of(n, struct dt_member, in_time)->with_crowd = true;
    }
}

struct dt_member *dt_members_expired(struct dt_members *ms, const struct dt_run_spec *spec,
                                     dt_ms now, bool *silent)
{
    struct dt_member *m;
    *silent = false;
    if ((m = first(&ms->lost)) && end_of_grace(ms, spec, m) <= now)
        return m;
    if ((m = first(&ms->restored)) && m->lost_at + silence(spec) + spec->reconnect_grace <= now) {
        if (ms->remote == 0 && !m->with_crowd)
            excuse_restored(ms);
        return m;
    }
    m = first(&ms->unheard);
    if (!m || end_of_silence(ms, spec, m) > now)
        return NULL;
    /* Where few beats make a silence, the others of a crowd are no suspects yet. */
    if (!m->with_crowd)
        look_for_crowd(ms, spec, spec->beat + spec->beat / 4, now);
    *silent = ms->hold <= now;
    return *silent ? m : NULL;
}

void dt_members_suspect(struct dt_members *ms, const struct dt_run_spec *spec, dt_ms now)
{
    bool news = false;
    dt_list_each(&ms->unheard, n)
    {
        struct dt_member *m = dt_container_of(n, struct dt_member, in_time);
        if (m->heard + suspicion(spec) > now)
            break;
        news = news || !m->with_crowd;
        if (m->link == DT_LINK_ONLINE)
            set_link(ms, m, DT_LINK_SUSPECT);
    }
    /* Before the first of a crowd counts as gone others of it may be back. */
    if (news)
        look_for_crowd(ms, spec, suspicion(spec) - 1, now);
}

dt_ms dt_members_next(const struct dt_members *ms, const struct dt_run_spec *spec)
{
    const struct dt_member *m;
    if (ms->count == 0)
        return DT_FOREVER;
    dt_ms next = ms->checked + spec->beat / 2; /* so that we notice when we were away */
    if ((m = first(&ms->lost)))
        next = sooner(next, end_of_grace(ms, spec, m));
    if ((m = first(&ms->restored)))
        next = sooner(next, m->lost_at + silence(spec) + spec->reconnect_grace);
    if ((m = first(&ms->unheard)))
        next = sooner(next, end_of_silence(ms, spec, m));
    return next;
}
