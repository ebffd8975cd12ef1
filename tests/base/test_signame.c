/* SPDX-License-Identifier: Apache-2.0 */
#include "base/signame.h"
#include "tests/lib/check.h"

#include <signal.h>

TEST(signals_are_called_as_python_calls_them)
{
    const struct {
        int number;
        const char *name;
    } rows[] = {
        {SIGHUP, "SIGHUP"},       {SIGABRT, "SIGABRT"},
        {SIGKILL, "SIGKILL"},     {SIGIO, "SIGIO"},
        {SIGSYS, "SIGSYS"},       {SIGRTMIN, "SIGRTMIN"},
        {SIGRTMAX, "SIGRTMAX"},   {0, NULL},
        {-SIGTERM, NULL},         {32, NULL},
        {SIGRTMIN + 1, NULL},     {65, NULL},
        {SIGSTKFLT, "SIGSTKFLT"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%d", rows[i].number);
        CHECK_STR(dt_signame(rows[i].number), rows[i].name);
    }
    for (int n = 1; n <= 31; n++) {
        CHECK_ROW("%d", n);
        CHECK(dt_signame(n) != NULL);
    }
}

TEST(a_mask_becomes_a_list_of_names)
{
    static const struct {
        uint64_t mask;
        const char *list;
    } rows[] = {
        {0, ""},
        {1u << SIGTERM, "SIGTERM"},
        {1u << SIGTERM | 1u << SIGINT | 1u << SIGHUP | 1u << SIGQUIT,
         "SIGHUP,SIGINT,SIGQUIT,SIGTERM"},
        {(uint64_t)1 << 40 | 1u << SIGUSR1, "SIGUSR1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_buf b = {0};
        dt_signame_list(rows[i].mask, &b);
        CHECK_STR(dt_buf_cstr(&b), rows[i].list);
        dt_buf_finish(&b);
    }
}

TEST(names_have_numbers)
{
    static const struct {
        const char *name;
        int number;
    } rows[] = {{"SIGTERM", SIGTERM}, {"TERM", SIGTERM}, {"sigusr1", SIGUSR1},
                {"Hup", SIGHUP},      {"", 0},           {"SIG", 0},
                {"SIGTERMX", 0},      {"15", 0},         {"SIGSIGTERM", 0},
                {"KILL", SIGKILL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].name);
        CHECK_EQ(dt_signame_number(rows[i].name, strlen(rows[i].name)), rows[i].number);
    }
}

TEST(some_are_not_ours_to_handle)
{
    static const int never[] = {0, -1, SIGKILL, SIGSTOP, SIGCHLD, SIGSEGV, SIGABRT, 65, 1000};
    static const int fine[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        CHECK(!dt_signame_catchable(never[i]));
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++)
        CHECK(dt_signame_catchable(fine[i]));
}

TEST(a_list_is_walked_name_by_name)
{
    const char *at = " A,B , ,CD", *name;
    size_t len;
    char all[64] = "";
    while (dt_signame_next(&at, &name, &len))
        snprintf(all + strlen(all), sizeof all - strlen(all), "<%.*s>", (int)len, name);
    CHECK_STR(all, "<A><B><><CD>");
    at = "";
    CHECK(dt_signame_next(&at, &name, &len) && len == 0);
    CHECK(!dt_signame_next(&at, &name, &len));
}
