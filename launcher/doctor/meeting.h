/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes of a job meet for the doctor as they would for training: by the same options, the same
 * rendezvous and the same store, with this very program as the one worker of each node. It shares a
 * page of memory with the doctor that started it. */
#ifndef DT_LAUNCHER_DOCTOR_MEETING_H
#define DT_LAUNCHER_DOCTOR_MEETING_H

#include "base/err.h"
#include "preflight/compare.h"

#include <stdbool.h>

#define DT_MEETING_ENV "DTRUN_DOCTOR_PAGE" /* tells the worker where its page is */
#define DT_MEETING_FOLDERS 8
#define DT_MEETING_PATH 512

struct dt_meeting_page {
    /* Of the doctor: */
    struct dt_sheet own; /* what was found at this host */
    char name[DT_COMPARE_NAME];
    char folders[DT_MEETING_FOLDERS][DT_MEETING_PATH]; /* "": no more */
    /* Of its worker: */
    struct dt_sheet among; /* what was found between the nodes */
    bool over;             /* and that is all of it */
};

/* Memory that dt_meeting_attend() finds in a child of this process, empty. NULL and *err. */
struct dt_meeting_page *dt_meeting_page_create(struct dt_err *err);
void dt_meeting_page_destroy(struct dt_meeting_page *page); /* NULL is fine */

/* The body of the worker; PATH is what DT_MEETING_ENV says. Returns its exit status: what goes
 * wrong between the nodes stands in the page. */
int dt_meeting_attend(const char *path);

#endif
