/* SPDX-License-Identifier: Apache-2.0 */
/* A cell knows the name of its column: on a phone a row becomes a list of names and values. */
#include "ctl/report/tables.h"

#include "base/signame.h"
#include "base/str.h"
#include "ctl/report/markup.h"
#include "ctl/report/words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CAUSE_SHOWN 2000
#define FAILURES_SHOWN 6
#define DASH "\xe2\x80\x93"

static void open_table(struct dt_buf *out, const char *id, const char *title,
                       const char *const *columns)
{
    dt_buf_printf(out, "<section><h2 id=\"%s\">%s</h2>\n<table aria-labelledby=\"%s\"><thead><tr>",
                  id, title, id);
    for (size_t i = 0; columns[i]; i++)
        dt_buf_printf(out, "<th scope=\"col\">%s</th>", columns[i]);
    dt_buf_put_str(out, "</tr></thead>\n<tbody>\n");
}

static void close_table(struct dt_buf *out)
{
    dt_buf_put_str(out, "</tbody></table></section>\n");
}

static void open_cell(struct dt_buf *out, const char *name, const char *kind)
{
    dt_buf_printf(out, "<td class=\"%s\" data-name=\"%s\">", kind, name);
}

static void put_cell(struct dt_buf *out, const char *name, const char *text)
{
    open_cell(out, name, "short");
    dt_markup_text(out, text, CAUSE_SHOWN);
    dt_buf_put_str(out, "</td>");
}

/* -- rounds ----------------------------------------------------------------------------------- */

/* "+6.5 s" behind the beginning of the run. */
static const char *offset_text(const struct dt_report *r, int64_t us, char out[40])
{
    char time[32];
    if (us == DT_REPORT_UNKNOWN)
        return DASH;
    snprintf(out, 40, "+%s", dt_words_time((double)(us - r->zero_us) * 1e-6, time));
    return out;
}

static const char *lasted_text(const struct dt_report_round *round, char out[32])
{
    if (round->began_us == DT_REPORT_UNKNOWN || round->ended_us == DT_REPORT_UNKNOWN)
        return DASH;
    return dt_words_time((double)(round->ended_us - round->began_us) * 1e-6, out);
}

static const char *ranks_text(const struct dt_report_round *round, char out[64])
{
    if (round->ranks <= 0)
        return DASH;
    if (round->nodes > 1)
        snprintf(out, 64, "%" PRId64 " on %" PRId64 " nodes", round->ranks, round->nodes);
    else
        snprintf(out, 64, "%" PRId64, round->ranks);
    return out;
}

static const char *steps_text(const struct dt_report_round *round, char out[64])
{
    if (round->first_step >= 0)
        snprintf(out, 64, "%" PRId64 " to %" PRId64, round->first_step, round->last_step);
    else if (round->told_step >= 0)
        snprintf(out, 64, "to %" PRId64, round->told_step);
    else
        return DASH;
    return out;
}

/* What its end cost: the steps that were done again, and the time to the next one that was done, or
 * where no steps are known to the next round. */
static void put_cost(struct dt_buf *out, const struct dt_report_round *round)
{
    char time[32];
    open_cell(out, "Cost", "");
    if (round->redone_steps > 0)
        dt_buf_printf(out, "%" PRId64 " step%s", round->redone_steps,
                      dt_words_plural(round->redone_steps));
    if (round->redone_steps > 0 && (round->back_s >= 0 || round->gap_s >= 0))
        dt_buf_put_str(out, ", ");
    if (round->back_s >= 0)
        dt_buf_printf(out, "%s to the next step", dt_words_time(round->back_s, time));
    else if (round->gap_s >= 0)
        dt_buf_printf(out, "%s to the next round", dt_words_time(round->gap_s, time));
    if (round->redone_steps <= 0 && round->back_s < 0 && round->gap_s < 0)
        dt_buf_put_str(out, DASH);
    dt_buf_put_str(out, "</td>");
}

static void put_exit(struct dt_buf *out, const struct dt_report_failure *f)
{
    char name[DT_SIGNAME_TEXT];
    dt_buf_printf(out, " (pid %" PRId64 ", ", f->pid);
    if (f->exit_code < 0 && f->exit_code > -128)
        dt_buf_put_str(out, dt_signame_text((int)-f->exit_code, name));
    else
        dt_buf_printf(out, "exit code %" PRId64, f->exit_code);
    dt_buf_put_u8(out, ')');
}

static void put_failure(struct dt_buf *out, const struct dt_report_failure *f)
{
    dt_buf_printf(out, "<li>rank %" PRId64 " ", f->rank);
    dt_markup_text(out, f->text ? f->text : "failed", CAUSE_SHOWN);
    if (f->place) {
        dt_buf_put_str(out, " at ");
        dt_markup_text(out, f->place, CAUSE_SHOWN);
    }
    put_exit(out, f);
    dt_buf_put_str(out, "</li>");
}

/* The cause of the round says more than the one failure that it is. */
static bool is_said(const struct dt_report_round *round)
{
    return round->failure_count == 1 && round->cause && round->failures[0].text &&
           strstr(round->cause, round->failures[0].text);
}

static void put_failures(struct dt_buf *out, const struct dt_report_round *round)
{
    dt_buf_put_str(out, "<ul>");
    for (size_t i = 0; i < round->failure_count && i < FAILURES_SHOWN; i++)
        put_failure(out, &round->failures[i]);
    if (round->failure_count > FAILURES_SHOWN)
        dt_buf_printf(out, "<li>and %zu more</li>", round->failure_count - FAILURES_SHOWN);
    dt_buf_put_str(out, "</ul>");
}

