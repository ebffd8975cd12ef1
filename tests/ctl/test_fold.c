/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/fold.h"
#include "tests/lib/check.h"

#define NAMES_MAX 16

/* IN: names with spaces between them. */
static const struct {
    const char *in, *out;
} rows[] = {
    {"", ""},
    {"node1", "node1"},
    {"login", "login"},
    {"node2 node0 node1", "node[0-2]"},
    {"node10 node9 node8", "node[8-10]"},
    {"node1 node3", "node[1,3]"},
    {"node0 node1 node3 node5 node6", "node[0-1,3,5-6]"},
    {"node08 node09 node10", "node[08-10]"},
    {"node8 node09", "node09,node8"}, /* of different widths, one of them padded */
    {"a1 b1 b2", "a1,b[1-2]"},
    {"login node1 node2", "login,node[1-2]"},
    {"n1-ib n2-ib", "n[1-2]-ib"},
    {"n1-ib n2-eth", "n1-ib,n2-eth"},
    {"r1n1 r1n2 r2n1", "r1n[1-2],r2n1"},
    {"node1.dc2.example node2.dc2.example", "node[1-2].dc2.example"},
    {"node1.dc1.example node1.dc2.example", "node1.dc1.example,node1.dc2.example"},
    {"10.0.0.1 10.0.0.2", "10.0.0.[1-2]"},
    {"host host#2 host#3", "host,host#[2-3]"},
    {"x0 x1 x00 x01", "x[00-01],x[0-1]"},
    {"n9007199254740993 n9007199254740992", "n[9007199254740992-9007199254740993]"},
    {"n1234567890123456789 n1234567890123456790", "n1234567890123456789,n1234567890123456790"},
};

TEST(names_are_folded)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].in);
        const char *names[NAMES_MAX];
        size_t count = 0;
        char *text = strdup(rows[i].in), *rest = text;
        for (char *name; (name = strsep(&rest, " "));)
            if (*name && count < NAMES_MAX)
                names[count++] = name;
        struct dt_buf out = {0};
        dt_ctl_fold(names, count, &out);
        CHECK_STR(dt_buf_cstr(&out), rows[i].out);
        dt_buf_finish(&out);
        free(text);
    }
}
