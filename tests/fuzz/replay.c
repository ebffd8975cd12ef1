/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz entry over every file of the folder named in argv[1], as TAP. A crash ends the run,
 * and so fails it. */
#include "base/auto.h"
#include "base/buf.h"
#include "base/fs.h"
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <string.h>

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_input(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

int main(int argc, char **argv)
{
    struct dirent **names;
    int n = argc == 2 ? scandir(argv[1], &names, is_input, by_name) : -1;
    if (n <= 0) {
        printf("1..1\nnot ok 1 - there is a corpus to replay\n");
        return 1;
    }
    printf("1..%d\n", n);
    for (int i = 0; i < n; i++) {
        char path[4096];
        struct dt_buf input = {0};
        struct dt_err err;
        snprintf(path, sizeof path, "%s/%s", argv[1], names[i]->d_name);
        fflush(stdout);
        if (dt_fs_read(path, 16u << 20, &input, &err) < 0)
            printf("not ok %d - %s\n", i + 1, err.text);
        else {
            LLVMFuzzerTestOneInput(input.at, input.len);
            printf("ok %d - %s\n", i + 1, names[i]->d_name);
        }
        dt_buf_finish(&input);
        free(names[i]);
    }
    free(names);
    return 0;
}
