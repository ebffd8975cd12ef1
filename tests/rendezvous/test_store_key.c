/* SPDX-License-Identifier: Apache-2.0 */
/* Keys as PyTorch 1.13 and 2.6 were seen to wait for them. */
#include "rendezvous/protocol/store_key.h"
#include "tests/lib/check.h"

TEST(a_key_says_whose_turn_it_is)
{
    static const struct {
        const char *keys, *words;
        int setter;
    } rows[] = {
        /* gloo */
        {"worker/attempt_0/default_pg/0/0/1", "rank 1's address", 1},
        {"worker/attempt_12/default_pg/0/0/rank_1", "rank 1's address", 1},
        {"worker/attempt_0/default_pg/1/0/1", "the address of rank 1 of group 1", -1},
        {"/worker/attempt_0/default_pg/0/0/7", "rank 7's address", 7},
        {"default_pg/0//cpu//0/3", "rank 3's address", 3},
        {"default_pg/0//cpu//0/rank_3", "rank 3's address", 3},
        {"default_pg/0//1//cpu//0/1", "the address of rank 1 of group 1", -1},
        {"default_pg/0//cpu//0/3, default_pg/0//cpu//0/4 and 2 more", "rank 3's address", 3},
        /* NCCL */
        {"default_pg/0//cuda//5", "NCCL's id, which rank 0 gives", 0},
        {"default_pg/0//4//cuda//0", "NCCL's id, which rank 0 of group 4 gives", -1},
        {"worker/attempt_0/default_pg/0/2", "NCCL's id, which rank 0 gives", 0},
        {"default_pg/0//cuda//0:1", "", -1},
        /* What Python waits for. */
        {"default_pg/0//store_based_barrier_key:0:last_worker", "the last rank to come", -1},
        {"store_based_barrier_key:3:last_worker", "the last rank of group 3 to come", -1},
        {"rank_3", "", 3},
        /* Others, and nonsense. */
        {"default_pg/0//tokenizer", "", -1},
        {"default_pg", "", -1},
        {"default_pg/0", "", -1},
        {"default_pg/0//cpu//0", "", -1},
        {"default_pg/0//cpu//0/99999999999", "", -1},
        {"default_pg/0//cpu//0/-1", "", -1},
        {"default_pg/0//cpu//0/3x", "", -1},
        {"a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/3", "", -1},
        {"job/2024", "", -1},
        {"worker/attempt_0", "", -1},
        {"", "", -1},
        {"////", "", -1},
        {", ", "", -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char words[DT_STORE_KEY_WORDS];
        CHECK_ROW("%s", rows[i].keys);
        CHECK_STR(dt_store_key_words(rows[i].keys, words), rows[i].words);
        CHECK_EQ(dt_store_key_setter(rows[i].keys), rows[i].setter);
    }
}

TEST(a_long_group_is_cut)
{
    char keys[300], words[DT_STORE_KEY_WORDS], group[200];
    memset(group, 'g', sizeof group);
    group[sizeof group - 1] = '\0';
    snprintf(keys, sizeof keys, "default_pg/0//%s//cpu//0/1", group);
    dt_store_key_words(keys, words);
    CHECK(strlen(words) < DT_STORE_KEY_WORDS);
    CHECK(strncmp(words, "the address of rank 1 of group ggg", 34) == 0);
}

TEST(two_names_for_one_thing_are_the_same)
{
    CHECK(dt_store_key_same("default_pg/0/0/1", "default_pg/0/0/rank_1"));
    CHECK(!dt_store_key_same("default_pg/0/0/1", "default_pg/0/0/2"));
    CHECK(!dt_store_key_same("default_pg/0/0/1", "default_pg/1/0/1"));
    CHECK(!dt_store_key_same("default_pg/0/0/0", "default_pg/0/0"));
    CHECK(dt_store_key_same("tokenizer", "tokenizer"));
    CHECK(!dt_store_key_same("tokenizer", "vocabulary"));
    CHECK(dt_store_key_same("", ""));
}
