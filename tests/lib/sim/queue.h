/* SPDX-License-Identifier: Apache-2.0 */
/* What is yet to happen, by time; at one time in the order it was planned. */
#ifndef DT_TESTS_SIM_QUEUE_H
#define DT_TESTS_SIM_QUEUE_H

#include "base/clock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim;
struct sim_letter;

struct sim_event {
    dt_ms at;
    uint64_t number; /* in the order of planning */
    void (*run)(struct sim *s, struct sim_event *ev);
    struct sim_letter *letter; /* the event's own, until RUN takes it */
    uint32_t who;              /* a node, a connection ... */
    uint32_t life;             /* ... and which life of it: later ones are not meant */
    int what;
};

struct sim_queue {
    struct sim_event *heap;
    size_t len, size;
    uint64_t numbers;
};

void sim_queue_finish(struct sim_queue *q);
/* The number is given here. */
void sim_queue_put(struct sim_queue *q, struct sim_event ev);
/* The same event later; among those of that time it keeps the place that its number gives it, so
 * what is put off together stays in order. */
void sim_queue_put_off(struct sim_queue *q, struct sim_event *ev, dt_ms until);
bool sim_queue_take(struct sim_queue *q, struct sim_event *ev);

#endif
