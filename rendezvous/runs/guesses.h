/* SPDX-License-Identifier: Apache-2.0 */
/* A brake for those who try tokens: how many wrong ones came from a host lately. Pure.
 *
 * Each host has DT_GUESSES_BURST of them, and one more a second. One who has none left is not
 * looked at until then, right or wrong: else the answer would tell which. The right token gives all
 * of them back. */
#ifndef DT_RENDEZVOUS_RUNS_GUESSES_H
#define DT_RENDEZVOUS_RUNS_GUESSES_H

#include "base/addr.h"
#include "base/clock.h"

#include <stdbool.h>

#define DT_GUESSES_BURST 10
#define DT_GUESSES_EVERY DT_SECOND
/* So many are remembered; then the one is forgotten that is longest quiet. */
#define DT_GUESSES_HOSTS 1024

/* Zeroed memory has seen none. */
struct dt_guesses {
    struct dt_guesser {
        struct dt_addr_host host;
        int wrong;   /* 0: the row is free */
        dt_ms since; /* when the oldest of them began to be forgiven */
    } rows[DT_GUESSES_HOSTS];
};

bool dt_guesses_may_try(struct dt_guesses *g, const struct dt_addr *from, dt_ms now);
void dt_guesses_wrong(struct dt_guesses *g, const struct dt_addr *from, dt_ms now);
void dt_guesses_right(struct dt_guesses *g, const struct dt_addr *from);

#endif
