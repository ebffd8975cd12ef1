/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/alerts/body.h"

#include "base/json_write.h"

#include <stdio.h>
#include <string.h>

#define LASTS_AT_MOST (INT64_C(7) * 24 * 3600 * 1000000) /* where its end never comes */

enum dt_alert_format dt_alert_format_of(const char *url)
{
    static const char path[] = "/api/v2/alerts";
    size_t len = strcspn(url, "?#");
    if (strncmp(url, "https://hooks.slack.com/", 24) == 0)
        return DT_ALERT_SLACK;
    if (len >= sizeof path - 1 &&
        strncmp(url + len - (sizeof path - 1), path, sizeof path - 1) == 0)
        return DT_ALERT_ALERTMANAGER;
    return DT_ALERT_JSON;
}

static const char *const state_names[DT_NOTICE_STATES] = {
    [DT_NOTICE_RAISED] = "raised",
    [DT_NOTICE_OVER] = "over",
    [DT_NOTICE_TEST] = "test",
};

static void put_known(struct dt_json_writer *w, const char *name, const char *value)
{
    if (*value)
        dt_json_put_text(w, name, value);
}

static void put_time(struct dt_json_writer *w, const char *name, int64_t wall_us)
{
    char when[DT_CLOCK_TEXT];
    if (wall_us == 0)
        return;
    dt_clock_format(wall_us, when);
    dt_json_put_text(w, name, when);
}

static void put_json(struct dt_json_writer *w, const struct dt_notice *n, const char *server)
{
    dt_json_put_object(w, NULL);
    dt_json_put_text(w, "alert", n->rule);
    dt_json_put_text(w, "state", state_names[n->state]);
    dt_json_put_text(w, "weight", dt_event_weight_name(n->weight));
    put_known(w, "server", server);
    put_known(w, "run", n->run);
    put_known(w, "node", n->node);
    if (n->round >= 0)
        dt_json_put_int(w, "round", n->round);
    if (n->rank >= 0)
        dt_json_put_int(w, "rank", n->rank);
    dt_json_put_text(w, "words", n->words);
    dt_json_put_text(w, "advice", n->advice);
    dt_json_put_int(w, "times", n->times);
    put_time(w, "raised", n->raised_us);
    put_time(w, "over", n->over_us);
    dt_json_put_end(w);
}

/* "ERROR hang, run llama: the job has ...", in one line. */
static void put_headline(struct dt_buf *out, const struct dt_notice *n)
{
    static const char *const said[DT_NOTICE_STATES] = {
        [DT_NOTICE_OVER] = "over: ",
        [DT_NOTICE_TEST] = "test: ",
    };
    dt_buf_put_str(out, said[n->state] ? said[n->state] : "");
    dt_buf_printf(out, "%s, %s", dt_event_weight_name(n->weight), n->rule);
    if (*n->run)
        dt_buf_printf(out, ", run %s", n->run);
    if (*n->node)
        dt_buf_printf(out, ", node %s", n->node);
    if (n->times > 1)
        dt_buf_printf(out, " (%d times)", n->times);
}

static void put_words(struct dt_buf *out, const struct dt_notice *n)
{
    dt_buf_printf(out, "%s\n", n->words);
    if (n->state == DT_NOTICE_RAISED)
        dt_buf_printf(out, "What to do: %s\n", n->advice);
}

/* What Slack would take for markup. */
static void put_escaped(struct dt_buf *out, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '&':
            dt_buf_put_str(out, "&amp;");
            break;
        case '<':
            dt_buf_put_str(out, "&lt;");
            break;
        case '>':
            dt_buf_put_str(out, "&gt;");
            break;
        default:
            dt_buf_put_u8(out, (uint8_t)*text);
        }
}

static void put_slack(struct dt_json_writer *w, const struct dt_notice *n, const char *server)
{
    struct dt_buf plain = {0}, escaped = {0};
    put_headline(&plain, n);
    dt_buf_printf(&plain, " (%s)\n", server);
    put_words(&plain, n);
    put_escaped(&escaped, dt_buf_cstr(&plain));
    dt_json_put_object(w, NULL);
    dt_json_put_text(w, "text", dt_buf_cstr(&escaped));
    dt_json_put_end(w);
    w->out->bad = w->out->bad || plain.bad || escaped.bad;
    dt_buf_finish(&plain);
    dt_buf_finish(&escaped);
}

static void put_alertmanager(struct dt_json_writer *w, const struct dt_notice *n,
                             const char *server)
{
    char name[80];
    snprintf(name, sizeof name, "dtrun_%s", n->rule);
    dt_json_put_array(w, NULL);
    dt_json_put_object(w, NULL);
    dt_json_put_object(w, "labels"); /* what an alert is known by again when it is over */
    dt_json_put_text(w, "alertname", name);
    dt_json_put_text(w, "severity", dt_event_weight_name(n->weight));
    dt_json_put_text(w, "instance", server);
    put_known(w, "run", n->run);
    if (n->scope == DT_ALERT_OF_NODE)
        put_known(w, "node", n->node);
    dt_json_put_end(w);
    dt_json_put_object(w, "annotations");
    dt_json_put_text(w, "summary", n->words);
    dt_json_put_text(w, "description", n->advice);
    if (n->scope != DT_ALERT_OF_NODE)
        put_known(w, "node", n->node);
    dt_json_put_end(w);
    put_time(w, "startsAt", n->raised_us);
    /* Without an end Alertmanager would take an alert for over after some minutes. */
    put_time(w, "endsAt", n->lasts && !n->over_us ? n->raised_us + LASTS_AT_MOST : n->over_us);
    dt_json_put_end(w);
    dt_json_put_end(w);
}

/* Of a header: one line of ASCII. */
static void put_subject(struct dt_buf *out, const struct dt_notice *n)
{
    struct dt_buf line = {0};
    put_headline(&line, n);
    dt_buf_put_str(out, "Subject: [dtrun] ");
    for (const char *c = dt_buf_cstr(&line); *c; c++)
        dt_buf_put_u8(out, *c >= ' ' && *c < 0x7f ? (uint8_t)*c : '?');
    dt_buf_put_str(out, "\n");
    out->bad = out->bad || line.bad;
    dt_buf_finish(&line);
}

static void put_mail(struct dt_buf *out, const struct dt_notice *n, const char *server,
                     const char *to)
{
    char when[DT_CLOCK_TEXT];
    dt_buf_printf(out, "To: %s\n", to);
    put_subject(out, n);
    dt_buf_put_str(out, "Auto-Submitted: auto-generated\nMIME-Version: 1.0\n"
                        "Content-Type: text/plain; charset=utf-8\n"
                        "Content-Transfer-Encoding: 8bit\n\n");
    put_words(out, n);
    dt_clock_format(n->over_us ? n->over_us : n->raised_us, when);
    dt_buf_printf(out, "\n%s, the rendezvous on %s\n", when, server);
}

void dt_alert_body(struct dt_buf *out, enum dt_alert_format format, const struct dt_notice *n,
                   const char *server, const char *to)
{
    struct dt_json_writer w = {.out = out};
    switch (format) {
    case DT_ALERT_JSON:
        put_json(&w, n, server);
        break;
    case DT_ALERT_SLACK:
        put_slack(&w, n, server);
        break;
    case DT_ALERT_ALERTMANAGER:
        put_alertmanager(&w, n, server);
        break;
    case DT_ALERT_MAIL:
        put_mail(out, n, server, to);
        break;
    }
}
