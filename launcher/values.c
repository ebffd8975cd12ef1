/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/values.h"

#include "base/addr.h"
#include "base/signame.h"
#include "base/str.h"
#include "base/utf8.h"
#include "launcher/number.h"
#include "launcher/options.h"
#include "rendezvous/web/web.h"

#include <limits.h>
#include <string.h>

/* -- what torchrun's parser checks ------------------------------------------------------------ */

int dt_value_int(const char *value, void *target, struct dt_err *err)
{
    int64_t n;
    if (dt_number_int(value, &n, err) < 0)
        return -1;
    if (n < INT_MIN || n > INT_MAX)
        return dt_err_set(err, DT_E_USAGE, "%s is out of range", value);
    *(int *)target = (int)n;
    return 0;
}

int dt_value_float(const char *value, void *target, struct dt_err *err)
{
    return dt_number_float(value, target, err);
}

/* Whole seconds as torchrun takes them, and beyond that a time with its unit. */
int dt_value_seconds(const char *value, void *target, struct dt_err *err)
{
    int64_t n;
    dt_ms *ms = target;
    if (dt_number_int(value, &n, NULL) == 0) {
        int64_t most = DT_FIELD_FOREVER / DT_SECOND;
        *ms = n > most ? DT_FOREVER : n < -most ? -DT_FOREVER : n * DT_SECOND;
        return 0;
    }
    if (*value && strspn(value, "0123456789._") < strlen(value))
        return dt_str_to_duration(value, 0, DT_FOREVER, ms, err);
    return dt_err_set(err, DT_E_USAGE,
                      "\"%s\" is not whole seconds; with a unit it can be anything, as in 500ms",
                      value);
}

/* The place of VALUE in WORDS, a NULL-ended list; -1 and *err: it is not there. */
static int find_word(const char *value, const char *const *words, struct dt_err *err)
{
    char all[128] = "";
    for (int i = 0; words[i]; i++) {
        if (strcmp(value, words[i]) == 0)
            return i;
        size_t n = strlen(all);
        snprintf(all + n, sizeof all - n, "%s%s", i ? ", " : "", words[i]);
    }
    return dt_err_set(err, DT_E_USAGE, "\"%s\" is none of %s", value, all);
}

int dt_value_start_method(const char *value, void *target, struct dt_err *err)
{
    static const char *const words[] = {"spawn", "fork", "forkserver", NULL};
    return find_word(value, words, err) < 0 ? -1 : dt_opt_string(value, target, err);
}

int dt_value_numa_binding(const char *value, void *target, struct dt_err *err)
{
    static const char *const words[] = {"node", "socket", "exclusive", "core-complex", NULL};
    static const enum dt_plan_bind kinds[] = {DT_BIND_NODE, DT_BIND_SOCKET, DT_BIND_EXCLUSIVE,
                                              DT_BIND_COMPLEX};
    int i = find_word(value, words, err);
    if (i < 0)
        return -1;
    *(enum dt_plan_bind *)target = kinds[i];
    return 0;
}

/* A flag's variable that is no number makes torchrun end with 1. */
int dt_value_pet_flag(const char *value, bool *on, struct dt_err *err)
{
    int64_t n;
    if (dt_number_int(value, &n, NULL) < 0)
        return dt_err_set(err, DT_E_RUNTIME,
                          "\"%s\" is not a whole number; give 1 for yes, 0 for no", value);
    *on = n != 0;
    return 0;
}

/* -- dtrun's own ------------------------------------------------------------------------------ */

int dt_value_exit_code(const char *value, void *target, struct dt_err *err)
{
    static const char *const words[] = {"torchrun", "root-cause", NULL};
    int i = find_word(value, words, err);
    if (i < 0)
        return -1;
    *(enum dt_plan_exit *)target = i ? DT_EXIT_ROOT_CAUSE : DT_EXIT_TORCHRUN;
    return 0;
}

/* For a bool that is whether VALUE is the second of two WORDS. */
static int parse_either(const char *value, const char *const *words, void *target,
                        struct dt_err *err)
{
    int i = find_word(value, words, err);
    if (i < 0)
        return -1;
    *(bool *)target = i == 1;
    return 0;
}

int dt_value_stop_order(const char *value, void *target, struct dt_err *err)
{
    static const char *const words[] = {"group", "leader", NULL};
    return parse_either(value, words, target, err);
}

int dt_value_keep_workers(const char *value, void *target, struct dt_err *err)
{
    static const char *const words[] = {"auto", "never", NULL};
    return parse_either(value, words, target, err);
}

int dt_value_keep_logs(const char *value, void *target, struct dt_err *err)
{
    static const char *const words[] = {"all", "failed", NULL};
    int i = find_word(value, words, err);
    if (i < 0)
        return -1;
    *(enum dt_plan_keep_logs *)target = i ? DT_KEEP_LOGS_OF_FAILURE : DT_KEEP_ALL_LOGS;
    return 0;
}

