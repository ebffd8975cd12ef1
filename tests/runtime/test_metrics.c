/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/telemetry/metrics.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/json.h"
#include "tests/lib/check.h"
#include "tests/lib/folder.h"
#include "worker_runtime/telemetry/line.h"
#include "worker_runtime/telemetry/run_file.h"

BEFORE_ALL
{
    folder_make();
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
}

static struct dt_step_metrics step_of(int64_t step)
{
    return (struct dt_step_metrics){
        .step = step,
        .steps = 1000,
        .loss = 3.41268,
        .lr = 3e-4,
        .grad_norm = 0.813,
        .loss_scale = 65536,
        .tokens_per_s = 18437,
        .samples = (uint64_t)step * 8,
        .tokens = (uint64_t)step * 8192,
        .ms = 512.3,
        .forward_ms = 160.2,
        .backward_ms = 310.4,
        .communication_ms = 12.1,
        .optimizer_ms = 19.9,
        .data_ms = 0.8,
        .utilisation = 0.9,
    };
}

static const char *line_of(const struct dt_step_metrics *s, bool breakdown)
{
    static struct dt_buf b;
    dt_buf_clear(&b);
    dt_line_put(&b, s, breakdown, false);
    return dt_buf_cstr(&b);
}

TEST(a_line_tells_what_a_step_was_like)
{
    struct dt_step_metrics s = step_of(120);
    CHECK_STR(line_of(&s, true),
              "step 120/1000  loss 3.4127  lr 3.00e-04  norm 0.81  18.4k tok/s  512 ms "
              "(fwd 160 bwd 310 comm 12 opt 20 data 1)");
    s.steps = 0;
    s.skipped = true;
    s.tokens_per_s = 2.5e6;
    CHECK_STR(line_of(&s, false), "step 120  loss 3.4127  lr 3.00e-04  norm 0.81  2.50M tok/s  "
                                  "512 ms  skipped (overflow)  scale 65536");
    s = step_of(1);
    s.lr = s.grad_norm = s.tokens_per_s = NAN;
    s.loss = 0.0000123;
    s.ms = 12.34;
    s.forward_ms = s.backward_ms = s.communication_ms = s.optimizer_ms = NAN;
    CHECK_STR(line_of(&s, true), "step 1/1000  loss 1.230e-05  12.3 ms (data 0.8)");
    s.data_ms = NAN;
    s.loss = NAN;
    CHECK_STR(line_of(&s, true), "step 1/1000  loss nan  12.3 ms");
}

TEST(a_line_of_pairs_tells_their_rewards)
{
    struct dt_step_metrics s = step_of(120);
    s.preferences = (struct dt_preference_metrics){true, 0.1204, -0.3, 0.4204, 0.75};
    CHECK_STR(line_of(&s, false),
              "step 120/1000  loss 3.4127  rewards 0.120 -0.300  margin 0.420  right 75 %  lr "
              "3.00e-04  norm 0.81  18.4k tok/s  512 ms");
}

static const char *bar_of(int64_t step, int64_t steps, double left_ms, size_t columns)
{
    static struct dt_buf b;
    struct dt_step_metrics s = step_of(step);
    s.steps = steps;
    dt_buf_clear(&b);
    dt_line_put_bar(&b, &s, left_ms, columns, false);
    return dt_buf_cstr(&b);
}

TEST(a_bar_shows_what_fits)
{
    CHECK_STR(bar_of(500, 1000, 250e3, 80),
              " 50% [=============>            ] 500/1000  4 min left  loss 3.4127  18.4k tok/s");
    CHECK_STR(bar_of(500, 1000, 250e3, 40), " 50% [======>     ] 500/1000  4 min left");
    CHECK_STR(bar_of(1000, 1000, 0, 40), "100% [=============] 1000/1000  0 s left");
    CHECK_STR(bar_of(0, 1000, -1, 30), "  0% [>               ] 0/1000");
    CHECK_STR(bar_of(500, 1000, 1, 20), " 50% 500/1000");
    CHECK_STR(bar_of(500, 1000, 1, 6), "500/10");
    CHECK_STR(bar_of(500, 0, 1, 60), "step 500  loss 3.4127  18.4k tok/s");
}

