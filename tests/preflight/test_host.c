/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probes/host.h"
#include "tests/preflight/judged.h"

BEFORE_ALL
{
    folder_make();
}

TEST(versions_of_the_driver)
{
    static const struct {
        const char *text, *version;
    } rows[] = {
        {"NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.57.02  Tue Jul 13\n", "470.57.02"},
        {"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n",
         "580.65.06"},
        {"something else\n", ""},
        {"Module", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char version[32];
        CHECK_ROW("row %zu", i);
        put("a", "/proc/driver/nvidia/version", rows[i].text);
        dt_host_read_driver(at("a"), version);
        CHECK_STR(version, rows[i].version);
    }
}

TEST(a_recorded_host)
{
    struct dt_sheet *s = fresh_sheet();
    put("b", "/proc/sys/kernel/osrelease", "6.1.0-40-amd64\n");
    dt_host_probe(&(struct dt_checkup){.root = at("b")}, s);
    check_said(s, "ok: dtrun " DT_VERSION ", Linux 6.1.0-40-amd64");
    CHECK_STR(dt_sheet_trait(s, "kernel"), "6.1.0-40-amd64");
    CHECK(dt_sheet_trait(s, "NVIDIA driver") == NULL);
}
