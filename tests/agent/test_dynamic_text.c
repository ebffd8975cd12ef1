/* SPDX-License-Identifier: Apache-2.0 */
/* States that real agents wrote: tests/golden/rendezvous-*.golden. */
#include "agent/backend/torchrun/dynamic.h"
#include "base/base64.h"
#include "tests/lib/check.h"

#define ROWS(a) (sizeof(a) / sizeof *(a))

static int by_node(const void *a, const void *b)
{
    const struct dt_dynamic_node *x = a, *y = b; /* what a member begins with */
    int by_addr = strcmp(x->addr, y->addr);
    return by_addr ? by_addr : (int)(x->pid - y->pid);
}

/* As the golden files tell it. */
static const char *told(struct dt_dynamic_state *s, struct dt_buf *out)
{
    qsort(s->members, s->count, sizeof *s->members, by_node);
    dt_buf_clear(out);
    dt_buf_printf(out, "round %d%s%s, deadline %lld; participants", (int)s->round,
                  s->complete ? " complete" : "", s->closed ? " closed" : "",
                  (long long)s->deadline);
    static const char *const names[] = {"", "; waiting", "; redundant", "; beats"};
    for (int list = 0; list < 4; list++) {
        dt_buf_put_str(out, names[list]);
        for (size_t i = 0; i < s->count; i++) {
            const struct dt_dynamic_member *m = &s->members[i];
            const bool in[] = {m->participates, m->waits, m->redundant, m->beats};
            if (in[list])
                dt_buf_printf(out, " %s/%d/%d", m->node.addr, (int)m->node.pid,
                              (int)m->node.local_id);
            if (in[list] && list == 0)
                dt_buf_printf(out, "=%d", m->rank);
            if (in[list] && list == 3)
                dt_buf_printf(out, "@%lld", (long long)m->heartbeat);
        }
    }
    return dt_buf_cstr(out);
}

struct golden {
    FILE *file;
    char said[4096], text[8192];
};

static void golden_open(struct golden *g, const char *version)
{
    char path[512];
    snprintf(path, sizeof path, "%s/rendezvous-%s.golden", DT_GOLDEN_DIR, version);
    g->file = fopen(path, "r");
    CHECK(g->file != NULL);
}

static bool golden_next(struct golden *g)
{
    do
        if (!fgets(g->said, sizeof g->said, g->file))
            return false;
    while (g->said[0] == '#' || g->said[0] == '\n');
    CHECK(fgets(g->text, sizeof g->text, g->file) != NULL);
    g->said[strcspn(g->said, "\n")] = g->text[strcspn(g->text, "\n")] = '\0';
    return true;
}

TEST(states_that_real_agents_wrote)
{
    static const struct {
        const char *version;
        struct dt_dynamic_dialect dialect;
        int states;
    } rows[] = {
        {"1.13", {.told = true, .fqdn = true, .naive = true}, 11},
        {"2.6", {.told = true, .redundancy = true}, 12},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct dt_dynamic_state s = {0};
        struct dt_buf out = {0};
        struct golden g;
        struct dt_err err;
        int states = 0;
        for (golden_open(&g, rows[i].version); golden_next(&g); states++) {
            CHECK_ROW("%s: %s", rows[i].version, g.said);
            CHECK_OK(dt_dynamic_read(&s, dt_bytes_of(g.text), &err), err);
            CHECK_STR(told(&s, &out), g.said);
            CHECK_EQ(s.dialect.told, rows[i].dialect.told);
            CHECK_EQ(s.dialect.fqdn, rows[i].dialect.fqdn);
            CHECK_EQ(s.dialect.naive, rows[i].dialect.naive);
            CHECK_EQ(s.dialect.redundancy, rows[i].dialect.redundancy);
            dt_buf_clear(&out);
            dt_dynamic_write(&s, &out);
            CHECK_OK(dt_dynamic_read(&s, (struct dt_bytes){out.at, out.len}, &err), err);
            CHECK_STR(told(&s, &out), g.said);
        }
        CHECK_EQ(states, rows[i].states);
        fclose(g.file);
        dt_dynamic_finish(&s);
        dt_buf_finish(&out);
    }
}

/* Where nothing in a state is one object in two roles by chance, we write what Python does. */
TEST(the_first_states_are_written_to_the_byte)
{
    static const char *const versions[] = {"1.13", "2.6"};
    for (size_t i = 0; i < ROWS(versions); i++) {
        CHECK_ROW("%s", versions[i]);
        struct dt_dynamic_state s = {0};
        struct dt_buf out = {0};
        struct golden g;
        struct dt_err err;
        golden_open(&g, versions[i]);
        CHECK(golden_next(&g));
        CHECK_OK(dt_dynamic_read(&s, dt_bytes_of(g.text), &err), err);
        dt_dynamic_write(&s, &out);
        CHECK_STR(dt_buf_cstr(&out), g.text);
        fclose(g.file);
        dt_dynamic_finish(&s);
        dt_buf_finish(&out);
    }
}

