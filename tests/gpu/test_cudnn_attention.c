/* SPDX-License-Identifier: Apache-2.0 */
/* What decides whether cuDNN's attention is taken, over a fake cuDNN whose results the test says.
 */
#include "tests/gpu/cudnn_story.h"

#include "cuda/cudnn/compare.h"

TEST(what_agrees_once_is_taken_from_then_on)
{
    begin(true);
    forward();
    backward();
    CHECK_EQ(w.own, 2);
    CHECK_EQ(fake.executed, 2);
    theirs = 7; /* nobody looks any more */
    CHECK_EQ((int)forward(), 7);
    CHECK_EQ((int)backward(), 7);
    CHECK_EQ(w.own, 2);
    CHECK_EQ(fake.executed, 4);
    CHECK_EQ(w.lines, 0);
    end();
}

TEST(what_differs_is_never_taken_and_told_once)
{
    begin(true);
    theirs = 2;
    CHECK_EQ((int)forward(), 1);
    CHECK_SAID("forward is 1 of its norm apart");
    theirs = 1;
    forward();
    backward();
    CHECK_EQ(fake.executed, 1);
    CHECK_SAID("91900");
    end();
}

TEST(backward_that_differs_takes_forward_along)
{
    begin(true);
    forward();
    theirs = 2;
    CHECK_EQ((int)backward(), 1);
    CHECK_SAID("backward is 1 of its norm apart");
    CHECK_EQ((int)forward(), 1);
    CHECK_EQ(fake.executed, 2);
    end();
}

TEST(results_may_be_apart_by_the_tolerance_and_no_more)
{
    static const struct {
        float theirs;
        bool taken;
    } rows[] = {
        {1.0234375f, true}, {0.9765625f, true}, {1.03125f, false}, {NAN, false}, {0, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%g", (double)rows[i].theirs);
        begin(true);
        theirs = rows[i].theirs;
        CHECK_EQ(dt_cudnn_attention_forward(w.c, &w.a, w.out, &w.s), cudaSuccess);
        CHECK_EQ(first(w.out) == theirs, rows[i].taken);
        CHECK_EQ(w.lines, !rows[i].taken);
        end();
    }
}

/* Nothing is to be seen by zeros, nor where a run has gone astray. */
TEST(what_says_nothing_is_looked_at_again)
{
    static const float none[] = {0, INFINITY};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        begin(true);
        ours = none[i];
        theirs = 2;
        CHECK_EQ(dt_cudnn_attention_backward(w.c, &w.a, w.dq, w.dk, w.dv, w.out, w.dout, &w.s),
                 cudaSuccess);
        CHECK(first(w.dq) == ours);
        ours = theirs;
        backward();
        CHECK_EQ(w.lines, 0);
        theirs = 5;
        CHECK_EQ((int)backward(), 5);
        end();
    }
}

TEST(each_shape_is_compared)
{
    begin(true);
    forward();
    w.a.batch = 1;
    theirs = 3;
    CHECK_EQ((int)forward(), 1);
    CHECK_SAID("forward is 2 of its norm apart");
    end();
}

TEST(a_recording_makes_no_plan_and_takes_what_was_compared)
{
    begin(true);
    w.recording = true;
    forward();
    CHECK_EQ(fake.executed, 0);
    CHECK_EQ(fake.calls, 0);
    w.recording = false;
    forward();
    w.recording = true;
    theirs = 7;
    CHECK_EQ((int)forward(), 7);
    end();
}

TEST(the_workspace_grows_and_stays_where_recordings_know_it)
{
    begin(true);
    backward();
    void *before = fake.workspace_at;
    CHECK_EQ(w.taken, 1);
    fake.workspace = 4096;
    forward(); /* fits in no more than that */
    CHECK_EQ(w.taken, 2);
    backward();
    CHECK(fake.workspace_at != before);
    CHECK_EQ(w.taken, 2);
    end();
}

TEST(without_memory_for_the_workspace_kernels_are_our_own)
{
    begin(true);
    w.most = 100;
    forward();
    forward();
    CHECK_SAID("the GPU is full");
    CHECK_EQ(w.own, 2);
    end();
}

TEST(a_plan_that_wants_too_much_is_none)
{
    begin(true);
    fake.workspace = (int64_t)2 << 30;
    forward();
    CHECK_SAID("no engine that makes do with the workspace");
    end();
}