TEST(a_bar_is_never_wider_than_its_columns)
{
    static const int64_t steps[] = {0, 1, 7, 1000, 1000000000000};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        for (size_t columns = 1; columns < 220; columns++)
            for (int64_t step = 0; step <= steps[i] + 1; step += steps[i] / 3 + 1) {
                CHECK_ROW("%lld of %lld at %zu", (long long)step, (long long)steps[i], columns);
                CHECK(strlen(bar_of(step, steps[i], 1e7, columns)) <= columns);
            }
}

static struct dt_metrics *open_metrics(const struct dt_metrics_options *o, int64_t first)
{
    struct dt_err err = {0};
    struct dt_metrics *m = dt_metrics_open(o, first, &err);
    CHECK_STR(err.text, "");
    CHECK(m != NULL);
    return m;
}

static void step_to(struct dt_metrics *m, int64_t from, int64_t to)
{
    for (int64_t i = from; i <= to; i++) {
        struct dt_step_metrics s = step_of(i);
        dt_metrics_step(m, &s);
    }
}

static const char *text_of(const char *path)
{
    static struct dt_buf b;
    struct dt_err err = {0};
    dt_buf_clear(&b);
    CHECK_OK(dt_fs_read(path, 1 << 20, &b, &err), err);
    return dt_buf_cstr(&b);
}

static void write_text(const char *path, const char *text)
{
    struct dt_err err = {0};
    CHECK_OK(dt_fs_replace(path, text, strlen(text), 0644, &err), err);
}

TEST(lines_come_each_so_many_steps_and_at_the_end)
{
    char *text;
    size_t len;
    FILE *to = open_memstream(&text, &len);
    struct dt_metrics *m =
        open_metrics(&(struct dt_metrics_options){.console = to, .every = 400}, 1);
    step_to(m, 1, 1000);
    dt_metrics_say(m, "%d lines in between", 2);
    dt_metrics_validation(m, 1000, 2.5);
    dt_metrics_close(m);
    fclose(to);
#define REST "  loss 3.4127  lr 3.00e-04  norm 0.81  18.4k tok/s  512 ms\n"
    CHECK_STR(text,
              "step 400/1000" REST "step 800/1000" REST "step 1000/1000" REST
              "2 lines in between\nstep 1000/1000  validation loss 2.5000  perplexity 12.182\n");
    free(text);
}

TEST(the_first_line_comes_at_once_where_somebody_waits_for_it)
{
    char *text;
    size_t len;
    FILE *to = open_memstream(&text, &len);
    struct dt_metrics *m =
        open_metrics(&(struct dt_metrics_options){.console = to, .every = 400, .first = true}, 158);
    step_to(m, 158, 500);
    dt_metrics_close(m);
    fclose(to);
    CHECK_STR(text, "step 158/1000" REST "step 400/1000" REST);
    free(text);
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
        n++;
    return n;
}

/* What one write of the stream was is between two flushes; all of them end with a whole bar. */
TEST(a_terminal_gets_a_bar_that_is_not_redrawn_too_often)
{
    char *text;
    size_t len;
    FILE *to = open_memstream(&text, &len);
    struct dt_metrics_options o = {.console = to, .terminal = true, .columns = 60, .every = 500};
    struct dt_metrics *m = open_metrics(&o, 1);
    dt_ms begun = dt_clock_monotonic();
    step_to(m, 1, 900);
    size_t most = (size_t)(dt_clock_monotonic() - begun) / 100 + 1;
    fflush(to);
    size_t draws = count(text, "%");
    CHECK(draws >= 2 && draws <= most + 1); /* and once behind the line */
    CHECK(strstr(text, "\rstep 500/1000") != NULL);
    CHECK(strstr(text, "512 ms\033[K\n 50%") != NULL);
    CHECK(strstr(text, "\033[36m") != NULL);
    dt_metrics_close(m);
    fflush(to);
    CHECK_STR(text + len - 4, "\r\033[K");
    fclose(to);
    free(text);
}

