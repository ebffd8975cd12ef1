/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/logbook.h"

#include "tests/lib/check.h"

static struct dt_logbook book;
static struct dt_buf out, notes;

static void begin(bool sort)
{
    book = (struct dt_logbook){.prefix = true, .sort = sort};
}

/* Takes a page of node0 with these pieces; -1 is not meant to happen. */
static int take(int round, const char *pieces, struct dt_err *err)
{
    struct dt_json doc;
    char page[200000];
    snprintf(page, sizeof page,
             "{\"node\":\"node0\",\"told\":{\"role\":\"default\",\"round\":%d,\"pieces\":[%s]}}",
             round, pieces);
    CHECK_EQ(dt_json_parse(&doc, page, strlen(page), sizeof page, err), 0);
    int rc = dt_logbook_take(&book, &doc, doc.root, &out, &notes, err);
    dt_json_finish(&doc);
    return rc;
}

static void taken(int round, const char *pieces)
{
    struct dt_err err = {0};
    CHECK_OK(take(round, pieces, &err), err);
}

/* What was to be printed since the last time. */
static void shows(const char *lines, const char *said)
{
    CHECK_STR(dt_buf_cstr(&out), lines);
    CHECK_STR(dt_buf_cstr(&notes), said);
    dt_buf_clear(&out);
    dt_buf_clear(&notes);
}

static void end(const char *lines)
{
    dt_logbook_end(&book, &out);
    shows(lines, "");
    dt_logbook_finish(&book);
    dt_buf_finish(&out);
    dt_buf_finish(&notes);
}

#define PIECE(rank, since, at, next, text)                                                         \
    "{\"rank\":" #rank ",\"since\":" #since ",\"at\":" #at ",\"next\":" #next ",\"text\":\"" text  \
    "\"}"

TEST(each_line_names_its_rank)
{
    begin(false);
    taken(0, PIECE(0, 1, 0, 4, "a\\nb\\n") "," PIECE(11, 1, 0, 2, "c\\n"));
    shows("[default0]:a\n[default0]:b\n[default11]:c\n", "");
    book.prefix = false;
    taken(0, PIECE(0, 1, 4, 6, "d\\n"));
    shows("d\n", "");
    end("");
}

TEST(a_line_that_comes_in_parts_is_shown_as_a_whole)
{
    begin(false);
    taken(0, PIECE(0, 1, 0, 2, "ab") "," PIECE(1, 1, 0, 2, "x\\n"));
    shows("[default1]:x\n", "");
    taken(0, PIECE(0, 1, 2, 5, "cd\\n"));
    shows("[default0]:abcd\n", "");
    taken(0, "{\"rank\":0,\"since\":1,\"at\":5,\"next\":7,\"open\":true,\"text\":\"? \"}");
    shows("[default0]:? \n", ""); /* nobody knows whether it goes on */
    taken(0, PIECE(0, 1, 7, 9, "no"));
    end("[default0]:no\n");
}

TEST(line_ends_of_all_kinds_end_lines)
{
    begin(false);
    taken(0, PIECE(0, 1, 0, 9, "a\\rb\\r\\nc\\n\\n"));
    shows("[default0]:a\n[default0]:b\n[default0]:c\n[default0]:\n", "");
    taken(0, PIECE(0, 1, 9, 11, "d\\r"));
    taken(0, PIECE(0, 1, 11, 14, "\\ne\\n"));
    shows("[default0]:d\n[default0]:e\n", "");
    end("");
}

TEST(what_comes_twice_is_shown_once_and_what_is_missing_is_said)
{
    begin(false);
    taken(0, PIECE(0, 1, 100, 104, "a\\nb\\n"));
    shows("[default0]:a\n[default0]:b\n", ""); /* what was before was not asked for */
    taken(0, PIECE(0, 1, 100, 104, "a\\nb\\n"));
    taken(0, PIECE(0, 1, 102, 106, "b\\nc\\n"));
    shows("[default0]:c\n", "");
    taken(0, PIECE(0, 1, 1006, 1008, "d\\n"));
    shows("[default0]:d\n", "rank 0: 900 bytes of its stdout are left out here\n");
    taken(0, "{\"rank\":0,\"stderr\":true,\"since\":2,\"at\":0,\"next\":2,\"text\":\"e\\n\"}");
    taken(0, "{\"rank\":0,\"stderr\":true,\"since\":2,\"at\":3,\"next\":5,\"text\":\"f\\n\"}");
    shows("[default0]:e\n[default0]:f\n", "rank 0: 1 bytes of its stderr are left out here\n");
    end("");
}

TEST(bytes_that_are_no_text_are_counted_as_bytes)
{
    begin(false);
    taken(0, PIECE(0, 1, 0, 4, "\\ufffd\\nb\\n")); /* one byte, for which U+FFFD stands */
    shows("[default0]:\xef\xbf\xbd\n[default0]:b\n", "");
    taken(0, PIECE(0, 1, 0, 6, "\\ufffd\\nb\\nc\\n"));
    shows("[default0]:c\n", "");
    taken(0, PIECE(0, 1, 6, 10, "\\ufffd\\n")); /* U+FFFD itself */
    taken(0, PIECE(0, 1, 6, 12, "\\ufffd\\nd\\n"));
    shows("[default0]:\xef\xbf\xbd\n[default0]:d\n", "");
    end("");
}

