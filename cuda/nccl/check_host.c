/* SPDX-License-Identifier: Apache-2.0 */
/* The ways from this host to others, and the shared memory inside it, as the kernel shows them. */
#include "cuda/nccl/check.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* NCCL takes about 10 MB of it for each pair of GPUs that goes by it; containers begin with 64. */
#define SHM_LITTLE ((uint64_t)512 << 20)

static void path_of(const struct dt_check *c, const char *path, char *out, size_t size)
{
    snprintf(out, size, "%s%s", c->root, path);
}

void dt_check_read(const struct dt_check *c, const char *path, char *out, size_t size)
{
    char full[600];
    path_of(c, path, full, sizeof full);
    FILE *f = fopen(full, "re");
    if (!f || !fgets(out, (int)size, f))
        out[0] = '\0';
    out[strcspn(out, "\n")] = '\0';
    if (f)
        fclose(f);
}

static int no_dots(const struct dirent *d)
{
    return d->d_name[0] != '.';
}

void dt_check_list(const struct dt_check *c, const char *path, struct dt_check_names *n)
{
    char full[600];
    struct dirent **entries = NULL;
    path_of(c, path, full, sizeof full);
    int count = scandir(full, &entries, no_dots, alphasort);
    *n = (struct dt_check_names){0};
    if (count <= 0) {
        free(entries);
        return;
    }
    n->name = calloc((size_t)count, sizeof *n->name);
    for (int i = 0; i < count; i++) {
        char *name = n->name ? strdup(entries[i]->d_name) : NULL;
        if (name)
            n->name[n->count++] = name;
        free(entries[i]);
    }
    free(entries);
}

void dt_check_free(struct dt_check_names *n)
{
    for (int i = 0; i < n->count; i++)
        free(n->name[i]);
    free(n->name);
    *n = (struct dt_check_names){0};
}

/* -- InfiniBand and RoCE ---------------------------------------------------------------------- */

static bool check_port(struct dt_check *c, const char *card, const char *port)
{
    char path[400], state[64], rate[64], layer[64];
    const char *const files[] = {"state", "rate", "link_layer"};
    char *const values[] = {state, rate, layer};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "/sys/class/infiniband/%.100s/ports/%.100s/%s", card, port,
                 files[i]);
        dt_check_read(c, path, values[i], sizeof state);
    }
    bool active = strstr(state, "ACTIVE") != NULL;
    const char *word = strstr(state, ": ");
    dt_check_say(c, active ? DT_CHECK_FINE : DT_CHECK_ADVICE, "%s %.100s port %.100s is %s, %s%s",
                 strcmp(layer, "Ethernet") == 0 ? "RoCE" : "InfiniBand", card, port,
                 word ? word + 2 : "in a state the kernel does not tell",
                 *rate ? rate : "of unknown rate",
                 active ? "" : ": NCCL does not use it (ibstat, and the cable, tell more)");
    return active;
}

static int check_card(struct dt_check *c, const char *card)
{
    char path[200];
    struct dt_check_names ports;
    int active = 0;
    snprintf(path, sizeof path, "/sys/class/infiniband/%.100s/ports", card);
    dt_check_list(c, path, &ports);
    for (int i = 0; i < ports.count; i++)
        active += check_port(c, card, ports.name[i]);
    dt_check_free(&ports);
    return active;
}

static bool exists(const struct dt_check *c, const char *path)
{
    char full[600];
    path_of(c, path, full, sizeof full);
    return access(full, F_OK) == 0;
}

static void check_infiniband(struct dt_check *c)
{
    struct dt_check_names cards;
    int active = 0;
    dt_check_list(c, "/sys/class/infiniband", &cards);
    for (int i = 0; i < cards.count; i++)
        active += check_card(c, cards.name[i]);
    if (cards.count == 0)
        dt_check_say(c, DT_CHECK_FINE,
                     "no InfiniBand or RoCE card: between hosts NCCL goes by sockets");
    if (active > 0 && !exists(c, "/sys/module/nvidia_peermem"))
        dt_check_say(c, DT_CHECK_ADVICE,
                     "nvidia_peermem is not loaded: cards reach GPU memory only where driver and "
                     "kernel have DMA-BUF, else by way of the host (modprobe nvidia_peermem)");
    dt_check_free(&cards);
}

/* -- interfaces ------------------------------------------------------------------------------- */

/* Those NCCL itself passes over, and ends of bridges. */
static bool is_internal(const char *name)
{
    return strcmp(name, "lo") == 0 || strncmp(name, "docker", 6) == 0 ||
           strncmp(name, "veth", 4) == 0 || strncmp(name, "virbr", 5) == 0;
}

static bool check_interface(struct dt_check *c, const char *name)
{
    char path[200], state[64], speed[64];
    snprintf(path, sizeof path, "/sys/class/net/%.100s/operstate", name);
    dt_check_read(c, path, state, sizeof state);
    snprintf(path, sizeof path, "/sys/class/net/%.100s/speed", name);
    dt_check_read(c, path, speed, sizeof speed);
    bool up = strcmp(state, "up") == 0 || strcmp(state, "unknown") == 0;
    bool known = strtol(speed, NULL, 10) > 0; /* -1 where there is no such thing */
    dt_check_say(c, DT_CHECK_FINE, "interface %.100s is %s%s%s%s", name,
                 *state ? state : "in a state the kernel does not tell", known ? ", " : "",
                 known ? speed : "", known ? " Mb/s" : "");
    return up;
}

static void check_interfaces(struct dt_check *c)
{
    struct dt_check_names all;
    int up = 0;
    dt_check_list(c, "/sys/class/net", &all);
    for (int i = 0; i < all.count; i++)
        if (!is_internal(all.name[i]))
            up += check_interface(c, all.name[i]);
    if (up == 0)
        dt_check_say(c, DT_CHECK_ADVICE,
                     "no interface to other hosts is up: with NCCL_SOCKET_IFNAME=lo the GPUs of "
                     "one host work together");
    dt_check_free(&all);
}

/* -- shared memory ---------------------------------------------------------------------------- */

static void check_shm(struct dt_check *c)
{
    char full[600];
    struct statvfs s;
    path_of(c, "/dev/shm", full, sizeof full);
    if (statvfs(full, &s) != 0) {
        dt_check_say(c, DT_CHECK_PROBLEM,
                     "/dev/shm is not there: NCCL needs it between GPUs of one host that do not "
                     "reach each other's memory");
        return;
    }
    uint64_t all = (uint64_t)s.f_blocks * s.f_frsize, left = (uint64_t)s.f_bavail * s.f_frsize;
    bool little = left < SHM_LITTLE;
    dt_check_say(c, little ? DT_CHECK_ADVICE : DT_CHECK_FINE,
                 "/dev/shm: %.0f of %.0f MiB are free%s", (double)left / (1 << 20),
                 (double)all / (1 << 20),
                 little ? ": little for many GPUs (docker: --shm-size=1g; Kubernetes: an emptyDir "
                          "with medium Memory)"
                        : "");
}

void dt_check_host(struct dt_check *c)
{
    check_infiniband(c);
    check_interfaces(c);
    check_shm(c);
}
