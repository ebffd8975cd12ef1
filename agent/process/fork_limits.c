/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/fork_limits.h"

#include "base/cgroup.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

int dt_fork_limits_err(struct dt_err *err, int errnum, const char *what)
{
    struct rlimit most;
    struct dt_cgroup group;
    struct dt_cgroup_pids pids;
    char user[64] = "unlimited", here[DT_CGROUP_PATH + 96] = "";
    if (errnum != EAGAIN || getrlimit(RLIMIT_NPROC, &most) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errnum, "%s", what);
    if (most.rlim_cur != RLIM_INFINITY)
        snprintf(user, sizeof user, "%llu", (unsigned long long)most.rlim_cur);
    dt_cgroup_find(&group, "pids", "");
    if (dt_cgroup_pids_limit(&group, &pids))
        snprintf(here, sizeof here, ", pids.max of %s is %" PRId64 " of which %" PRId64 " are used",
                 pids.folder, pids.max, pids.current);
    return dt_err_set(err, DT_E_RUNTIME,
                      "%s: %s; ulimit -u, for all processes and threads of this user, is %s%s: "
                      "raise what is too low or start fewer workers",
                      what, strerror(errnum), user, here);
}
