/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/doctor/meeting.h"

#include "base/auto.h"
#include "base/fs.h"
#include "base/say.h"
#include "base/str.h"
#include "launcher/options.h"
#include "preflight/reach.h"
#include "preflight/speeds.h"
#include "rendezvous/protocol/sync_client.h"

#include <ctype.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#define NODES_MAX 4096
#define PEERS_MAX 24
#define ALL_ASK_ALL 16              /* among so few nodes each asks each other one */
#define ANSWER_TIME (3 * DT_SECOND) /* for a peer */
#define NODES_TIME (60 * DT_SECOND) /* for the slowest node */
#define SAMPLE ((uint64_t)16 << 20)
#define HOST_MAX 256
#define TOKEN 33

/* One node among the others. */
struct attendance {
    struct dt_meeting_page *page;
    struct dt_sync_client *store;
    struct dt_reach_server server;
    int rank, size, round;
    struct dt_compared *nodes;
    struct place {
        char host[HOST_MAX];
        int port;
        bool shares_name;
    } * places;
};

/* -- the page --------------------------------------------------------------------------------- */

struct dt_meeting_page *dt_meeting_page_create(struct dt_err *err)
{
    char path[64];
    int fd = dt_fs_make_in_memory("dtrun-doctor");
    void *page = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, sizeof(struct dt_meeting_page)) == 0)
        page =
            mmap(NULL, sizeof(struct dt_meeting_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
        if (fd >= 0)
            close(fd);
        dt_err_set(err, DT_E_MEMORY, "no memory to share with a worker");
        return NULL;
    }
    /* The descriptor stays open, as the path leads to it. */
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), fd);
    setenv(DT_MEETING_ENV, path, 1);
    return page;
}

void dt_meeting_page_destroy(struct dt_meeting_page *page)
{
    if (page)
        munmap(page, sizeof *page);
}

static struct dt_meeting_page *open_page(const char *path)
{
    DT_AUTO_FD fd = open(path, O_RDWR | O_CLOEXEC);
    void *page = fd < 0 ? MAP_FAILED
                        : mmap(NULL, sizeof(struct dt_meeting_page), PROT_READ | PROT_WRITE,
                               MAP_SHARED, fd, 0);
    return page == MAP_FAILED ? NULL : page;
}

/* -- what all nodes say ----------------------------------------------------------------------- */

struct key {
    char text[80];
};

static struct key key_of(const struct attendance *a, const char *what, int number, int rank)
{
    struct key k;
    snprintf(k.text, sizeof k.text, "dtrun-doctor/%d/%s/%d/%d", a->round, what, number, rank);
    return k;
}

static int tell(struct attendance *a, const char *what, int number, struct dt_bytes value,
                struct dt_err *err)
{
    struct key k = key_of(a, what, number, a->rank);
    return dt_sync_client_set(a->store, dt_bytes_of(k.text), value, err);
}

static int hear(struct attendance *a, const char *what, int number, int rank, struct dt_buf *value,
                struct dt_err *err)
{
    struct key k = key_of(a, what, number, rank);
    return dt_sync_client_get(a->store, dt_bytes_of(k.text), value, err);
}

/* Until all nodes have come so far. */
static int meet(struct attendance *a, const char *what, int number, struct dt_err *err)
{
    struct dt_buf ignored = {0};
    int rc = tell(a, what, number, dt_bytes_of("here"), err);
    for (int i = 0; i < a->size && rc == 0; i++)
        rc = hear(a, what, number, i, &ignored, err);
    dt_buf_finish(&ignored);
    return rc;
}

/* -- who is there ----------------------------------------------------------------------------- */

static int introduce(struct attendance *a, struct dt_err *err)
{
    const char *master = getenv("MASTER_ADDR");
    char own[HOST_MAX];
    struct dt_buf b = {0};
    bool known = dt_reach_own_address(master, own, sizeof own);
    dt_buf_put_text(&b, a->page->name);
    dt_buf_put_text(&b, known ? own : master);
    dt_buf_put_u32(&b, (uint32_t)a->server.port);
    dt_sheet_put_compared(&a->page->own, &b);
    int rc = b.bad ? dt_err_set(err, DT_E_MEMORY, "no memory")
                   : tell(a, "hello", 0, (struct dt_bytes){b.at, b.len}, err);
    dt_buf_finish(&b);
    return rc;
}

static int read_hello(struct attendance *a, int rank, const struct dt_buf *value,
                      struct dt_err *err)
{
    struct dt_compared *n = &a->nodes[rank];
    struct place *p = &a->places[rank];
    struct dt_reader r = dt_reader_over(value->at, value->len);
    dt_read_text(&r, n->name, sizeof n->name);
    dt_read_text(&r, p->host, sizeof p->host);
    uint32_t port = dt_read_u32(&r);
    p->port = (int)port;
    if (r.bad || port == 0 || port > 65535 ||
        !dt_sheet_read_compared(n->sheet, (struct dt_bytes){r.at, dt_reader_left(&r)}))
        return dt_err_set(
            err, DT_E_PROTOCOL,
            "node %d says what this version of dtrun does not understand; install one "
            "version on all nodes",
            rank);
    return 0;
}

