/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/alerts/receiver.h"

#include "base/command.h"
#include "base/str.h"
#include "base/transfer/http.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define URL_MAX 4096
#define CONNECT_PATIENCE (5 * DT_SECOND)
#define PATIENCE (10 * DT_SECOND) /* while nothing moves */

/* -- addresses -------------------------------------------------------------------------------- */

/* The path of an address often is the secret that lets one write there, and so may be what stands
 * before the host. */
static int name_url(struct dt_receiver *r, const char *url, struct dt_err *err)
{
    const char *scheme_end = strstr(url, "://");
    bool known = strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0;
    const char *host = known ? scheme_end + 3 : url;
    size_t len = strcspn(host, "/?#");
    const char *at = memrchr(host, '@', len);
    if (at) {
        len -= (size_t)(at + 1 - host);
        host = at + 1;
    }
    if (!known || len == 0 || strlen(url) > URL_MAX || strpbrk(url, " \r\n\t"))
        return dt_err_set(err, DT_E_USAGE,
                          "an address of alerts is http://HOST/PATH or https://HOST/PATH, without "
                          "blanks and of at most %d letters",
                          URL_MAX);
    char shown[80];
    snprintf(r->name, sizeof r->name, "alerts to %.*s%s", (int)(scheme_end + 3 - url), url,
             dt_str_printable((struct dt_bytes){(const uint8_t *)host, len}, shown, sizeof shown));
    return 0;
}

static int init_url(struct dt_receiver *r, const char *url, struct dt_err *err)
{
    r->format = dt_alert_format_of(url);
    if (name_url(r, url, err) < 0)
        return -1;
    const struct dt_curl_table *lib = dt_http_open(err);
    return lib && lib->start() == 0 ? 0 : -1;
}

/* The receiver has a moment, or there is a mistake that time does not mend. */
static bool may_get_better(enum dt_http_end end, int status)
{
    if (end == DT_HTTP_ANSWERED)
        return status >= 500 || status == 408 || status == 429;
    return end == DT_HTTP_UNREACHED || end == DT_HTTP_LOST || end == DT_HTTP_STOPPED ||
           end == DT_HTTP_LOCAL;
}

static enum dt_delivery judge(enum dt_http_end end, const struct dt_http_answer *a,
                              struct dt_err *err)
{
    if (end == DT_HTTP_ANSWERED && a->status >= 200 && a->status < 300)
        return DT_DELIVERED;
    if (end == DT_HTTP_STOPPED)
        dt_err_set(err, DT_E_TIMEOUT, "no answer in time");
    else if (end != DT_HTTP_ANSWERED)
        dt_err_set(err, DT_E_RUNTIME, "%s", a->why);
    else /* its body may repeat the address, which is a secret */
        dt_err_set(err, DT_E_RUNTIME, "the answer is %d", a->status);
    return may_get_better(end, a->status) ? DT_DELIVERY_AGAIN : DT_DELIVERY_REFUSED;
}

static enum dt_delivery post_to_url(const struct dt_receiver *r, struct dt_bytes body,
                                    const atomic_bool *stop, struct dt_err *err)
{
    static const char *const headers[] = {"Content-Type: application/json", NULL};
    const struct dt_curl_table *lib = dt_http_open(err);
    void *connection = lib ? lib->open() : NULL;
    if (!connection) {
        if (lib)
            dt_err_set(err, DT_E_MEMORY, "no memory for a connection");
        return DT_DELIVERY_AGAIN;
    }
    struct dt_http_answer a = {0};
    struct dt_http_request request = {
        .method = "POST",
        .url = r->target,
        .headers = headers,
        .body = body,
        .body_max = DT_HTTP_COMPLAINT,
        .connect_patience = CONNECT_PATIENCE,
        .patience = PATIENCE,
        .stop = stop,
    };
    enum dt_http_end end = lib->exchange(connection, &request, &a);
    enum dt_delivery outcome = judge(end, &a, err);
    dt_http_answer_finish(&a);
    lib->close(connection);
    return outcome;
}

/* -- commands and mail ------------------------------------------------------------------------ */

/* A file in memory: who reads it slowly, or not at all, holds nothing up. */
static int make_input(struct dt_bytes body)
{
    int fd = memfd_create("alert", MFD_CLOEXEC);
    if (fd < 0)
        return -1;
    if (write(fd, body.at, body.len) == (ssize_t)body.len && lseek(fd, 0, SEEK_SET) == 0)
        return fd;
    close(fd);
    return -1;
}

static enum dt_delivery give_to_command(const char *name, const char *text, struct dt_bytes body,
                                        const atomic_bool *stop, struct dt_err *err)
{
    int input = make_input(body);
    if (input < 0) {
        dt_err_errno(err, DT_E_RUNTIME, errno, "cannot make a file in memory");
        return DT_DELIVERY_AGAIN;
    }
    struct dt_command command = {.name = name, .text = text, .input = &input, .stop = stop};
    int rc = dt_command_run(&command, err);
    close(input);
    return rc == 0 ? DT_DELIVERED : DT_DELIVERY_AGAIN;
}

static int init_mail(struct dt_receiver *r, const char *address, struct dt_err *err)
{
    if (!strchr(address, '@') || strlen(address) > 254 || strpbrk(address, " \t\r\n,;<>\"\\"))
        return dt_err_set(err, DT_E_USAGE, "\"%.100s\" is no address of mail; write NAME@HOST",
                          address);
    snprintf(r->name, sizeof r->name, "alerts by mail to %.80s", address);
    r->format = DT_ALERT_MAIL;
    return 0;
}

static int init_command(struct dt_receiver *r, const char *text, struct dt_err *err)
{
    if (!*text)
        return dt_err_set(err, DT_E_USAGE, "the command is empty");
    snprintf(r->name, sizeof r->name, "alerts by a command");
    r->format = DT_ALERT_JSON;
    return 0;
}

/* -- all of them ------------------------------------------------------------------------------ */

int dt_receiver_init(struct dt_receiver *r, enum dt_receiver_kind kind, const char *target,
                     struct dt_err *err)
{
    *r = (struct dt_receiver){.kind = kind, .target = target};
    switch (kind) {
    case DT_RECEIVER_URL:
        return init_url(r, target, err);
    case DT_RECEIVER_COMMAND:
        return init_command(r, target, err);
    case DT_RECEIVER_MAIL:
        return init_mail(r, target, err);
    }
    return -1;
}

enum dt_delivery dt_receiver_deliver(const struct dt_receiver *r, struct dt_bytes body,
                                     const atomic_bool *stop, struct dt_err *err)
{
    switch (r->kind) {
    case DT_RECEIVER_URL:
        return post_to_url(r, body, stop, err);
    case DT_RECEIVER_COMMAND:
        return give_to_command("the command", r->target, body, stop, err);
    case DT_RECEIVER_MAIL: /* as PATH, and where distributions have it */
        return give_to_command("sendmail", "PATH=$PATH:/usr/sbin:/usr/lib; exec sendmail -t -i",
                               body, stop, err);
    }
    return DT_DELIVERY_REFUSED;
}
