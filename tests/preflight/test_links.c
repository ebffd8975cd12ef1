/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probes/links.h"
#include "tests/preflight/judged.h"

BEFORE_ALL
{
    folder_make();
}

TEST(which_interfaces_a_list_chooses)
{
    static const struct {
        const char *list, *name;
        bool chosen;
    } rows[] = {
        {"eth", "eth0", true},        {"eth0", "eth0", true},  {"ib,eth", "eth1", true},
        {"ib", "eth0", false},        {"=eth", "eth0", false}, {"=ib0,eth0", "eth0", true},
        {"^docker,lo", "eth0", true}, {"^eth", "eth0", false}, {"", "eth0", false},
        {",", "eth0", false},         {"^", "eth0", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s of %s", rows[i].name, rows[i].list);
        CHECK_EQ(dt_links_match(rows[i].list, rows[i].name), rows[i].chosen);
    }
}

static void link_of(const char *host, const char *name, const char *state, int type, int mtu,
                    int speed)
{
    char path[128], text[32];
    const struct {
        const char *file;
        int number;
    } files[] = {{"type", type}, {"mtu", mtu}, {"speed", speed}};
    snprintf(path, sizeof path, "/sys/class/net/%s/operstate", name);
    put(host, path, state);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "/sys/class/net/%s/%s", name, files[i].file);
        snprintf(text, sizeof text, "%d\n", files[i].number);
        put(host, path, text);
    }
}

static void choose(const char *variable, const char *list)
{
    if (list)
        setenv(variable, list, 1);
    else
        unsetenv(variable);
}

static struct dt_sheet *probed(const char *host, int hosts, const char *nccl, const char *gloo)
{
    struct dt_sheet *s = fresh_sheet();
    choose("NCCL_SOCKET_IFNAME", nccl);
    choose("GLOO_SOCKET_IFNAME", gloo);
    dt_links_probe(&(struct dt_checkup){.root = at(host), .hosts = hosts}, s);
    return s;
}

TEST(recorded_hosts)
{
    link_of("good", "lo", "unknown", 772, 65536, -1);
    link_of("good", "eth0", "up", 1, 9000, 100000);
    link_of("good", "ib0", "up", 32, 4092, -1);
    link_of("good", "eth1", "down", 1, 1500, -1);
    link_of("slow", "lo", "unknown", 772, 65536, -1);
    link_of("slow", "eth0", "up", 1, 1400, 1000);
    link_of("alone", "lo", "unknown", 772, 65536, -1);
    /* clang-format off */
    static const struct { const char *host; int hosts; const char *nccl, *gloo, *words, *mtu; } rows[] = {
        {"good", 2, NULL, NULL, "ok: eth0 (MTU 9000), ib0 (MTU 4092)", "4092 9000"},
        {"good", 2, "ib", "eth0", "ok: ", "4092 9000"},
        {"good", 2, "=ib", NULL, "fail: NCCL_SOCKET_IFNAME==ib names no interface that is up here (eth0, ib0)", "4092 9000"},
        {"good", 2, NULL, "eth1", "fail: GLOO_SOCKET_IFNAME=eth1 names no interface", "4092 9000"},
        {"good", 1, NULL, "eth1", "ok: ", "4092 9000"},
        {"slow", 2, NULL, NULL, "note: eth0 has an MTU of 1400", "1400"},
        {"slow", 2, NULL, NULL, "note: eth0 carries 1000 Mbit/s", "1400"},
        {"slow", 1, NULL, NULL, "ok: ", "1400"},
        {"alone", 2, NULL, NULL, "fail: no network interface is up", NULL},
        {"alone", 1, NULL, NULL, "ok: only loopback", NULL},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("row %zu", i);
        struct dt_sheet *s = probed(rows[i].host, rows[i].hosts, rows[i].nccl, rows[i].gloo);
        check_said(s, rows[i].words);
        CHECK_STR(dt_sheet_trait(s, "MTU") ? dt_sheet_trait(s, "MTU") : "",
                  rows[i].mtu ? rows[i].mtu : "");
    }
}

/* Each has a link, which is no business of a job; and their names come before the host's own. */
TEST(a_host_of_many_containers)
{
    struct dt_sheet *s;
    link_of("pods", "lo", "unknown", 772, 65536, -1);
    link_of("pods", "eth0", "up", 1, 9000, 100000);
    put("pods", "/sys/class/net/eth0/device/vendor", "0x15b3");
    link_of("pods", "bond0", "up", 1, 2000, -1);
    put("pods", "/sys/class/net/bond0/bonding/mode", "802.3ad 4");
    for (int i = 0; i < 200; i++) {
        char name[16];
        snprintf(name, sizeof name, "azv%03d", i);
        link_of("pods", name, "up", 1, 1440, 1000);
    }
    s = probed("pods", 2, "=eth0", "=bond0");
    CHECK_EQ(s->remark_count, 1);
    check_said(s, "ok: bond0 (MTU 2000), eth0 (MTU 9000), azv000 (MTU 1440), ");
    check_said(s, ", ...");
    CHECK_STR(dt_sheet_trait(s, "MTU"), "2000 9000");
    s = probed("pods", 2, "=azv199", NULL);
    CHECK_EQ(s->remark_count, 1);
    check_said(s, "ok: ");
    s = probed("pods", 2, "=ib0", NULL);
    CHECK_EQ(s->remark_count, 1);
    check_said(
        s,
        "fail: NCCL_SOCKET_IFNAME==ib0 names no interface that is up here (bond0, eth0, azv000, ");
    check_said(s, ", ...)");
}
