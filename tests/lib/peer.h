/* SPDX-License-Identifier: Apache-2.0 */
/* A raw client for tests of servers: blocking sockets, requests built by the real encoder, answers
 * compared by hand. Every receive has a ceiling of 30 s that only a hang reaches. */
#ifndef DT_TESTS_PEER_H
#define DT_TESTS_PEER_H

#include "base/buf.h"
#include "rendezvous/protocol/c10d.h"

#include <stdbool.h>
#include <stdint.h>

int peer_connect(uint16_t port);         /* a connected socket */
int peer_connect_path(const char *path); /* to a unix socket */
int peer_greet(uint16_t port);           /* and the modern hello is exchanged */

void peer_send(int fd, const void *bytes, size_t len);
void peer_receive(int fd, const void *want, size_t len); /* checks that exactly these bytes come */
void peer_expect_end(int fd);                            /* the server closes (or resets) */
void peer_expect_refusal(uint16_t port);                 /* nobody listens there */

void peer_set(int fd, const char *key, const char *value);
void peer_set_bytes(int fd, const char *key, const void *value, size_t len);
void peer_ask_get(int fd, const char *key); /* the request only */
void peer_get(int fd, const char *key, const char *want);
void peer_add(int fd, const char *key, int64_t delta, int64_t want);
void peer_wait(int fd, const char *key); /* asks; the answer is peer_receive(fd, "\0", 1) */
void peer_num_keys(int fd, int64_t want);

#endif
