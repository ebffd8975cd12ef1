/* SPDX-License-Identifier: Apache-2.0 */
/* What dtrun-ctl look shows. */
#include "tests/ctl/ctl_story.h"

#define WAITS                                                                                      \
    "{\"ranks\":[{\"first\":0,\"last\":1},{\"first\":3,\"last\":5}],\"doing\":\"collective\","     \
    "\"where\":\"train.py:11\",\"function\":\"train\",\"collective\":\"all_reduce\","              \
    "\"sequence\":7,\"step\":8,\"still_ms\":2000}"
#define SLEEPS                                                                                     \
    "{\"ranks\":[{\"first\":2,\"last\":2}],\"doing\":\"sleep\",\"where\":\"train.py:5\","          \
    "\"function\":\"load_batch\",\"sequence\":-1,\"step\":-1,\"still_ms\":0}"
#define LOOK(silent, count, stances)                                                               \
    "{\"type\":\"stances\",\"run\":\"a\",\"page\":{\"round\":4,\"size\":6,\"standstill\":\"\","    \
    "\"silent\":[" silent "],\"silent_nodes\":" #count ",\"stances\":[" stances "]}}"

TEST(look_shows_ranks_that_do_the_same_on_one_line)
{
    struct scripted s = {.answers = (const char *const[]){LOOK("", 0, WAITS "," SLEEPS), NULL}};
    CHECK_EQ(ctl_at(&s, "look a"), 0);
    CHECK_STR(errors, "");
    CHECK_STR(out, "ranks 0, 1 and 3 to 5: all_reduce train.py:11\n"
                   "rank 2: load_batch train.py:5 (sleeps)\n");
    CHECK(strstr(asked(&s), "{\"type\":\"stances\",\"run\":\"a\"}\n") != NULL);
    dt_buf_finish(&s.asked);
}

TEST(look_shows_the_ranks_that_were_asked_for)
{
    struct scripted s = {.answers = (const char *const[]){LOOK("", 0, WAITS "," SLEEPS), NULL}};
    CHECK_EQ(ctl_at(&s, "look a 2-3 5"), 0);
    CHECK_STR(out, "rank 2: load_batch train.py:5 (sleeps)\n"
                   "ranks 3 and 5: all_reduce train.py:11\n");
    dt_buf_finish(&s.asked);
}

TEST(look_names_who_did_not_answer_and_fails_then)
{
    struct scripted s = {.answers = (const char *const[]){
                             LOOK("{\"name\":\"n3\"},{\"name\":\"n4\"}", 2, SLEEPS), NULL}};
    CHECK_EQ(ctl_at(&s, "look a"), 1);
    CHECK(strstr(out, "ranks 0, 1 and 3 to 5: (cannot be looked at)\n") != NULL);
    CHECK_STR(errors, "dtrun-ctl: no answer from n3 and 1 more node; --json has their names\n");
    dt_buf_finish(&s.asked);
}

TEST(look_says_where_an_older_rendezvous_has_no_c_code_to_tell)
{
    struct scripted s = {.answers = (const char *const[]){LOOK("", 0, WAITS "," SLEEPS), NULL}};
    CHECK_EQ(ctl_at(&s, "look a --native"), 1);
    CHECK(strstr(out, "rank 2: load_batch train.py:5 (sleeps)\n") != NULL);
    CHECK(strstr(errors, " is of an older dtrun, which has no calls of C code to tell; ") != NULL);
    dt_buf_finish(&s.asked);
}

TEST(look_as_json_has_all_of_it)
{
    struct scripted s = {.answers =
                             (const char *const[]){LOOK("{\"name\":\"n3\"}", 1, SLEEPS), NULL}};
    CHECK_EQ(ctl_at(&s, "--json look a 2"), 1);
    CHECK_STR(out, "{\"run\":\"a\",\"round\":4,\"size\":6,\"standstill\":\"\","
                   "\"silent\":[{\"name\":\"n3\"}],\"silent_nodes\":1,\"stances\":[" SLEEPS "]}\n");
    dt_buf_finish(&s.asked);
}

TEST(look_asks_nothing_of_a_rendezvous_that_cannot)
{
    struct scripted s = {.is_older = true, .answers = (const char *const[]){NULL}};
    CHECK_EQ(ctl_at(&s, "look a"), 1);
    CHECK(strstr(errors, "is of an older dtrun, which cannot look at workers; install this one"));
    CHECK(strstr(asked(&s), "stances") == NULL);
    dt_buf_finish(&s.asked);
}

TEST(what_look_cannot_show_is_said)
{
    static const struct {
        const char *answer, *args, *words;
    } rows[] = {
        {"{\"type\":\"stances\",\"why\":\"run a is closed\"}", "look a", "run a is closed"},
        {LOOK("", 0, ""), "look a 3-6", "run \"a\" has no rank 6; its ranks are 0 to 5"},
        {"{\"type\":\"stances\"}", "look a",
         "the rendezvous' answer makes no sense: the document: \"page\" is missing"},
        {"{\"type\":\"refused\",\"why\":\"no message stances\"}", "look a",
         "it refused: no message"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].answer);
        struct scripted s = {.answers = (const char *const[]){rows[i].answer, NULL}};
        CHECK_EQ(ctl_at(&s, rows[i].args), 1);
        CHECK(strstr(errors, rows[i].words) != NULL);
        CHECK_STR(out, "");
        dt_buf_finish(&s.asked);
    }
}