TEST(a_state_without_nodes_does_not_tell_how_they_are_written)
{
    struct dt_dynamic_state empty = {.round = 3}, s = {0};
    struct dt_buf out = {0};
    struct dt_err err;
    dt_dynamic_write(&empty, &out);
    CHECK_OK(dt_dynamic_read(&s, (struct dt_bytes){out.at, out.len}, &err), err);
    CHECK(!s.dialect.told);
    s.dialect = (struct dt_dynamic_dialect){.told = true, .fqdn = true, .naive = true};
    CHECK_OK(dt_dynamic_read(&s, (struct dt_bytes){out.at, out.len}, &err), err);
    CHECK(s.dialect.told && s.dialect.fqdn && s.dialect.naive);
    CHECK_EQ(s.round, 3);
    dt_dynamic_finish(&s);
    dt_buf_finish(&out);
}

TEST(as_many_nodes_as_there_may_be)
{
    struct dt_dynamic_state s = {.dialect = {.told = true, .redundancy = true}}, again = {0};
    struct dt_dynamic_node node = {0};
    struct dt_buf out = {0};
    struct dt_err err;
    for (int i = 0; i < DT_DYNAMIC_NODES_MAX; i++) {
        snprintf(node.addr, sizeof node.addr, "node%d.cluster.example.org", i);
        struct dt_dynamic_member *m = dt_dynamic_add(&s, &node);
        *m = (struct dt_dynamic_member){
            .node = node, .participates = true, .rank = i, .beats = true, .heartbeat = 1};
    }
    node.pid = 1;
    CHECK(!dt_dynamic_add(&s, &node));
    dt_dynamic_write(&s, &out);
    CHECK_OK(dt_dynamic_read(&again, (struct dt_bytes){out.at, out.len}, &err), err);
    CHECK_EQ(again.count, DT_DYNAMIC_NODES_MAX);
    CHECK_STR(again.members[4095].node.addr, "node4095.cluster.example.org");
    CHECK_EQ(again.members[4095].rank, 4095);
    dt_dynamic_finish(&s);
    dt_dynamic_finish(&again);
    dt_buf_finish(&out);
}

/* The first state of 2.6, with TEXT instead of WORDS of as many bytes. */
static int read_changed(const char *words, const char *text, struct dt_err *err)
{
    struct golden g;
    struct dt_dynamic_state s = {.round = 7};
    struct dt_buf bytes = {0}, out = {0};
    golden_open(&g, "2.6");
    CHECK(golden_next(&g));
    fclose(g.file);
    CHECK_OK(dt_base64_read(dt_bytes_of(g.text), &bytes, err), *err);
    uint8_t *at = memmem(bytes.at, bytes.len, words, strlen(words));
    CHECK(at != NULL);
    memcpy(at, text, strlen(words));
    dt_base64_write(&out, (struct dt_bytes){bytes.at, bytes.len});
    int rc = dt_dynamic_read(&s, (struct dt_bytes){out.at, out.len}, err);
    if (rc < 0)
        CHECK_EQ(s.round, 7); /* is as it was */
    dt_buf_finish(&bytes);
    dt_buf_finish(&out);
    dt_dynamic_finish(&s);
    return rc;
}

TEST(states_that_are_not_taken)
{
    /* clang-format off */
    static const struct { const char *words, *text, *error; } rows[] = {
        {"node1", "nodeX", NULL},
        {"_NodeDesc", "_NodeType", "names torch.distributed.elastic.rendezvous.dynamic_rendezvous._"},
        {"datetime\x94\x8c\x08" "datetime", "builtins\x94\x8c\x08" "evaluate", "names builtins.evaluate"},
        {"addr", "name", "a node in it is not as PyTorch"},
        {"pid", "pie", "a node in it is not as PyTorch"},
        {"node1.", "node1\0", "the address of a node in it"},
        {"wait_list", "wait_lost", "it is not as PyTorch"},
        {"redundancy_list", "redundancy_lost", "it is not as PyTorch"},
        {"round\x94K", "round\x94h", "it is not as PyTorch"},
        {"deadline\x94N", "deadline\x94\x88", "its deadline is not as PyTorch"},
        {"C\x0a\x07\xea", "C\x0a\x00\x01", "a time in it is not as PyTorch"},
    };
    /* clang-format on */
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].text);
        struct dt_err err = {0};
        int rc = read_changed(rows[i].words, rows[i].text, &err);
        if (rows[i].error)
            CHECK_FAIL(rc, err, rows[i].error);
        else
            CHECK_OK(rc, err);
    }
}

TEST(what_is_no_state_at_all)
{
    struct dt_dynamic_state s = {0};
    struct dt_err err;
    CHECK_FAIL(dt_dynamic_read(&s, dt_bytes_of(""), &err), err, "not one of protocol");
    CHECK_FAIL(dt_dynamic_read(&s, dt_bytes_of("a"), &err), err, "base64");
    CHECK_FAIL(dt_dynamic_read(&s, dt_bytes_of(DT_DYNAMIC_NOTHING), &err), err, "not one of");
    CHECK_FAIL(dt_dynamic_read(&s, dt_bytes_of("gAROLg=="), &err), err, "it is not as PyTorch");
}
