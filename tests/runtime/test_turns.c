/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks do next about uploads, of what all know. */
#include "tests/lib/check.h"
#include "worker_runtime/ckpt/upload/turns.h"

struct turn {
    int64_t saved;
    bool committing;
    int busy, failed;
    enum dt_upload_act act;
    enum dt_upload_phase then;
};

/* Plays TURNS, ended by an act below 0, from the beginning. */
static void play(const struct turn *turns, struct dt_upload_turns *t)
{
    *t = (struct dt_upload_turns){.uploaded = -1, .tried = -1};
    for (size_t i = 0; (int)turns[i].act >= 0; i++) {
        const struct turn *r = &turns[i];
        struct dt_upload_facts f = {r->saved, r->committing, r->busy, r->failed};
        CHECK_ROW("turn %zu", i);
        CHECK_EQ(dt_upload_turn(t, &f), r->act);
        CHECK_EQ(t->phase, r->then);
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
    CHECK(!dt_upload_is_owed(&t, 10));
    CHECK(dt_upload_is_owed(&t, 20));
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
    CHECK(dt_upload_is_owed(&t, 50));
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
    CHECK(!dt_upload_is_owed(&t, 20));
}
