/* SPDX-License-Identifier: Apache-2.0 */
#include "base/transfer/keyring.h"

#include "base/fs.h"
#include "base/transfer/nearby.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BEFORE_THE_END 300 /* seconds for which keys must still be good */

/* What is set, and not to the empty word. */
static const char *env(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static int keep(char *to, size_t size, const char *text, const char *name, struct dt_err *err)
{
    size_t n = strlen(text);
    if (n >= size || strpbrk(text, "\r\n"))
        return dt_err_set(err, DT_E_USAGE, "%s is longer than %zu bytes, or more than a line", name,
                          size - 1);
    memcpy(to, text, n + 1);
    return 0;
}

/* -- profiles --------------------------------------------------------------------------------- */

static int read_file(struct dt_keyring *k, const char *variable, const char *fallback,
                     enum dt_profile_file kind, const char *name, struct dt_err *err)
{
    char path[PATH_MAX];
    const char *given = env(variable), *home = env("HOME");
    if (!given && !home)
        return 0;
    snprintf(path, sizeof path, "%s%s%s", given ? given : home, given ? "" : "/.aws/",
             given ? "" : fallback);
    if (!dt_fs_exists(path))
        return 0;
    struct dt_buf text = {0};
    int rc = dt_fs_read(path, DT_PROFILE_MAX, &text, err);
    if (rc == 0 &&
        dt_profile_read(&k->profile, (struct dt_bytes){text.at, text.len}, kind, name, err) < 0)
        rc = dt_err_wrap(err, "%.200s", path);
    if (text.base)
        explicit_bzero(text.base, text.size);
    dt_buf_finish(&text);
    return rc;
}

static int read_profile(struct dt_keyring *k, struct dt_err *err)
{
    const char *named = k->profile_name ? k->profile_name : env("AWS_PROFILE");
    const char *name = named ? named : "default";
    explicit_bzero(&k->profile, sizeof k->profile);
    if (read_file(k, "AWS_SHARED_CREDENTIALS_FILE", "credentials", DT_PROFILE_CREDENTIALS, name,
                  err) < 0 ||
        read_file(k, "AWS_CONFIG_FILE", "config", DT_PROFILE_CONFIG, name, err) < 0)
        return -1;
    if (named && !k->profile.found)
        return dt_err_set(err, DT_E_USAGE,
                          "neither ~/.aws/credentials nor ~/.aws/config has the profile \"%.100s\"",
                          named);
    return 0;
}

/* -- the first source that is set up ---------------------------------------------------------- */

static int fetch_of_environment(struct dt_keyring *k, struct dt_err *err)
{
    const char *id = env("AWS_ACCESS_KEY_ID"), *secret = env("AWS_SECRET_ACCESS_KEY");
    const char *token = env("AWS_SESSION_TOKEN");
    if (!secret)
        return dt_err_set(err, DT_E_USAGE,
                          "AWS_ACCESS_KEY_ID is set, and AWS_SECRET_ACCESS_KEY is not");
    if (keep(k->keys.id, sizeof k->keys.id, id, "AWS_ACCESS_KEY_ID", err) < 0 ||
        keep(k->keys.secret, sizeof k->keys.secret, secret, "AWS_SECRET_ACCESS_KEY", err) < 0 ||
        keep(k->keys.token, sizeof k->keys.token, token ? token : "", "AWS_SESSION_TOKEN", err) < 0)
        return -1;
    return 0;
}

/* Somebody may have put newer ones into the file. */
static int fetch_of_profile(struct dt_keyring *k, struct dt_err *err)
{
    if (read_profile(k, err) < 0)
        return -1;
    if (!*k->profile.keys.id || !*k->profile.keys.secret)
        return dt_err_set(
            err, DT_E_USAGE,
            "the profile has only one of aws_access_key_id and aws_secret_access_key");
    k->keys = k->profile.keys;
    return 0;
}

static int fetch_of_web_identity(struct dt_keyring *k, struct dt_err *err)
{
    const char *role = env("AWS_ROLE_ARN"), *file = env("AWS_WEB_IDENTITY_TOKEN_FILE");
    const struct dt_web_identity who = {
        .role = role ? role : k->profile.role,
        .token_file = file ? file : k->profile.role_token_file,
        .session = env("AWS_ROLE_SESSION_NAME"),
        .endpoint = env("AWS_ENDPOINT_URL_STS"),
        .region = *k->region ? k->region : "us-east-1",
        .ca_file = env("AWS_CA_BUNDLE"),
    };
    if (!*who.role)
        return dt_err_set(err, DT_E_USAGE,
                          "AWS_WEB_IDENTITY_TOKEN_FILE is set, and AWS_ROLE_ARN is not");
    return dt_nearby_web_identity(k->lib, &who, k->stop, &k->keys, err);
}

static int fetch_of_container(struct dt_keyring *k, struct dt_err *err)
{
    const struct dt_container_endpoint where = {
        .path = env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
        .url = env("AWS_CONTAINER_CREDENTIALS_FULL_URI"),
        .token = env("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
        .token_file = env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
    };
    return dt_nearby_container(k->lib, &where, k->stop, &k->keys, err);
}

static int fetch_of_machine(struct dt_keyring *k, struct dt_err *err)
{
    return dt_nearby_machine(k->lib, env("AWS_EC2_METADATA_SERVICE_ENDPOINT"), k->stop, &k->keys,
                             err);
}

/* CAN_CHANGE: asking again may bring other keys. */
static const struct {
    const char *name;
    bool can_change;
    int (*fetch)(struct dt_keyring *k, struct dt_err *err);
} sources[] = {
    [DT_KEYS_ENVIRONMENT] = {"credentials of the environment", false, fetch_of_environment},
    [DT_KEYS_WEB_IDENTITY] = {"credentials for a web identity", true, fetch_of_web_identity},
    [DT_KEYS_PROFILE] = {"credentials of a profile", true, fetch_of_profile},
    [DT_KEYS_CONTAINER] = {"credentials of the container's endpoint", true, fetch_of_container},
    [DT_KEYS_MACHINE] = {"credentials of the machine's metadata service", true, fetch_of_machine},
};

/* A profile that somebody named for this one purpose goes before the environment. */
static enum dt_key_source choose(const struct dt_keyring *k)
{
    const struct dt_profile *p = &k->profile;
    bool has_keys = *p->keys.id || *p->keys.secret;
    if (k->profile_name && has_keys)
        return DT_KEYS_PROFILE;
    if (env("AWS_ACCESS_KEY_ID"))
        return DT_KEYS_ENVIRONMENT;
    if (env("AWS_WEB_IDENTITY_TOKEN_FILE") || (*p->role && *p->role_token_file))
        return DT_KEYS_WEB_IDENTITY;
    if (has_keys)
        return DT_KEYS_PROFILE;
    if (env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") || env("AWS_CONTAINER_CREDENTIALS_FULL_URI"))
        return DT_KEYS_CONTAINER;
    return DT_KEYS_MACHINE;
}

static const char set_up[] =
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or put a profile into "
    "~/.aws/credentials";

/* Nothing is set up, and whether the machine has a service is not known before it is asked. */
static int check_machine(const struct dt_keyring *k, struct dt_err *err)
{
    const char *disabled = env("AWS_EC2_METADATA_DISABLED");
    if (k->profile.has_process)
        return dt_err_set(err, DT_E_USAGE,
                          "the keys of the profile come from a program, another profile or a "
                          "sign-on, none of which dtrun follows; %s",
                          set_up);
    if (disabled && strcmp(disabled, "true") == 0)
        return dt_err_set(err, DT_E_USAGE, "there are no credentials; %s", set_up);
    return 0;
}

bool dt_is_region(const char *text)
{
    return !text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-")];
}

int dt_keyring_init(struct dt_keyring *k, const struct dt_curl_table *lib, const char *name,
                    const char *given, const atomic_bool *stop, struct dt_err *err)
{
    *k = (struct dt_keyring){.lib = lib, .stop = stop, .profile_name = name};
    if (read_profile(k, err) < 0)
        return -1;
    const char *region = given ? given : env("AWS_REGION");
    region = region ? region : env("AWS_DEFAULT_REGION");
    region = region ? region : k->profile.region;
    if (!dt_is_region(region))
        return dt_err_set(err, DT_E_USAGE, "\"%.60s\" is no name of a region", region);
    k->source = choose(k);
    return keep(k->region, sizeof k->region, region, "the name of the region", err);
}

void dt_keyring_finish(struct dt_keyring *k)
{
    explicit_bzero(k, sizeof *k);
}

static int fetch(struct dt_keyring *k, struct dt_err *err)
{
    if (k->source == DT_KEYS_MACHINE && check_machine(k, err) < 0)
        return -1;
    if (sources[k->source].fetch(k, err) == 0)
        return 0;
    dt_err_wrap(err, "%s", sources[k->source].name);
    /* Most who come here have set up nothing, on a machine without such a service. */
    if (k->source == DT_KEYS_MACHINE && err) {
        size_t n = strlen(err->text);
        snprintf(err->text + n, sizeof err->text - n, "; %s", set_up);
    }
    return -1;
}

int dt_keyring_fetch(struct dt_keyring *k, struct dt_err *err)
{
    struct dt_keys before = k->keys;
    explicit_bzero(&k->keys, sizeof k->keys);
    int rc = fetch(k, err);
    if (rc < 0)
        k->keys = before;
    explicit_bzero(&before, sizeof before);
    return rc;
}

bool dt_keyring_is_due(const struct dt_keyring *k, int64_t now)
{
    return !*k->keys.id || (k->keys.expires && now > k->keys.expires - BEFORE_THE_END);
}

bool dt_keyring_can_change(const struct dt_keyring *k)
{
    return sources[k->source].can_change;
}
