/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics as text: golden lines for both formats, and what must hold of every line. */
#include "rendezvous/web/metrics.h"
#include "tests/lib/check.h"

#include <ctype.h>

static struct dt_web_facts facts; /* large, and zero but for what a story sets */

static const char *text_of(enum dt_web_format format)
{
    static struct dt_buf out;
    dt_buf_clear(&out);
    dt_web_metrics_put(&out, &facts, format);
    CHECK(!out.bad);
    return dt_buf_cstr(&out);
}

static void set_facts(void)
{
    memset(&facts, 0, sizeof facts);
    facts.version = "1.2.3";
    facts.host = "daemon";
    facts.started_ms = 1700000000123;
    facts.cpu_ms = 4050;
    facts.files = -1;
    facts.runs[DT_RUN_RUNNING] = 1;
    facts.nodes[DT_MEMBER_RUNNING][DT_LINK_ONLINE] = 3;
    facts.nodes[DT_MEMBER_RUNNING][DT_LINK_SUSPECT] = 1;
    facts.store.requests[DT_C10D_SET] = 12;
    facts.counts.events[DT_EVENT_NODE_LOST] = 2;
    facts.counts.answers[DT_WEB_PATH_METRICS][2] = 7;
    facts.run[0] = (struct dt_web_run){
        .id = "lla\"ma\\\n\xff", .state = DT_RUN_RUNNING, .restarts = 5, .step = -1};
    facts.run[1] = (struct dt_web_run){.id = "bad",
                                       .step = -1,
                                       .loss = "nan",
                                       .mfu = 412,
                                       .compute = 800,
                                       .comm = 95,
                                       .data = 5,
                                       .idle = 100};
    facts.run[2] = (struct dt_web_run){.id = "good",
                                       .step = -1,
                                       .loss = "2.3456",
                                       .mfu = -1,
                                       .compute = -1,
                                       .comm = -1,
                                       .data = -1,
                                       .idle = -1};
    facts.run_count = 3;
    facts.node[0] = (struct dt_web_node){.run = "llama",
                                         .name = "n\xc3\xb6"
                                                 "de7",
                                         .beat_age_s = 2,
                                         .step = 100,
                                         .step_age_s = -1,
                                         .step_ms = 812,
                                         .gpus = 8,
                                         .gpu_busy = 970,
                                         .gpu_memory = 1 << 30,
                                         .disk_free = 5};
    facts.node_count = 1;
    for (size_t i = 0; i < dt_alert_rules_len; i++)
        facts.alert[i] = strcmp(dt_alert_rules[i].name, "hang") == 0 ? 2 : 0;
    facts.receiver[0] = (struct dt_web_receiver){"alerts to http://a", 5, 1, 0, 3};
    facts.receiver_count = 1;
}

static bool has_line(const char *text, const char *line)
{
    char whole[400];
    snprintf(whole, sizeof whole, "\n%s\n", line);
    if (strstr(text, whole))
        return true;
    printf("# there is no line \"%s\"\n", line);
    return false;
}

TEST(golden_lines)
{
    static const struct {
        const char *line;
        bool prometheus, openmetrics;
    } rows[] = {
        {"# TYPE dtrun_build_info gauge", true, true},
        {"dtrun_build_info{version=\"1.2.3\",host=\"daemon\"} 1", true, true},
        {"dtrun_runs{state=\"gathering\"} 0", true, true},
        {"dtrun_runs{state=\"running\"} 1", true, true},
        {"dtrun_nodes{doing=\"running\",state=\"online\"} 3", true, true},
        {"dtrun_nodes{doing=\"running\",state=\"suspect\"} 1", true, true},
        {"dtrun_process_start_time_seconds 1700000000.123", true, true},
        {"# TYPE dtrun_process_cpu_seconds_total counter", true, false},
        {"# TYPE dtrun_process_cpu_seconds counter", false, true},
        {"dtrun_process_cpu_seconds_total 4.050", true, true},
        {"dtrun_store_requests_total{op=\"SET\"} 12", true, true},
        {"dtrun_events_total{kind=\"node_lost\"} 2", true, true},
        {"dtrun_http_requests_total{path=\"/metrics\",code=\"2xx\"} 7", true, true},
        {"dtrun_http_requests_total{path=\"other\",code=\"4xx\"} 0", true, true},
        {"dtrun_run_failed{run=\"lla\\\"ma\\\\\\n?\"} 0", true, true},
        {"dtrun_run_restarts_total{run=\"lla\\\"ma\\\\\\n?\"} 5", true, true},
        {"dtrun_alerts{alert=\"hang\",weight=\"error\"} 2", true, true},
        {"dtrun_alerts{alert=\"loss_nan\",weight=\"error\"} 0", true, true},
        {"dtrun_alerts_delivered_total{receiver=\"1\",name=\"alerts to http://a\"} 5", true, true},
        {"dtrun_alerts_waiting{receiver=\"1\",name=\"alerts to http://a\"} 3", true, true},
        {"dtrun_run_loss{run=\"bad\"} NaN", true, true},
        {"dtrun_run_loss{run=\"good\"} 2.3456", true, true},
        {"dtrun_run_mfu_ratio{run=\"bad\"} 0.412", true, true},
        {"dtrun_run_time_ratio{run=\"bad\",section=\"communication\"} 0.095", true, true},
        {"dtrun_run_time_ratio{run=\"bad\",section=\"idle\"} 0.100", true, true},
        {"dtrun_node_step_seconds{run=\"llama\",node=\"n\xc3\xb6"
         "de7\"} 0.812",
         true, true},
        {"dtrun_node_gpu_busy_ratio{run=\"llama\",node=\"n\xc3\xb6"
         "de7\"} 0.970",
         true, true},
        {"dtrun_node_beat_age_seconds{run=\"llama\",node=\"n\xc3\xb6"
         "de7\"} 2",
         true, true},
        {"dtrun_node_step{run=\"llama\",node=\"n\xc3\xb6"
         "de7\"} 100",
         true, true},
    };
    set_facts();
    for (int f = 0; f < DT_WEB_FORMATS; f++) {
        const char *text = text_of(f);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            bool wanted = f == DT_WEB_PROMETHEUS ? rows[i].prometheus : rows[i].openmetrics;
            CHECK_ROW("format %d, %s", f, rows[i].line);
            if (wanted)
                CHECK(has_line(text, rows[i].line));
        }
    }
    CHECK(!strstr(text_of(DT_WEB_OPENMETRICS), "# TYPE dtrun_process_cpu_seconds_total"));
}