int dt_value_size(const char *value, void *target, struct dt_err *err)
{
    return dt_str_to_size(value, 0, UINT64_MAX, target, err);
}

int dt_value_hang_after(const char *value, void *target, struct dt_err *err)
{
    dt_ms *after = target;
    *after = strcmp(value, "auto") == 0 ? DT_HANG_AUTO : DT_FOREVER;
    if (strcmp(value, "auto") == 0 || strcmp(value, "off") == 0)
        return 0;
    if (dt_str_to_duration(value, DT_SECOND, DT_FOREVER, after, NULL) < 0)
        return dt_err_set(err, DT_E_USAGE,
                          "\"%s\" is no time from 1s on; write it as 30 or 2m, or auto or off",
                          value);
    return 0;
}

int dt_value_on_hang(const char *value, void *target, struct dt_err *err)
{
    static const char *const words[] = {"log", "restart", "stop", NULL};
    static const enum dt_plan_on_hang kinds[] = {DT_ON_HANG_LOG, DT_ON_HANG_RESTART,
                                                 DT_ON_HANG_STOP};
    int i = find_word(value, words, err);
    if (i < 0)
        return -1;
    *(enum dt_plan_on_hang *)target = kinds[i];
    return 0;
}

int dt_value_on_straggler(const char *value, void *target, struct dt_err *err)
{
    static const char *const words[] = {"log", "drain", "off", NULL};
    static const enum dt_plan_on_straggler kinds[] = {DT_ON_STRAGGLER_LOG, DT_ON_STRAGGLER_DRAIN,
                                                      DT_ON_STRAGGLER_OFF};
    int i = find_word(value, words, err);
    if (i < 0)
        return -1;
    *(enum dt_plan_on_straggler *)target = kinds[i];
    return 0;
}

int dt_value_preflight(const char *value, void *target, struct dt_err *err)
{
    static const char *const words[] = {"auto", "off", "fast", "full", NULL};
    static const enum dt_plan_preflight kinds[] = {DT_PREFLIGHT_AUTO, DT_PREFLIGHT_OFF,
                                                   DT_PREFLIGHT_FAST, DT_PREFLIGHT_FULL};
    int i = find_word(value, words, err);
    if (i < 0)
        return -1;
    *(enum dt_plan_preflight *)target = kinds[i];
    return 0;
}

int dt_value_compute(const char *value, void *target, struct dt_err *err)
{
    static const char *const words[] = {"gpus", "cpu", "off", NULL};
    static const enum dt_compute_what kinds[] = {DT_COMPUTE_GPUS, DT_COMPUTE_CPU,
                                                 DT_COMPUTE_NOTHING};
    int i = find_word(value, words, err);
    if (i < 0)
        return -1;
    *(enum dt_compute_what *)target = kinds[i];
    return 0;
}

int dt_value_look_signal(const char *value, void *target, struct dt_err *err)
{
    int number = dt_signame_number(value, strlen(value));
    *(int *)target = 0;
    if (strcmp(value, "none") == 0)
        return 0;
    if (!dt_signame_catchable(number))
        return dt_err_set(err, DT_E_USAGE,
                          "\"%s\" is no signal that can be handled; write it as SIGUSR1, or none",
                          value);
    *(int *)target = number;
    return 0;
}

int dt_value_nccl_profiler(const char *value, void *target, struct dt_err *err)
{
    static const char *const words[] = {"calls", "kernels", "off", NULL};
    static const enum dt_plan_nccl kinds[] = {DT_NCCL_CALLS, DT_NCCL_KERNELS, DT_NCCL_OFF};
    int i = find_word(value, words, err);
    if (i < 0)
        return -1;
    *(enum dt_plan_nccl *)target = kinds[i];
    return 0;
}

int dt_value_omp_threads(const char *value, void *target, struct dt_err *err)
{
    struct dt_launch_threads *t = target;
    int64_t n;
    *t = (struct dt_launch_threads){0};
    if (strcmp(value, "torchrun") == 0)
        return 0;
    if (strcmp(value, "auto") == 0) {
        t->how = DT_OMP_AUTO;
        return 0;
    }
    if (dt_str_to_int(value, 1, 1 << 20, &n, NULL) < 0)
        return dt_err_set(err, DT_E_USAGE,
                          "\"%s\" is no number of threads; give one from 1 on, auto or torchrun",
                          value);
    *t = (struct dt_launch_threads){DT_OMP_GIVEN, (int)n};
    return 0;
}

int dt_value_signals(const char *value, void *target, struct dt_err *err)
{
    const char *at = value, *name;
    size_t len;
    uint64_t set = 0;
    while (dt_signame_next(&at, &name, &len)) {
        int number = dt_signame_number(name, len);
        if (!dt_signame_catchable(number))
            return dt_err_set(err, DT_E_USAGE,
                              "\"%.*s\" is no signal that can be passed on; write it as "
                              "SIGUSR1,SIGUSR2",
                              (int)len, name);
        set |= UINT64_C(1) << number;
    }
    *(uint64_t *)target = set;
    return 0;
}

