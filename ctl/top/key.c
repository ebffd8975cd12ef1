/* SPDX-License-Identifier: Apache-2.0 */
/* ECMA-48: ESC [, parameters and intermediates (0x20 to 0x3f), a final byte (0x40 to 0x7e). In its
 * application mode a terminal sends ESC O and one byte for some keys. */
#include "ctl/top/key.h"

#define ESC 0x1b
#define SEQUENCE_MAX 32 /* bytes; what is longer is no key */

/* Keys without a character of their own. NUMBER is the first parameter of a sequence that ends in
 * `~`; 0: any. */
static const struct {
    char final;
    int number;
    enum dt_key_kind kind;
} sequences[] = {
    {'A', 0, DT_KEY_UP},   {'B', 0, DT_KEY_DOWN},    {'H', 0, DT_KEY_HOME},
    {'F', 0, DT_KEY_END},  {'M', 0, DT_KEY_ENTER}, /* of the number pad */
    {'~', 1, DT_KEY_HOME}, {'~', 7, DT_KEY_HOME},    {'~', 4, DT_KEY_END},
    {'~', 8, DT_KEY_END},  {'~', 5, DT_KEY_PAGE_UP}, {'~', 6, DT_KEY_PAGE_DOWN},
};

static enum dt_key_kind kind_of(char final, int number)
{
    for (size_t i = 0; i < sizeof sequences / sizeof *sequences; i++)
        if (sequences[i].final == final &&
            (sequences[i].number == 0 || sequences[i].number == number))
            return sequences[i].kind;
    return DT_KEY_OTHER;
}

/* Behind ESC [. */
static enum dt_decoded read_sequence(struct dt_bytes in, struct dt_key *key, size_t *used)
{
    int number = 0;
    bool first = true;
    for (size_t i = 2; i < in.len && i < SEQUENCE_MAX; i++) {
        uint8_t c = in.at[i];
        if (c >= 0x40 && c <= 0x7e) {
            *key = (struct dt_key){.kind = kind_of((char)c, number)};
            *used = i + 1;
            return DT_DONE;
        }
        if (c < 0x20 || c > 0x3f) { /* another key begins in the middle of this one */
            *key = (struct dt_key){.kind = DT_KEY_OTHER};
            *used = i;
            return DT_DONE;
        }
        first = first && c >= '0' && c <= '9';
        if (first && number < 100)
            number = number * 10 + (c - '0');
    }
    if (in.len < SEQUENCE_MAX)
        return DT_MORE;
    *key = (struct dt_key){.kind = DT_KEY_OTHER};
    *used = SEQUENCE_MAX;
    return DT_DONE;
}

static enum dt_decoded read_escape(struct dt_bytes in, struct dt_key *key, size_t *used)
{
    if (in.len < 2)
        return DT_MORE;
    if (in.at[1] == '[')
        return read_sequence(in, key, used);
    if (in.at[1] == 'O') {
        if (in.len < 3)
            return DT_MORE;
        *key = (struct dt_key){.kind = kind_of((char)in.at[2], 0)};
        *used = 3;
        return DT_DONE;
    }
    *key = (struct dt_key){.kind = DT_KEY_ESCAPE}; /* and another key right behind it */
    *used = 1;
    return DT_DONE;
}

static struct dt_key plain_key(uint8_t c)
{
    switch (c) {
    case '\r':
    case '\n':
        return (struct dt_key){.kind = DT_KEY_ENTER};
    case '\b':
    case 0x7f:
        return (struct dt_key){.kind = DT_KEY_BACKSPACE};
    case 0x0c:
        return (struct dt_key){.kind = DT_KEY_REDRAW};
    default:
        if (c >= 0x20 && c < 0x7f)
            return (struct dt_key){.kind = DT_KEY_CHARACTER, .character = (char)c};
        return (struct dt_key){.kind = DT_KEY_OTHER};
    }
}

enum dt_decoded dt_key_read(struct dt_bytes in, bool quiet, struct dt_key *key, size_t *used)
{
    if (in.len == 0)
        return DT_MORE;
    if (in.at[0] == ESC) {
        enum dt_decoded got = read_escape(in, key, used);
        if (got != DT_MORE || !quiet)
            return got;
        *key = (struct dt_key){.kind = DT_KEY_ESCAPE};
        *used = 1;
        return DT_DONE;
    }
    *key = plain_key(in.at[0]);
    *used = 1;
    return DT_DONE;
}
