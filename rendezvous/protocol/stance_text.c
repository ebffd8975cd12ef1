/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/protocol/stance_text.h"

#include "rendezvous/protocol/store_key.h"

/* NULL: the name of the collective says enough. */
static const char *const words[DT_DOINGS] = {
    [DT_DOING_UNKNOWN] = "cannot be looked at",
    [DT_DOING_STOPPED] = "is stopped",
    [DT_DOING_LEFT] = "has left",
    [DT_DOING_CHILD] = "waits for a process of its own",
    [DT_DOING_STORE] = "waits in the store",
    [DT_DOING_COMPILE] = "compiles",
    [DT_DOING_COLLECT] = "collects garbage",
    [DT_DOING_SAVE] = "saves",
    [DT_DOING_DISK] = "waits for a disk",
    [DT_DOING_PIPE] = "waits for a pipe or terminal",
    [DT_DOING_SOCKET] = "waits for a peer",
    [DT_DOING_LOCK] = "waits for a lock",
    [DT_DOING_SLEEP] = "sleeps",
    [DT_DOING_COMPUTE] = "computes",
    [DT_DOING_WAIT] = "waits in the kernel",
};

static void put(struct dt_buf *out, const char *lead, const char *text)
{
    if (*text)
        dt_buf_printf(out, "%s%s", lead, text);
}

/* "rank 3's address, key default_pg/0//cpu//0/3" */
static void put_keys(const char *keys, struct dt_buf *out)
{
    char meaning[DT_STORE_KEY_WORDS];
    put(out, " for ", dt_store_key_words(keys, meaning));
    dt_buf_printf(out, "%s key %s", *meaning ? "," : " for", keys);
}

static void put_group(const struct dt_stance_group *g, struct dt_buf *out)
{
    const struct dt_stance *s = &g->stance;
    const char *what = words[*s->keys ? DT_DOING_STORE : s->doing];
    char ranks[256];
    dt_buf_printf(out, "%s:", dt_stance_ranks(g, ranks, sizeof ranks));
    put(out, " ", s->doing == DT_DOING_COLLECTIVE ? s->collective : s->function);
    put(out, " ", s->where);
    if (what) {
        dt_buf_printf(out, " (%s", what);
        if (*s->keys)
            put_keys(s->keys, out);
        if (s->last_line > s->first_line)
            dt_buf_printf(out, " between lines %d and %d", s->first_line, s->last_line);
        put(out, ": ", s->object);
        put(out, ", ", s->detail);
        dt_buf_put_str(out, ")");
    }
    dt_buf_put_u8(out, '\n');
}

void dt_stances_put_text(const struct dt_stances *s, struct dt_buf *out)
{
    for (size_t i = 0; i < s->len; i++)
        put_group(&s->at[i], out);
}
