/* SPDX-License-Identifier: Apache-2.0 */
#include "base/opt/docs.h"
#include "tests/base/opt_printed.h"

#define HEAD                                                                                       \
    ".Dd November 21, 2026\n.Dt DT-TEST 1\n.Os\n.Sh NAME\n.Nm dt-test\n.Nd for tests\n"            \
    ".Sh OPTIONS\n"

TEST(the_man_page_has_each_row_and_what_it_needs_escaped)
{
    static const char *const wanted[] = {
        ".Ss Talk\n.Bl -tag -width Ds\n.It Fl v , Fl -verbose\n",
        "Say more.\nDon't whisper: [loud] \\e \\(gaok\\(ga.\n",
        ".It Fl f , Fl -format Ar \\&Fo\n\\&.dots first.\n",
        ".Ql \"/etc/a \\(dqb\\(dq.conf\" .\n",
        ".It Fl -plain Ar \"X|Y Z\"\n",
        ".Ql \\&. .\n",
        ".Ev DT_CONFIG_FILE .\n",
        ".It Fl h , Fl -help\n",
    };
    char *text = printed(dt_opt_print_mdoc);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        CHECK_ROW("%s", wanted[i]);
        CHECK(strstr(text, wanted[i]) != NULL);
    }
    CHECK(strstr(text, "secret") == NULL);
    free(text);
}

TEST(mandoc_finds_nothing_wrong_and_shows_what_was_written)
{
    if (!have("mandoc"))
        SKIP("mandoc is not installed");
    char *text = printed(dt_opt_print_mdoc), out[4096], *page;
    int status;
    if (asprintf(&page, HEAD "%s", text) < 0)
        abort();
    run(page, "mandoc -Tlint -Wstyle < $F", out, &status);
    CHECK_STR(out, "");
    CHECK_EQ(status, 0);
    run(page, "mandoc -Tascii $F | sed 's/.\b//g'", out, &status);
    CHECK(strstr(out, "-v, --verbose\n") != NULL);
    CHECK(strstr(out, "--plain X|Y Z\n") != NULL);
    CHECK(strstr(out, "[loud] \\ `ok`") != NULL);
    CHECK(strstr(out, "\"/etc/a \"b\".conf\"") != NULL || strstr(out, "/etc/a \"b\".conf") != NULL);
    free(page);
    free(text);
}
