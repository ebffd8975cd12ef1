/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hang/place.h"
#include "tests/lib/check.h"

#define PACKAGES "/usr/lib/python3/dist-packages/"

/* clang-format off */
#define OUTER   {"/home/ada/train.py", "<module>", 20}
#define OWN     {"/home/ada/train.py", "load", 5}
#define LIBRARY {PACKAGES "numpy/core.py", "dot", 7}
#define REDUCE  {PACKAGES "torch/distributed/distributed_c10d.py", "all_reduce", 99}
#define SAVE    {PACKAGES "torch/serialization.py", "save", 379}
#define IMPORT  {"<frozen importlib._bootstrap>", "_find_and_load", 1027}
#define JOIN    {"/usr/lib/python3.11/threading.py", "join", 1119}
/* clang-format on */

#define FRAMES 4

/* The innermost frame comes first; one without a name ends the stack. */
static struct dt_python_thread thread_of(struct dt_python_frame *frames)
{
    struct dt_python_thread t = {.frames = frames};
    while (t.depth < FRAMES && frames[t.depth].file[0])
        t.depth++;
    return t;
}

TEST(a_place_is_the_users_own_line_and_what_it_has_called)
{
    static struct {
        const char *what;
        struct dt_python_frame frames[FRAMES];
        enum dt_place_kind kind;
        int line;
    } rows[] = {
        {"its own code", {OWN, OUTER}, DT_PLACE_OWN, 5},
        {"a library", {LIBRARY, OWN, OUTER}, DT_PLACE_LIBRARY, 5},
        {"a collective", {REDUCE, OWN, OUTER}, DT_PLACE_WAIT, 5},
        {"an import", {IMPORT, OWN, OUTER}, DT_PLACE_IMPORT, 5},
        {"the user's own module is imported", {OWN, IMPORT, OUTER}, DT_PLACE_IMPORT, 5},
        {"a checkpoint", {LIBRARY, SAVE, OWN, OUTER}, DT_PLACE_SLOW, 5},
        {"no code of the user's", {LIBRARY}, DT_PLACE_OWN, 7},
        {"no frame", {{"", "", 0}}, DT_PLACE_UNKNOWN, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].what);
        struct dt_python_thread t = thread_of(rows[i].frames);
        struct dt_python_stacks one = {.at = &t, .len = 1};
        struct dt_place p = dt_place_of(&one, &t, true);
        CHECK_EQ(p.kind, rows[i].kind);
        CHECK_EQ(p.line, rows[i].line);
    }
    CHECK_EQ(dt_place_of(NULL, NULL, true).kind, DT_PLACE_UNKNOWN);
}

TEST(places_differ_by_the_users_function_and_not_by_the_librarys)
{
    struct dt_python_frame one[FRAMES] = {LIBRARY, OWN, OUTER}, two[FRAMES] = {REDUCE, OWN, OUTER},
                           three[FRAMES] = {LIBRARY, OUTER};
    struct dt_python_thread a = thread_of(one), b = thread_of(two), c = thread_of(three);
    struct dt_python_stacks none = {0};
    uint64_t function = dt_place_of(&none, &a, true).function;
    CHECK_EQ(dt_place_of(&none, &b, true).function, function);
    CHECK(dt_place_of(&none, &c, true).function != function);
}

TEST(a_main_thread_that_waits_for_others_moves_as_they_do)
{
    struct dt_python_frame joins[FRAMES] = {JOIN, OUTER}, works[FRAMES] = {OWN};
    struct dt_python_thread both[] = {thread_of(joins), thread_of(works)};
    struct dt_python_stacks two = {.at = both, .len = 2};
    uint64_t before = dt_place_of(&two, &both[0], true).function;
    CHECK_EQ(dt_place_of(&two, &both[0], true).function, before);
    works[0].line++;
    CHECK(dt_place_of(&two, &both[0], true).function != before);
}
