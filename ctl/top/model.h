/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a rendezvous, and where in it the person is: the runs and nodes that are shown,
 * in their order, and the one that is chosen, which stays chosen when others come and go. Pure. */
#ifndef DT_CTL_TOP_MODEL_H
#define DT_CTL_TOP_MODEL_H

#include "ctl/top/events.h"
#include "ctl/top/judge.h"
#include "ctl/top/key.h"
#include "rendezvous/protocol/stance.h"

#include <stdbool.h>
#include <stdint.h>

#define DT_TOP_FILTER_MAX 48

enum dt_top_view {
    DT_TOP_RUNS, /* all runs, and what the chosen one does */
    DT_TOP_RUN,  /* the nodes of the chosen run */
    DT_TOP_TEXT, /* what a look has found */
    DT_TOP_HELP,
};

/* Of the runs, or of the nodes. */
struct dt_top_list {
    size_t len;                 /* how many are shown */
    size_t at;                  /* the chosen one of them */
    char chosen[DT_RUN_ID_MAX]; /* its name */
    size_t order;               /* of dt_top_order_name() */
    bool reversed;
    char filter[DT_TOP_FILTER_MAX];
};

struct dt_top_model {
    const char *endpoint;
    const char *only; /* the run that was asked for; "": all */
    int64_t now_s;    /* since 1970 */

    bool known; /* the rendezvous has answered once */
    struct dt_ctl_pages pages;
    struct dt_top_events events;
    char trouble[512]; /* why it does not answer now; "" it does */
    int64_t silent_s;  /* for so long */

    enum dt_top_view view, below; /* BELOW: where Escape leads from a text or help */
    bool frozen, typing;          /* FROZEN: no news are asked for; TYPING: a filter */
    struct dt_top_list lists[2];  /* of DT_TOP_RUNS, DT_TOP_RUN */
    struct dt_top_run *runs;      /* as shown */
    struct dt_top_node *nodes;    /* of the chosen run, as shown */

    char title[DT_RUN_ID_MAX + 64];
    struct dt_buf text; /* lines */
    size_t line;        /* the first that is shown */
};

/* What pressing a key asks for, beyond another picture. */
enum dt_top_wish {
    DT_TOP_NOTHING,
    DT_TOP_QUIT,
    DT_TOP_REFRESH, /* ask the rendezvous now */
    DT_TOP_LOOK,    /* show what the workers do: dt_top_ranks() of dt_top_chosen_run() */
    DT_TOP_LOG,     /* show what they print */
    DT_TOP_REDRAW,  /* draw all of it again, as something else wrote to the terminal */
};

/* ENDPOINT and ONLY outlive it. */
void dt_top_model_init(struct dt_top_model *m, const char *endpoint, const char *only);
void dt_top_model_finish(struct dt_top_model *m);

/* The rendezvous answered: PAGES and EVENTS are the model's from then on. Events go behind those
 * that are there, or (ANEW) take their place. */
void dt_top_model_hear(struct dt_top_model *m, struct dt_ctl_pages *pages,
                       struct dt_top_events *events, bool anew);
/* ... or did not. */
void dt_top_model_miss(struct dt_top_model *m, const char *why);
/* TEXT of a look came, or is awaited; it is copied, without what would steer a terminal. TITLE
 * NULL: as before. */
void dt_top_model_show_text(struct dt_top_model *m, const char *title, const char *text);

/* A key, on a screen of so many rows and columns. */
enum dt_top_wish dt_top_model_press(struct dt_top_model *m, struct dt_key key, int rows,
                                    int columns);

/* DT_TOP_RUNS or DT_TOP_RUN: which of them is shown, or is below what is shown. */
enum dt_top_view dt_top_place(const struct dt_top_model *m);

/* NULL: there is none. */
const struct dt_top_run *dt_top_chosen_run(const struct dt_top_model *m);
/* What a look is to show: the ranks of the chosen node, or all of the run (0 ranges). */
size_t dt_top_ranks(const struct dt_top_model *m, struct dt_rank_range *range);

/* What is shown as DT_TOP_TEXT, or as DT_TOP_HELP. */
const char *dt_top_text(const struct dt_top_model *m);

/* The order in which the runs, or nodes, are: "name", "step", ... */
const char *dt_top_order_name(enum dt_top_view view, size_t order);

#endif