TEST(colour_and_bar_can_be_unwelcome)
{
    char *text;
    size_t len;
    FILE *to = open_memstream(&text, &len);
    setenv("NO_COLOR", "1", 1);
    struct dt_metrics_options o = {.console = to, .terminal = true, .columns = 60, .every = 1};
    struct dt_metrics *m = open_metrics(&o, 1);
    step_to(m, 1, 3);
    fflush(to);
    CHECK(strstr(text, "%") != NULL);
    CHECK(strstr(text, "\033[3") == NULL);
    CHECK(strstr(text, "\033[0") == NULL);
    dt_metrics_close(m);
    unsetenv("NO_COLOR");

    fflush(to);
    size_t before = len;
    setenv("TERM", "dumb", 1);
    m = open_metrics(&o, 1);
    step_to(m, 1, 3);
    dt_metrics_close(m);
    setenv("TERM", "xterm", 1);
    fflush(to);
    CHECK_STR(strpbrk(text + before, "\033\r%"), NULL);
    fclose(to);
    free(text);
}

TEST(json_lines_are_json)
{
    const char *path = at("values.jsonl");
    struct dt_metrics *m = open_metrics(&(struct dt_metrics_options){.jsonl = path}, 1);
    struct dt_step_metrics s = step_of(7);
    s.grad_norm = NAN;
    s.skipped = true;
    dt_metrics_step(m, &s);
    dt_metrics_validation(m, 7, 2.25);
    dt_metrics_close(m);

    const char *text = text_of(path), *end = strchr(text, '\n');
    struct dt_json doc;
    struct dt_err err = {0};
    int64_t v;
    double d;
    bool skipped;
    CHECK_OK(dt_json_parse(&doc, text, (size_t)(end - text), 4096, &err), err);
    CHECK_OK(dt_json_int(&doc, NULL, "step", 0, 100, &v, &err), err);
    CHECK_EQ(v, 7);
    CHECK_OK(dt_json_number(&doc, NULL, "loss", &d, &err), err);
    CHECK(d == 3.41268);
    CHECK_OK(dt_json_int(&doc, NULL, "samples", 0, 100, &v, &err), err);
    CHECK_EQ(v, 56);
    CHECK_OK(dt_json_bool(&doc, NULL, "skipped", &skipped, &err), err);
    CHECK(skipped);
    CHECK(strstr(text, "\"grad_norm\":null") != NULL);
    dt_json_finish(&doc);
    CHECK_OK(dt_json_parse(&doc, end + 1, strlen(end + 1), 4096, &err), err);
    CHECK_OK(dt_json_number(&doc, NULL, "validation_loss", &d, &err), err);
    CHECK(d == 2.25);
    CHECK_OK(dt_json_number(&doc, NULL, "perplexity", &d, &err), err);
    CHECK(fabs(d - 9.487735836) < 1e-6);
    dt_json_finish(&doc);
}

TEST(the_first_line_of_a_round_tells_where_it_is_back_from)
{
    const char *path = at("back.jsonl");
    struct dt_metrics *m = open_metrics(&(struct dt_metrics_options){.jsonl = path}, 8);
    dt_metrics_back(m, "at step %d: ranks 0 and 1 from their own vaults", 7);
    step_to(m, 8, 9);
    dt_metrics_close(m);
    CHECK_EQ(count(text_of(path), "\"back\":\"at step 7: ranks 0 and 1 from their own vaults\"}\n"),
             1);
    CHECK(strstr(text_of(path), "\"back\"") < strstr(text_of(path), "{\"step\":9,"));
}

