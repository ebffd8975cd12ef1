/* SPDX-License-Identifier: Apache-2.0 */
#include "base/port_owner.h"

#include "base/buf.h"
#include "base/fs.h"
#include "base/str.h"
#include "base/tcp_table.h"

#include <ctype.h>
#include <dirent.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_any(const struct dt_tcp_end *e)
{
    bool mapped = e->words[2] == htonl(0xffff);
    return e->words[0] == 0 && e->words[1] == 0 && (e->words[2] == 0 || mapped) && e->words[3] == 0;
}

static bool collide(const struct dt_tcp_end *a, const struct dt_tcp_end *b)
{
    return a->port == b->port &&
           (is_any(a) || is_any(b) || memcmp(a->words, b->words, sizeof a->words) == 0);
}

unsigned long dt_port_owner_inode(const char *table, bool v6, const struct dt_addr *addr)
{
    struct dt_tcp_end wanted;
    struct dt_tcp_row row;
    unsigned long found = 0;
    if (!dt_tcp_end_of_addr(addr, &wanted))
        return 0;
    for (const char *line = table; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!dt_tcp_row_parse(line, v6, &row) || row.inode == 0 || !collide(&row.local, &wanted))
            continue;
        if (row.listens)
            return row.inode;
        found = row.inode;
    }
    return found;
}

static unsigned long look_in(const char *path, bool v6, const struct dt_addr *addr)
{
    struct dt_buf b = {0};
    unsigned long inode = 0;
    if (dt_fs_read(path, DT_TCP_TABLE_MAX, &b, NULL) == 0)
        inode = dt_port_owner_inode(dt_buf_cstr(&b), v6, addr);
    dt_buf_finish(&b);
    return inode;
}

static bool holds(const char *pid, const char *link)
{
    char path[300], target[64];
    snprintf(path, sizeof path, "/proc/%s/fd", pid);
    DIR *dir = opendir(path);
    bool found = false;
    for (struct dirent *e; dir && !found && (e = readdir(dir));) {
        ssize_t n = readlinkat(dirfd(dir), e->d_name, target, sizeof target - 1);
        if (n <= 0)
            continue;
        target[n] = '\0';
        found = strcmp(target, link) == 0;
    }
    if (dir)
        closedir(dir);
    return found;
}

static void name_program(struct dt_port_owner *o)
{
    char path[64];
    struct dt_buf b = {0};
    snprintf(path, sizeof path, "/proc/%d/comm", (int)o->pid);
    if (dt_fs_read(path, 4096, &b, NULL) == 0) {
        if (b.len && b.at[b.len - 1] == '\n')
            b.len--;
        dt_str_printable((struct dt_bytes){b.at, b.len}, o->program, sizeof o->program);
    }
    dt_buf_finish(&b);
}

static void find_holder(unsigned long inode, struct dt_port_owner *o)
{
    char link[64];
    snprintf(link, sizeof link, "socket:[%lu]", inode);
    DIR *proc = opendir("/proc");
    for (struct dirent *e; proc && o->pid == 0 && (e = readdir(proc));)
        if (isdigit((unsigned char)e->d_name[0]) && holds(e->d_name, link))
            o->pid = (pid_t)atoi(e->d_name);
    if (proc)
        closedir(proc);
    if (o->pid)
        name_program(o);
}

bool dt_port_owner_find(const struct dt_addr *addr, struct dt_port_owner *out)
{
    *out = (struct dt_port_owner){0};
    unsigned long inode = look_in("/proc/net/tcp", false, addr);
    if (inode == 0)
        inode = look_in("/proc/net/tcp6", true, addr);
    if (inode == 0)
        return false;
    find_holder(inode, out);
    return true;
}

const char *dt_port_owner_text(const struct dt_addr *addr, char *out, size_t size)
{
    char text[DT_ADDR_TEXT];
    struct dt_port_owner o;
    dt_addr_text(addr, text, sizeof text);
    if (!dt_port_owner_find(addr, &o) || o.pid == 0)
        snprintf(out, size, "%s is in use by another program", text);
    else if (o.pid == getpid())
        snprintf(out, size, "%s is in use by this very process (pid %d)", text, (int)o.pid);
    else
        snprintf(out, size, "%s is in use by pid %d (%s)", text, (int)o.pid, o.program);
    return out;
}
