/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probes/files.h"
#include "tests/preflight/judged.h"

BEFORE_ALL
{
    folder_make();
}

/* What the script at DIR/PATH is compared by. */
static const char *script_trait(const char *path)
{
    static char trait[2][96];
    static int turn;
    struct dt_sheet *s = fresh_sheet();
    dt_files_probe(&(struct dt_checkup){.root = "", .script = at(path)}, s);
    const char *found = dt_sheet_trait(s, DT_FILES_SCRIPT);
    turn = !turn;
    snprintf(trait[turn], sizeof trait[turn], "%s", found ? found : "");
    return trait[turn];
}

TEST(files_that_differ_are_told_apart)
{
    size_t large = (size_t)3 << 20;
    char *bytes = calloc(1, large + 1), same[96];
    CHECK(bytes != NULL);
    put("", "/a.py", "print(1)\n");
    put("", "/b.py", "print(1)\n");
    put("", "/c.py", "print(2)\n");
    CHECK_STR(script_trait("a.py"), script_trait("b.py"));
    CHECK(strcmp(script_trait("a.py"), script_trait("c.py")) != 0);
    memset(bytes, 'x', large);
    put("", "/large", bytes);
    snprintf(same, sizeof same, "%s", script_trait("large"));
    bytes[large - 1] = 'y';
    put("", "/large", bytes);
    CHECK(strcmp(script_trait("large"), same) != 0);
    CHECK_STR(script_trait("missing.py"), "");
    free(bytes);
}

TEST(files_that_a_person_names)
{
    struct dt_sheet *s = fresh_sheet();
    char here[128], gone[128], *files[] = {here, gone, dir, NULL};
    put("", "/data.bin", "abc");
    snprintf(here, sizeof here, "%s/data.bin", dir);
    snprintf(gone, sizeof gone, "%s/gone.bin", dir);
    dt_files_probe(&(struct dt_checkup){.root = "", .files = files}, s);
    check_said(s, "data.bin can be read");
    check_said(s, "gone.bin cannot be read: No such file");
    check_said(s, "cannot be read: Is a directory");
    CHECK_EQ(s->trait_count, 3);
    CHECK(strncmp(s->traits[0].value, "3 bytes, checksum ", 18) == 0);
    CHECK_STR(s->traits[1].value, "No such file or directory");
}
