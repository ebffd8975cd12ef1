/* SPDX-License-Identifier: Apache-2.0 */
/* The real daemon and hosts with many addresses: a network of our own, where one interface has them
 * all. */
#include "tests/lib/check.h"
#include "tests/lib/daemon.h"
#include "tests/lib/peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <linux/ipv6.h>

#define PROGRAM getenv("DT_RENDEZVOUS")
#define SERVER "fd00:1::1"

static struct in6_addr addr_of(const char *text)
{
    struct in6_addr a;
    CHECK_EQ(inet_pton(AF_INET6, text, &a), 1);
    return a;
}

/* The kernel looks for others who have a new address beside what it does for us. */
static bool is_usable(struct in6_addr address)
{
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = address};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool usable = fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0;
    close(fd);
    return usable;
}

/* Which only administrators of the network may. */
static bool add_address(const char *text)
{
    struct in6_ifreq r = {.ifr6_addr = addr_of(text),
                          .ifr6_prefixlen = 64,
                          .ifr6_ifindex = (int)if_nametoindex("lo")};
    int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool done = fd >= 0 && ioctl(fd, SIOCSIFADDR, &r) == 0;
    close(fd);
    for (int asks = 0; done && !is_usable(r.ifr6_addr) && asks < 6000; asks++)
        poll(NULL, 0, 10);
    return done;
}

static bool raise_loopback(void)
{
    struct ifreq r = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool done = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &r) == 0;
    close(fd);
    return done;
}

BEFORE_ALL
{
    if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
        SKIP("no network namespace can be made here: %s", strerror(errno));
    if (!raise_loopback() || !add_address(SERVER))
        SKIP("no address of IPv6 can be given to a network namespace here");
}

static int connect_from(const char *text, uint16_t port)
{
    struct sockaddr_in6 from = {.sin6_family = AF_INET6, .sin6_addr = addr_of(text)};
    struct sockaddr_in6 to = {
        .sin6_family = AF_INET6, .sin6_addr = addr_of(SERVER), .sin6_port = htons(port)};
    struct timeval ceiling = {.tv_sec = 30};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &ceiling, sizeof ceiling) == 0);
    CHECK(bind(fd, (struct sockaddr *)&from, sizeof from) == 0);
    CHECK(connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    return fd;
}

static void check_served(int fd)
{
    static const uint8_t ping[] = {0, 0xce, 0xf7, 0x85, 0x3c, 0x0d, 1, 2, 3, 4};
    peer_send(fd, ping, sizeof ping);
    peer_receive(fd, ping + 6, 4);
}

TEST(all_addresses_of_a_network_of_64_bits_have_the_places_of_one_host)
{
    static const char *const of_one_host[] = {"fd00:2::1", "fd00:2::2", "fd00:2::ffff:0:0:1"};
    static const char *const other = "fd00:2:0:1::1";
    struct daemon_process d;
    int fds[2];
    for (int i = 0; i < 3; i++)
        CHECK(add_address(of_one_host[i]));
    CHECK(add_address(other));
    DAEMON_START(&d, PROGRAM, "--listen", "[" SERVER "]:0", "--allow", "fd00::/8",
                 "--max-connections-per-address", "2");
    for (int i = 0; i < 2; i++) {
        fds[i] = connect_from(of_one_host[i], d.port);
        check_served(fds[i]);
    }
    int third = connect_from(of_one_host[2], d.port);
    peer_expect_end(third);
    CHECK(daemon_log_has(&d, "2 connections come from its address, the limit"));
    int stranger = connect_from(other, d.port);
    check_served(stranger);
    for (int i = 0; i < 2; i++)
        close(fds[i]);
    close(third);
    close(stranger);
    CHECK_EQ(daemon_stop(&d), 0);
}
