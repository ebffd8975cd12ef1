/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/failure/error_file.h"

#include "base/fs.h"
#include "base/str.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define TIME_MAX 253402300799.0 /* the end of the year 9999, as far as Python's dates go */
#define INDENT "  "

/* The code unit of "\uXXXX" at TEXT, or -1. */
static int unit_at(const char *text, size_t left)
{
    char digits[5] = "";
    if (left < 6 || text[0] != '\\' || text[1] != 'u')
        return -1;
    for (int i = 0; i < 4; i++) {
        if (!isxdigit((unsigned char)text[2 + i]))
            return -1;
        digits[i] = text[2 + i];
    }
    return (int)strtol(digits, NULL, 16);
}

/* How many bytes of TEXT belong together; *HIDE: they are an escape that stands for no text. */
static size_t take(const char *text, size_t left, bool *hide)
{
    int unit = unit_at(text, left);
    *hide = false;
    if (unit < 0)
        return text[0] == '\\' && left > 1 ? 2 : 1;
    if (unit >= 0xd800 && unit <= 0xdbff) {
        int low = unit_at(text + 6, left - 6);
        if (low >= 0xdc00 && low <= 0xdfff)
            return 12;
    }
    *hide = unit == 0 || (unit >= 0xd800 && unit <= 0xdfff);
    return 6;
}

/* File names that are no UTF-8 come out of Python as "\udcff". Another backslash in front makes the
 * escape itself the text, which is also what Python prints for it. */
static void mend(const char *text, size_t len, struct dt_buf *out)
{
    for (size_t i = 0, n; i < len; i += n) {
        bool hide;
        n = take(text + i, len - i, &hide);
        if (hide)
            dt_buf_put_u8(out, '\\');
        dt_buf_put(out, text + i, n);
    }
}

static const char *text_of(const struct cJSON *object, const char *name)
{
    const struct cJSON *v = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsString(v) && v->valuestring[0] ? v->valuestring : NULL;
}

static int64_t time_of(const struct cJSON *object)
{
    const struct cJSON *v = cJSON_GetObjectItemCaseSensitive(object, "timestamp");
    double t = -1;
    if (cJSON_IsNumber(v)) {
        t = v->valuedouble;
    } else if (cJSON_IsString(v)) {
        char *end;
        t = strtod(v->valuestring, &end);
        if (end == v->valuestring || end[strspn(end, " \t\r\n")] != '\0')
            t = -1;
    }
    return t >= 1 && t <= TIME_MAX ? (int64_t)t : -1;
}

/* The text with what follows its newlines INDENTed. */
static char *indented(const char *text)
{
    struct dt_buf b = {0};
    for (; *text; text++) {
        dt_buf_put_u8(&b, (uint8_t)*text);
        if (*text == '\n')
            dt_buf_put_str(&b, INDENT);
    }
    char *copy = strdup(dt_buf_cstr(&b));
    if (b.bad) {
        free(copy);
        copy = NULL;
    }
    dt_buf_finish(&b);
    return copy;
}

static int understand(struct dt_error_file *f, struct dt_err *err)
{
    const struct cJSON *message = cJSON_GetObjectItemCaseSensitive(f->doc.root, "message");
    const char *plain = text_of(f->doc.root, "message");
    if (!cJSON_IsObject(message) && !cJSON_IsString(message))
        return dt_err_set(err, DT_E_USAGE, "there is no \"message\", neither text nor an object");
    const struct cJSON *extra = cJSON_GetObjectItemCaseSensitive(message, "extraInfo");
    f->time = time_of(extra);
    if (f->time < 0)
        f->time = time_of(f->doc.root);
    if (cJSON_IsObject(message)) {
        const char *shown = text_of(extra, "py_callstack");
        if (!shown)
            shown = text_of(message, "message");
        f->message = indented(shown ? shown : "<N/A>");
    } else if (plain) {
        f->message = strdup(plain); /* not indented: torchrun does not */
    } else {
        return 0;
    }
    return f->message ? 0 : dt_err_set(err, DT_E_MEMORY, "no memory for a worker's error");
}

int dt_error_file_parse(const char *text, size_t len, struct dt_error_file *out, struct dt_err *err)
{
    struct dt_buf mended = {0};
    *out = (struct dt_error_file){.time = -1};
    if (len > DT_ERROR_FILE_MAX)
        return dt_err_set(err, DT_E_LIMIT, "%zu bytes; at most %zu are taken", len,
                          DT_ERROR_FILE_MAX);
    mend(text, len, &mended);
    int rc = mended.bad ? dt_err_set(err, DT_E_MEMORY, "no memory for a worker's error")
                        : dt_json_parse(&out->doc, (const char *)mended.at, mended.len,
                                        2 * DT_ERROR_FILE_MAX, err);
    dt_buf_finish(&mended);
    return rc < 0 ? -1 : understand(out, err);
}

int dt_error_file_read(const char *path, struct dt_error_file *out, struct dt_err *err)
{
    struct dt_buf text = {0};
    struct stat st;
    *out = (struct dt_error_file){.time = -1};
    if (stat(path, &st) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot look at the error file %s", path);
    if (!S_ISREG(st.st_mode))
        return dt_err_set(err, DT_E_RUNTIME, "the error file %s is no regular file", path);
    int rc = dt_fs_read(path, DT_ERROR_FILE_MAX, &text, err);
    if (rc == 0 && dt_error_file_parse((const char *)text.at, text.len, out, err) < 0)
        rc = dt_err_wrap(err, "the error file %s makes no sense", path);
    dt_buf_finish(&text);
    return rc;
}

void dt_error_file_finish(struct dt_error_file *f)
{
    free(f->message);
    dt_json_finish(&f->doc);
    *f = (struct dt_error_file){.time = -1};
}

/* In its old place where there is one already, as in a Python dictionary. */
static bool set_code(struct cJSON *message, int exit_code)
{
    struct cJSON *code = cJSON_CreateNumber(exit_code);
    if (!code)
        return false;
    bool done = cJSON_GetObjectItemCaseSensitive(message, "errorCode")
                    ? cJSON_ReplaceItemInObjectCaseSensitive(message, "errorCode", code)
                    : cJSON_AddItemToObject(message, "errorCode", code);
    if (!done)
        cJSON_Delete(code);
    return done;
}

int dt_error_file_print(struct dt_error_file *f, int exit_code, struct dt_buf *out,
                        struct dt_err *err)
{
    struct cJSON *message = cJSON_GetObjectItemCaseSensitive(f->doc.root, "message");
    bool ready = exit_code == 0 || !cJSON_IsObject(message) || set_code(message, exit_code);
    char *text = ready ? cJSON_PrintUnformatted(f->doc.root) : NULL;
    if (text)
        dt_buf_put_str(out, text);
    free(text);
    return text && !out->bad ? 0 : dt_err_set(err, DT_E_MEMORY, "no memory to pass an error on");
}
