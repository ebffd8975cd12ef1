/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hang/flight.h"

#include "agent/hang/frames.h"
#include "agent/pickle/pickle.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define OPCODES_MAX (2u << 20)
#define CALL_MAX 224 /* of which a detail has room for all */

/* -- texts ------------------------------------------------------------------------------------ */

static bool ends_with(struct dt_bytes text, const char *end)
{
    size_t len = strlen(end);
    return text.len >= len && memcmp(text.at + (text.len - len), end, len) == 0;
}

static bool equals(const struct dt_pickle_value *text, const char *what)
{
    return text && dt_bytes_equal(text->bytes, dt_bytes_of(what));
}

/* The beginning of TEXT. */
static void copy(char *out, size_t size, struct dt_bytes text)
{
    snprintf(out, size, "%.*s", text.len < size ? (int)text.len : (int)size, (const char *)text.at);
}

/* -- one entry -------------------------------------------------------------------------------- */

static int64_t get_int(const struct dt_pickle_value *dict, const char *name, int64_t absent)
{
    const struct dt_pickle_value *v = dt_pickle_get(dict, name, DT_PICKLE_INT);
    return v ? v->number : absent;
}

static bool is_true(const struct dt_pickle_value *dict, const char *name)
{
    const struct dt_pickle_value *v = dt_pickle_get(dict, name, DT_PICKLE_BOOL);
    return v && v->number;
}

/* False: a frame of C++, or none. */
static bool read_frame(struct dt_python_frame *f, const struct dt_pickle_value *v)
{
    const struct dt_pickle_value *file, *name;
    if (v->type != DT_PICKLE_DICT)
        return false;
    file = dt_pickle_get(v, "filename", DT_PICKLE_TEXT);
    name = dt_pickle_get(v, "name", DT_PICKLE_TEXT);
    if (!file || !(ends_with(file->bytes, ".py") || ends_with(file->bytes, ">")))
        return false;
    struct dt_bytes end = file->bytes;
    size_t more = end.len < sizeof f->file ? 0 : end.len - sizeof f->file + 1;
    *f = (struct dt_python_frame){.line = (int)get_int(v, "line", 0)};
    copy(f->file, sizeof f->file, (struct dt_bytes){end.at + more, end.len - more});
    if (name)
        copy(f->function, sizeof f->function, name->bytes);
    return true;
}

/* The frames of an entry have the innermost first, as those of a stack. */
static void read_frames(struct dt_flight_call *c, const struct dt_pickle_value *entry)
{
    const struct dt_pickle_value *list = dt_pickle_get(entry, "frames", DT_PICKLE_LIST);
    struct dt_python_frame *frames = calloc(DT_PYTHON_DEPTH_MAX, sizeof *frames);
    size_t depth = 0;
    for (struct dt_pickle_item *i = list && frames ? list->first : NULL;
         i && depth < DT_PYTHON_DEPTH_MAX; i = i->next)
        depth += read_frame(&frames[depth], i->key);
    size_t user = dt_frames_user(frames, depth);
    if (user < depth) {
        snprintf(c->where, sizeof c->where, "%s:%d", frames[user].file, frames[user].line);
        snprintf(c->function, sizeof c->function, "%s", frames[user].function);
    }
    free(frames);
}

/* What PyTorch calls otherwise than the function that a program calls, by which stacks know it. */
static const char *const other_names[][2] = {
    {"_all_gather_base", "all_gather_into_tensor"},
    {"_reduce_scatter_base", "reduce_scatter_tensor"},
    {"all_reduce_barrier", "barrier"},
    {"_broadcast_oop", "broadcast"},
    {"_reduce_oop", "reduce"},
};

static void name_as_called(char name[DT_STANCE_NAME_MAX])
{
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++)
        if (strcmp(name, other_names[i][0]) == 0)
            snprintf(name, DT_STANCE_NAME_MAX, "%s", other_names[i][1]);
}

/* "nccl:all_reduce", "nccl:recv 1<-0" */
static void read_name(struct dt_flight_call *c, const struct dt_pickle_value *entry)
{
    const struct dt_pickle_value *v = dt_pickle_get(entry, "profiling_name", DT_PICKLE_TEXT);
    const uint8_t *colon = v && v->bytes.len ? memchr(v->bytes.at, ':', v->bytes.len) : NULL;
    if (!v)
        return;
    size_t skip = colon ? (size_t)(colon - v->bytes.at) + 1 : 0;
    copy(c->collective, sizeof c->collective,
         (struct dt_bytes){v->bytes.at + skip, v->bytes.len - skip});
    char *blank = strchr(c->collective, ' ');
    if (blank) {
        snprintf(c->peers, sizeof c->peers, "%s", blank + 1);
        *blank = '\0';
    }
    name_as_called(c->collective);
}

