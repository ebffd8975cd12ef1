/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/launcher/told.h"

/* Each line has a name, and no text of a person can begin one. */
static void check_form(struct told *t)
{
    char *text = strdup(dt_buf_cstr(&t->text));
    int lines = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), lines++) {
        CHECK_ROW("%s", line);
        CHECK(strchr(line, ':') != NULL);
        CHECK(strncmp(line, "evil", 4) != 0);
    }
    CHECK(lines > 30);
    free(text);
}

TEST(a_line_stays_a_line)
{
    struct told t;
    told_tell(&t, &dt_launch_program,
              "--role=\nevil: 1|--rdzv-id=a\nevil: 2|--rdzv-conf=\nevil=1|-t|1|"
              "--duplicate-stdout-filters=x\nevil: 4|--signals-to-handle=A\nevil|s\nevil: 3",
              "TORCHELASTIC_ERROR_FILE=/\nevil: 6");
    CHECK_OK(t.rc, t.err);
    check_form(&t);
    told_check_lines(&t, "role: $'\\nevil: 1'|run id: $'a\\nevil: 2'|"
                         "command: /bin/sh -u $'s\\nevil: 3'");
    told_finish(&t);
}

TEST(words_as_a_shell_takes_them)
{
    /* clang-format off */
    static const struct told_row rows[] = {
        {"x|it's|a\"b|c\\d|plain-1_2.3", "", "command: /bin/sh -u x 'it'\\''s' 'a\"b' 'c\\d' plain-1_2.3", NULL, 0},
        {"x|a'b\tc\\", "", "command: /bin/sh -u x $'a\\'b\\011c\\\\'", NULL, 0},
        {"--role=|x", "", "role: ''", NULL, 0},
        {"--role=\xc3\xb6|x", "", "role: '\xc3\xb6'", NULL, 0},
    };
    /* clang-format on */
    TOLD_ROWS(&dt_launch_program, rows);
}

TEST(bash_reads_them_back)
{
    struct told t;
    char command[2048], read[256] = "";
    told_tell(&t, &dt_launch_program, "x|it's|a\"b|c\\d|e\nf'g|$local_rank|`id`|!|*", "");
    const char *text = dt_buf_cstr(&t.text);
    snprintf(command, sizeof command,
             "bash -c 'set -f; . /dev/stdin' <<'EOF'\nprintf '<%%s>' %.*s\nEOF\n",
             (int)(strchr(text, '\n') - text - 9), text + 9);
    FILE *p = popen(command, "r");
    CHECK(p != NULL);
    size_t n = fread(read, 1, sizeof read - 1, p);
    read[n] = '\0';
    if (pclose(p) != 0)
        SKIP("bash is missing");
    CHECK_STR(read, "</bin/sh><-u><x><it's><a\"b><c\\d><e\nf'g><$local_rank><`id`><!><*>");
    told_finish(&t);
}