static bool shares_name(const struct attendance *a, int rank)
{
    for (int i = 0; i < a->size; i++)
        if (i != rank && strcmp(a->nodes[i].name, a->nodes[rank].name) == 0)
            return true;
    return false;
}

/* Containers on several hosts may have one name: then the rank stands behind it. */
static void tell_names_apart(struct attendance *a)
{
    for (int i = 0; i < a->size; i++)
        a->places[i].shares_name = shares_name(a, i);
    for (int i = 0; i < a->size; i++) {
        char *name = a->nodes[i].name;
        size_t len = strlen(name), most = DT_COMPARE_NAME - 12;
        if (a->places[i].shares_name)
            snprintf(name + (len < most ? len : most), 12, "/%d", i);
    }
}

static int get_acquainted(struct attendance *a, struct dt_err *err)
{
    struct dt_buf value = {0};
    int rc = introduce(a, err);
    for (int i = 0; i < a->size && rc == 0; i++) {
        rc = hear(a, "hello", 0, i, &value, err);
        if (rc == 0)
            rc = read_hello(a, i, &value, err);
    }
    dt_buf_finish(&value);
    tell_names_apart(a);
    return rc;
}

/* -- whether they reach each other ------------------------------------------------------------ */

struct visit {
    struct attendance *a;
    int rank;
    pthread_t thread;
    bool runs;
    struct dt_err err;
    int rc;
};

static void *pay_visit(void *arg)
{
    struct visit *v = arg;
    const struct place *p = &v->a->places[v->rank];
    v->rc = dt_reach(p->host, p->port, ANSWER_TIME, &v->a->nodes[v->rank], &v->err);
    return NULL;
}

/* A circle leads to some from both sides. */
static int add_peer(int peers[PEERS_MAX], int n, int rank)
{
    for (int i = 0; i < n; i++)
        if (peers[i] == rank)
            return n;
    if (n < PEERS_MAX)
        peers[n++] = rank;
    return n;
}

/* Nodes at distances 1, 2, 4, ... to both sides: who reaches them all is in no corner of its own.
 */
static int choose_peers(const struct attendance *a, int peers[PEERS_MAX])
{
    int n = 0;
    if (a->size <= ALL_ASK_ALL) {
        for (int i = 0; i < a->size; i++)
            if (i != a->rank)
                peers[n++] = i;
        return n;
    }
    for (int step = 1; step < a->size; step *= 2) {
        n = add_peer(peers, n, (a->rank + step) % a->size);
        n = add_peer(peers, n, (a->rank - step + a->size) % a->size);
    }
    return n;
}

static void visit_peers(struct attendance *a)
{
    struct visit visits[PEERS_MAX];
    int peers[PEERS_MAX], n = choose_peers(a, peers), failed = 0;
    for (int i = 0; i < n; i++) {
        visits[i] = (struct visit){.a = a, .rank = peers[i]};
        visits[i].runs = pthread_create(&visits[i].thread, NULL, pay_visit, &visits[i]) == 0;
        if (!visits[i].runs)
            pay_visit(&visits[i]);
    }
    for (int i = 0; i < n; i++) {
        if (visits[i].runs)
            pthread_join(visits[i].thread, NULL);
        failed += visits[i].rc < 0;
        if (visits[i].rc < 0)
            dt_sheet_remark(&a->page->among, "reach", DT_GRADE_FAIL,
                            "let all hosts of the job reach each other on every port: look at "
                            "firewalls, security groups and routes",
                            "%s: %.200s", a->nodes[peers[i]].name, visits[i].err.text);
    }
    if (failed == 0)
        dt_sheet_remark(&a->page->among, "reach", DT_GRADE_OK, NULL,
                        "%d of %d other nodes were asked on a free port, and answered", n,
                        a->size - 1);
}

/* -- how fast --------------------------------------------------------------------------------- */

static int64_t measure_pair(const struct attendance *a, int partner)
{
    const struct place *p = &a->places[partner];
    return (int64_t)dt_reach_rate(p->host, p->port, SAMPLE, ANSWER_TIME);
}

/* In round K node i pairs with the node whose number differs in bit K: no node is in two pairs. The
 * lower one measures, and all hear what it says. */
