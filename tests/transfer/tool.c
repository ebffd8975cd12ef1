/* SPDX-License-Identifier: Apache-2.0 */
/* tool URL [NAME=VALUE]... COMMAND [ARG]...: one call of a transfer for the tests in Python.
 *
 * Prints a line for each thing that it learns, "retry: WHY" for each attempt that follows, and with
 * progress=1 how far it is. SIGTERM stops the call. Exits with 3 where there is no such object. */
#include "base/hex.h"
#include "base/str.h"
#include "base/transfer/sigv4.h"
#include "base/transfer/transfer.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NONE 3

static atomic_bool stop;
static bool shows_progress;

static void on_sigterm(int sig)
{
    (void)sig;
    atomic_store(&stop, true);
}

static void on_progress(void *arg, const char *key, uint64_t done, uint64_t total)
{
    (void)arg, (void)key;
    if (shows_progress)
        printf("progress: %" PRIu64 " of %" PRIu64 "\n", done, total);
}

static void on_retry(void *arg, const char *why)
{
    (void)arg;
    printf("retry: %s\n", why);
}

static int set(struct dt_transfer_options *o, char *text)
{
    char *value = strchr(text, '=');
    int64_t n = 0;
    *value++ = '\0';
    dt_str_to_int(value, 0, INT64_MAX, &n, NULL);
    if (strcmp(text, "attempts") == 0)
        o->attempts = (int)n;
    else if (strcmp(text, "patience") == 0)
        o->patience = (dt_ms)n;
    else if (strcmp(text, "part") == 0)
        o->part_size = (uint64_t)n;
    else if (strcmp(text, "bandwidth") == 0)
        o->bandwidth = (uint64_t)n;
    else if (strcmp(text, "endpoint") == 0)
        o->endpoint = value;
    else if (strcmp(text, "region") == 0)
        o->region = value;
    else if (strcmp(text, "profile") == 0)
        o->profile = value;
    else if (strcmp(text, "ca_file") == 0)
        o->ca_file = value;
    else if (strcmp(text, "style") == 0)
        o->style = strcmp(value, "host") == 0 ? DT_BUCKET_IN_HOST : DT_BUCKET_IN_PATH;
    else if (strcmp(text, "progress") == 0)
        shows_progress = n != 0;
    else
        return -1;
    return 0;
}

static int print_object(void *arg, const struct dt_object *o, struct dt_err *err)
{
    (void)arg, (void)err;
    printf("%s%s %" PRIu64 " %s\n", o->key, o->folder ? " folder" : "", o->size,
           o->changed_us ? "dated" : "undated");
    return 0;
}

static int put_range(struct dt_transfer *t, char **args, struct dt_err *err)
{
    int fd = open(args[1], O_RDONLY);
    if (fd < 0)
        return dt_err_set(err, DT_E_RUNTIME, "no such file");
    int rc = dt_transfer_put_range(t, args[0], fd, strtoull(args[2], NULL, 10),
                                   strtoull(args[3], NULL, 10), err);
    close(fd);
    return rc;
}

/* PREFIX FILE[@CRC]...: each becomes PREFIX/NAME. */
static int put_all(struct dt_transfer *t, char **args, struct dt_err *err)
{
    struct dt_transfer_file files[20] = {0};
    char *keys[20];
    size_t count = 0;
    int rc = 0;
    for (char **path = args + 1; *path && count < 20 && rc >= 0; path++) {
        char *crc = strchr(*path, '@');
        if (crc)
            *crc++ = '\0';
        rc = asprintf(&keys[count], "%s/%s", args[0], strrchr(*path, '/') + 1);
        if (rc >= 0)
            files[count] = (struct dt_transfer_file){.key = keys[count], .path = *path};
        files[count].knows_crc = crc != NULL;
        files[count].crc = crc ? (uint32_t)strtoul(crc, NULL, 16) : 0;
        count += rc >= 0;
    }
    rc = rc < 0 ? -1 : dt_transfer_put_files(t, files, count, err);
    for (size_t i = 0; i < count; i++)
        free(keys[i]);
    return rc;
}

static int get_bytes(struct dt_transfer *t, char **args, struct dt_err *err)
{
    struct dt_buf b = {0};
    int rc = dt_transfer_get_bytes(t, args[0], strtoull(args[1], NULL, 10), &b, err);
    if (rc == 1)
        printf("%zu bytes: %s\n", b.len, dt_buf_cstr(&b));
    dt_buf_finish(&b);
    return rc == 0 ? NONE : rc;
}

static int get_range(struct dt_transfer *t, char **args, struct dt_err *err)
{
    uint8_t at[256];
    char hex[2 * sizeof at + 1];
    size_t len = strtoul(args[2], NULL, 10);
    if (len > sizeof at)
        return dt_err_set(err, DT_E_USAGE, "that is more than the tool shows");
    int rc = dt_transfer_get_range(t, args[0], strtoull(args[1], NULL, 10), at, len, err);
    dt_hex(at, rc == 1 ? len : 0, hex);
    if (rc == 1)
        printf("bytes: %s\n", hex);
    return rc == 0 ? NONE : rc;
}

static int call(struct dt_transfer *t, const char *command, char **args, struct dt_err *err)
{
    struct dt_object o;
    int rc = -1;
    if (strcmp(command, "put") == 0)
        return dt_transfer_put_file(t, args[0], args[1], err);
    if (strcmp(command, "put-all") == 0)
        return put_all(t, args, err);
    if (strcmp(command, "put-range") == 0)
        return put_range(t, args, err);
    if (strcmp(command, "put-bytes") == 0)
        return dt_transfer_put_bytes(t, args[0], dt_bytes_of(args[1]), err);
    if (strcmp(command, "get-bytes") == 0)
        return get_bytes(t, args, err);
    if (strcmp(command, "get-range") == 0)
        return get_range(t, args, err);
    if (strcmp(command, "list") == 0)
        return dt_transfer_list(t, args[0], strcmp(args[1], "deep") == 0, print_object, NULL, err);
    if (strcmp(command, "delete") == 0)
        return dt_transfer_delete(t, args[0], err);
    if (strcmp(command, "get") == 0)
        rc = dt_transfer_get_file(t, args[0], args[1], err);
    else if (strcmp(command, "head") == 0 && (rc = dt_transfer_head(t, args[0], &o, err)) == 1)
        print_object(NULL, &o, NULL);
    return rc == 1 ? 0 : rc == 0 ? NONE : -1;
}

/* 1 is an answer to get-bytes and get-range too. */
static int finish(struct dt_transfer *t, int rc, const struct dt_err *err)
{
    if (rc < 0)
        printf("error %d: %s\n", err->code, err->text);
    dt_transfer_close(t);
    return rc < 0 ? 1 : rc == NONE ? NONE : 0;
}

int main(int argc, char **argv)
{
    struct dt_transfer_options o = {
        .stop = &stop, .on_progress = on_progress, .on_retry = on_retry};
    struct dt_err err = {0};
    int at = 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGTERM, on_sigterm);
    signal(SIGXFSZ, SIG_IGN); /* a limit on files stands for a disk that is full */
    while (at < argc && strchr(argv[at], '='))
        if (set(&o, argv[at++]) < 0)
            return 2;
    if (at >= argc)
        return 2;
    struct dt_transfer *t = dt_transfer_open(argv[1], &o, &err);
    return finish(t, t ? call(t, argv[at], argv + at + 1, &err) : -1, &err);
}
