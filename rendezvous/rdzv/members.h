/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes of a run: which are there, what each is doing, and when one that says nothing counts as
 * gone. Pure.
 *
 * Only the server's own monotonic clock counts, and anything heard of a node is a beat. A node is
 * online, then suspect (its connection closed, or a beat is missing), then offline. Since all of
 * one kind have the same time to go, two lists in the order of time replace timers. When we
 * ourselves were away for longer than a beat, everybody gets a fresh deadline.
 *
 * When all nodes miss a beat together, or more than half of at least four, the fault may be in our
 * own network: nobody counts as gone before they have had twice their time, and their silence is no
 * mark against them. A node on our own host has no say in that, as its beats do not cross the
 * network. Where only one node is on another host, nothing tells its death from an outage: its
 * silence is no mark against it, and it gets the second time only where the job cannot go on
 * without it, so that nobody loses time by it. */
#ifndef DT_RENDEZVOUS_RDZV_MEMBERS_H
#define DT_RENDEZVOUS_RDZV_MEMBERS_H

#include "base/clock.h"
#include "base/list.h"
#include "base/map.h"
#include "rendezvous/lag/lag.h"
#include "rendezvous/protocol/messages.h"

enum dt_link {
    DT_LINK_ONLINE,
    DT_LINK_SUSPECT, /* acted upon by nobody yet */
    DT_LINKS,
};

enum dt_member_doing {
    DT_MEMBER_WAITING,  /* for a world, or parked beside one */
    DT_MEMBER_RUNNING,  /* has a seat in the round that runs */
    DT_MEMBER_STOPPING, /* was told to stop, or failed: workers of a round that is over may live */
    DT_MEMBER_DONE,     /* all its workers of the round that runs have succeeded */
    DT_MEMBER_DOINGS,
};
const char *dt_link_name(enum dt_link l);
const char *dt_member_doing_name(enum dt_member_doing d);

/* A key in the map of names, inside the member. */
struct dt_member_name {
    struct dt_map_node in_map;
    char text[DT_NODE_NAME_MAX];
};

struct dt_member {
    struct dt_map_node in_map;
    uint64_t id;                /* incarnation: the key */
    struct dt_node in_time;     /* the list of its link, the one longest unheard of first */
    struct dt_node in_all;      /* in the order they came */
    struct dt_member_name name; /* made unique among those who are there: "host#2" */
    /* As it presented itself. */
    char said_name[DT_NODE_NAME_MAX];
    char boot[DT_BOOT_MAX], domain[DT_ROLE_MAX], role[DT_ROLE_MAX], addr[DT_NODE_ADDR_MAX];
    int port, workers, order, expected;
    uint64_t command;

    enum dt_link link;
    enum dt_member_doing doing;
    bool connected;       /* suspect: for want of a beat, not of a connection */
    bool local;           /* on our own host: that it is heard says nothing about our network */
    bool restored;        /* from the journal: not heard of since, and has longer to come back */
    bool parked;          /* was told so */
    bool leaving;         /* goes when its workers are gone */
    bool may_lack_world;  /* its last world was sent over an earlier connection */
    bool newcomer;        /* in the world of its round, and not in the one before */
    bool with_crowd;      /* it fell silent together with most others, so perhaps by our fault */
    bool told_mixed;      /* was told that the run's nodes run different commands */
    bool looks;           /* its agent can be asked what its workers do ... */
    bool keeps;           /* ... to let them save ... */
    bool tails;           /* ... and what they print */
    int seat;             /* in this round or, while gathering, the last; -1: none */
    int round;            /* the last it had a world in; -1: none */
    int first_rank, size; /* in that, of its workers and of all */
    int first_role_rank, role_size;
    int prev_rank, prev_size; /* the same in its world before; -1 and 0: none */
    int64_t came;             /* 1, 2, ... in the order of joining */
    /* Of this round. */
    dt_ms still, still_at; /* its workers stood still for so long, as it said then; 0: it did not */
    bool still_sure;       /* and are certain to hang */
    bool told_finding;     /* it was told why */
    struct dt_lag_node lag; /* how its workers share their time */
    int64_t asked, looked;  /* the last look that it was asked for, and that it answered; 0: none */
    dt_ms heard, lost_at, joined_at;
    int64_t step;
    struct dt_beat beat;                /* the last, without its strings ... */
    struct dt_telemetry_kept telemetry; /* ... and the last telemetry that one had */
    bool disk_is_low, upload_is_behind; /* people were told so */
};

