/* SPDX-License-Identifier: Apache-2.0 */
/* record PID: prints the memory that a look at a CPython reads, as text that test_look_images reads
 * again. Each line is an address and the bytes there. The images beside this were recorded of
 * train.py, which tells its PID when all its threads are in place; what they hold of paths is where
 * the script was, /srv/train.py. */
#include "tests/lib/recorded_memory.h"

#include <inttypes.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    struct dt_buf record = {0};
    struct dt_err err = {0};
    if (argc != 2) {
        fprintf(stderr, "usage: record PID\n");
        return 2;
    }
    if (record_look((pid_t)atoi(argv[1]), &record, &err) < 0) {
        fprintf(stderr, "record: %s\n", err.text);
        return 1;
    }
    struct dt_reader r = dt_reader_over(record.at, record.len);
    uint64_t address;
    uint32_t len;
    for (const uint8_t *at; (at = recorded_next(&r, &address, &len)) != NULL;) {
        printf("%" PRIx64 " ", address);
        for (uint32_t i = 0; i < len; i++)
            printf("%02x", at[i]);
        printf("\n");
    }
    dt_buf_finish(&record);
    return 0;
}
