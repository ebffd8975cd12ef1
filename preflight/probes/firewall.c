/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probes/firewall.h"

#include <string.h>

void dt_firewall_judge(const char *name, int hosts, struct dt_sheet *sheet)
{
    if (name && hosts > 1)
        dt_sheet_remark(sheet, "firewall", DT_GRADE_NOTE,
                        "let hosts of the job reach each other on every port; `dtrun doctor` on "
                        "all nodes tries it",
                        "%s is active: NCCL and Gloo connect on any port", name);
    else
        dt_sheet_remark(sheet, "firewall", DT_GRADE_OK, NULL, "%s",
                        name ? name : "there are no signs of one");
}

static const char *find(const char *root)
{
    char text[4096], names[1][DT_PROBE_NAME];
    if (dt_probe_read(root, "/etc/ufw/ufw.conf", text, sizeof text) && strstr(text, "ENABLED=yes"))
        return "ufw";
    if (dt_probe_list(root, "/run/firewalld", names, 1) > 0)
        return "firewalld";
    if (dt_probe_read(root, "/proc/net/ip_tables_names", text, sizeof text) &&
        strstr(text, "filter"))
        return "a filter of iptables";
    return NULL;
}

void dt_firewall_probe(const struct dt_checkup *c, struct dt_sheet *sheet)
{
    dt_firewall_judge(find(c->root), c->hosts, sheet);
}
