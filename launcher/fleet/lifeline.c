/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/fleet/lifeline.h"

#include "base/auto.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/signame.h"
#include "launcher/options.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SILENCE_MS 60000 /* twelve beats that did not come */
#define OVER_MS 1000     /* how long standard output may be full at the end */

/* -- hello ------------------------------------------------------------------------------------ */

/* A port that is free on every address now. 0: the kernel has none. */
static int find_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t len = sizeof at;
    DT_AUTO_FD fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) < 0)
        return 0;
    return ntohs(at.sin_port);
}

static int say_hello(struct dt_err *err)
{
    struct dt_fleet_hello hello = {.version = DT_VERSION, .port = find_port()};
    struct dt_buf line = {0};
    dt_fleet_hello_put(&line, &hello);
    ssize_t n = write(STDOUT_FILENO, line.at, line.len);
    int rc = n == (ssize_t)line.len
                 ? 0
                 : dt_err_errno(err, DT_E_RUNTIME, errno, "nobody takes the hello of this agent");
    dt_buf_finish(&line);
    return rc;
}

/* -- the order -------------------------------------------------------------------------------- */

/* 1: all of it; 0: the input ended. */
static int read_whole(void *to, size_t len)
{
    for (size_t got = 0; got < len;) {
        ssize_t n = read(STDIN_FILENO, (uint8_t *)to + got, len - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return 0;
        got += (size_t)n;
    }
    return 1;
}

static int nobody(struct dt_err *err)
{
    return dt_err_set(err, DT_E_CANCELED, "%s", "");
}

static int read_order(struct dt_fleet_order *order, struct dt_err *err)
{
    uint8_t head[sizeof(uint32_t)];
    if (!read_whole(head, sizeof head))
        return nobody(err);
    struct dt_reader r = dt_reader_over(head, sizeof head);
    uint32_t len = dt_read_u32(&r);
    if (len > DT_FLEET_ORDER_MAX)
        return dt_err_set(err, DT_E_PROTOCOL,
                          "what came on standard input is no order of a dtrun that starts a fleet");
    DT_AUTO_FREE uint8_t *body = malloc((size_t)len + 1);
    if (!body)
        return dt_err_set(err, DT_E_MEMORY, "no memory for the order of this agent");
    int rc = read_whole(body, len) ? dt_fleet_order_read((struct dt_bytes){body, len}, order, err)
                                   : nobody(err);
    explicit_bzero(body, len);
    return rc;
}

/* The secret lies in memory, in a file that has no name: option --token-file reads it from there,
 * and what is executed finds it closed. */
static int pass_token(struct dt_fleet_order *order, struct dt_err *err)
{
    if (order->token_len == 0)
        return 0;
    int fd = dt_fs_make_in_memory("dtrun-token");
    if (fd < 0 || fchmod(fd, 0600) < 0 ||
        write(fd, order->token, order->token_len) != (ssize_t)order->token_len)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "no place in memory for the token");
    size_t count = 0;
    while (order->argv[count])
        count++;
    char **argv = realloc(order->argv, (count + 2) * sizeof *argv), *option = NULL;
    if (argv)
        order->argv = argv;
    if (!argv || asprintf(&option, "--token-file=/proc/self/fd/%d", fd) < 0)
        return dt_err_set(err, DT_E_MEMORY, "no memory for the order of this agent");
    size_t at = count > 1 && strcmp(argv[1], DT_LAUNCH_DOCTOR) == 0 ? 2 : 1;
    memmove(argv + at + 1, argv + at, (count - at + 1) * sizeof *argv);
    argv[at] = option;
    return 0;
}

static int apply(struct dt_fleet_order *order, struct dt_err *err)
{
    for (char *const *e = order->env; *e; e++) {
        char *equals = strchr(*e, '=');
        if (!equals)
            continue;
        *equals = '\0';
        int rc = setenv(*e, equals + 1, 1);
        *equals = '=';
        if (rc < 0)
            return dt_err_errno(err, DT_E_RUNTIME, errno, "the environment cannot take %s", *e);
    }
    if (chdir(order->cwd) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno,
                            "this host lacks the folder in which the job was started, %s",
                            order->cwd);
    return pass_token(order, err);
}

int dt_lifeline_greet(struct dt_fleet_order *order, struct dt_err *err)
{
    *order = (struct dt_fleet_order){0};
    if (say_hello(err) < 0 || read_order(order, err) < 0)
        return -1;
    return apply(order, err);
}

/* -- what follows ----------------------------------------------------------------------------- */

/* The process itself handles what it gets: none of these is the thread's. */
static void raise_here(int signum)
{
    kill(getpid(), signum);
}

/* False: this was the last of it. */
static bool hear(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    uint8_t byte;
    int ready = poll(&p, 1, SILENCE_MS);
    ssize_t n = ready > 0 ? read(fd, &byte, 1) : -1;
    if ((ready < 0 || n < 0) && errno == EINTR)
        return true;
    if (ready == 0)
        dt_warn("the dtrun that started this one has not been heard of for %d s; ending the job "
                "here",
                SILENCE_MS / 1000);
    if (n == 1 && byte != DT_FLEET_BEAT && byte < 64)
        raise_here(byte);
    return n == 1;
}

static void *follow(void *arg)
{
    int fd = (int)(intptr_t)arg;
    while (hear(fd))
        ;
    raise_here(SIGTERM);
    return NULL;
}

int dt_lifeline_follow(struct dt_err *err)
{
    int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3),
        null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    sigset_t all, was;
    pthread_t thread;
    if (fd < 0 || null < 0 || dup2(null, STDIN_FILENO) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "standard input cannot be set aside");
    close(null);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &was);
    int rc = pthread_create(&thread, NULL, follow, (void *)(intptr_t)fd);
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    if (rc != 0)
        return dt_err_errno(err, DT_E_RUNTIME, rc, "no thread for standard input");
    pthread_detach(thread);
    return 0;
}

void dt_lifeline_say_over(void)
{
    static const uint8_t over = DT_FLEET_OVER;
    struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};
    if (poll(&p, 1, OVER_MS) <= 0 || write(STDOUT_FILENO, &over, 1) != 1)
        dt_debug("nobody takes the end of this agent");
}
