/* SPDX-License-Identifier: Apache-2.0 */
/* The shell of the rendezvous, around the real machine: connections to members, a disk that takes
 * its time, sends that wait for it. */
#ifndef DT_TESTS_SIM_SERVER_H
#define DT_TESTS_SIM_SERVER_H

#include "rendezvous/rdzv/rdzv.h"
#include "tests/lib/sim/net.h"

struct sim_letter;

/* What the journal holds of one key. */
struct sim_record {
    struct dt_buf safe, syncing;
    char key[DT_NODE_NAME_MAX]; /* a node of the exclude table; "": the run */
    bool dirty;                 /* it has changed since syncing began */
    bool is_syncing;
};

/* A message that is decided but not sent. */
struct sim_held {
    uint64_t to;
    uint32_t conn;   /* over the connection that TO had when it was decided; or SIM_NO_CONN */
    uint64_t behind; /* journal writes that must be safe before */
    uint32_t memory; /* what it knew when that was decided */
    struct sim_letter *letter;
};

struct sim_server {
    bool up;
    bool dark;       /* its host is off */
    uint32_t life;   /* which start of it */
    uint32_t memory; /* what it knows is of its own since; raised when all is lost */
    dt_ms paused_until, skew;
    dt_ms ill_until; /* as a node's */
    dt_ms leapt;     /* its clock, last, in true time; 0: never */
    dt_ms cut_until; /* its own network is down, which makes no node ill */
    dt_ms tick_at;

    struct dt_exclude exclude;
    struct dt_rdzv *run; /* NULL: none yet */
    struct dt_rdzv_actions actions;
    struct dt_map bound; /* incarnations to connections */

    struct sim_record *records;
    size_t records_len;
    bool syncing;
    uint64_t written, safe; /* journal writes */
    uint64_t syncing_to;
    dt_ms disk_min, disk_max, disk_worst;
    dt_ms went_down; /* in true time */

    struct sim_held *held; /* a ring */
    size_t held_first, held_len, held_size;

    struct sim_letter **old; /* frames of the past, to be said again */
    size_t old_len, old_next;
};

enum sim_crash {
    SIM_CRASH_KILL,  /* kill -9: what was written is on disk, synced or not */
    SIM_CRASH_POWER, /* what was not synced is lost, and nobody hears of the end */
    SIM_CRASH_WIPE,  /* all is lost */
};

void sim_server_start(struct sim *s);
void sim_server_finish(struct sim *s);
void sim_server_receive(struct sim *s, uint32_t conn, enum sim_parcel what,
                        const struct sim_letter *letter);
void sim_server_crash(struct sim *s, enum sim_crash how);
void sim_server_pause(struct sim *s, dt_ms until);
void sim_server_jump(struct sim *s, dt_ms by);
/* Its own network fails, not twice in a row, for a silence at most: no node loses its place by it.
 */
void sim_server_cut(struct sim *s, dt_ms until);
/* Whoever hosts it goes, and says so. */
void sim_server_end(struct sim *s);
void sim_server_drain(struct sim *s, const char *node, bool undo);
/* A person wants something of the run: an event of that type. */
void sim_server_wish(struct sim *s, enum dt_rdzv_event_type wish, const char *words);
/* The journal is safe so far: what waited for that goes out. */
void sim_server_release(struct sim *s);
/* Says again what was said in a round that is over. */
void sim_server_replay_stale(struct sim *s);

dt_ms sim_server_clock(const struct sim *s);

#endif