TEST(engines_whose_sums_vary_are_for_those_who_allow_it)
{
    begin(true);
    fake.engines = 3;
    fake.varying = 2;
    backward();
    CHECK_EQ(fake.engine, 0);
    end();
    begin(false);
    fake.engines = 3;
    fake.varying = 2;
    backward();
    CHECK_EQ(fake.engine, 2);
    end();
    begin(false);
    fake.varying = 1;
    backward();
    CHECK_SAID("no engine that repeats its bits");
    CHECK_EQ(w.own, 1);
    end();
}

TEST(the_next_engine_is_taken_where_one_cannot_be_had)
{
    begin(true);
    fake.engines = 3;
    fake.unfit = 2;
    forward();
    CHECK_EQ(fake.engine, 2);
    CHECK_EQ(w.lines, 0);
    end();
    begin(true);
    fake.unfit = 1;
    forward();
    CHECK_SAID("cuDNN says NOT_SUPPORTED (the fake was told to)");
    end();
    begin(true);
    fake.engines = 0;
    forward();
    CHECK_SAID("no engine for it");
    end();
}

/* As nothing of it was launched, our kernels can. */
TEST(a_first_run_that_fails_is_told_and_ours_is_taken)
{
    begin(true);
    fake.execute = 3000;
    fake.result = NULL;
    CHECK_EQ((int)forward(), 1);
    CHECK_SAID("running attention: cuDNN says NOT_SUPPORTED");
    CHECK_EQ(w.own, 2);
    end();
}

TEST(a_later_run_that_fails_stops_the_stream)
{
    begin(true);
    forward();
    fake.execute = 3000;
    CHECK_EQ(dt_cudnn_attention_forward(w.c, &w.a, w.out, &w.s), cudaErrorUnknown);
    CHECK_ROW("%s", w.s.failed.text);
    CHECK(strstr(w.s.failed.text, "running attention") != NULL);
    w.s.failed = (struct dt_err){0};
    end();
}

/* Wherever it fails: at each tensor, operation, engine and plan. */
TEST(a_failure_at_any_call_leaks_nothing_and_takes_our_kernels)
{
    static const bool ways[] = {false, true};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        begin(false);
        CHECK_EQ(ways[i] ? (int)backward() : (int)forward(), 1);
        int calls = fake.calls;
        CHECK(calls > 100);
        end();
        for (int at = 1; at <= calls; at++) {
            CHECK_ROW("call %d of %d, %s", at, calls, ways[i] ? "backward" : "forward");
            begin(false);
            fake.fail_at = at;
            ways[i] ? backward() : forward();
            CHECK_EQ(w.lines, 1);
            CHECK_EQ(fake.executed, 0);
            CHECK_EQ(w.own, at > calls - 5 ? 2 : 1); /* the last are those of a run */
            end();
        }
    }
}

TEST(graphs_have_the_operations_that_they_should)
{
    begin(true);
    forward();
    CHECK_EQ(fake.operations, 14);
    backward();
    CHECK_EQ(fake.operations, 24);
    end();
    begin(false);
    backward();
    CHECK_EQ(fake.operations, 23); /* dq is not added up in floats */
    end();
}

/* The last position of the last sequence begins a document. */
static void pack(void)
{
    w.documents[ROWS - 1] = POSITIONS - 1;
    w.a.documents = w.documents;
}

TEST(windows_and_documents_are_more_operations)
{
    static const struct {
        size_t window;
        bool packed;
        int forward, backward;
    } rows[] = {{3, false, 19, 29},
                {1, false, 19, 29},
                {4, false, 14, 24},
                {0, true, 17, 27},
                {3, true, 22, 32}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("row %zu", i);
        begin(true);
        w.a.window = rows[i].window;
        if (rows[i].packed)
            pack();
        forward();
        CHECK_EQ(fake.operations, rows[i].forward);
        backward();
        CHECK_EQ(fake.operations, rows[i].backward);
        CHECK_EQ(w.lines, 0);
        CHECK_EQ(fake.executed, 2);
        end();
    }
}

TEST(each_window_is_compared_and_so_are_documents)
{
    begin(true);
    forward();
    w.a.window = 3;
    forward();
    w.a.window = 2;
    forward();
    CHECK_EQ(w.own, 3);
    pack();
    theirs = 3;
    CHECK_EQ((int)forward(), 1);
    CHECK_SAID("forward is 2 of its norm apart");
    end();
}

/* A graph that was misread would show in none of them. */
TEST(documents_that_are_whole_sequences_do_not_show_who_is_right)
{
    begin(true);
    w.a.documents = w.documents;
    theirs = 3;
    CHECK_EQ((int)forward(), 1);
    CHECK_EQ((int)forward(), 1);
    CHECK_EQ(fake.executed, 0);
    CHECK_EQ(w.own, 2);
    CHECK_EQ(w.lines, 0);
    pack();
    theirs = 1;
    forward();
    w.documents[ROWS - 1] = 0; /* nobody looks any more */
    theirs = 7;
    CHECK_EQ((int)forward(), 7);
    end();
}