/* ("0", "default_pg"): the name is the same on all ranks, the description is for people. Up to
 * PyTorch 2.3 there is a number alone. */
static void read_group(struct dt_flight_call *c, const struct dt_pickle_value *entry)
{
    const struct dt_pickle_value *v = dt_pickle_get(entry, "process_group", DT_PICKLE_TUPLE);
    char name[DT_STANCE_NAME_MAX] = "", about[DT_STANCE_NAME_MAX] = "";
    int64_t number = get_int(entry, "pg_id", -1);
    if (!v && number >= 0)
        snprintf(c->group, sizeof c->group, "%" PRId64, number);
    if (!v || v->count != 2 || v->first->key->type != DT_PICKLE_TEXT ||
        v->last->key->type != DT_PICKLE_TEXT)
        return;
    copy(name, sizeof name, v->first->key->bytes);
    copy(about, sizeof about, v->last->key->bytes);
    bool told = *about && strcmp(about, "undefined") != 0;
    char both[2 * DT_STANCE_NAME_MAX + 4];
    snprintf(both, sizeof both, "%s (%s)", name, about);
    bool fits = strlen(both) < sizeof c->group;
    copy(c->group, sizeof c->group, dt_bytes_of(told && fits ? both : name));
}

static void put_sizes(struct dt_buf *out, const struct dt_pickle_value *sizes)
{
    dt_buf_put_str(out, "[");
    for (struct dt_pickle_item *i = sizes->first; i && i->key->type == DT_PICKLE_INT; i = i->next)
        dt_buf_printf(out, "%s%" PRId64, i == sizes->first ? "" : ", ", i->key->number);
    dt_buf_put_str(out, "]");
}

/* "Float [1024], Long [8, 2]": what goes in, where nothing does what comes out. */
static void read_shape(struct dt_flight_call *c, const struct dt_pickle_value *entry)
{
    const struct dt_pickle_value *sizes = dt_pickle_get(entry, "input_sizes", DT_PICKLE_LIST);
    const struct dt_pickle_value *types = dt_pickle_get(entry, "input_dtypes", DT_PICKLE_LIST);
    if (!sizes || !sizes->first) {
        sizes = dt_pickle_get(entry, "output_sizes", DT_PICKLE_LIST);
        types = dt_pickle_get(entry, "output_dtypes", DT_PICKLE_LIST);
    }
    struct dt_buf out = {0};
    const struct dt_pickle_item *type = types ? types->first : NULL;
    for (struct dt_pickle_item *i = sizes ? sizes->first : NULL; i && out.len < sizeof c->shape;
         i = i->next) {
        dt_buf_put_str(&out, i == sizes->first ? "" : ", ");
        if (type && type->key->type == DT_PICKLE_TEXT) {
            dt_buf_put(&out, type->key->bytes.at, type->key->bytes.len);
            dt_buf_put_str(&out, " ");
        }
        if (i->key->type == DT_PICKLE_LIST)
            put_sizes(&out, i->key);
        type = type ? type->next : NULL;
    }
    copy(c->shape, sizeof c->shape, (struct dt_bytes){out.at, out.len});
    dt_buf_finish(&out);
}

/* Of send and recv each rank counts its own. */
static int64_t sequence_of(const struct dt_pickle_value *entry)
{
    if (is_true(entry, "is_p2p"))
        return -1;
    return get_int(entry, "collective_seq_id", get_int(entry, "seq_id", -1));
}

static void read_call(struct dt_flight_call *c, const struct dt_pickle_value *entry)
{
    *c = (struct dt_flight_call){.sequence = sequence_of(entry)};
    c->started = equals(dt_pickle_get(entry, "state", DT_PICKLE_TEXT), "started");
    read_name(c, entry);
    read_group(c, entry);
    read_shape(c, entry);
    read_frames(c, entry);
}

/* gloo has no events to ask: its entries stay "scheduled" and are retired when they are over. One
 * of NCCL that is retired without being completed has timed out. */
static bool is_over(const struct dt_pickle_value *entry)
{
    const struct dt_pickle_value *name = dt_pickle_get(entry, "profiling_name", DT_PICKLE_TEXT);
    bool device = name && name->bytes.len > 5 && memcmp(name->bytes.at, "nccl:", 5) == 0;
    return equals(dt_pickle_get(entry, "state", DT_PICKLE_TEXT), "completed") ||
           (!device && is_true(entry, "retired"));
}

/* -- all of them ------------------------------------------------------------------------------ */

