/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks do next about uploads, of what all know. */
#include "tests/lib/check.h"
#include "worker_runtime/ckpt/upload/turns.h"

struct turn {
    int64_t saved, best;
    bool committing;
    int busy, failed;
    enum dt_upload_act act;
    enum dt_upload_phase then;
    int64_t sent; /* 0: what is saved */
};

/* Plays TURNS, ended by an act below 0, from the beginning. */
static void play(const struct turn *turns, struct dt_upload_turns *t)
{
    *t = (struct dt_upload_turns){.uploaded = -1, .tried = -1};
    for (size_t i = 0; (int)turns[i].act >= 0; i++) {
        const struct turn *r = &turns[i];
        struct dt_upload_facts f = {r->saved, r->best, r->committing, r->busy, r->failed};
        CHECK_ROW("turn %zu", i);
        CHECK_EQ(dt_upload_turn(t, &f), r->act);
        CHECK_EQ(t->phase, r->then);
        if (r->act == DT_UPLOAD_SEND)
            CHECK_EQ(t->step, r->sent ? r->sent : r->saved);
    }
}

#define END .act = (enum dt_upload_act) - 1

TEST(a_checkpoint_is_sent_and_then_sealed)
{
    static const struct turn turns[] = {
        {.saved = -1, .act = DT_UPLOAD_GO_ON, .then = DT_UPLOAD_NONE},
        {.saved = 10, .act = DT_UPLOAD_SEND, .then = DT_UPLOAD_SENDING},
        {.saved = 10, .busy = 2, .act = DT_UPLOAD_GO_ON, .then = DT_UPLOAD_SENDING},
        {.saved = 10, .busy = 1, .act = DT_UPLOAD_GO_ON, .then = DT_UPLOAD_SENDING},
        {.saved = 10, .act = DT_UPLOAD_SEAL, .then = DT_UPLOAD_SEALING},
        {.saved = 10, .busy = 1, .act = DT_UPLOAD_GO_ON, .then = DT_UPLOAD_SEALING},
        {.saved = 10, .act = DT_UPLOAD_TELL, .then = DT_UPLOAD_NONE},
        {.saved = 10, .act = DT_UPLOAD_GO_ON, .then = DT_UPLOAD_NONE},
        {END},
    };
    struct dt_upload_turns t;
    play(turns, &t);
    CHECK_EQ(t.uploaded, 10);
    CHECK_EQ(dt_upload_owed(&t, 10, 0), -1);
    CHECK_EQ(dt_upload_owed(&t, 20, 0), 20);
}

TEST(a_slow_depot_gets_the_newest_and_not_all)
{
    static const struct turn turns[] = {
        {.saved = 10, .act = DT_UPLOAD_SEND, .then = DT_UPLOAD_SENDING},
        {.saved = 20, .busy = 1, .act = DT_UPLOAD_GO_ON, .then = DT_UPLOAD_SENDING},
        {.saved = 30, .act = DT_UPLOAD_SEAL, .then = DT_UPLOAD_SEALING},
        {.saved = 40, .act = DT_UPLOAD_TELL, .then = DT_UPLOAD_NONE},
        /* While a commit is under way, old checkpoints may be removed. */
        {.saved = 40, .committing = true, .act = DT_UPLOAD_GO_ON, .then = DT_UPLOAD_NONE},
        {.saved = 50, .act = DT_UPLOAD_SEND, .then = DT_UPLOAD_SENDING},
        {END},
    };
    struct dt_upload_turns t;
    play(turns, &t);
    CHECK_EQ(t.step, 50);
    CHECK_EQ(t.uploaded, 10);
    CHECK_EQ(dt_upload_owed(&t, 50, 0), 50);
}

TEST(what_fails_on_one_rank_is_given_up_by_all_and_not_tried_again)
{
    static const struct turn turns[] = {
        {.saved = 10, .act = DT_UPLOAD_SEND, .then = DT_UPLOAD_SENDING},
        {.saved = 10, .busy = 2, .failed = 1, .act = DT_UPLOAD_GIVE_UP, .then = DT_UPLOAD_ENDING},
        /* Others end because they are told to, and say so: no further failure. */
        {.saved = 20, .busy = 1, .failed = 1, .act = DT_UPLOAD_GO_ON, .then = DT_UPLOAD_ENDING},
        {.saved = 20, .failed = 1, .act = DT_UPLOAD_GO_ON, .then = DT_UPLOAD_NONE},
        {.saved = 20, .act = DT_UPLOAD_SEND, .then = DT_UPLOAD_SENDING},
        {.saved = 20, .act = DT_UPLOAD_SEAL, .then = DT_UPLOAD_SEALING},
        {.saved = 20, .failed = 1, .act = DT_UPLOAD_GIVE_UP, .then = DT_UPLOAD_ENDING},
        {.saved = 20, .act = DT_UPLOAD_GO_ON, .then = DT_UPLOAD_NONE},
        {.saved = 20, .act = DT_UPLOAD_GO_ON, .then = DT_UPLOAD_NONE},
        {END},
    };
    struct dt_upload_turns t;
    play(turns, &t);
    CHECK_EQ(t.uploaded, -1);
    CHECK_EQ(dt_upload_owed(&t, 20, 0), -1);
}

