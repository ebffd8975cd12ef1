/* SPDX-License-Identifier: Apache-2.0 */
#include "base/say.h"
#include "tests/lib/check.h"

#include <unistd.h>

/* What dt_say() writes. */
static const char *said(const char *program, const char *text)
{
    static char out[200];
    int ends[2], was = dup(STDERR_FILENO);
    CHECK_EQ(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    dt_say(program, text);
    dup2(was, STDERR_FILENO);
    close(was);
    close(ends[1]);
    ssize_t n = read(ends[0], out, sizeof out - 1); /* one piece */
    close(ends[0]);
    CHECK(n >= 0);
    out[n < 0 ? 0 : n] = '\0';
    return out;
}

TEST(a_line_names_the_program)
{
    CHECK_STR(said("dtrun-ctl", "n\xc3\xb6rd: no such node"),
              "dtrun-ctl: n\xc3\xb6rd: no such node\n");
}

TEST(quoted_control_characters_do_nothing_to_the_terminal)
{
    CHECK_STR(said("p", "\"\x1b]52;c;QQ==\x07\" is none of auto, cpu"),
              "p: \"\\x1b]52;c;QQ==\\x07\" is none of auto, cpu\n");
    CHECK_STR(said("p", "two\nlines\r"), "p: two\\x0alines\\x0d\n");
    CHECK_STR(said("p", "\xc2\x9b"
                        "2J \xe2\x80\xae"),
              "p: \\u009b2J \\u202e\n");
}

TEST(lines_are_said_one_by_one)
{
    int ends[2], was = dup(STDERR_FILENO);
    char out[100] = "";
    CHECK_EQ(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    dt_say_lines("p: rank 3", "one\n\ntwo");
    dt_say_lines("p", "");
    dup2(was, STDERR_FILENO);
    close(was);
    close(ends[1]);
    CHECK(read(ends[0], out, sizeof out - 1) > 0);
    close(ends[0]);
    CHECK_STR(out, "p: rank 3: one\np: rank 3: two\n");
}