/* What is in front of it, FIRST, and what a file with that behind it is cut to. */
TEST(resuming_cuts_what_will_come_again)
{
    static const struct {
        const char *was, *is;
        int64_t first;
    } rows[] = {
        {"", "", 1},
        {"{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n", "{\"step\":1}\n{\"step\":2}\n", 3},
        {"{\"step\":1}\n{\"step\":2}\n", "{\"step\":1}\n{\"step\":2}\n", 3},
        {"{\"step\":1}\n{\"step\":2}\n", "", 1},
        {"{\"step\":1}\n{\"step\":2,\"lo", "{\"step\":1}\n", 3}, /* torn, though to be kept */
        {"{\"step\":1}\n{\"step\":12", "{\"step\":1}\n", 3},
        {"{\"st", "", 3},
        {"{\"step\":1}\nnote\n{\"step\":99}\n", "{\"step\":1}\nnote\n", 3},
        {"{\"step\":9,\"x\":1}\n{\"step\":10}\n", "{\"step\":9,\"x\":1}\n", 10},
    };
    const char *path = at("cut.jsonl");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("row %zu", i);
        write_text(path, rows[i].was);
        dt_metrics_close(open_metrics(&(struct dt_metrics_options){.jsonl = path}, rows[i].first));
        CHECK_STR(text_of(path), rows[i].is);
    }
}

TEST(what_a_failure_has_undone_is_kept_beside_the_file)
{
    const char *path = at("undone.jsonl");
    char kept[400];
    snprintf(kept, sizeof kept, "%s.redone", path);
    struct dt_metrics_options o = {.jsonl = path};
    write_text(path, "{\"step\":1}\n{\"step\":2}\n");
    dt_metrics_close(open_metrics(&o, 2));
    CHECK(!dt_fs_exists(kept)); /* another job did that step */
    write_text(path, "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n");
    o.round = 1;
    dt_metrics_close(open_metrics(&o, 4));
    CHECK(!dt_fs_exists(kept));
    dt_metrics_close(open_metrics(&o, 2));
    CHECK_STR(text_of(path), "{\"step\":1}\n");
    CHECK_STR(text_of(kept), "{\"step\":2}\n{\"step\":3}\n");
    write_text(path, "{\"step\":1}\n{\"step\":2}\n{\"st");
    dt_metrics_close(open_metrics(&o, 2));
    CHECK_STR(text_of(kept), "{\"step\":2}\n{\"step\":3}\n{\"step\":2}\n{\"st\n");
    struct dt_metrics *m = open_metrics(&o, 2);
    step_to(m, 2, 2);
    dt_metrics_close(m);
    CHECK(strstr(text_of(path), "Z\",\"round\":1,\"loss\":") != NULL);
}

TEST(a_place_for_what_is_undone_that_cannot_be_written_is_no_end)
{
    const char *path = at("shut.jsonl");
    char kept[400];
    snprintf(kept, sizeof kept, "%s.redone", path);
    CHECK_EQ(mkdir(kept, 0700), 0);
    write_text(path, "{\"step\":1}\n{\"step\":2}\n");
    dt_metrics_close(open_metrics(&(struct dt_metrics_options){.jsonl = path, .round = 1}, 2));
    CHECK_STR(text_of(path), "{\"step\":1}\n");
}

TEST(a_run_leaves_word_where_its_files_are)
{
    char path[400];
    struct dt_json doc;
    struct dt_err err = {0};
    const char *metrics;
    struct dt_run_facts facts = {.model = "GPT-2",
                                 .device = "CPU \"x\"",
                                 .metrics = "m.jsonl",
                                 .save_dir = "/c",
                                 .steps = 9};
    snprintf(path, sizeof path, "%s", at("train.json"));
    *strrchr(path, '/') = '\0';
    CHECK_OK(dt_run_file_write(path, &facts, &err), err);
    const char *text = text_of(at("train.json"));
    CHECK_OK(dt_json_parse(&doc, text, strlen(text), 4096, &err), err);
    CHECK_OK(dt_json_string(&doc, NULL, "metrics", &metrics, &err), err);
    CHECK_EQ(*metrics, '/');
    CHECK_STR(strrchr(metrics, '/'), "/m.jsonl");
    CHECK_OK(dt_json_string(&doc, NULL, "save_dir", &metrics, &err), err);
    CHECK_STR(metrics, "/c");
    dt_json_finish(&doc);
    CHECK_FAIL(dt_run_file_write("/nonexistent", &facts, &err), err, "/nonexistent/train.json");
}

