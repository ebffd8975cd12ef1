/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probes/names.h"

#include "base/addr.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void dt_names_judge_own(const struct dt_name *own, int hosts, struct dt_sheet *sheet)
{
    enum dt_grade bad = hosts > 1 ? DT_GRADE_WARN : DT_GRADE_NOTE;
    char advice[224];
    if (!*own->address) {
        dt_sheet_remark(sheet, "names", bad,
                        "put it into /etc/hosts with its address, or set GLOO_SOCKET_IFNAME",
                        "the name of this host, \"%s\", leads nowhere (%s): Gloo listens at the "
                        "address of that name",
                        own->name, own->why);
    } else if (own->is_local) {
        snprintf(advice, sizeof advice,
                 "give \"%.80s\" its real address in /etc/hosts, or set GLOO_SOCKET_IFNAME to the "
                 "network's interface",
                 own->name);
        dt_sheet_remark(sheet, "names", bad, advice,
                        "the name of this host, \"%s\", leads to %s: a worker that listens there "
                        "cannot be reached from other hosts",
                        own->name, own->address);
    } else {
        dt_sheet_remark(sheet, "names", DT_GRADE_OK, NULL, "%s is %s", own->name, own->address);
    }
}

void dt_names_judge_meeting(const struct dt_name *meeting, bool elsewhere, int hosts,
                            struct dt_sheet *sheet)
{
    if (hosts < 2)
        return;
    if (!*meeting->address) /* it may come to be known, as those of pods do */
        dt_sheet_remark(
            sheet, "names", DT_GRADE_WARN, "check the spelling, /etc/resolv.conf and /etc/hosts",
            "\"%s\", where the nodes meet, leads nowhere: %s", meeting->name, meeting->why);
    else if (meeting->is_local && elsewhere)
        dt_sheet_remark(sheet, "names", DT_GRADE_FAIL,
                        "name the host where the nodes meet by its address in the network",
                        "\"%s\", where the nodes meet, leads to %s, which is this host and not "
                        "that one",
                        meeting->name, meeting->address);
    else if (meeting->is_local)
        dt_sheet_remark(sheet, "names", DT_GRADE_WARN,
                        "name this host by its address in the network on all nodes",
                        "\"%s\", where the nodes meet, leads to %s here: other hosts that look it "
                        "up so find themselves",
                        meeting->name, meeting->address);
    else
        dt_sheet_remark(sheet, "names", DT_GRADE_OK, NULL, "the nodes meet at %s, which is %s",
                        meeting->name, meeting->address);
}

static void look_up(struct dt_name *n, struct dt_sheet *sheet)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    snprintf(sheet->doing, sizeof sheet->doing, "the name \"%.100s\"", n->name);
    int rc = getaddrinfo(n->name, NULL, &hints, &found);
    if (rc != 0) {
        snprintf(n->why, sizeof n->why, "%s", gai_strerror(rc));
        return;
    }
    n->is_local = true;
    for (struct addrinfo *a = found; a; a = a->ai_next) {
        struct dt_addr addr = {.len = a->ai_addrlen};
        memcpy(&addr.sa, a->ai_addr, a->ai_addrlen);
        if (a == found)
            getnameinfo(a->ai_addr, a->ai_addrlen, n->address, sizeof n->address, NULL, 0,
                        NI_NUMERICHOST);
        n->is_local = n->is_local && dt_addr_is_local(&addr);
    }
    freeaddrinfo(found);
}

void dt_names_probe(const struct dt_checkup *c, struct dt_sheet *sheet)
{
    struct dt_name own = {0}, meeting = {0};
    gethostname(own.name, sizeof own.name - 1);
    look_up(&own, sheet);
    dt_names_judge_own(&own, c->hosts, sheet);
    if (!c->meeting_host || c->hosts < 2)
        return;
    snprintf(meeting.name, sizeof meeting.name, "%s", c->meeting_host);
    look_up(&meeting, sheet);
    dt_names_judge_meeting(&meeting, c->meets_elsewhere, c->hosts, sheet);
}
