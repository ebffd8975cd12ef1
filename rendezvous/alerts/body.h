/* SPDX-License-Identifier: Apache-2.0 */
/* A notice as receivers read it. Pure. */
#ifndef DT_RENDEZVOUS_ALERTS_BODY_H
#define DT_RENDEZVOUS_ALERTS_BODY_H

#include "base/buf.h"
#include "rendezvous/alerts/book.h"

enum dt_alert_format {
    DT_ALERT_JSON,         /* ours: docs/alerts.md */
    DT_ALERT_SLACK,        /* an incoming webhook of Slack, Mattermost or Rocket.Chat */
    DT_ALERT_ALERTMANAGER, /* POST /api/v2/alerts of Prometheus' Alertmanager */
    DT_ALERT_MAIL,         /* a message with its headers, for sendmail -t */
};

/* By the address: Slack's host, Alertmanager's path, else JSON. */
enum dt_alert_format dt_alert_format_of(const char *url);

/* Appends the body to OUT, which is sticky. SERVER: this host's name; "": JSON
 * leaves it out. TO: of a mail, else NULL. */
void dt_alert_body(struct dt_buf *out, enum dt_alert_format format, const struct dt_notice *n,
                   const char *server, const char *to);

#endif