/* One whole upload of STEP. */
#define SENT(newest, the_best, step)                                                               \
    {.saved = newest,                                                                              \
     .best = the_best,                                                                             \
     .act = DT_UPLOAD_SEND,                                                                        \
     .then = DT_UPLOAD_SENDING,                                                                    \
     .sent = step},                                                                                \
        {.saved = newest, .best = the_best, .act = DT_UPLOAD_SEAL, .then = DT_UPLOAD_SEALING},     \
    {                                                                                              \
        .saved = newest, .best = the_best, .act = DT_UPLOAD_TELL, .then = DT_UPLOAD_NONE           \
    }
#define NOTHING(newest, the_best)                                                                  \
    {                                                                                              \
        .saved = newest, .best = the_best, .act = DT_UPLOAD_GO_ON, .then = DT_UPLOAD_NONE          \
    }

TEST(the_best_one_and_the_newest_take_turns_where_a_depot_is_slow)
{
    static const struct turn turns[] = {
        SENT(10, 10, 10), NOTHING(10, 10),
        SENT(30, 20, 30), SENT(40, 20, 20),
        SENT(50, 45, 50), SENT(60, 45, 45),
        SENT(60, 55, 60), SENT(60, 55, 55),
        NOTHING(60, 55),  SENT(70, 70, 70),
        SENT(80, 70, 80), NOTHING(80, 70),
        NOTHING(80, 0),   {END},
    };
    struct dt_upload_turns t;
    play(turns, &t);
    CHECK_EQ(t.uploaded, 80);
    CHECK_EQ(t.uploaded_best, 70);
    CHECK_EQ(dt_upload_owed(&t, 80, 70), -1);
    CHECK_EQ(dt_upload_owed(&t, 80, 75), 75);
    CHECK_EQ(dt_upload_owed(&t, 90, 75), 75);
    dt_upload_newest_first(&t, 80);
    CHECK_EQ(dt_upload_owed(&t, 80, 75), 75);
    dt_upload_newest_first(&t, 90);
    CHECK_EQ(dt_upload_owed(&t, 90, 75), 90);
}

/* The next best one may never come. */
TEST(the_best_one_that_failed_is_tried_again_behind_the_next)
{
    static const struct turn turns[] = {
        {.saved = 10, .best = 10, .act = DT_UPLOAD_SEND, .then = DT_UPLOAD_SENDING},
        {.saved = 10, .best = 10, .failed = 1, .act = DT_UPLOAD_GIVE_UP, .then = DT_UPLOAD_ENDING},
        NOTHING(10, 10),
        NOTHING(10, 10),
        SENT(20, 10, 20),
        SENT(20, 10, 10),
        NOTHING(20, 10),
        {END},
    };
    struct dt_upload_turns t;
    play(turns, &t);
    CHECK_EQ(t.uploaded, 20);
}

/* `latest` names the step that a run goes on from whose disk is lost. */
TEST(the_best_one_is_the_newest_there_where_that_one_failed)
{
    static const struct row {
        int64_t uploaded, tried, step, newest;
    } rows[] = {
        {10, 50, 50, 50}, {10, 50, 45, 45}, {50, 50, 45, 50}, {-1, 50, 45, -1}, {-1, 50, 50, 50}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *r = &rows[i];
        struct dt_upload_turns t = {.phase = DT_UPLOAD_SENDING,
                                    .uploaded = r->uploaded,
                                    .tried = r->tried,
                                    .step = r->step};
        CHECK_ROW("%zu", i);
        CHECK_EQ(dt_upload_newest(&t), r->newest);
    }
}

/* A world that follows another, whose newest is there. */
TEST(what_became_the_best_once_it_was_there_is_not_sent_again)
{
    struct dt_upload_turns t = {.uploaded = 10, .tried = 10};
    struct dt_upload_facts f = {.saved = 10, .best = 10};
    CHECK_EQ(dt_upload_turn(&t, &f), DT_UPLOAD_GO_ON);
    f.saved = 20;
    CHECK_EQ(dt_upload_turn(&t, &f), DT_UPLOAD_SEND);
    CHECK_EQ(dt_upload_turn(&t, &f), DT_UPLOAD_SEAL);
    CHECK_EQ(dt_upload_turn(&t, &f), DT_UPLOAD_TELL);
    CHECK_EQ(t.uploaded, 20);
    CHECK_EQ(dt_upload_turn(&t, &f), DT_UPLOAD_GO_ON);
    f.best = 15; /* of an earlier world, and not there */
    CHECK_EQ(dt_upload_turn(&t, &f), DT_UPLOAD_SEND);
    CHECK_EQ(t.step, 15);
}
