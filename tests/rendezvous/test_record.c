/* SPDX-License-Identifier: Apache-2.0 */
/* A run's record in the journal, and the records that older versions wrote: tests/golden has one of
 * each, of the same two nodes in the same round, of which the second one's workers have succeeded.
 */
#include "base/fs.h"
#include "rendezvous/rdzv/rdzv.h"
#include "tests/lib/check.h"

#define NOW (1000 * DT_SECOND)

static struct dt_exclude exclude;

static struct dt_rdzv *restore(const struct dt_buf *record)
{
    struct dt_bytes bytes = {record->at, record->len};
    return dt_rdzv_restore("run", &exclude, 1, bytes, NOW);
}

static void read_golden(const char *name, struct dt_buf *out)
{
    char path[400];
    struct dt_err err = {0};
    snprintf(path, sizeof path, "%s/%s", DT_GOLDEN_DIR, name);
    CHECK_OK(dt_fs_read(path, 4096, out, &err), err);
}

static void check_numbers(const struct dt_run_spec *s)
{
    CHECK_EQ(s->min_nodes, 2);
    CHECK_EQ(s->max_nodes, 3);
    CHECK_EQ(s->spares, 4);
    CHECK(s->fixed_world);
    CHECK(s->torchrun_ranks);
    CHECK_EQ(s->max_restarts, 5);
    CHECK_EQ(s->max_node_losses, -1);
    CHECK_EQ(s->no_progress, 6);
    CHECK_EQ(s->strikes, 7);
    CHECK_EQ(s->quarantine, 8000);
    CHECK_EQ(s->join_timeout, DT_FOREVER);
    CHECK_EQ(s->last_call, 9000);
    CHECK_EQ(s->beat, 1000);
    CHECK_EQ(s->beats, 11);
    CHECK_EQ(s->reconnect_grace, 1200);
    CHECK_EQ(s->stop_bound, 13000);
    CHECK_EQ(s->grow_interval, 14000);
    CHECK_EQ(s->restart_reset, 15000);
    CHECK_EQ(s->command, 0xfedcba9876543210);
    CHECK_STR(s->job, "17");
}

static void check_member(const struct dt_rdzv *run, int i)
{
    char name[8], addr[16];
    const struct dt_member *m = dt_members_find(&run->members, 1000 + (uint64_t)i);
    CHECK_ROW("node %d", i);
    CHECK(m != NULL);
    snprintf(name, sizeof name, "node%d", i);
    snprintf(addr, sizeof addr, "10.0.0.%d", i);
    CHECK_STR(m->name.text, name);
    CHECK_STR(m->said_name, name);
    CHECK_STR(m->boot, "boot");
    CHECK_STR(m->role, "default");
    CHECK_STR(m->addr, addr);
    CHECK_EQ(m->port, 40000 + i);
    CHECK_EQ(m->workers, 2);
    CHECK_EQ(m->order, -1);
    CHECK_EQ(m->expected, 0);
    CHECK_EQ(m->seat, i);
    CHECK_EQ(m->round, 0);
    CHECK_EQ(m->first_rank, 2 * i);
    CHECK_EQ(m->size, 4);
    CHECK_EQ(m->first_role_rank, 2 * i);
    CHECK_EQ(m->role_size, 4);
    CHECK_EQ(m->prev_rank, -1);
    CHECK_EQ(m->prev_size, 0);
    CHECK_EQ(m->doing, i ? DT_MEMBER_DONE : DT_MEMBER_RUNNING);
}

static void check_round(const struct dt_rdzv *run)
{
    CHECK_EQ(run->state, DT_RUN_RUNNING);
    CHECK_EQ(run->round, 0);
    CHECK_EQ(run->size, 4);
    CHECK_STR(run->master_addr, "10.0.0.0");
    CHECK_EQ(run->master_port, 40000);
    CHECK_EQ(run->seats_len, 2);
    CHECK(!run->seats[0].done && run->seats[1].done);
    for (int i = 0; i < 2; i++)
        check_member(run, i);
}