static void read_entries(struct dt_flight *f, const struct dt_pickle_value *entries)
{
    const struct dt_pickle_value *done = NULL;
    for (struct dt_pickle_item *i = entries->first; i; i = i->next) {
        if (i->key->type != DT_PICKLE_DICT)
            continue;
        if (is_over(i->key)) {
            done = i->key;
            f->completed++;
        } else if (f->pending++ == 0) {
            read_call(&f->waits, i->key);
        }
    }
    if (done)
        read_call(&f->done, done);
}

static int read_root(struct dt_flight *f, const struct dt_pickle_value *root, struct dt_err *err)
{
    const struct dt_pickle_value *version, *entries;
    if (root->type != DT_PICKLE_DICT)
        return dt_err_set(err, DT_E_PROTOCOL, "it is no dict");
    version = dt_pickle_get(root, "version", DT_PICKLE_TEXT);
    if (!version || version->bytes.len < 2 || version->bytes.at[1] != '.' ||
        version->bytes.at[0] < '1' || version->bytes.at[0] > '2')
        return dt_err_set(err, DT_E_PROTOCOL, "it is not of version 1 or 2, which are known");
    entries = dt_pickle_get(root, "entries", DT_PICKLE_LIST);
    if (!entries)
        return dt_err_set(err, DT_E_PROTOCOL, "it has no list of entries");
    read_entries(f, entries);
    return 0;
}

int dt_flight_read(struct dt_flight *f, struct dt_bytes dump, struct dt_err *err)
{
    static const struct dt_pickle_limits limits = {.bytes = DT_FLIGHT_MAX, .opcodes = OPCODES_MAX};
    struct dt_pickle p;
    *f = (struct dt_flight){0};
    if (dt_pickle_read(&p, dump, &limits, NULL, err) < 0)
        return -1;
    int rc = read_root(f, p.root, err);
    dt_pickle_finish(&p);
    return rc;
}

/* -- what a worker does ----------------------------------------------------------------------- */

/* What holds a worker up whatever its GPU waits for. */
static bool stands_by_itself(const struct dt_stance *s)
{
    return s->doing == DT_DOING_STOPPED || s->doing == DT_DOING_LEFT || s->doing == DT_DOING_CHILD;
}

static void tell_waits(const struct dt_flight *f, struct dt_stance *s)
{
    const struct dt_flight_call *c = &f->waits;
    if (*c->where && *s->where && strcmp(c->where, s->where) != 0 && !*s->detail)
        snprintf(s->detail, sizeof s->detail, "the program has gone on to %.*s",
                 DT_STANCE_OBJECT_MAX - 32, s->where);
    s->doing = DT_DOING_COLLECTIVE;
    snprintf(s->object, sizeof s->object, "%s", c->peers);
    if (*c->where) {
        memcpy(s->where, c->where, sizeof s->where);
        memcpy(s->function, c->function, sizeof s->function);
    }
    memcpy(s->collective, c->collective, sizeof s->collective);
    memcpy(s->group, c->group, sizeof s->group);
    memcpy(s->shape, c->shape, sizeof s->shape);
    s->sequence = c->sequence;
}

/* "all_reduce number 148 of group 0 (default_pg)" */
static const char *name_call(const struct dt_flight_call *c, char out[CALL_MAX])
{
    char number[32] = "";
    if (c->sequence >= 0)
        snprintf(number, sizeof number, " number %" PRId64, c->sequence);
    snprintf(out, CALL_MAX, "%s%s%s%s%s%s", c->collective, *c->peers ? " " : "", c->peers, number,
             *c->group ? " of group " : "", c->group);
    return out;
}

void dt_flight_tell(const struct dt_flight *f, struct dt_stance *s)
{
    char call[CALL_MAX];
    if (stands_by_itself(s))
        return;
    if (f->pending > 0)
        tell_waits(f, s);
    else if (f->completed > 0 && s->doing != DT_DOING_COLLECTIVE && !*s->detail)
        snprintf(s->detail, sizeof s->detail, "its last collective was %s",
                 name_call(&f->done, call));
}

static void put_call(struct dt_buf *out, const char *what, const struct dt_flight_call *c)
{
    char call[CALL_MAX];
    dt_buf_printf(out, "flight recorder: %s %s%s%s%s%s\n", what, name_call(c, call),
                  *c->shape ? ", " : "", c->shape, *c->where ? ", called at " : "", c->where);
}

void dt_flight_put_text(const struct dt_flight *f, struct dt_buf *out)
{
    if (f->completed > 0)
        put_call(out, "the last that is over is", &f->done);
    if (f->pending > 0)
        put_call(out, f->waits.started ? "runs" : "has not begun", &f->waits);
    if (f->pending > 1)
        dt_buf_printf(out, "flight recorder: %d more stand in line behind that\n", f->pending - 1);
}
