/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hang/place.h"

#include "agent/hang/frames.h"

#include <string.h>

/* FNV-1a, of the end of the text too. */
static uint64_t mix(uint64_t hash, const char *text)
{
    do
        hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    while (*text++);
    return hash;
}

static bool imports(const struct dt_python_frame *frames, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strncmp(frames[i].file, "<frozen importlib", strlen("<frozen importlib")) == 0)
            return true;
    return false;
}

/* PyTorch's own ways to wait for others that ask the store now and then. */
static bool asks_store(const struct dt_python_frame *frames, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(dt_frame_name(&frames[i]), "_store_based_barrier") == 0)
            return true;
    return false;
}

static enum dt_place_kind kind_of(enum dt_doing doing, const struct dt_python_frame *frames,
                                  size_t depth, size_t user)
{
    if (doing == DT_DOING_COMPILE || doing == DT_DOING_SAVE)
        return DT_PLACE_SLOW;
    if (imports(frames, depth))
        return DT_PLACE_IMPORT;
    if (doing == DT_DOING_COLLECTIVE || doing == DT_DOING_STORE)
        return DT_PLACE_WAIT;
    return user == 0 ? DT_PLACE_OWN : DT_PLACE_LIBRARY;
}

/* ... and whether it waits for other threads. */
static struct dt_place place_of(const struct dt_python_thread *t, bool asleep, bool *joins)
{
    size_t at, depth = dt_frames_own(t->frames, t->depth), user = dt_frames_user(t->frames, depth);
    const struct dt_frame_row *row =
        dt_frames_meaning(t->frames, depth, user, depth == t->depth && !t->deeper, asleep, &at);
    const struct dt_python_frame *f = &t->frames[user < depth ? user : 0];
    *joins = row && row->joins;
    enum dt_doing doing = row ? row->doing : DT_DOING_UNKNOWN;
    return (struct dt_place){
        .kind = kind_of(doing, t->frames, depth, user),
        .function = mix(mix(UINT64_C(0xcbf29ce484222325), f->file), f->function),
        .line = f->line,
        .polls = doing != DT_DOING_COLLECTIVE || asks_store(t->frames, depth),
    };
}

struct dt_place dt_place_of(const struct dt_python_stacks *stacks,
                            const struct dt_python_thread *main, bool asleep)
{
    bool joins, others_join;
    if (!main || main->depth == 0)
        return (struct dt_place){.kind = DT_PLACE_UNKNOWN};
    struct dt_place p = place_of(main, asleep, &joins);
    for (size_t i = 0; joins && i < stacks->len; i++) {
        const struct dt_python_thread *t = &stacks->at[i];
        if (t == main || t->depth == 0)
            continue;
        struct dt_place other = place_of(t, true, &others_join);
        p.function += other.function + (uint64_t)other.line;
    }
    return p;
}
