/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/fleet/hosts.h"

#include "base/str.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_MAX 65536

/* A view of text while it is read. */
struct word {
    const char *at;
    size_t len;
};

static bool is_name(struct word w)
{
    for (size_t i = 0; i < w.len; i++)
        if (!isalnum((unsigned char)w.at[i]) && !memchr("._-@:%", w.at[i], 6))
            return false;
    return w.len > 0;
}

/* A name that begins with a dash would be an option of ssh. */
static int check_name(struct word w, struct dt_err *err)
{
    char shown[64];
    dt_str_printable((struct dt_bytes){(const uint8_t *)w.at, w.len}, shown, sizeof shown);
    if (w.len >= DT_FLEET_NAME_MAX)
        return dt_err_set(err, DT_E_USAGE, "\"%s\" is too long for a host", shown);
    if (!is_name(w) || *w.at == '-' || w.at[w.len - 1] == '@')
        return dt_err_set(err, DT_E_USAGE, "\"%s\" is no host; write HOST or USER@HOST", shown);
    return 0;
}

static int read_slots(struct word w, int *slots, struct dt_err *err)
{
    char copy[16] = "";
    int64_t n;
    if (w.len < sizeof copy)
        memcpy(copy, w.at, w.len);
    if (dt_str_to_int(copy, 1, SLOTS_MAX, &n, NULL) < 0)
        return dt_err_set(err, DT_E_USAGE, "\"%.*s\" is no number of workers; give 1 to %d",
                          (int)(w.len < 40 ? w.len : 40), w.at, SLOTS_MAX);
    *slots = (int)n;
    return 0;
}

/* Splits "HOST:8". Brackets keep the colons of an IPv6 address apart from that one; an address
 * without them has more than one, and no number. */
static int split(struct word w, struct word *name, int *slots, struct dt_err *err)
{
    const char *colon = memchr(w.at, ':', w.len);
    const char *close = w.len && w.at[0] == '[' ? memchr(w.at, ']', w.len) : NULL;
    const char *end = w.at + w.len;
    *name = w;
    if (close) {
        *name = (struct word){w.at + 1, (size_t)(close - w.at - 1)};
        if (close + 1 == end)
            return 0;
        colon = close + 1;
        if (*colon != ':')
            return dt_err_set(err, DT_E_USAGE, "\"%.*s\" is no host; write [ADDRESS]:N", (int)w.len,
                              w.at);
    } else if (!colon || memchr(colon + 1, ':', (size_t)(end - colon - 1))) {
        return 0;
    } else {
        name->len = (size_t)(colon - w.at);
    }
    return read_slots((struct word){colon + 1, (size_t)(end - colon - 1)}, slots, err);
}

static struct dt_fleet_host *find(struct dt_fleet_hosts *hosts, struct word name)
{
    for (size_t i = 0; i < hosts->len; i++)
        if (strlen(hosts->at[i].name) == name.len &&
            memcmp(hosts->at[i].name, name.at, name.len) == 0)
            return &hosts->at[i];
    return NULL;
}

static int grow(struct dt_fleet_hosts *hosts, struct dt_err *err)
{
    if (hosts->len == DT_FLEET_HOSTS_MAX)
        return dt_err_set(err, DT_E_USAGE, "more than %d hosts are listed", DT_FLEET_HOSTS_MAX);
    if (hosts->len < hosts->size)
        return 0;
    size_t size = hosts->size ? 2 * hosts->size : 16;
    struct dt_fleet_host *at = realloc(hosts->at, size * sizeof *at);
    if (!at)
        return dt_err_set(err, DT_E_MEMORY, "no memory for the list of hosts");
    hosts->at = at;
    hosts->size = size;
    return 0;
}

static int add(struct dt_fleet_hosts *hosts, struct word name, int slots, struct dt_err *err)
{
    struct dt_fleet_host *known = find(hosts, name);
    if (known) {
        int had = known->slots ? known->slots : 1, more = slots ? slots : 1;
        if (had + more > SLOTS_MAX)
            return dt_err_set(err, DT_E_USAGE, "%s has more than %d workers", known->name,
                              SLOTS_MAX);
        known->slots = had + more;
        return 0;
    }
    if (grow(hosts, err) < 0)
        return -1;
    struct dt_fleet_host *host = &hosts->at[hosts->len++];
    *host = (struct dt_fleet_host){.slots = slots};
    memcpy(host->name, name.at, name.len);
    return 0;
}

int dt_fleet_hosts_read(struct dt_fleet_hosts *hosts, const char *text, struct dt_err *err)
{
    for (const char *at = text;; at++) {
        struct word w = {at, strcspn(at, ",")}, name;
        int slots = 0;
        if (split(w, &name, &slots, err) < 0 || check_name(name, err) < 0 ||
            add(hosts, name, slots, err) < 0)
            return -1;
        at += w.len;
        if (!*at)
            return 0;
    }
}

/* -- hostfiles -------------------------------------------------------------------------------- */

/* The next word of LINE, which gets shorter; an empty one at the end. */
static struct word take_word(struct word *line)
{
    size_t blank = 0, n = 0;
    while (blank < line->len && isspace((unsigned char)line->at[blank]))
        blank++;
    while (blank + n < line->len && !isspace((unsigned char)line->at[blank + n]))
        n++;
    struct word w = {line->at + blank, n};
    *line = (struct word){w.at + n, line->len - blank - n};
    return w;
}

/* What is behind KEY and an equals sign; .at is NULL where W is something else. */
static struct word value_of(struct word w, const char *key)
{
    size_t n = strlen(key);
    if (w.len <= n || memcmp(w.at, key, n) != 0 || w.at[n] != '=')
        return (struct word){0};
    return (struct word){w.at + n + 1, w.len - n - 1};
}

static int read_line(struct dt_fleet_hosts *hosts, struct word line, struct dt_err *err)
{
    struct word first = take_word(&line), name, w;
    int slots = 0;
    if (first.len == 0)
        return 0;
    if (split(first, &name, &slots, err) < 0 || check_name(name, err) < 0)
        return -1;
    while ((w = take_word(&line)).len > 0) {
        struct word number = value_of(w, "slots");
        if (number.at && read_slots(number, &slots, err) < 0)
            return -1;
        if (!number.at && !value_of(w, "max_slots").at && !value_of(w, "max-slots").at)
            return dt_err_set(err, DT_E_USAGE, "\"%.*s\" is not slots=N; # begins a comment",
                              (int)(w.len < 40 ? w.len : 40), w.at);
    }
    return add(hosts, name, slots, err);
}

int dt_fleet_hosts_read_file(struct dt_fleet_hosts *hosts, struct dt_bytes text, const char *file,
                             struct dt_err *err)
{
    const char *at = (const char *)text.at, *end = at + text.len;
    for (int number = 1; at < end; number++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        struct word line = {at, (size_t)((newline ? newline : end) - at)};
        const char *comment = memchr(line.at, '#', line.len);
        at += line.len + 1;
        if (comment)
            line.len = (size_t)(comment - line.at);
        if (read_line(hosts, line, err) < 0)
            return dt_err_wrap(err, "%s:%d", file, number);
    }
    if (hosts->len == 0)
        return dt_err_set(err, DT_E_USAGE, "%s lists no host", file);
    return 0;
}

void dt_fleet_hosts_finish(struct dt_fleet_hosts *hosts)
{
    free(hosts->at);
    *hosts = (struct dt_fleet_hosts){0};
}

const char *dt_fleet_host_label(const struct dt_fleet_host *host)
{
    const char *at = strrchr(host->name, '@');
    return at ? at + 1 : host->name;
}
