/* SPDX-License-Identifier: Apache-2.0 */
/* A file is read as from a stranger: the length of the header against the file before a byte of it
 * is taken, every member of it by type, products without overflow, and then the tensors, ordered by
 * where they begin, must fill the data from its first byte to its last. */
#include "worker_runtime/ckpt/safetensors.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/str.h"
#include "base/utf8.h"
#include "worker_runtime/lfs_pointer.h"

#define DATA_ALIGN 64
#define EXACT_MAX (1ll << 53) /* dt_json_int()'s own bound */

static const struct type {
    const char *name;
    size_t size;
    enum dt_dtype type;
} types[] = {
    {"F32", 4, DT_F32},        {"BF16", 2, DT_BF16},      {"F16", 2, DT_F16},
    {"F64", 8, DT_F64},        {"I32", 4, DT_I32},        {"I64", 8, DT_I64},
    {"U8", 1, DT_U8},          {"U16", 2, DT_U16},        {"BOOL", 1, DT_DTYPES},
    {"I8", 1, DT_DTYPES},      {"I16", 2, DT_DTYPES},     {"U32", 4, DT_DTYPES},
    {"U64", 8, DT_DTYPES},     {"F8_E4M3", 1, DT_DTYPES}, {"F8_E5M2", 1, DT_DTYPES},
    {"F8_E8M0", 1, DT_DTYPES},
};
#define TYPES (sizeof types / sizeof *types)

const char *dt_st_type_name(enum dt_dtype type)
{
    for (size_t i = 0; i < TYPES; i++)
        if (types[i].type == type && type != DT_DTYPES)
            return types[i].name;
    return NULL;
}

/* COUNT elements' bytes; -1: more than 64 bits hold. */
static int size_of(const struct dt_st_tensor *t, size_t element, uint64_t *out)
{
    uint64_t bytes = element;
    for (int i = 0; i < t->rank; i++)
        if (__builtin_mul_overflow(bytes, t->dims[i], &bytes))
            return -1;
    *out = bytes;
    return 0;
}

/* -- writing ---------------------------------------------------------------------------------- */

static void put_tensor(struct dt_json_writer *w, const struct dt_st_tensor *t)
{
    dt_json_put_object(w, t->name);
    dt_json_put_text(w, "dtype", dt_st_type_name(t->type));
    dt_json_put_array(w, "shape");
    for (int i = 0; i < t->rank; i++)
        dt_json_put_uint(w, NULL, t->dims[i]);
    dt_json_put_end(w);
    dt_json_put_array(w, "data_offsets");
    dt_json_put_uint(w, NULL, t->begin);
    dt_json_put_uint(w, NULL, t->end);
    dt_json_put_end(w);
    dt_json_put_end(w);
}

static int place(struct dt_st_tensor *t, uint64_t begin, struct dt_err *err)
{
    uint64_t bytes;
    if (!dt_st_type_name(t->type) || t->rank < 0 || t->rank > DT_ST_DIMS_MAX ||
        size_of(t, dt_dtype_size(t->type), &bytes) < 0 ||
        __builtin_add_overflow(begin, bytes, &t->end) || t->end > EXACT_MAX)
        return dt_err_set(err, DT_E_LIMIT, "tensor \"%s\" has no place in a safetensors file",
                          t->name);
    t->begin = begin;
    return 0;
}

int dt_st_header(struct dt_st_tensor *tensors, size_t count, const char *const *metadata,
                 struct dt_buf *out, struct dt_err *err)
{
    size_t at = out->len;
    dt_buf_put_u64(out, 0);
    struct dt_json_writer w = {.out = out};
    dt_json_put_object(&w, NULL);
    dt_json_put_object(&w, "__metadata__");
    dt_json_put_text(&w, "format", "pt");
    for (; metadata && *metadata; metadata += 2)
        dt_json_put_text(&w, metadata[0], metadata[1]);
    dt_json_put_end(&w);
    for (size_t i = 0; i < count; i++) {
        if (place(&tensors[i], i ? tensors[i - 1].end : 0, err) < 0)
            return -1;
        put_tensor(&w, &tensors[i]);
    }
    dt_json_put_end(&w);
    while ((out->len - at) % DATA_ALIGN)
        dt_buf_put_u8(out, ' ');
    if (out->bad)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a safetensors header");
    uint64_t n = out->len - at - sizeof n;
    if (n > DT_ST_HEADER_MAX)
        return dt_err_set(err, DT_E_LIMIT, "%zu tensors make too long a safetensors header", count);
    for (size_t i = 0; i < sizeof n; i++)
        out->at[at + i] = (uint8_t)(n >> 8 * i);
    return 0;
}

