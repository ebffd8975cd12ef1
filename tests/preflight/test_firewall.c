/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probes/firewall.h"
#include "tests/preflight/judged.h"

BEFORE_ALL
{
    folder_make();
}

TEST(recorded_hosts)
{
    put("ufw", "/etc/ufw/ufw.conf", "# on\nENABLED=yes\nLOGLEVEL=low\n");
    put("off", "/etc/ufw/ufw.conf", "ENABLED=no\n");
    put("d", "/run/firewalld/pid", "1\n");
    put("old", "/proc/net/ip_tables_names", "nat\nfilter\n");
    put("nat", "/proc/net/ip_tables_names", "nat\n");
    static const struct {
        const char *host;
        int hosts;
        const char *words;
    } rows[] = {
        {"ufw", 2, "note: ufw is active"}, {"ufw", 1, "ok: ufw"},
        {"off", 2, "ok: there are no"},    {"d", 2, "note: firewalld is active"},
        {"old", 2, "note: a filter of"},   {"nat", 2, "ok: there are no"},
        {"bare", 2, "ok: there are no"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_sheet *s = fresh_sheet();
        CHECK_ROW("%s, %d", rows[i].host, rows[i].hosts);
        dt_firewall_probe(&(struct dt_checkup){.root = at(rows[i].host), .hosts = rows[i].hosts},
                          s);
        check_said(s, rows[i].words);
    }
}
