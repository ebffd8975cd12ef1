/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/web/raised.h"

#include "tests/lib/check.h"

#include <string.h>

#define MINUTE (60 * DT_SECOND)
#define DAY (24 * 60 * MINUTE)
#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Whether RULE is raised after three workers have failed so long ago. */
static bool is_raised(const char *rule, const dt_ms ages[3])
{
    struct dt_chronicle c;
    struct dt_web_raised r;
    struct dt_buf out = {0};
    CHECK_EQ(dt_chronicle_init(&c), 0);
    for (int i = 0; i < 3; i++) {
        struct dt_event e = {.kind = DT_EVENT_WORKER_FAILED,
                             .at_us = dt_clock_wall_us() - ages[i] * 1000,
                             .run = "job",
                             .round = i,
                             .rank = 0,
                             .words = "rank 0 exited with 1"};
        dt_chronicle_add(&c, &e);
    }
    CHECK_EQ(dt_web_raised_init(&r, &c), 0);
    dt_web_raised_put(&r, "job", dt_clock_monotonic(), &out);
    bool found = strstr(dt_buf_cstr(&out), rule) != NULL;
    dt_buf_finish(&out);
    dt_web_raised_stop(&r);
    dt_web_raised_finish(&r);
    dt_chronicle_finish(&c);
    return found;
}

/* As after a reboot of the host. */
TEST(what_happened_before_the_clock_began_is_as_far_apart_as_it_was)
{
    static const struct {
        dt_ms ages[3];
        bool storm;
    } rows[] = {
        {{9 * MINUTE, 5 * MINUTE, 0}, true},
        {{11 * MINUTE, 5 * MINUTE, 0}, false},
        {{9000 * DAY, 8000 * DAY, 7000 * DAY}, false},
        {{9000 * DAY, 9000 * DAY - 5 * MINUTE, 9000 * DAY - 9 * MINUTE}, true},
        {{9000 * DAY, 5 * MINUTE, 0}, false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        CHECK_ROW("row %zu", i);
        CHECK_EQ(is_raised("restart_storm", rows[i].ages), rows[i].storm);
    }
}
