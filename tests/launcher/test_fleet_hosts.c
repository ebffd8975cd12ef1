/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/fleet/hosts.h"
#include "tests/lib/check.h"

/* "a=0 b=8": the hosts and their workers. */
static const char *shown(const struct dt_fleet_hosts *hosts)
{
    static char text[512];
    size_t n = 0;
    *text = '\0';
    for (size_t i = 0; i < hosts->len; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s=%d", i ? " " : "", hosts->at[i].name,
                              hosts->at[i].slots);
    return text;
}

struct row {
    const char *text, *hosts, *error;
};

static void check(const struct row *row, bool file)
{
    CHECK_ROW("%s", row->text);
    struct dt_fleet_hosts hosts = {0};
    struct dt_err err;
    int rc = file ? dt_fleet_hosts_read_file(&hosts, dt_bytes_of(row->text), "hosts", &err)
                  : dt_fleet_hosts_read(&hosts, row->text, &err);
    if (row->error) {
        CHECK_FAIL(rc, err, row->error);
    } else {
        CHECK_OK(rc, err);
        CHECK_STR(shown(&hosts), row->hosts);
    }
    dt_fleet_hosts_finish(&hosts);
}

TEST(a_list_on_the_command_line)
{
    static const struct row rows[] = {
        {"a", "a=0", NULL},
        {"a,b,c:8", "a=0 b=0 c=8", NULL},
        {"ada@a:2,node-1.example.org", "ada@a=2 node-1.example.org=0", NULL},
        {"fd00::1", "fd00::1=0", NULL},
        {"[fd00::1]:4,[fd00::2]", "fd00::1=4 fd00::2=0", NULL},
        {"a,a,b", "a=2 b=0", NULL},
        {"a:8,a:8", "a=16", NULL},
        {"", NULL, "\"\" is no host; write HOST or USER@HOST"},
        {"a,,b", NULL, "\"\" is no host"},
        {"a,b,", NULL, "\"\" is no host"},
        {"-oProxyCommand=x", NULL, "is no host"},
        {"-l", NULL, "\"-l\" is no host"},
        {"a;reboot", NULL, "\"a;reboot\" is no host"},
        {"a b", NULL, "\"a b\" is no host"},
        {"ada@", NULL, "\"ada@\" is no host"},
        {"a:0", NULL, "\"0\" is no number of workers; give 1 to 65536"},
        {"a:x", NULL, "\"x\" is no number of workers"},
        {"a:", NULL, "\"\" is no number of workers"},
        {"a:65536,a", NULL, "a has more than 65536 workers"},
        {"[fd00::1]x", NULL, "\"[fd00::1]x\" is no host; write [ADDRESS]:N"},
        {"[]:4", NULL, "\"\" is no host"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check(&rows[i], false);
}

TEST(a_hostfile)
{
    static const struct row rows[] = {
        {"a\nb\n", "a=0 b=0", NULL},
        {"# mine\n\na slots=8 # the fast one\n  b:4\r\n#c\n", "a=8 b=4", NULL},
        {"a slots=2 max_slots=4\nb max-slots=4 slots=3", "a=2 b=3", NULL},
        {"a\na\na\nb\n", "a=3 b=0", NULL},
        {"a\tslots=8", "a=8", NULL},
        {"", NULL, "hosts lists no host"},
        {"# nobody\n", NULL, "hosts lists no host"},
        {"a\nb gpus=8\n", NULL, "hosts:2: \"gpus=8\" is not slots=N; # begins a comment"},
        {"a\nb slots=\n", NULL, "hosts:2: \"\" is no number of workers"},
        {"a\n\n-b\n", NULL, "hosts:3: \"-b\" is no host"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check(&rows[i], true);
}

TEST(a_label_is_the_host_without_its_user)
{
    CHECK_STR(dt_fleet_host_label(&(struct dt_fleet_host){.name = "ada@a"}), "a");
    CHECK_STR(dt_fleet_host_label(&(struct dt_fleet_host){.name = "fd00::1"}), "fd00::1");
}

TEST(a_name_that_is_too_long_is_refused)
{
    struct dt_fleet_hosts hosts = {0};
    struct dt_err err;
    char name[DT_FLEET_NAME_MAX + 1];
    memset(name, 'a', DT_FLEET_NAME_MAX);
    name[DT_FLEET_NAME_MAX] = '\0';
    CHECK_FAIL(dt_fleet_hosts_read(&hosts, name, &err), err, "is too long for a host");
    CHECK_OK(dt_fleet_hosts_read(&hosts, name + 1, &err), err);
    dt_fleet_hosts_finish(&hosts);
}
