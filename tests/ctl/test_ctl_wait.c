/* SPDX-License-Identifier: Apache-2.0 */
/* How dtrun-ctl run wait ends. */
#include "tests/ctl/ctl_story.h"

#define EVENTS(events, last)                                                                       \
    "{\"type\":\"events\",\"run\":\"a\",\"page\":{\"events\":[" events "],\"last\":" #last         \
    ",\"newest\":" #last ",\"missed\":0}}"
#define EVENT(kind, words)                                                                         \
    "{\"number\":8,\"time\":\"2026-11-23T07:00:00.000000Z\",\"kind\":\"" kind                      \
    "\",\"weight\":\"info\",\"run\":\"a\",\"words\":\"" words "\"}"
#define SEEN(runs)                                                                                 \
    "{\"type\":\"status\",\"page\":{" SERVER ",\"runs\":[" runs "],\"nodes\":[],"                  \
    "\"excluded\":[],\"history\":[],\"next\":0}}"
#define CLOSED(how)                                                                                \
    "{\"id\":\"a\",\"state\":\"closed\",\"round\":4,\"world\":32,\"nodes\":4,\"min\":2,"           \
    "\"max\":4,\"restarts\":1,\"max_restarts\":3,\"losses\":1,\"since_s\":7200,"                   \
    "\"master\":\"\",\"why\":\"it is over\",\"ended\":\"" how "\"}"

TEST(who_waits_for_a_run_learns_how_it_ended)
{
    static const struct {
        const char *answers[6];
        int status;
        const char *out, *errors;
    } rows[] = {
        /* It is over already. */
        {{EVENTS("", 7), SEEN(CLOSED("succeeded"))}, 0, "run a: succeeded: it is over\n", ""},
        {{EVENTS("", 7), SEEN(CLOSED("no_progress"))},
         1,
         "run a: no_progress: it is over\n",
         "run a did not end well: no_progress"},
        /* It ends while it is waited for. */
        {{EVENTS("", 7), SEEN(RUN("a", "running", "")), EVENTS(EVENT("node_lost", "x"), 8),
          SEEN(RUN("a", "running", "")), EVENTS(EVENT("run_stopped", "closed: by ada"), 9),
          SEEN(CLOSED("stopped"))},
         1,
         "run a: stopped: it is over\n",
         "did not end well: stopped"},
        /* The event is the last that an agent says. */
        {{EVENTS("", 7), SEEN(RUN("a", "running", "")),
          EVENTS(EVENT("run_ended_well", "closed: all have succeeded"), 8)},
         0,
         "run a: succeeded: all have succeeded\n",
         ""},
        /* The last of its nodes has left. */
        {{EVENTS("", 7), SEEN(RUN("a", "running", "")), EVENTS(EVENT("node_left", "x"), 8),
          SEEN("")},
         1,
         "run a: deserted: all its nodes have left\n",
         "did not end well"},
        {{EVENTS("", 7), SEEN("")}, 1, "", "knows no run \"a\""},
        {{EVENTS("{}", 7)}, 1, "", "events make no sense"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%zu", i);
        const char *answers[7] = {0};
        memcpy(answers, rows[i].answers, sizeof rows[i].answers);
        struct scripted s = {.answers = answers};
        CHECK_EQ(ctl_at(&s, "run wait a"), rows[i].status);
        CHECK_STR(out, rows[i].out);
        CHECK(strstr(errors, rows[i].errors) != NULL);
        dt_buf_finish(&s.asked);
    }
}

TEST(who_waits_asks_for_what_happens_to_that_run)
{
    struct scripted s = {.answers =
                             (const char *const[]){EVENTS("", 7), SEEN(RUN("a", "running", "")),
                                                   EVENTS(EVENT("run_ended_well", "x"), 8), NULL}};
    CHECK_EQ(ctl_at(&s, "run wait a --json"), 0);
    CHECK_STR(out, "{\"run\":\"a\",\"ended\":\"succeeded\",\"why\":\"x\"}\n");
    CHECK(strstr(asked(&s), "\"run\":\"a\",\"after\":7,\"follow\":true}\n") != NULL);
    dt_buf_finish(&s.asked);
}
