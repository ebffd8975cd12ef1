/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/sim/trace.h"

#include "tests/lib/sim/sim.h"

#include <stdarg.h>
#include <stdio.h>

static void begin_line(const struct sim *s, const char *who)
{
    printf("# %9.3f  %-7s ", (double)s->now / DT_SECOND, who);
}

void sim_trace_line(struct sim *s, const char *who, const char *fmt, ...)
{
    va_list args;
    begin_line(s, who);
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
}

static void print_join(const struct dt_message *m)
{
    const struct dt_claim *c = &m->join.claim;
    if (c->running || c->done)
        printf(": %s in seat %d of round %d", c->done ? "done" : "has workers", c->seat, m->round);
    else
        printf(": ready");
}

static void print_body(const struct dt_message *m)
{
    switch (m->type) {
    case DT_MSG_JOIN:
        print_join(m);
        break;
    case DT_MSG_WORLD:
        printf(": seat %d of %d, ranks from %d of %d, restart %d", m->world.seat, m->world.seats,
               m->world.first_rank, m->world.size, m->world.restarts);
        break;
    case DT_MSG_RESULT:
        printf(": %s", m->result.succeeded ? "succeeded" : m->result.text);
        break;
    case DT_MSG_CLOSE:
        printf(": %s", dt_close_kind_name(m->close.kind));
        break;
    default:
        break;
    }
    if (m->why && *m->why)
        printf(": %s", m->why);
}

void sim_trace_message(struct sim *s, const char *who, const char *does, const struct dt_message *m)
{
    const struct sim_node *n = sim_node_by_incarnation(s, m->incarnation);
    if (m->type == DT_MSG_BEAT)
        return; /* too many to read */
    begin_line(s, who);
    printf("%s %s", does, dt_message_name(m->type));
    if (n && who != n->name)
        printf(" (%s)", n->name);
    printf(" of round %d", m->round);
    print_body(m);
    putchar('\n');
}