static void put_end(struct dt_buf *out, const struct dt_report_round *round)
{
    const char *decided = round->decided ? round->decided : round->cause ? "" : "it has not ended";
    open_cell(out, "End", "");
    if (round->cause)
        dt_markup_text(out, round->cause, CAUSE_SHOWN);
    if (is_said(round))
        put_exit(out, &round->failures[0]);
    if (round->cause && *decided)
        dt_buf_put_str(out, "; ");
    dt_buf_put_str(out, "<span class=\"soft\">");
    dt_markup_text(out, decided, CAUSE_SHOWN);
    dt_buf_put_str(out, "</span>");
    if (round->failure_count && !is_said(round))
        put_failures(out, round);
    dt_buf_put_str(out, "</td>");
}

static void put_steps(struct dt_buf *out, const struct dt_report *r,
                      const struct dt_report_round *round)
{
    char steps[64];
    open_cell(out, "Steps", "");
    dt_buf_put_str(out, steps_text(round, steps));
    for (size_t i = 0; i < r->comeback_count; i++)
        if (r->comebacks[i].round == round->round) {
            dt_buf_put_str(out, " <span class=\"soft\">back ");
            dt_markup_text(out, r->comebacks[i].text, CAUSE_SHOWN);
            dt_buf_put_str(out, "</span>");
            break;
        }
    dt_buf_put_str(out, "</td>");
}

static void put_rounds(struct dt_buf *out, const struct dt_report *r)
{
    static const char *const columns[] = {"Round", "Began", "Lasted", "Ranks",
                                          "Steps", "Cost",  "End",    NULL};
    size_t first =
        r->round_count > DT_TABLES_ROUNDS_MAX ? r->round_count - DT_TABLES_ROUNDS_MAX : 0;
    if (r->round_count == 0)
        return;
    open_table(out, "rounds", "Rounds", columns);
    for (size_t i = first; i < r->round_count; i++) {
        const struct dt_report_round *round = &r->rounds[i];
        char number[16], began[40], lasted[32], ranks[64];
        snprintf(number, sizeof number, "%d", round->round);
        dt_buf_printf(out, "<tr id=\"round-%d\">", round->round);
        put_cell(out, "Round", number);
        put_cell(out, "Began", offset_text(r, round->began_us, began));
        put_cell(out, "Lasted", lasted_text(round, lasted));
        put_cell(out, "Ranks", ranks_text(round, ranks));
        put_steps(out, r, round);
        put_cost(out, round);
        put_end(out, round);
        dt_buf_put_str(out, "</tr>\n");
    }
    close_table(out);
    if (first)
        dt_buf_printf(out, "<p class=\"soft\">%zu earlier rounds are not in this table.</p>\n",
                      first);
}

/* -- standstills ------------------------------------------------------------------------------ */

static void put_hangs(struct dt_buf *out, const struct dt_report *r)
{
    static const char *const columns[] = {"When", "Class", "What was found", NULL};
    if (r->hang_count == 0)
        return;
    open_table(out, "hangs", "Workers that stood still", columns);
    for (size_t i = 0; i < r->hang_count; i++) {
        const struct dt_report_hang *h = &r->hangs[i];
        char when[40];
        dt_buf_put_str(out, "<tr>");
        put_cell(out, "When", offset_text(r, h->at_us, when));
        put_cell(out, "Class", h->kind);
        open_cell(out, "What was found", "");
        dt_markup_text(out, h->sentence, CAUSE_SHOWN);
        if (h->advice && *h->advice) {
            dt_buf_put_str(out, "; <span class=\"soft\">");
            dt_markup_text(out, h->advice, CAUSE_SHOWN);
            dt_buf_put_str(out, "</span>");
        }
        dt_buf_put_str(out, "</td></tr>\n");
    }
    close_table(out);
}

/* -- checkpoints ------------------------------------------------------------------------------ */

static void put_saves(struct dt_buf *out, const struct dt_report *r)
{
    static const char *const columns[] = {"Step", "Whole since", "Size", "", NULL};
    const struct dt_report_costs *c = &r->costs;
    char time[32];
    if (r->save_count == 0)
        return;
    open_table(out, "saves", "Checkpoints that are there", columns);
    for (size_t i = 0; i < r->save_count; i++) {
        const struct dt_report_save *s = &r->saves[i];
        char step[32], moment[DT_CLOCK_TEXT], size[32];
        snprintf(step, sizeof step, "%" PRId64, s->step);
        dt_buf_put_str(out, "<tr>");
        put_cell(out, "Step", step);
        put_cell(out, "Whole since", dt_words_moment(s->at_us, moment));
        put_cell(out, "Size", dt_str_from_size(s->bytes, size, sizeof size));
        put_cell(out, "", s->latest ? "the latest" : "");
        dt_buf_put_str(out, "</tr>\n");
    }
    close_table(out);
    dt_buf_put_str(out, "<p class=\"soft\">They lie in ");
    dt_markup_text(out, r->save_dir, CAUSE_SHOWN);
    if (c->saves)
        dt_buf_printf(out, ". Steps waited for %" PRId64 " of them, %s in all", c->saves,
                      dt_words_time(c->saving, time));
    dt_buf_put_str(out, ".</p>\n");
}

void dt_tables_put(struct dt_buf *out, const struct dt_report *r)
{
    put_rounds(out, r);
    put_hangs(out, r);
    put_saves(out, r);
}
