/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a journal file; pure. A file is a header and records. A record is u32 length of the
 * key, u32 length of the value, u32 CRC32C over both lengths, key and value, then key and value. A
 * value of no bytes removes the key. */
#ifndef DT_RENDEZVOUS_JOURNAL_FORMAT_H
#define DT_RENDEZVOUS_JOURNAL_FORMAT_H

#include "base/buf.h"

#define DT_JOURNAL_VERSION 1
#define DT_JOURNAL_HEADER 12      /* magic of eight bytes, u32 version */
#define DT_JOURNAL_RECORD_HEAD 12 /* what stands in front of the key */

enum dt_journal_header {
    DT_JOURNAL_OURS,
    DT_JOURNAL_EMPTY,   /* no bytes, or the first few of our header: nothing was ever put */
    DT_JOURNAL_NEWER,   /* *version says which */
    DT_JOURNAL_FOREIGN, /* somebody else's file, or one whose first bytes are damaged */
};

void dt_journal_write_header(struct dt_buf *out);
enum dt_journal_header dt_journal_read_header(struct dt_bytes file, uint32_t *version);

struct dt_journal_record {
    struct dt_bytes key, value; /* within what was read */
    size_t size;                /* of all of it */
};

/* Appends what stands in front of the value. */
void dt_journal_write_head(struct dt_buf *out, struct dt_bytes key, struct dt_bytes value);

/* The record that begins where BYTES do. False: it is damaged, or not whole. */
bool dt_journal_read_record(struct dt_bytes bytes, struct dt_journal_record *out);

/* Whether a whole record begins anywhere in BYTES behind the first. True also when that is too much
 * work to find out. */
bool dt_journal_holds_record(struct dt_bytes bytes);

#endif