int dt_value_spare_policy(const char *value, void *target, struct dt_err *err)
{
    static const char *const words[] = {"extra", "fixed", NULL};
    return parse_either(value, words, target, err);
}

int dt_value_rank_policy(const char *value, void *target, struct dt_err *err)
{
    static const char *const words[] = {"stable", "torchrun", NULL};
    return parse_either(value, words, target, err);
}

int dt_value_daemon_loss(const char *value, void *target, struct dt_err *err)
{
    static const char *const words[] = {"keep", "stop", NULL};
    return parse_either(value, words, target, err);
}

int dt_value_node_losses(const char *value, void *target, struct dt_err *err)
{
    int64_t n;
    if (strcmp(value, "unlimited") == 0)
        n = -1;
    else if (dt_str_to_int(value, 0, INT_MAX, &n, NULL) < 0)
        return dt_err_set(err, DT_E_USAGE,
                          "\"%s\" is no number of nodes; give one from 0 on, or unlimited", value);
    *(int *)target = (int)n;
    return 0;
}

/* A budget that is full again at once would be none. */
int dt_value_restart_reset(const char *value, void *target, struct dt_err *err)
{
    dt_ms *ms = target;
    *ms = 0;
    if (strcmp(value, "never") == 0)
        return 0;
    if (dt_str_to_duration(value, 1, DT_FOREVER, ms, NULL) < 0)
        return dt_err_set(err, DT_E_USAGE,
                          "\"%s\" is no time from 1ms on; write it as 30m or 2h, or never", value);
    return 0;
}

int dt_value_spares(const char *value, void *target, struct dt_err *err)
{
    int64_t n;
    if (dt_str_to_int(value, 0, DT_NODES_WISHED_MOST, &n, err) < 0)
        return -1;
    *(int *)target = (int)n;
    return 0;
}

/* Text that others will read in a line of their log, and that has SIZE bytes there. */
static int parse_name(const char *value, size_t size, void *target, struct dt_err *err)
{
    if (!*value || strlen(value) >= size)
        return dt_err_set(err, DT_E_USAGE, "a name has from 1 to %zu bytes, this one %zu", size - 1,
                          strlen(value));
    for (const char *s = value; *s; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            return dt_err_set(err, DT_E_USAGE, "no name has control characters in it");
    if (!dt_utf8_is_all(value))
        return dt_err_set(err, DT_E_USAGE, "this name is no UTF-8, in which nodes are told apart");
    return dt_opt_string(value, target, err);
}

int dt_value_node_name(const char *value, void *target, struct dt_err *err)
{
    if (*value == '-')
        return dt_err_set(err, DT_E_USAGE, "no name of a node begins with \"-\", as options do");
    return parse_name(value, DT_NODE_NAME_MAX, target, err);
}

int dt_value_domain(const char *value, void *target, struct dt_err *err)
{
    return parse_name(value, DT_ROLE_MAX, target, err);
}

int dt_value_quarantine_time(const char *value, void *target, struct dt_err *err)
{
    return dt_str_to_duration(value, 1, DT_FOREVER, target, err);
}

/* Whether TEXT is a port, or an address that ends in one. */
static bool has_port(const char *text)
{
    if (*text && text[strspn(text, "0123456789")] == '\0')
        return true;
    const char *colon = strrchr(text, ':');
    return colon && (*text == '[' ? colon > text && colon[-1] == ']' : strchr(text, ':') == colon);
}

static int parse_address(const char *value, void *target, const char *port_of, struct dt_err *err)
{
    if (*value == '/' || strncmp(value, "unix:", 5) == 0 || has_port(value))
        return dt_err_set(err, DT_E_USAGE, "\"%s\" is not an address alone; the port is that of %s",
                          value, port_of);
    return dt_addr_check(value, err) < 0 ? -1 : dt_opt_string(value, target, err);
}

int dt_value_store_listen(const char *value, void *target, struct dt_err *err)
{
    return parse_address(value, target, "--master-port or --rdzv-endpoint", err);
}

int dt_value_health_address(const char *value, void *target, struct dt_err *err)
{
    return parse_address(value, target, "--health-port", err);
}

int dt_value_http(const char *value, void *target, struct dt_err *err)
{
    return dt_web_check_address(value, err) < 0 ? -1 : dt_opt_append(value, target, err);
}

int dt_value_pid(const char *value, void *target, struct dt_err *err)
{
    int64_t pid;
    if (dt_str_to_int(value, 1, INT_MAX, &pid, err) < 0)
        return -1;
    return dt_opt_append(value, target, err);
}

int dt_value_port(const char *value, void *target, struct dt_err *err)
{
    int64_t n;
    if (dt_str_to_int(value, 0, 65535, &n, err) < 0)
        return -1;
    *(int *)target = (int)n;
    return 0;
}