static int measure_round(struct attendance *a, int k, struct dt_pair *pairs, size_t *count,
                         struct dt_err *err)
{
    int partner = a->rank ^ 1 << k;
    struct dt_buf value = {0};
    int rc = meet(a, "round", k, err);
    if (rc == 0 && partner < a->size && a->rank < partner) {
        dt_buf_put_i64(&value, measure_pair(a, partner));
        rc = tell(a, "rate", k, (struct dt_bytes){value.at, value.len}, err);
    }
    for (int i = 0; i < a->size && rc == 0; i++) {
        int to = i ^ 1 << k;
        if (to >= a->size || i >= to || (rc = hear(a, "rate", k, i, &value, err)) < 0)
            continue;
        struct dt_reader r = dt_reader_over(value.at, value.len);
        struct dt_pair *pair = &pairs[(*count)++];
        pair->rate = (double)dt_read_i64(&r);
        snprintf(pair->from, sizeof pair->from, "%s", a->nodes[i].name);
        snprintf(pair->to, sizeof pair->to, "%s", a->nodes[to].name);
    }
    dt_buf_finish(&value);
    return rc;
}

static int measure_all(struct attendance *a, struct dt_err *err)
{
    int rounds = 0, rc = 0;
    size_t count = 0;
    while (1 << rounds < a->size)
        rounds++;
    DT_AUTO_FREE struct dt_pair *pairs =
        calloc((size_t)(rounds + 1) * (size_t)a->size, sizeof *pairs);
    if (!pairs)
        return dt_err_set(err, DT_E_MEMORY, "no memory for pairs of nodes");
    for (int k = 0; k < rounds && rc == 0; k++)
        rc = measure_round(a, k, pairs, &count, err);
    if (rc == 0)
        dt_compare_pairs(pairs, count, &a->page->among);
    return rc;
}

/* -- folders ---------------------------------------------------------------------------------- */

static void path_of_token(const struct attendance *a, int folder, const char *token,
                          char out[DT_MEETING_PATH + 64])
{
    snprintf(out, DT_MEETING_PATH + 64, "%s/.dtrun-doctor-%s", a->page->folders[folder], token);
}

static bool has_folder(const struct attendance *a, int folder)
{
    return a->page->folders[folder][0] != '\0';
}

/* The token of the first node, which becomes a part of a path. */
static int hear_token(struct attendance *a, char token[TOKEN], struct dt_err *err)
{
    struct dt_buf value = {0};
    int rc = hear(a, "token", 0, 0, &value, err);
    if (rc == 0)
        snprintf(token, TOKEN, "%s", dt_buf_cstr(&value));
    dt_buf_finish(&value);
    for (const char *c = token; rc == 0 && *c; c++)
        if (!isxdigit((unsigned char)*c))
            rc = dt_err_set(err, DT_E_PROTOCOL, "node 0 says what is no token");
    return rc;
}

static void make_token(char token[TOKEN])
{
    uint8_t random[(TOKEN - 1) / 2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        memset(random, 0, sizeof random); /* another one would be no worse: the file is new */
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(token + 2 * i, 3, "%02x", random[i]);
}

/* A network file system may show a new file a moment later. */
static bool wait_for_file(const char *path)
{
    dt_ms until = dt_clock_after(dt_clock_monotonic(), ANSWER_TIME);
    while (access(path, F_OK) < 0) {
        if (dt_clock_monotonic() >= until)
            return false;
        usleep(20000);
    }
    return true;
}

static void look_for_token(struct attendance *a, int folder, const char *token)
{
    char path[DT_MEETING_PATH + 64];
    path_of_token(a, folder, token, path);
    if (wait_for_file(path))
        dt_sheet_remark(&a->page->among, "shared", DT_GRADE_OK, NULL, "%.160s is that of %s",
                        a->page->folders[folder], a->nodes[0].name);
    else
        dt_sheet_remark(&a->page->among, "shared", DT_GRADE_WARN,
                        "mount the same folder on all nodes, if checkpoints or data are to be "
                        "shared there",
                        "%.160s is not that of %s: a file made there does not show up here",
                        a->page->folders[folder], a->nodes[0].name);
}

/* The first node makes a file in each folder, and the others look for it. */
static int compare_folders(struct attendance *a, struct dt_err *err)
{
    char token[TOKEN] = "", path[DT_MEETING_PATH + 64];
    int rc = 0;
    if (a->rank == 0) {
        make_token(token);
        for (int i = 0; i < DT_MEETING_FOLDERS && has_folder(a, i); i++) {
            path_of_token(a, i, token, path);
            close(open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644));
        }
        rc = tell(a, "token", 0, dt_bytes_of(token), err);
    } else {
        rc = hear_token(a, token, err);
        for (int i = 0; rc == 0 && i < DT_MEETING_FOLDERS && has_folder(a, i); i++)
            look_for_token(a, i, token);
    }
    if (rc == 0)
        rc = meet(a, "seen", 0, err);
    for (int i = 0; a->rank == 0 && i < DT_MEETING_FOLDERS && has_folder(a, i); i++) {
        path_of_token(a, i, token, path);
        unlink(path);
    }
    return rc;
}

