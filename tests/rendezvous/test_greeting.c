/* SPDX-License-Identifier: Apache-2.0 */
/* Both sides of the greeting, talking to each other. The proofs are a toy's: what matters is who
 * says what when. */
#include "rendezvous/protocol/greeting.h"
#include "tests/lib/check.h"

static void toy_hmac(const void *key, size_t key_len, const void *text, size_t len,
                     uint8_t out[DT_PROOF_SIZE])
{
    const uint8_t *k = key, *t = text;
    memset(out, 0, DT_PROOF_SIZE);
    for (size_t i = 0; i < len; i++)
        out[i % DT_PROOF_SIZE] = (uint8_t)(31 * out[i % DT_PROOF_SIZE] + t[i]);
    for (size_t i = 0; i < key_len; i++)
        out[i % DT_PROOF_SIZE] ^= k[i];
}

static const struct dt_proof_table toy = {.hmac_sha256 = toy_hmac};
static const struct dt_token right = {"right", 5}, wrong = {"wrong", 5};

struct pair {
    struct dt_greeting client, server;
    struct dt_message from_client, from_server; /* said last */
};

static void pair_begin(struct pair *p, const struct dt_token *client, const struct dt_token *server)
{
    struct dt_err err = {0};
    *p = (struct pair){
        .client = {.side = DT_PROOF_CLIENT, .token = client, .proofs = client ? &toy : NULL},
        .server = {.side = DT_PROOF_SERVER, .token = server, .proofs = server ? &toy : NULL},
    };
    CHECK_OK(dt_greeting_begin(&p->client, "a client", "", &p->from_client, &err), err);
    CHECK_OK(dt_greeting_begin(&p->server, "a server", "daemon", &p->from_server, &err), err);
}

static enum dt_greeting_outcome client_hears(struct pair *p)
{
    return dt_greeting_hear(&p->client, &p->from_server, &p->from_client);
}

static enum dt_greeting_outcome server_hears(struct pair *p)
{
    return dt_greeting_hear(&p->server, &p->from_client, &p->from_server);
}

TEST(without_a_token_two_hellos_are_all)
{
    struct pair p;
    pair_begin(&p, NULL, NULL);
    struct dt_message hello = p.from_server;
    CHECK_EQ(hello.hello.version, DT_CONTROL_VERSION);
    CHECK_STR(hello.hello.program, "a server");
    CHECK_STR(hello.hello.host, "daemon");
    CHECK(!hello.hello.token);
    CHECK_EQ(server_hears(&p), DT_GREETING_DONE);
    CHECK_EQ(p.from_server.type, DT_MSG_TYPES);
    p.from_server = hello;
    CHECK_EQ(client_hears(&p), DT_GREETING_DONE);
    CHECK_EQ(p.from_client.type, DT_MSG_TYPES);
}

TEST(a_token_is_proved_by_the_client_first)
{
    struct pair p;
    pair_begin(&p, &right, &right);
    struct dt_message hello = p.from_server;
    CHECK(hello.hello.token);
    CHECK(!p.from_client.hello.token);
    CHECK_EQ(server_hears(&p), DT_GREETING_GOES_ON);
    CHECK_EQ(p.from_server.type, DT_MSG_TYPES); /* nothing to try guesses on */
    p.from_server = hello;
    CHECK_EQ(client_hears(&p), DT_GREETING_GOES_ON);
    CHECK_EQ(p.from_client.type, DT_MSG_PROOF);
    CHECK_EQ(server_hears(&p), DT_GREETING_DONE);
    CHECK_EQ(p.from_server.type, DT_MSG_PROOF);
    CHECK_EQ(client_hears(&p), DT_GREETING_DONE);
    CHECK_EQ(p.from_client.type, DT_MSG_TYPES);
}

TEST(who_does_not_know_the_token_is_found_out)
{
    struct pair p;
    pair_begin(&p, &wrong, &right);
    struct dt_message hello = p.from_server;
    server_hears(&p);
    p.from_server = hello;
    client_hears(&p);
    CHECK_EQ(server_hears(&p), DT_GREETING_WRONG_PROOF);
    CHECK_EQ(p.from_server.type, DT_MSG_TYPES);
    p.from_server = p.from_client; /* its own proof, sent back */
    CHECK_EQ(client_hears(&p), DT_GREETING_WRONG_PROOF);
}

TEST(a_client_looks_at_version_and_token)
{
    static const struct {
        int version;
        bool asks;
        const struct dt_token *token;
        enum dt_greeting_outcome outcome;
    } rows[] = {
        {DT_CONTROL_VERSION, false, NULL, DT_GREETING_DONE},
        {DT_CONTROL_VERSION, true, NULL, DT_GREETING_TOKEN_ASKED},
        {DT_CONTROL_VERSION, false, &right, DT_GREETING_TOKEN_NOT_ASKED},
        {DT_CONTROL_VERSION + 1, false, NULL, DT_GREETING_OTHER_VERSION},
        {DT_CONTROL_VERSION + 1, true, NULL, DT_GREETING_OTHER_VERSION},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pair p;
        CHECK_ROW("row %zu", i);
        pair_begin(&p, rows[i].token, NULL);
        p.from_server.hello.version = rows[i].version;
        p.from_server.hello.token = rows[i].asks;
        CHECK_EQ(client_hears(&p), rows[i].outcome);
        CHECK_EQ(p.from_client.type, DT_MSG_TYPES);
    }
}

TEST(what_is_not_due_is_out_of_place)
{
    struct pair p;
    pair_begin(&p, NULL, &right);
    struct dt_message hello = p.from_client;
    p.from_client = (struct dt_message){.type = DT_MSG_PROOF};
    CHECK_EQ(server_hears(&p), DT_GREETING_OUT_OF_PLACE);
    p.from_client = hello;
    CHECK_EQ(server_hears(&p), DT_GREETING_GOES_ON);
    CHECK_EQ(server_hears(&p), DT_GREETING_OUT_OF_PLACE); /* a second hello */
    p.from_client = (struct dt_message){.type = DT_MSG_BEAT};
    CHECK_EQ(server_hears(&p), DT_GREETING_OUT_OF_PLACE);
}
