/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/diagnosis.h"
#include "preflight/table.h"
#include "tests/lib/check.h"

#define MIB ((int64_t)1 << 20)

static struct dt_status_server healthy(void)
{
    return (struct dt_status_server){.host = "daemon",
                                     .version = DT_VERSION,
                                     .now_us = 1795261992000000,
                                     .http = "127.0.0.1:29480",
                                     .runs = 3,
                                     .most_runs = 1024,
                                     .nodes = 16,
                                     .most_nodes = 65536,
                                     .connections = 20,
                                     .most_connections = 65536,
                                     .store_bytes = MIB,
                                     .most_store_bytes = 4096 * MIB};
}

static struct dt_ctl_visit visit_to(const struct dt_status_server *s)
{
    return (struct dt_ctl_visit){
        .place = "head:29400", .server = s, .trip_us = 400, .offset_us = -300, .token = true};
}

static void check_says(const struct dt_ctl_visit *v, int status, const char *says)
{
    struct dt_sheet sheet = {0};
    struct dt_buf out = {0};
    dt_ctl_diagnose(v, &sheet);
    dt_table_put(&sheet, false, SIZE_MAX, &out);
    if (!strstr(dt_buf_cstr(&out), says))
        CHECK_STR(dt_buf_cstr(&out), says);
    CHECK_EQ(dt_sheet_status(&sheet), status);
    dt_buf_finish(&out);
}

TEST(a_rendezvous_that_is_well_has_a_line_for_each_thing)
{
    struct dt_status_server s = healthy();
    struct dt_ctl_visit v = visit_to(&s);
    check_says(&v, 0,
               "ok   rendezvous head:29400 answers in 0.40 ms\n"
               "ok   version    " DT_VERSION " there, " DT_VERSION " here\n"
               "ok   token      it asks for a token, and took this one\n"
               "ok   clock      its clock is 0.30 ms behind the one here, give or take 0.20 ms\n"
               "ok   http       the page and the metrics are at 127.0.0.1:29480\n"
               "ok   limits     runs: 3 of 1024\n"
               "ok   limits     nodes: 16 of 65536\n"
               "ok   limits     connections: 20 of 65536\n"
               "ok   limits     memory of the store: 1 MiB of 4 GiB\n");
}

TEST(what_is_not_is_told_by_its_grade)
{
    static const struct {
        struct dt_status_server s; /* members that are not zero differ */
        int64_t trip_us, offset_us;
        const char *from;
        bool no_token;
        int status;
        const char *says;
    } rows[] = {
        {.trip_us = 400000,
         .status = 3,
         .says = "warn rendezvous head:29400 answers in 400.00 ms ("},
        {.from = "DTRUN_RENDEZVOUS", .says = "head:29400, of DTRUN_RENDEZVOUS, answers in"},
        {.s = {.host = "agent"}, .says = "note rendezvous an agent hosts it: it ends with"},
        {.s = {.version = "0.0.1"}, .status = 3, .says = "warn version    0.0.1 there, "},
        {.no_token = true, .says = "note token      it asks for no token: "},
        {.offset_us = 700000,
         .status = 3,
         .says = "warn clock      its clock is 700.00 ms ahead of the one here"},
        /* What a slow way can explain is no fault of the clock. */
        {.trip_us = 2000000, .offset_us = 700000, .status = 3, .says = "ok   clock "},
        {.s = {.http = ""}, .says = "note http       it answers no HTTP"},
        {.s = {.runs = 900},
         .status = 3,
         .says = "warn limits     runs: 900 of 1024 (raise its --max-runs)"},
        {.s = {.nodes = 65536},
         .status = 1,
         .says = "FAIL limits     nodes: 65536 of 65536, and no more are taken (raise its "
                 "--max-nodes)"},
        {.s = {.store_bytes = 4000 * MIB},
         .status = 3,
         .says =
             "warn limits     memory of the store: 3.9 GiB of 4 GiB (raise its --max-total-size)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].says);
        struct dt_status_server s = healthy();
        struct dt_ctl_visit v = visit_to(&s);
        s.host = rows[i].s.host ? rows[i].s.host : s.host;
        s.version = rows[i].s.version ? rows[i].s.version : s.version;
        s.http = rows[i].s.http ? rows[i].s.http : s.http;
        s.runs = rows[i].s.runs ? rows[i].s.runs : s.runs;
        s.nodes = rows[i].s.nodes ? rows[i].s.nodes : s.nodes;
        s.store_bytes = rows[i].s.store_bytes ? rows[i].s.store_bytes : s.store_bytes;
        v.trip_us = rows[i].trip_us ? rows[i].trip_us : v.trip_us;
        v.offset_us = rows[i].offset_us ? rows[i].offset_us : v.offset_us;
        v.from = rows[i].from;
        v.token = !rows[i].no_token;
        check_says(&v, rows[i].status, rows[i].says);
    }
}

TEST(an_older_rendezvous_tells_less)
{
    struct dt_status_server s = {.host = "daemon", .version = "0.0.1", .http = ""};
    struct dt_ctl_visit v = visit_to(&s);
    check_says(&v, 3,
               "note version    it is an older one, which tells nothing of its clock and its");
}