TEST(what_tells_of_a_moment_is_never_raised)
{
    set_facts();
    CHECK(!strstr(text_of(DT_WEB_PROMETHEUS), "dtrun_alerts{alert=\"run_ended_well"));
    CHECK(dt_alert_rules_len <= DT_WEB_RULES_MOST);
}

TEST(what_is_unknown_is_not_told)
{
    set_facts();
    const char *text = text_of(DT_WEB_PROMETHEUS);
    CHECK(!strstr(text, "dtrun_process_open_fds"));
    CHECK(!strstr(text, "dtrun_run_step{"));
    CHECK(!strstr(text, "dtrun_node_step_age_seconds{"));
    CHECK(!strstr(text, "dtrun_run_loss{run=\"lla"));
    CHECK(!strstr(text, "dtrun_run_mfu_ratio{run=\"good"));
    CHECK(!strstr(text, "dtrun_run_time_ratio{run=\"good"));
    CHECK(strstr(text, "# TYPE dtrun_run_step gauge\n") != NULL);
}

/* The name that a line of a sample or a comment begins with, without what a counter adds. */
static size_t family_of(const char *line, const char **name)
{
    *name = *line == '#' ? line + 7 : line;
    size_t n = strcspn(*name, " {\n");
    return n > 6 && strncmp(*name + n - 6, "_total", 6) == 0 ? n - 6 : n;
}

/* Each family is announced once, right in front of its samples, and every name begins alike. */
TEST(families_stand_together)
{
    set_facts();
    for (int f = 0; f < DT_WEB_FORMATS; f++) {
        const char *family = "", *name, *text = text_of(f);
        char begun[8000] = " ";
        size_t len = 0;
        for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
            CHECK_ROW("format %d, %.*s", f, (int)strcspn(line, "\n"), line);
            if (strncmp(line, "# EOF", 5) == 0)
                break;
            size_t n = family_of(line, &name);
            CHECK_EQ(strncmp(name, "dtrun_", 6), 0);
            if (strncmp(line, "# HELP ", 7) == 0) {
                char word[100];
                family = name;
                len = n;
                snprintf(word, sizeof word, " %.*s ", (int)n, name);
                CHECK(!strstr(begun, word));
                strcat(begun, word + 1);
            }
            CHECK_EQ(n, len);
            CHECK_EQ(strncmp(name, family, n), 0);
        }
    }
}

TEST(only_openmetrics_ends_with_its_mark)
{
    set_facts();
    const char *text = text_of(DT_WEB_OPENMETRICS);
    CHECK_STR(text + strlen(text) - 7, "\n# EOF\n");
    CHECK(!strstr(text_of(DT_WEB_PROMETHEUS), "# EOF"));
}

TEST(the_accept_header_chooses)
{
    static const struct {
        const char *accept;
        enum dt_web_format format;
    } rows[] = {
        {NULL, DT_WEB_PROMETHEUS},
        {"", DT_WEB_PROMETHEUS},
        {"*/*", DT_WEB_PROMETHEUS},
        {"text/plain;version=0.0.4;q=0.5,*/*;q=0.1", DT_WEB_PROMETHEUS},
        {"application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5",
         DT_WEB_OPENMETRICS},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].accept ? rows[i].accept : "no header");
        CHECK_EQ(dt_web_format_of(rows[i].accept), rows[i].format);
    }
}

TEST(the_most_that_is_shown_is_bounded)
{
    set_facts();
    facts.run_count = DT_WEB_RUNS_SHOWN;
    facts.node_count = DT_WEB_NODES_SHOWN;
    static char longest[DT_RUN_ID_MAX];
    memset(longest, '"', sizeof longest - 1);
    for (size_t i = 0; i < facts.run_count; i++)
        facts.run[i] = (struct dt_web_run){.id = longest};
    for (size_t i = 0; i < facts.node_count; i++)
        facts.node[i] = (struct dt_web_node){.run = longest, .name = "n"};
    CHECK(strlen(text_of(DT_WEB_PROMETHEUS)) < (12u << 20));
}