/* -- reading ---------------------------------------------------------------------------------- */

static int wrong(struct dt_err *err, const struct dt_st_tensor *t, const char *what)
{
    char name[100];
    return dt_err_set(err, DT_E_USAGE, "tensor \"%s\" %s",
                      dt_str_printable(dt_bytes_of(t->name), name, sizeof name), what);
}

/* The whole numbers of an array, from 0 up; -1: it is none, or has more than MAX. */
static int numbers(const struct cJSON *array, uint64_t *out, int max)
{
    int n = 0;
    if (!cJSON_IsArray(array))
        return -1;
    for (const struct cJSON *c = array->child; c; c = c->next, n++) {
        if (n == max || !cJSON_IsNumber(c) || !(c->valuedouble >= 0) ||
            c->valuedouble > (double)EXACT_MAX ||
            c->valuedouble != (double)(uint64_t)c->valuedouble)
            return -1;
        out[n] = (uint64_t)c->valuedouble;
    }
    return n;
}

static const struct type *type_named(const struct cJSON *v)
{
    for (size_t i = 0; cJSON_IsString(v) && i < TYPES; i++)
        if (strcmp(types[i].name, v->valuestring) == 0)
            return &types[i];
    return NULL;
}

/* The three members, each once. */
static int members(const struct cJSON *object, const struct cJSON *m[3])
{
    static const char *const names[3] = {"dtype", "shape", "data_offsets"};
    int found = 0;
    if (!cJSON_IsObject(object))
        return -1;
    for (const struct cJSON *c = object->child; c; c = c->next, found++) {
        int i = 0;
        while (i < 3 && strcmp(c->string, names[i]) != 0)
            i++;
        if (i == 3 || m[i])
            return -1;
        m[i] = c;
    }
    return found == 3 ? 0 : -1;
}

/* Names are shown to people, on terminals that do what such characters say. */
static bool steers(const char *name)
{
    const uint8_t *s = (const uint8_t *)name, *end = s + strlen(name);
    for (size_t n; s < end; s += n) {
        n = dt_utf8_len(s, (size_t)(end - s));
        if (n == 0 || dt_utf8_steers(s, n))
            return true;
    }
    return false;
}

static int read_tensor(struct dt_st_tensor *t, const struct cJSON *object, uint64_t data_size,
                       struct dt_err *err)
{
    const struct cJSON *m[3] = {NULL, NULL, NULL};
    uint64_t range[2], bytes;
    t->name = object->string;
    if (steers(t->name))
        return wrong(err, t, "has control characters in its name");
    if (members(object, m) < 0)
        return wrong(err, t, "has not just dtype, shape and data_offsets");
    const struct type *type = type_named(m[0]);
    if (!type)
        return wrong(err, t, "has a dtype that is not known");
    t->type = type->type;
    t->rank = numbers(m[1], t->dims, DT_ST_DIMS_MAX);
    if (t->rank < 0)
        return wrong(err, t, "has a shape that is no row of up to 8 whole numbers");
    if (numbers(m[2], range, 2) != 2 || range[0] > range[1] || range[1] > data_size)
        return wrong(err, t,
                     "has data_offsets that are no place in this file; is it cut short? Fetch "
                     "it again");
    t->begin = range[0];
    t->end = range[1];
    if (size_of(t, type->size, &bytes) < 0 || bytes != t->end - t->begin)
        return wrong(err, t, "has a shape and type that do not fit its data_offsets");
    return 0;
}