TEST(a_long_file_is_cut_at_the_right_byte)
{
    const char *path = at("long.jsonl");
    struct dt_metrics_options o = {.jsonl = path};
    struct dt_metrics *m = open_metrics(&o, 1);
    step_to(m, 1, 1000);
    dt_metrics_close(m);
    m = open_metrics(&o, 701);
    step_to(m, 701, 710);
    dt_metrics_close(m);
    const char *text = text_of(path);
    CHECK_EQ(count(text, "\n"), 710);
    for (int i = 1; i <= 710; i++) {
        char start[32];
        CHECK_ROW("line %d", i);
        snprintf(start, sizeof start, "{\"step\":%d,", i);
        CHECK(strncmp(text, start, strlen(start)) == 0);
        text = strchr(text, '\n') + 1;
    }
}

TEST(a_file_of_somebody_else_is_left_alone)
{
    const char *path = at("thesis.txt");
    struct dt_err err = {0};
    write_text(path, "Once upon a time");
    CHECK(dt_metrics_open(&(struct dt_metrics_options){.jsonl = path}, 1, &err) == NULL);
    CHECK(strstr(err.text, "thesis.txt holds something else") != NULL);
    CHECK_STR(text_of(path), "Once upon a time");
    CHECK(dt_metrics_open(&(struct dt_metrics_options){.jsonl = at("no/such/folder")}, 1, &err) ==
          NULL);
    CHECK(dt_metrics_open(&(struct dt_metrics_options){.csv_path = path, .csv_job = "j"}, 1,
                          &err) == NULL);
}

TEST(rewards_are_in_all_files_where_there_are_any)
{
    const char *path = at("pairs.jsonl");
    struct dt_preference_metrics p = {true, 0.5, -0.25, 0.75, 0.875};
    struct dt_step_metrics s = step_of(1);
    struct dt_metrics_options o = {.jsonl = path, .csv_path = dir, .csv_job = "pairs"};
    struct dt_metrics *m = open_metrics(&o, 1);
    s.preferences = p;
    dt_metrics_step(m, &s);
    dt_metrics_judged(m, 1, 0.625, &p);
    dt_metrics_close(m);
    CHECK_EQ(count(text_of(path), ",\"reward_chosen\":0.5,\"reward_rejected\":-0.25,"
                                  "\"reward_margin\":0.75,\"reward_accuracy\":0.875}\n"),
             1);
    CHECK_EQ(count(text_of(path), "\"validation_loss\":0.625,\"validation_reward_chosen\":0.5,"
                                  "\"validation_reward_rejected\":-0.25,"
                                  "\"validation_reward_margin\":0.75,"
                                  "\"validation_reward_accuracy\":0.875}\n"),
             1);
    CHECK_STR(text_of(at("pairs/Train_Samples_reward_margin.csv")),
              "step,reward_margin\r\n8,0.75\r\n");
    o.csv_job = "tokens";
    m = open_metrics(&(struct dt_metrics_options){.csv_path = dir, .csv_job = "tokens"}, 1);
    step_to(m, 1, 1);
    dt_metrics_close(m);
    CHECK(!dt_fs_exists(at("tokens/Train_Samples_reward_margin.csv")));
}

TEST(csv_files_are_as_deepspeed_writes_them)
{
    struct dt_metrics_options o = {.csv_path = dir, .csv_job = "job"};
    struct dt_metrics *m = open_metrics(&o, 1);
    step_to(m, 1, 3);
    dt_metrics_close(m);
    CHECK_STR(text_of(at("job/Train_Samples_train_loss.csv")),
              "step,train_loss\r\n8,3.41268\r\n16,3.41268\r\n24,3.41268\r\n");
    m = open_metrics(&o, 3);
    step_to(m, 3, 4);
    dt_metrics_close(m);
    CHECK_STR(text_of(at("job/Train_Samples_lr.csv")),
              "step,lr\r\n8,0.0003\r\n16,0.0003\r\n24,0.0003\r\n32,0.0003\r\n");
    m = open_metrics(&o, 1);
    step_to(m, 1, 1);
    dt_metrics_close(m);
    CHECK_STR(text_of(at("job/Train_Samples_loss_scale.csv")), "step,loss_scale\r\n8,65536\r\n");
    CHECK_STR(text_of(at("job/Train_Samples_elapsed_time_ms_forward.csv")),
              "step,elapsed_time_ms_forward\r\n8,160.2\r\n");
    CHECK_STR(text_of(at("job/Train_Samples_elapsed_time_ms_backward.csv")),
              "step,elapsed_time_ms_backward\r\n8,310.4\r\n");
    CHECK_STR(text_of(at("job/Train_Samples_elapsed_time_ms_step.csv")),
              "step,elapsed_time_ms_step\r\n8,19.9\r\n");
}