TEST(a_worker_of_a_later_round_begins_anew)
{
    begin(false);
    taken(3, PIECE(0, 5, 0, 6, "a\\nhalf"));
    shows("[default0]:a\n", "");
    taken(4, PIECE(0, 9, 0, 2, "b\\n"));
    shows("[default0]:half\n[default0]:b\n", "round 4 began: workers were started anew\n");
    taken(3, PIECE(0, 5, 6, 8, "c\\n")); /* it was on its way */
    shows("", "");
    end("");
}

TEST(without_an_end_to_wait_for_ranks_come_in_their_order)
{
    begin(true);
    taken(0, PIECE(9, 1, 0, 2, "i\\n") "," PIECE(1, 1, 0, 2, "b\\n"));
    taken(0, "{\"rank\":1,\"stderr\":true,\"since\":2,\"at\":0,\"next\":2,\"text\":\"e\\n\"}");
    taken(0, PIECE(1, 1, 2, 4, "c\\n") "," PIECE(0, 1, 0, 1, "a"));
    shows("", "");
    end("[default0]:a\n[default1]:b\n[default1]:c\n[default1]:e\n[default9]:i\n");
}

TEST(nothing_steers_the_terminal)
{
    begin(false);
    taken(0, PIECE(0, 1, 0, 20, "\\u001b[31mred\\u0007\\t\\u009b\\ufffd\\n"));
    shows("[default0]:\\x1b[31mred\\x07\t\\u009b\xef\xbf\xbd\n", "");
    end("");
}

TEST(programs_get_an_object_for_each_line)
{
    book = (struct dt_logbook){.json = true};
    taken(2, PIECE(3, 1, 0, 20, "\\u001b[31m\\\"red\\\"\\u0007\\t\\ufffd\\nhalf"));
    shows("{\"node\":\"node0\",\"round\":2,\"role\":\"default\",\"rank\":3,\"stream\":\"stdout\","
          "\"text\":\"\\u001b[31m\\\"red\\\"\\u0007\\t\xef\xbf\xbd\"}\n",
          "");
    taken(3, "{\"rank\":3,\"stderr\":true,\"since\":2,\"at\":0,\"next\":2,\"text\":\"e\\n\"}");
    shows("{\"node\":\"node0\",\"round\":3,\"role\":\"default\",\"rank\":3,\"stream\":\"stderr\","
          "\"text\":\"e\"}\n",
          "round 3 began: workers were started anew\n");
    taken(3, PIECE(3, 9, 0, 2, "x\\n")); /* what had no end is of the round before */
    shows("{\"node\":\"node0\",\"round\":2,\"role\":\"default\",\"rank\":3,\"stream\":\"stdout\","
          "\"text\":\"half\"}\n"
          "{\"node\":\"node0\",\"round\":3,\"role\":\"default\",\"rank\":3,\"stream\":\"stdout\","
          "\"text\":\"x\"}\n",
          "");
    end("");
}

TEST(a_long_line_is_shown_in_parts)
{
    char piece[100100], wanted[100100];
    char *x = malloc(70001);
    memset(x, 'x', 70000);
    x[70000] = '\0';
    begin(false);
    snprintf(piece, sizeof piece,
             "{\"rank\":0,\"since\":1,\"at\":0,\"next\":70001,\"text\":\"%s\\n\"}", x);
    taken(0, piece);
    snprintf(wanted, sizeof wanted, "[default0]:%.65536s\n[default0]:%s\n", x, x + 65536);
    shows(wanted, "");
    free(x);
    end("");
}

TEST(a_character_is_in_one_part_of_a_long_line)
{
    char piece[70100], wanted[70100];
    char *x = malloc(65535);
    memset(x, 'x', 65534);
    x[65534] = '\0';
    begin(false);
    book.prefix = false;
    snprintf(piece, sizeof piece,
             "{\"rank\":0,\"since\":1,\"at\":0,\"next\":65541,\"text\":\"%s\xe2\x82\xac"
             "abc\\n\"}",
             x);
    taken(0, piece);
    snprintf(wanted, sizeof wanted,
             "%s\n\xe2\x82\xac"
             "abc\n",
             x);
    shows(wanted, "");
    free(x);
    end("");
}

TEST(of_output_that_nobody_has_people_hear_once)
{
    begin(false);
    taken(0, "{\"rank\":0,\"since\":1,\"inherited\":\"/home/a/log\"},"
             "{\"rank\":1,\"since\":2,\"inherited\":\"/home/a/log\"}");
    shows("", "node0: workers write to /home/a/log themselves (--inherit-streams), so nothing of "
              "it is kept here\n");
    end("");
}

TEST(pages_that_make_no_sense_are_refused)
{
    static const char *const rows[] = {
        "{}",
        "{\"rank\":-1,\"since\":1,\"at\":0,\"next\":1,\"text\":\"\"}",
        "{\"rank\":0,\"since\":1,\"at\":2,\"next\":1,\"text\":\"\"}",
        "{\"rank\":0,\"since\":1,\"at\":-1,\"next\":1,\"text\":\"\"}",
        "{\"rank\":0,\"since\":1,\"at\":0,\"next\":1}",
        "{\"rank\":0,\"since\":1,\"at\":0,\"next\":1,\"text\":7}",
        "{\"rank\":0,\"since\":1,\"at\":0,\"next\":1,\"text\":\"\",\"open\":1}",
        "{\"rank\":0,\"since\":1e300,\"at\":0,\"next\":1,\"text\":\"\"}",
        "7",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_err err = {0};
        CHECK_ROW("%s", rows[i]);
        begin(false);
        CHECK_EQ(take(0, rows[i], &err), -1);
        CHECK(*err.text != '\0');
        end("");
    }
}