/* -- what the others found --------------------------------------------------------------------- */

static enum dt_grade own_worst(const struct attendance *a)
{
    enum dt_grade own = dt_sheet_worst(&a->page->own), among = dt_sheet_worst(&a->page->among);
    return own > among ? own : among;
}

static int compare_grades(struct attendance *a, struct dt_err *err)
{
    struct dt_buf value = {0};
    dt_buf_put_u32(&value, own_worst(a));
    int rc = tell(a, "worst", 0, (struct dt_bytes){value.at, value.len}, err);
    for (int i = 0; i < a->size && rc == 0; i++) {
        if ((rc = hear(a, "worst", 0, i, &value, err)) < 0)
            break;
        struct dt_reader r = dt_reader_over(value.at, value.len);
        uint32_t worst = dt_read_u32(&r);
        a->nodes[i].worst = worst <= DT_GRADE_FAIL ? (enum dt_grade)worst : DT_GRADE_FAIL;
    }
    dt_buf_finish(&value);
    if (rc == 0)
        dt_compare_grades(a->nodes, (size_t)a->size, (size_t)a->rank, &a->page->among);
    return rc;
}

/* -- all of it -------------------------------------------------------------------------------- */

static int read_number(const char *variable, int least, int most, struct dt_err *err)
{
    const char *text = getenv(variable);
    int64_t n;
    if (!text || dt_str_to_int(text, least, most, &n, NULL) < 0)
        return dt_err_set(err, DT_E_RUNTIME, "%s is not what dtrun sets for workers", variable);
    return (int)n;
}

static int prepare(struct attendance *a, struct dt_err *err)
{
    char store[HOST_MAX + 16];
    const char *master = getenv("MASTER_ADDR");
    int port = read_number("MASTER_PORT", 1, 65535, err);
    a->rank = read_number("RANK", 0, NODES_MAX - 1, err);
    a->size = read_number("WORLD_SIZE", 1, NODES_MAX, err);
    a->round = read_number("DTRUN_ROUND", 0, INT32_MAX, err);
    if (!master || port < 0 || a->rank < 0 || a->size < 0 || a->round < 0)
        return -1;
    a->nodes = calloc((size_t)a->size, sizeof *a->nodes);
    a->places = calloc((size_t)a->size, sizeof *a->places);
    for (int i = 0; a->nodes && i < a->size; i++)
        if (!(a->nodes[i].sheet = calloc(1, sizeof *a->nodes[i].sheet)))
            return dt_err_set(err, DT_E_MEMORY, "no memory for %d nodes", a->size);
    if (!a->nodes || !a->places)
        return dt_err_set(err, DT_E_MEMORY, "no memory for %d nodes", a->size);
    bool is_six = strchr(master, ':') != NULL;
    snprintf(store, sizeof store, "%s%.255s%s:%d", is_six ? "[" : "", master, is_six ? "]" : "",
             port);
    if (dt_reach_serve(&a->server, err) < 0)
        return -1;
    a->store = dt_sync_client_open(store, NODES_TIME, err);
    return a->store ? 0 : -1;
}

static int attend(struct attendance *a, struct dt_err *err)
{
    struct dt_sheet *among = &a->page->among;
    size_t size = (size_t)a->size;
    if (get_acquainted(a, err) < 0)
        return -1;
    dt_compare_traits(a->nodes, size, among);
    dt_speeds_compare_nodes(a->nodes, size, among);
    visit_peers(a);
    dt_compare_clocks(a->nodes, size, (size_t)a->rank, among);
    if (measure_all(a, err) < 0 || compare_folders(a, err) < 0 || compare_grades(a, err) < 0)
        return -1;
    return meet(a, "end", 0, err);
}

static void leave(struct attendance *a)
{
    dt_sync_client_close(a->store);
    dt_reach_stop(&a->server);
    for (int i = 0; a->nodes && i < a->size; i++)
        free(a->nodes[i].sheet);
    free(a->nodes);
    free(a->places);
}

int dt_meeting_attend(const char *path)
{
    struct attendance a = {.page = open_page(path)};
    struct dt_err err;
    if (!a.page) {
        dt_say("dtrun " DT_LAUNCH_DOCTOR, "its page of memory cannot be opened");
        return 1;
    }
    if (prepare(&a, &err) < 0 || attend(&a, &err) < 0)
        dt_sheet_remark(&a.page->among, "nodes", DT_GRADE_FAIL, "look at what the other nodes say",
                        "the nodes could not compare what they found: %.200s", err.text);
    a.page->over = true;
    leave(&a);
    return 0;
}
