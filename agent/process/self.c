/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/self.h"

#include "agent/process/reap.h"

#include <signal.h>
#include <sys/resource.h>

#define FILES_AT_LEAST 64 /* the loop, a store and its clients, logs; not what workers take */
#define FILES_FOR_US 128
#define FILES_FOR_WORKER 10 /* both ends of two pipes, two logs, page, vault, and one to spare */

void dt_self_prepare(struct dt_spawn_inherited *was)
{
    struct rlimit *files = &was->files;
    sigprocmask(SIG_SETMASK, NULL, &was->mask);
    getrlimit(RLIMIT_NOFILE, files);
    struct rlimit most = {.rlim_cur = files->rlim_max, .rlim_max = files->rlim_max};
    setrlimit(RLIMIT_NOFILE, &most); /* the workers of a whole job may connect to our store */
    signal(SIGPIPE, SIG_IGN);
    dt_reap_adopt();
}

int dt_self_check_files(const struct dt_spawn_inherited *was, struct dt_err *err)
{
    rlim_t most = was->files.rlim_max;
    if (most < FILES_AT_LEAST)
        return dt_err_set(err, DT_E_RUNTIME,
                          "this process may have only %llu files open, by the hard limit of "
                          "ulimit -n; raise it to %d and some for each worker",
                          (unsigned long long)most, FILES_AT_LEAST);
    return 0;
}

bool dt_self_is_short_of_files(int workers)
{
    struct rlimit files;
    return getrlimit(RLIMIT_NOFILE, &files) == 0 &&
           files.rlim_cur < FILES_FOR_US + (rlim_t)workers * FILES_FOR_WORKER;
}

void dt_self_block_signals(void)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
}
