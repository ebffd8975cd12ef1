/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/alerts/body.h"
#include "tests/lib/check.h"

static const struct dt_notice lost = {
    .state = DT_NOTICE_RAISED,
    .rule = "node_lost",
    .advice = "see whether its host is up",
    .scope = DT_ALERT_OF_RUN,
    .weight = DT_EVENT_WARNING,
    .run = "llama",
    .node = "node<7>",
    .round = 3,
    .rank = -1,
    .words = "node<7> & \"node8\" went offline\n",
    .times = 2,
    .raised_us = INT64_C(1795417200123456),
};

static const char *body(enum dt_alert_format format, const struct dt_notice *n)
{
    static struct dt_buf out;
    dt_buf_finish(&out);
    dt_alert_body(&out, format, n, "meet", "ops@example.org");
    return dt_buf_cstr(&out);
}

static struct dt_notice over(void)
{
    struct dt_notice n = lost;
    n.state = DT_NOTICE_OVER;
    n.times = 1;
    n.over_us = n.raised_us + 1000000;
    return n;
}

TEST(json)
{
    struct dt_notice n = over();
    CHECK_STR(
        body(DT_ALERT_JSON, &lost),
        "{\"alert\":\"node_lost\",\"state\":\"raised\",\"weight\":\"warning\",\"server\":"
        "\"meet\",\"run\":\"llama\",\"node\":\"node<7>\",\"round\":3,\"words\":\"node<7> & "
        "\\\"node8\\\" went offline\\n\",\"advice\":\"see whether its host is up\",\"times\":2,"
        "\"raised\":\"2026-11-23T07:00:00.123456Z\"}");
    CHECK(strstr(body(DT_ALERT_JSON, &n), "\"state\":\"over\""));
    CHECK(strstr(body(DT_ALERT_JSON, &n), "\"over\":\"2026-11-23T07:00:01.123456Z\"}"));
}

TEST(slack_takes_no_markup_of_ours)
{
    CHECK_STR(
        body(DT_ALERT_SLACK, &lost),
        "{\"text\":\"warning, node_lost, run llama, node node&lt;7&gt; (2 times) (meet)\\n"
        "node&lt;7&gt; &amp; \\\"node8\\\" went offline\\n\\nWhat to do: see whether its host "
        "is up\\n\"}");
}

TEST(alertmanager_knows_an_alert_again_by_its_labels)
{
    struct dt_notice n = over();
    CHECK_STR(
        body(DT_ALERT_ALERTMANAGER, &n),
        "[{\"labels\":{\"alertname\":\"dtrun_node_lost\",\"severity\":\"warning\","
        "\"instance\":\"meet\",\"run\":\"llama\"},\"annotations\":{\"summary\":\"node<7> & "
        "\\\"node8\\\" went offline\\n\",\"description\":\"see whether its host is up\",\"node\":"
        "\"node<7>\"},\"startsAt\":\"2026-11-23T07:00:00.123456Z\",\"endsAt\":"
        "\"2026-11-23T07:00:01.123456Z\"}]");
    n.scope = DT_ALERT_OF_NODE;
    CHECK(strstr(body(DT_ALERT_ALERTMANAGER, &n), "\"run\":\"llama\",\"node\":\"node<7>\"},"));
    n = lost;
    n.lasts = true; /* or Alertmanager would end it after some minutes */
    CHECK(strstr(body(DT_ALERT_ALERTMANAGER, &n), "\"endsAt\":\"2026-11-30T07:00:00.123456Z\"}"));
    n.lasts = false;
    CHECK(!strstr(body(DT_ALERT_ALERTMANAGER, &n), "endsAt"));
}

TEST(nothing_of_a_notice_becomes_a_header_of_a_mail)
{
    struct dt_notice n = lost;
    n.run = "a\nBcc: everybody\xc3\xa4";
    const char *text = body(DT_ALERT_MAIL, &n);
    CHECK(strncmp(text,
                  "To: ops@example.org\nSubject: [dtrun] warning, node_lost, run a?Bcc: "
                  "everybody??, node node<7> (2 times)\n",
                  100) == 0);
    CHECK(!strstr(text, "\nBcc"));
    CHECK(strstr(text, "8bit\n\nnode<7> & \"node8\" went offline\n"));
}

TEST(the_format_follows_from_the_address)
{
    CHECK_EQ(dt_alert_format_of("https://hooks.slack.com/services/T/B/x"), DT_ALERT_SLACK);
    CHECK_EQ(dt_alert_format_of("http://am:9093/api/v2/alerts"), DT_ALERT_ALERTMANAGER);
    CHECK_EQ(dt_alert_format_of("http://am:9093/api/v2/alerts?x=1"), DT_ALERT_ALERTMANAGER);
    CHECK_EQ(dt_alert_format_of("http://h/"), DT_ALERT_JSON);
    CHECK_EQ(dt_alert_format_of("http://h/hooks.slack.com/"), DT_ALERT_JSON);
    CHECK_EQ(dt_alert_format_of(""), DT_ALERT_JSON);
}