TEST(records_of_older_versions_are_read)
{
    static const struct {
        const char *file, *script, *user;
        bool mixed;
        const char *begun_on; /* since 6 it is told who began it */
    } rows[] = {
        {"run-1.record", "", "", false, ""}, /* nobody told yet what it runs and for whom */
        {"run-2.record", "train.py", "ada", true, ""},
        {"run-3.record", "train.py", "ada", true, ""},
        {"run-4.record", "train.py", "ada", true, ""},
        {"run-5.record", "train.py", "ada", true, ""},
        {"run-6.record", "train.py", "ada", true, "node0"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_buf record = {0};
        CHECK_ROW("%s", rows[i].file);
        dt_exclude_init(&exclude, 1);
        read_golden(rows[i].file, &record);
        struct dt_rdzv *run = restore(&record);
        CHECK(run != NULL);
        check_numbers(&run->spec);
        CHECK_STR(run->spec.script, rows[i].script);
        CHECK_STR(run->spec.user, rows[i].user);
        CHECK_EQ(run->spec.mixed, rows[i].mixed);
        check_round(run);
        CHECK_STR(run->beginning.node, rows[i].begun_on);
        dt_rdzv_destroy(run);
        dt_exclude_finish(&exclude);
        dt_buf_finish(&record);
    }
}

TEST(what_is_written_is_read_as_it_was)
{
    struct dt_buf old = {0}, now = {0};
    dt_exclude_init(&exclude, 1);
    read_golden("run-2.record", &old);
    struct dt_rdzv *first = restore(&old);
    CHECK(first != NULL);
    dt_rdzv_save(first, &now);
    struct dt_rdzv *again = restore(&now);
    CHECK(again != NULL);
    check_numbers(&again->spec);
    CHECK_STR(again->spec.script, "train.py");
    CHECK_STR(again->spec.user, "ada");
    CHECK(again->spec.mixed);
    check_round(again);
    dt_rdzv_destroy(first);
    dt_rdzv_destroy(again);
    dt_exclude_finish(&exclude);
    dt_buf_finish(&old);
    dt_buf_finish(&now);
}

/* Where the length of the spec stands. */
#define SPEC_AT 1

static void resize_spec(struct dt_buf *record, const void *more, size_t more_len, size_t less)
{
    struct dt_reader in = dt_reader_over(record->at + SPEC_AT, record->len - SPEC_AT);
    uint32_t len = dt_read_u32(&in);
    size_t end = SPEC_AT + 4 + len;
    struct dt_buf out = {0};
    dt_buf_put(&out, record->at, end - less);
    dt_buf_put(&out, more, more_len);
    dt_buf_put(&out, record->at + end, record->len - end);
    dt_buf_set_u32(&out, SPEC_AT, (uint32_t)(len - less + more_len));
    dt_buf_finish(record);
    *record = out;
}

/* Bytes that the rows from NAME on take in a record of RUN. */
static size_t length_from(const struct dt_rdzv *run, const char *name)
{
    const struct dt_field *row = dt_spec_fields;
    struct dt_buf rest = {0};
    while (row->name && strcmp(row->name, name) != 0)
        row++;
    CHECK(row->name != NULL);
    dt_fields_pack(&rest, &run->spec, row);
    size_t len = rest.len;
    dt_buf_finish(&rest);
    return len;
}

/* What a server writes when a row is added to the spec, and what it reads then. */
TEST(a_spec_with_more_rows_or_fewer_is_read_as_far_as_it_goes)
{
    struct dt_buf old = {0}, longer = {0}, shorter = {0};
    dt_exclude_init(&exclude, 1);
    read_golden("run-2.record", &old);
    struct dt_rdzv *first = restore(&old);
    CHECK(first != NULL);
    dt_rdzv_save(first, &longer);
    dt_rdzv_save(first, &shorter);
    resize_spec(&longer, "12345678", 8, 0);
    resize_spec(&shorter, NULL, 0, length_from(first, "mixed"));
    struct dt_rdzv *more = restore(&longer), *fewer = restore(&shorter);
    CHECK(more && fewer);
    check_numbers(&more->spec);
    check_round(more);
    CHECK(more->spec.mixed);
    check_numbers(&fewer->spec);
    check_round(fewer);
    CHECK_STR(fewer->spec.user, "ada");
    CHECK(!fewer->spec.mixed);
    dt_rdzv_destroy(first);
    dt_rdzv_destroy(more);
    dt_rdzv_destroy(fewer);
    dt_exclude_finish(&exclude);
    dt_buf_finish(&old);
    dt_buf_finish(&longer);
    dt_buf_finish(&shorter);
}
