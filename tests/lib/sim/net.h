/* SPDX-License-Identifier: Apache-2.0 */
/* Connections between nodes and the rendezvous, as TCP makes them: in order and without loss while
 * they live; what is under way when one is cut is lost; either end may think that it is still there
 * when the other does not. What is blocked comes late, also after its sender is gone or has another
 * connection. */
#ifndef DT_TESTS_SIM_NET_H
#define DT_TESTS_SIM_NET_H

#include "base/clock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim;
struct sim_letter;

/* Ways, and the ends where they begin: the agent's end sends up. */
enum sim_way { SIM_UP, SIM_DOWN };
enum sim_parcel {
    SIM_HELLO, /* of either end: greeting, token and version are other tests' affair */
    SIM_LETTER,
    SIM_FIN,   /* the other end was closed */
    SIM_RESET, /* ... or is not there */
};

#define SIM_NO_CONN UINT32_MAX

struct sim_conn {
    uint32_t node, agent_life, server_life;
    bool open[2];    /* each end thinks so */
    bool dead;       /* nothing gets through, and nobody is told */
    uint64_t cut;    /* events up to this one are lost */
    dt_ms last[2];   /* when the last that was sent each way arrives */
    uint64_t member; /* the server's: who speaks here; 0: nobody yet */
};

struct sim_net {
    struct sim_conn *conns;
    uint32_t len, size;
    dt_ms delay_min, delay_max;
};

void sim_net_finish(struct sim_net *n);
struct sim_conn *sim_net_conn(struct sim *s, uint32_t conn);
/* Opens the agent's end and greets. */
uint32_t sim_net_dial(struct sim *s, uint32_t node);
/* From the end where WAY begins. Takes LETTER. */
void sim_net_send(struct sim *s, uint32_t conn, enum sim_way way, enum sim_parcel what,
                  struct sim_letter *letter);
/* Closes that end; the other hears of it after all that is under way. */
void sim_net_close(struct sim *s, uint32_t conn, enum sim_way end);
/* Something between cuts it: both ends hear of that. */
void sim_net_cut(struct sim *s, uint32_t conn);

#endif