struct dt_members {
    struct dt_map by_id, by_name;
    struct dt_list all;
    struct dt_list unheard; /* connected ones, by `heard` */
    struct dt_list lost;    /* whose connection is gone, by `lost_at` */
    struct dt_list restored;
    size_t count;
    size_t connected; /* on the list UNHEARD ... */
    size_t remote;    /* ... and on other hosts */
    size_t counts[DT_MEMBER_DOINGS][DT_LINKS];
    size_t disks_low, uploads_behind; /* so many of them have such a disk, such uploads */
    int64_t comings;
    int crowd;         /* the most agents that a host ever had */
    dt_ms checked;     /* when time was last looked at; 0: never */
    dt_ms hold;        /* nobody who was connected counts as gone before */
    dt_ms crowd_until; /* nobody whose connection was lost does */
};

void dt_members_init(struct dt_members *ms, uint64_t seed);
void dt_members_finish(struct dt_members *ms);

struct dt_member *dt_members_find(const struct dt_members *ms, uint64_t id);
struct dt_member *dt_members_find_name(const struct dt_members *ms, const char *name);
/* The member that INFO, newly come, must be the successor of: one of its name that has lost its
 * connection, or is of another boot of the host. Others of that name are more agents on one host.
 */
struct dt_member *dt_members_find_forerunner(const struct dt_members *ms,
                                             const struct dt_node_info *info);

/* A new one, waiting, online. NULL: no memory. */
struct dt_member *dt_members_add(struct dt_members *ms, uint64_t id,
                                 const struct dt_node_info *info, dt_ms now);
void dt_members_remove(struct dt_members *ms, struct dt_member *m);
/* What it says of itself may change when it joins again; its name does not. */
void dt_members_describe(struct dt_member *m, const struct dt_node_info *info);

void dt_members_set_doing(struct dt_members *ms, struct dt_member *m, enum dt_member_doing doing);
void dt_members_set_local(struct dt_members *ms, struct dt_member *m, bool local);
void dt_members_heard(struct dt_members *ms, struct dt_member *m, dt_ms now);
void dt_members_lost(struct dt_members *ms, struct dt_member *m, dt_ms now);
/* Whether M went together with most others: as when our network is down, or somebody kills the
 * whole job. That is hardly the fault of its host. */
bool dt_members_is_with_crowd(const struct dt_members *ms, const struct dt_member *m);
/* Marks one as known from the journal only. */
void dt_members_mark_restored(struct dt_members *ms, struct dt_member *m, dt_ms now);

/* Before anything else in a step: if we were away, nobody is to blame for it. Returns how long we
 * were, 0 when that was nothing. */
dt_ms dt_members_check_ourselves(struct dt_members *ms, const struct dt_run_spec *spec, dt_ms now);
/* The next member whose time is over at NOW, or NULL; it is for the caller to remove it. *SILENT:
 * it was connected and said nothing. */
struct dt_member *dt_members_expired(struct dt_members *ms, const struct dt_run_spec *spec,
                                     dt_ms now, bool *silent);
/* How many of those who are connected have a say in whether our own network is down. */
size_t dt_members_voters(const struct dt_members *ms);
/* Makes suspects of those who missed a beat. */
void dt_members_suspect(struct dt_members *ms, const struct dt_run_spec *spec, dt_ms now);
/* When to look again. */
dt_ms dt_members_next(const struct dt_members *ms, const struct dt_run_spec *spec);

#endif