/* Standard error goes into a file; returns what it was. */
static int begin_warnings(void)
{
    int was = dup(STDERR_FILENO);
    int to = open(at("warnings"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(was >= 0 && dup2(to, STDERR_FILENO) >= 0);
    close(to);
    return was;
}

static const char *end_warnings(int was)
{
    dup2(was, STDERR_FILENO);
    close(was);
    return text_of(at("warnings"));
}

TEST(a_full_disk_is_one_warning)
{
    struct dt_metrics_options o = {.program = "dtrun-train", .every = 1000, .jsonl = "/dev/full"};
    int was = begin_warnings();
    struct dt_metrics *m = open_metrics(&o, 1);
    step_to(m, 1, 50);
    dt_metrics_close(m);
    CHECK_STR(end_warnings(was), "dtrun-train: cannot write /dev/full: No space left on device; "
                                 "training goes on without\n");
}

/* The bar is taken away before, and drawn again behind it. */
TEST(a_warning_stands_in_front_of_the_bar)
{
    char *text;
    size_t len;
    FILE *to = open_memstream(&text, &len);
    struct dt_metrics_options o = {.program = "p", .console = to, .terminal = true, .columns = 60};
    int was = begin_warnings();
    struct dt_metrics *m = open_metrics(&o, 1);
    step_to(m, 1, 1);
    size_t before = len;
    dt_metrics_warn(m, "one\ntwo\n");
    CHECK_STR(end_warnings(was), "p: one\np: two\n");
    CHECK(strncmp(text + before, "\r\033[K", 4) == 0);
    CHECK(strstr(text + before, "1/1000") != NULL);
    dt_metrics_close(m);
    fclose(to);
    free(text);
}

/* A disk that fills in the middle of a line, and has room again later. */
TEST(a_line_is_written_whole_or_not_at_all)
{
    const char *path = at("limited.jsonl");
    struct rlimit was, small;
    CHECK_EQ(getrlimit(RLIMIT_FSIZE, &was), 0);
    small = was;
    small.rlim_cur = 1000;
    signal(SIGXFSZ, SIG_IGN);
    struct dt_metrics_options o = {
        .program = "p", .jsonl = path, .csv_path = at("limited"), .csv_job = "j"};
    int warned = begin_warnings();
    struct dt_metrics *m = open_metrics(&o, 1);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    step_to(m, 1, 200);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &was), 0);
    step_to(m, 201, 202);
    dt_metrics_close(m);
    const char *got = end_warnings(warned);
    CHECK_EQ(count(got, "training goes on without"), 2);
    CHECK_EQ(count(got, "limited.jsonl: File too large"), 1);
    got = text_of(path);
    CHECK_EQ(count(got, "{\"step\":"), count(got, "}\n"));
    CHECK(strstr(got, "}\n{\"step\":201,") != NULL);
    got = text_of(at("limited/j/Train_Samples_lr.csv"));
    CHECK(strstr(got, "\r\n1608,0.0003\r\n1616,0.0003\r\n") != NULL);
    CHECK_EQ(count(got, "\r"), count(got, "\r\n"));
}

TEST(a_console_that_is_full_is_no_end)
{
    FILE *to = fopen("/dev/full", "we");
    CHECK(to != NULL);
    struct dt_metrics_options o = {.console = to, .every = 1, .terminal = true};
    struct dt_metrics *m = open_metrics(&o, 1);
    step_to(m, 1, 10);
    dt_metrics_close(m);
    fclose(to);
    dt_metrics_close(NULL);
    CHECK(true);
}