static int check_metadata(const struct cJSON *object, struct dt_err *err)
{
    if (!cJSON_IsObject(object))
        return dt_err_set(err, DT_E_USAGE, "__metadata__ is no object");
    for (const struct cJSON *c = object->child; c; c = c->next)
        if (!cJSON_IsString(c))
            return dt_err_set(err, DT_E_USAGE, "__metadata__ holds something else than strings");
    return 0;
}

const char *dt_st_metadata(const struct dt_st_file *f, const char *name)
{
    const struct cJSON *all = cJSON_GetObjectItemCaseSensitive(f->doc, "__metadata__");
    const struct cJSON *v = cJSON_GetObjectItemCaseSensitive(all, name);
    return cJSON_IsString(v) ? v->valuestring : NULL;
}

/* An empty one stands in front of what begins where it does. */
static int by_place(const void *a, const void *b)
{
    const struct dt_st_tensor *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static int by_name(const void *a, const void *b)
{
    const struct dt_st_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static int check_places(struct dt_st_file *f, struct dt_err *err)
{
    uint64_t at = 0;
    if (f->count)
        qsort(f->tensors, f->count, sizeof *f->tensors, by_place);
    for (size_t i = 0; i < f->count; i++) {
        const struct dt_st_tensor *t = &f->tensors[i];
        if (t->begin < at)
            return wrong(err, t, "lies over the data of another tensor");
        if (t->begin > at)
            return wrong(err, t, "has a gap in front of it");
        at = t->end;
    }
    if (at != f->size - f->data_at)
        return dt_err_set(err, DT_E_USAGE, "%" PRIu64 " bytes at the end belong to no tensor",
                          f->size - f->data_at - at);
    return 0;
}

static int check_names(struct dt_st_file *f, struct dt_err *err)
{
    for (size_t i = 0; i < f->count; i++)
        f->by_name[i] = &f->tensors[i];
    if (f->count)
        qsort(f->by_name, f->count, sizeof *f->by_name, by_name);
    for (size_t i = 1; i < f->count; i++)
        if (strcmp(f->by_name[i - 1]->name, f->by_name[i]->name) == 0)
            return wrong(err, f->by_name[i], "is there twice");
    return 0;
}

static int read_members(struct dt_st_file *f, struct dt_err *err)
{
    const struct cJSON *root = f->doc, *metadata = NULL;
    size_t members_count = 0;
    if (!cJSON_IsObject(root))
        return dt_err_set(err, DT_E_USAGE, "the header is no JSON object");
    for (const struct cJSON *c = root->child; c; c = c->next)
        members_count++;
    f->tensors = calloc(members_count + 1, sizeof *f->tensors);
    f->by_name = calloc(members_count + 1, sizeof *f->by_name);
    if (!f->tensors || !f->by_name)
        return dt_err_set(err, DT_E_MEMORY, "no memory for %zu tensors", members_count);
    for (const struct cJSON *c = root->child; c; c = c->next) {
        if (strcmp(c->string, "__metadata__") == 0) {
            if (metadata)
                return dt_err_set(err, DT_E_USAGE, "__metadata__ is there twice");
            metadata = c;
            if (check_metadata(c, err) < 0)
                return -1;
        } else if (read_tensor(&f->tensors[f->count++], c, f->size - f->data_at, err) < 0) {
            return -1;
        }
    }
    return check_places(f, err) < 0 ? -1 : check_names(f, err);
}

static int check_length(uint64_t n, uint64_t size, struct dt_err *err)
{
    if (n > size - sizeof n)
        return dt_err_set(err, DT_E_USAGE,
                          "its header would be %" PRIu64 " bytes long, the file has %" PRIu64, n,
                          size);
    if (n > DT_ST_HEADER_MAX)
        return dt_err_set(err, DT_E_LIMIT, "its header is longer than %d MiB",
                          (int)(DT_ST_HEADER_MAX >> 20));
    return 0;
}

int dt_st_parse(struct dt_st_file *f, struct dt_bytes head, uint64_t size, struct dt_err *err)
{
    struct dt_json doc;
    struct dt_reader r = dt_reader_over(head.at, head.len);
    memset(f, 0, sizeof *f);
    f->fd = -1;
    f->size = size;
    uint64_t n = dt_read_u64(&r);
    if (r.bad || size < sizeof n)
        return dt_err_set(err, DT_E_USAGE, "it is too short for a safetensors file");
    if (check_length(n, size, err) < 0)
        return -1;
    const uint8_t *text = dt_read_bytes(&r, n);
    if (!text || n == 0 || text[0] != '{')
        return dt_err_set(err, DT_E_USAGE, "its header does not begin with \"{\"");
    f->data_at = sizeof n + n;
    if (dt_json_parse(&doc, (const char *)text, n, DT_ST_HEADER_MAX, err) < 0)
        return dt_err_wrap(err, "its header");
    f->doc = doc.root;
    if (read_members(f, err) == 0)
        return 0;
    dt_st_close(f);
    return -1;
}

/* N bytes from AT on, all of them. */
static int read_at(int fd, void *to, size_t n, uint64_t at, struct dt_err *err)
{
    uint8_t *p = to;
    while (n) {
        ssize_t got = pread(fd, p, n, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot read");
        if (got == 0)
            return dt_err_set(err, DT_E_RUNTIME, "the file ends early");
        p += got;
        n -= (size_t)got;
        at += (uint64_t)got;
    }
    return 0;
}

/* F's header; the descriptor stays the caller's. */
static int parse_fd(struct dt_st_file *f, int fd, struct dt_err *err)
{
    struct stat st;
    uint8_t first[64];
    if (fstat(fd, &st) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot look at it");
    if (!S_ISREG(st.st_mode))
        return dt_err_set(err, DT_E_USAGE, "it is no file");
    uint64_t size = (uint64_t)st.st_size, n;
    if (size < sizeof n)
        return dt_err_set(err, DT_E_USAGE, "it is too short for a safetensors file");
    struct dt_bytes begin = {first, size < sizeof first ? (size_t)size : sizeof first};
    if (read_at(fd, first, begin.len, 0, err) < 0)
        return -1;
    if (dt_is_lfs_pointer(begin))
        return dt_err_set(err, DT_E_USAGE, DT_LFS_POINTER_TEXT);
    struct dt_reader r = dt_reader_over(begin.at, begin.len);
    n = dt_read_u64(&r);
    if (check_length(n, size, err) < 0)
        return -1;
    size_t len = sizeof n + (size_t)n;
    DT_AUTO_FREE uint8_t *head = malloc(len);
    if (!head)
        return dt_err_set(err, DT_E_MEMORY, "no memory for its header");
    return read_at(fd, head, len, 0, err) < 0
               ? -1
               : dt_st_parse(f, (struct dt_bytes){head, len}, size, err);
}

int dt_st_open(struct dt_st_file *f, const char *path, struct dt_err *err)
{
    memset(f, 0, sizeof *f);
    f->fd = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe would be waited for */
    if (fd < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot open %s", path);
    if (parse_fd(f, fd, err) < 0) {
        close(fd);
        return dt_err_wrap(err, "%s", path);
    }
    f->fd = fd;
    return 0;
}

void dt_st_close(struct dt_st_file *f)
{
    if (f->fd >= 0 && f->size)
        close(f->fd);
    free(f->tensors);
    free(f->by_name);
    cJSON_Delete(f->doc);
    memset(f, 0, sizeof *f);
    f->fd = -1;
}

const struct dt_st_tensor *dt_st_find(const struct dt_st_file *f, const char *name)
{
    const struct dt_st_tensor key = {.name = name}, *wanted = &key;
    const struct dt_st_tensor **found =
        f->count ? bsearch(&wanted, f->by_name, f->count, sizeof *f->by_name, by_name) : NULL;
    return found ? *found : NULL;
}
