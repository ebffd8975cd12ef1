/* SPDX-License-Identifier: Apache-2.0 */
#include "base/transfer/profile.h"

#include "base/str.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define AT(member) offsetof(struct dt_profile, member), sizeof(((struct dt_profile *)0)->member)

static const struct {
    const char *name;
    size_t at, size;
} settings[] = {
    {"aws_access_key_id", AT(keys.id)},
    {"aws_secret_access_key", AT(keys.secret)},
    {"aws_session_token", AT(keys.token)},
    {"region", AT(region)},
    {"endpoint_url", AT(endpoint)},
    {"ca_bundle", AT(ca_file)},
    {"role_arn", AT(role)},
    {"web_identity_token_file", AT(role_token_file)},
};

static const char *const beyond_us[] = {"credential_process", "source_profile", "sso_session",
                                        "sso_start_url", "credential_source"};

static bool is_heading_of(const char *heading, enum dt_profile_file file, const char *name)
{
    if (file == DT_PROFILE_CONFIG && strncmp(heading, "profile", 7) == 0 &&
        (heading[7] == ' ' || heading[7] == '\t'))
        return strcmp(heading + 8 + strspn(heading + 8, " \t"), name) == 0;
    return strcmp(heading, name) == 0 &&
           (file == DT_PROFILE_CREDENTIALS || strcmp(name, "default") == 0);
}

static int set(struct dt_profile *p, const char *name, const char *value, int line,
               struct dt_err *err)
{
    for (size_t i = 0; i < sizeof beyond_us / sizeof *beyond_us; i++)
        p->has_process = p->has_process || strcmp(name, beyond_us[i]) == 0;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        char *to = (char *)p + settings[i].at;
        if (strcmp(name, settings[i].name) != 0 || *to)
            continue;
        if (strlen(value) >= settings[i].size)
            return dt_err_set(err, DT_E_USAGE, "line %d: %s is longer than %zu bytes", line,
                              settings[i].name, settings[i].size - 1);
        strcpy(to, value);
    }
    return 0;
}

struct reading {
    struct dt_profile *profile;
    enum dt_profile_file file;
    const char *name;
    bool is_ours; /* the section at hand */
};

static int read_line(struct reading *r, char *text, int line, struct dt_err *err)
{
    bool is_nested = *text == ' ' || *text == '\t'; /* a setting below a setting */
    char *at = dt_str_trim(text);
    if (!*at || *at == '#' || *at == ';')
        return 0;
    if (*at == '[') {
        char *end = strchr(at, ']');
        if (!end)
            return dt_err_set(err, DT_E_USAGE, "line %d: a \"]\" is missing", line);
        *end = '\0';
        r->is_ours = is_heading_of(dt_str_trim(at + 1), r->file, r->name);
        r->profile->found = r->profile->found || r->is_ours;
        return 0;
    }
    if (!r->is_ours || is_nested)
        return 0;
    char *equals = strchr(at, '=');
    if (!equals)
        return dt_err_set(err, DT_E_USAGE, "line %d is no \"name = value\"", line);
    *equals = '\0';
    return set(r->profile, dt_str_trim(at), dt_str_trim(equals + 1), line, err);
}

int dt_profile_read(struct dt_profile *profile, struct dt_bytes text, enum dt_profile_file file,
                    const char *name, struct dt_err *err)
{
    struct reading r = {.profile = profile, .file = file, .name = name};
    if (text.len && memchr(text.at, '\0', text.len))
        return dt_err_set(err, DT_E_USAGE, "it is no text");
    char *copy = strndup((const char *)(text.len ? text.at : (const uint8_t *)""), text.len);
    if (!copy)
        return dt_err_set(err, DT_E_MEMORY, "no memory to read it");
    int rc = 0, number = 0;
    for (char *line = copy, *next; line && rc == 0; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        rc = read_line(&r, line, ++number, err);
    }
    explicit_bzero(copy, text.len);
    free(copy);
    return rc;
}
