/* SPDX-License-Identifier: Apache-2.0 */
/* `dtrun-train probe` on GPUs: as they are, and, where they are mock ones, with one that multiplies
 * wrongly and one that remembers wrongly. */
#include "tests/lib/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static char said[16384];

/* Returns the exit status; the environment is the program's, too. This process calls nothing of
 * CUDA. */
static int probe(void)
{
    char command[512];
    snprintf(command, sizeof command, "'%s' probe --device cuda --limit 240 2>/dev/null",
             getenv("DT_TRAIN"));
    FILE *p = popen(command, "r");
    CHECK(p != NULL);
    size_t n = fread(said, 1, sizeof said - 1, p);
    said[n] = '\0';
    int status = pclose(p);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static bool is_mock(void)
{
    const char *plugin = getenv("DTRUN_CUDA_PLUGIN");
    return plugin && strstr(plugin, "emulated");
}

BEFORE_ALL
{
    setenv("DT_EMULATOR_DEVICES", "3", 1);
    CHECK(getenv("DT_TRAIN") != NULL);
    if (!is_mock() && probe() != 0 && strstr(said, "\"absent\""))
        SKIP("%s", said);
}

/* The line that says what became of GPU I; NULL: none does. */
static const char *line_of(int i)
{
    static char copy[sizeof said];
    char wanted[32], *rest = copy, *line;
    snprintf(wanted, sizeof wanted, "\"index\":%d,", i);
    snprintf(copy, sizeof copy, "%s", said);
    while ((line = strsep(&rest, "\n")))
        if (strstr(line, wanted) && !strstr(line, "\"trying\""))
            return line;
    return NULL;
}

static void check_line(int i, const char *words)
{
    const char *line = line_of(i);
    CHECK_ROW("GPU %d of %s", i, said);
    CHECK(line != NULL);
    if (!strstr(line, words))
        CHECK_STR(line, words); /* fails, and shows both */
}

TEST(gpus_that_are_well)
{
    unsetenv("DT_EMULATOR_WRONG_PRODUCT");
    unsetenv("DT_EMULATOR_WRONG_BYTE");
    CHECK_EQ(probe(), 0);
    check_line(0, "\"state\":\"well\"");
    check_line(0, "\"device\":\"cuda\",");
    check_line(0, "\"uuid\":\"GPU-");
    if (is_mock()) {
        check_line(2, "\"state\":\"well\"");
        check_line(1, "\"name\":\"mock GPU (tests/gpu/emulator)\"");
        check_line(1, "\"uuid\":\"GPU-10111213-1415-1617-1819-1a1b1c1d1e1f\",");
        check_line(1, "\"pci\":\"0000:02:00.0\"");
    }
}

TEST(a_wrong_product_and_a_wrong_byte_are_told_of_the_gpu_that_made_them)
{
    if (!is_mock())
        SKIP("only a mock GPU can be made so");
    setenv("DT_EMULATOR_WRONG_PRODUCT", "1", 1);
    setenv("DT_EMULATOR_WRONG_BYTE", "2", 1);
    CHECK_EQ(probe(), 1);
    check_line(0, "\"state\":\"well\"");
    check_line(1, "\"state\":\"wrong\",\"why\":\"a product of ");
    check_line(1, " in row 0, column 0, where ");
    check_line(2, "\"state\":\"wrong\",\"why\":\"byte ");
}

TEST(a_gpu_without_room_is_not_ill)
{
    if (!is_mock())
        SKIP("only a mock GPU can be made so");
    unsetenv("DT_EMULATOR_WRONG_PRODUCT");
    unsetenv("DT_EMULATOR_WRONG_BYTE");
    setenv("DT_EMULATOR_MEMORY", "16777216", 1);
    CHECK_EQ(probe(), 1);
    check_line(0, "\"state\":\"refused\",\"why\":\"GPU 0 has no room for ");
    unsetenv("DT_EMULATOR_MEMORY");
}

TEST(a_gpu_that_cannot_say_what_it_is_is_named_and_the_others_are_tried)
{
    if (!is_mock())
        SKIP("only a mock GPU can be made so");
    setenv("DT_EMULATOR_UNKNOWN", "1", 1);
    CHECK_EQ(probe(), 1);
    unsetenv("DT_EMULATOR_UNKNOWN");
    check_line(0, "\"state\":\"well\"");
    check_line(1, "\"name\":\"unknown GPU\",\"state\":\"failed\",\"why\":\"GPU 1: ");
    check_line(2, "\"state\":\"well\"");
}