TEST(what_has_no_engine_is_told_with_its_limits)
{
    static const struct {
        size_t window;
        bool packed;
        const char *line;
    } rows[] = {{0, false, "4 heads of 8 numbers is computed"},
                {3, false, "4 heads of 8 numbers, by a window of 3 is computed"},
                {0, true, "4 heads of 8 numbers, by documents is computed"},
                {3, true, "4 heads of 8 numbers, by a window of 3 and documents is computed"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        begin(true);
        fake.engines = 0;
        w.a.window = rows[i].window;
        if (rows[i].packed)
            pack();
        forward();
        CHECK_SAID(rows[i].line);
        end();
    }
}

TEST(what_cudnn_does_not_take_never_gets_there)
{
    const struct dt_attention good = {.batch = 1,
                                      .queries = 4,
                                      .keys = 4,
                                      .heads = 4,
                                      .kv_heads = 2,
                                      .head_dim = 64,
                                      .q_stride = 256,
                                      .k_stride = 128,
                                      .v_stride = 128,
                                      .out_stride = 256};
    struct dt_attention rows[10];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        rows[i] = good;
    rows[0].first = 1;
    rows[1].keys = 5;
    rows[2].cap = 30;
    rows[3].dropout.gone_below = 1;
    rows[4].head_dim = 136;
    rows[5].head_dim = 60;
    rows[6].q_stride = 260;
    rows[7].kv_heads = 3;
    rows[8].queries = rows[8].keys = 0;
    rows[9].batch = 0;
    CHECK(dt_cudnn_takes(&good));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("row %zu", i);
        CHECK(!dt_cudnn_takes(&rows[i]));
    }
}

TEST(memory_that_is_not_aligned_is_for_our_kernels)
{
    begin(true);
    w.a.k = w.k + 1;
    forward();
    CHECK_EQ(fake.calls, 0);
    CHECK_EQ(w.own, 1);
    w.a.k = w.k;
    w.a.documents = w.documents + 1;
    w.documents[2] = 1;
    forward();
    CHECK_EQ(fake.calls, 0);
    CHECK_EQ(w.own, 2);
    end();
}

TEST(more_shapes_than_the_table_holds_are_our_kernels)
{
    begin(true);
    w.most = 1 << 24;
    for (size_t stride = KV_WIDTH; stride < KV_WIDTH + 40 * 8; stride += 8) {
        w.a.k_stride = stride;
        CHECK_EQ(dt_cudnn_attention_forward(w.c, &w.a, w.out, &w.s), cudaSuccess);
    }
    CHECK_EQ(w.own, 40);
    CHECK_EQ(fake.executed, 32);
    end();
}

TEST(a_handle_that_cannot_be_had_is_told)
{
    for (int i = 0; i < 2; i++) {
        struct dt_err err = {0};
        struct dt_cudnn_under u = under();
        fake_reset();
        *(i ? &fake.set_stream : &fake.create) = 3000;
        CHECK(!dt_cudnn_attention_open(&u, &w.s, &err));
        CHECK_ROW("%s", err.text);
        CHECK(strstr(err.text, "starting it: cuDNN says NOT_SUPPORTED") != NULL);
        CHECK_EQ(fake.handles, 0);
    }
}

TEST(versions_that_will_do)
{
    static const struct {
        size_t version;
        bool good;
    } rows[] = {{8907, false}, {90100, false}, {90902, false}, {91000, true},
                {91900, true}, {92300, true},  {100000, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_err err = {0};
        CHECK_ROW("%zu", rows[i].version);
        CHECK_EQ(dt_cudnn_check_version(rows[i].version, &err), rows[i].good ? 0 : -1);
    }
    struct dt_err err = {0};
    dt_cudnn_check_version(90501, &err);
    CHECK_STR(err.text, "libcudnn.so.9 is of version 9.5.1, and 9.10 or a later 9 is needed");
}

TEST(rows_lie_apart_and_what_lies_between_does_not_count)
{
    const struct dt_cudnn_array a = {.type = DT_F32, .rows = 2, .width = 2, .stride = 3};
    const float x[] = {3, 0, 100, 0, 4}, y[] = {3, 0, 0, 0, 9};
    CHECK_EQ(dt_cudnn_array_bytes(&a), 5 * sizeof(float));
    CHECK(dt_cudnn_apart(&a, x, y) == 1);
    CHECK(dt_cudnn_apart(&a, x, x) == 0);
}
