/* SPDX-License-Identifier: Apache-2.0 */
/* What dtrun-ctl run list and node list show. */
#include "tests/ctl/ctl_story.h"

TEST(runs_are_listed_a_line_each)
{
#define LISTED(id, state, more)                                                                    \
    "{\"id\":\"" id "\",\"state\":\"" state "\",\"round\":4,\"world\":32,\"nodes\":3,\"min\":2,"   \
    "\"max\":4,\"restarts\":1,\"max_restarts\":3,\"losses\":1,\"since_s\":7200,"                   \
    "\"master\":\"\",\"why\":\"\"" more "}"
    static const char page[] = PAGE(
        LISTED("llama", "running", ",\"user\":\"ada\",\"step\":1200") "," LISTED(
            "b", "gathering",
            ",\"paused\":true") "," LISTED("c", "closed",
                                           ",\"ended\":\"stopped\"") "," RUN("d", "running", ""),
        "", "", 0);
    struct scripted s = {.answers = (const char *const[]){page, NULL}};
    CHECK_EQ(ctl_at(&s, "run list"), 0);
    CHECK_STR(out, "RUN    STATE    FOR  NODES     STEP  USER\n"
                   "llama  running  2 h  3 of 2:4  1200  ada\n"
                   "b      paused   2 h  3 of 2:4  -     -\n"
                   "c      stopped  2 h  3 of 2:4  -     -\n"
                   "d      running  2 h  4 of 2:4  -     -\n");
    dt_buf_finish(&s.asked);
    struct scripted json = {.answers = (const char *const[]){page, NULL}};
    CHECK_EQ(ctl_at(&json, "run list --json"), 0);
    CHECK(strstr(out, "{\"runs\":[{\"id\":\"llama\",") == out);
    CHECK(strstr(out, "\"ended\":\"stopped\"") != NULL);
    dt_buf_finish(&json.asked);
    /* However many nodes there are, it asks once. */
    struct scripted many = {
        .answers = (const char *const[]){PAGE(RUN("llama", "running", ""), "", "", 256), NULL}};
    CHECK_EQ(ctl_at(&many, "run list -q"), 0);
    CHECK_STR(out, "llama\n");
    dt_buf_finish(&many.asked);
    struct scripted none = {.answers = (const char *const[]){PAGE("", "", "", 0), NULL}};
    CHECK_EQ(ctl_at(&none, "run list"), 0);
    CHECK_STR(out, "no runs\n");
    dt_buf_finish(&none.asked);
}

TEST(names_alone_are_for_programs)
{
    static const char page[] =
        PAGE(RUN("llama", "running", "") "," RUN("b\\u001b c", "running", ""),
             NODE("n1", "llama", "running", 0, 2, 7) "," NODE("n2", "llama", "running", 1, 2, 7),
             EXCLUDED("node7", "", 0, 0, true, 0), 0);
    static const struct {
        const char *args, *says;
    } rows[] = {
        {"run list -q", "llama\nb\\x1b c\n"},
        {"node list --quiet", "n1\nn2\n"},
        {"node list -q --quarantined", "node7\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].args);
        struct scripted s = {.answers = (const char *const[]){page, NULL}};
        CHECK_EQ(ctl_at(&s, rows[i].args), 0);
        CHECK_STR(out, rows[i].says);
        dt_buf_finish(&s.asked);
    }
    struct scripted none = {.answers = (const char *const[]){PAGE("", "", "", 0), NULL}};
    CHECK_EQ(ctl_at(&none, "run list -q"), 0);
    CHECK_STR(out, "");
    dt_buf_finish(&none.asked);
}

TEST(quarantined_nodes_are_listed_with_the_reason)
{
    struct scripted s = {.answers = (const char *const[]){one_run, NULL}};
    CHECK_EQ(ctl_at(&s, "node list --quarantined"), 0);
    CHECK_STR(out, "kept out: 2, watched: 1\n"
                   "  NAME   STANDING                STRIKES  WHY\n"
                   "  node7  drained                 0        a new disk\n"
                   "  node9  quarantined for 12 min  2        Xid 79\n"
                   "  node8  on probation for 1 h    1        -\n");
    dt_buf_finish(&s.asked);
    struct scripted none = {.answers = (const char *const[]){PAGE("", "", "", 0), NULL}};
    CHECK_EQ(ctl_at(&none, "node list --quarantined"), 0);
    CHECK_STR(out, "no node is kept out or watched\n");
    dt_buf_finish(&none.asked);
}

TEST(node_list_speaks_json_too)
{
    struct scripted s = {.answers = (const char *const[]){one_run, NULL}};
    CHECK_EQ(ctl_at(&s, "node list --json --quarantined"), 0);
    CHECK(strstr(out, "{\"excluded\":[{\"name\":\"node7\"") == out);
    dt_buf_finish(&s.asked);
    struct scripted none = {.answers = (const char *const[]){PAGE("", "", "", 0), NULL}};
    CHECK_EQ(ctl_at(&none, "node list --json"), 0);
    CHECK_STR(out, "{\"nodes\":[]}\n");
    dt_buf_finish(&none.asked);
}
