/* SPDX-License-Identifier: Apache-2.0 */
/* Which Job of Kubernetes this process is a pod of. No variable says so by itself, but the pods of
 * an Indexed Job are called JOB-INDEX and find their index in JOB_COMPLETION_INDEX: so the name is
 * known for sure where both agree, and where the host's name is the pod's own and no node's. */
#ifndef DT_LAUNCHER_POD_H
#define DT_LAUNCHER_POD_H

#include <stdbool.h>
#include <stddef.h>

#define DT_POD_NAME_MAX 64 /* with its NUL: a label of DNS */
#define DT_POD_JOB_MAX (2 * DT_POD_NAME_MAX)

/* What a pod finds; NULL: it does not. */
struct dt_pod {
    const char *index; /* JOB_COMPLETION_INDEX */
    const char *host;  /* the name of its host, perhaps with a domain */
    const char *hosts; /* /etc/hosts, as far as its first line; the kubelet begins it with words of
                          its own */
    const char *space; /* its namespace, as its service account has it */
};

/* "NAMESPACE-JOB", or "JOB" where no namespace is known. False: the job is not known. Pure. */
bool dt_pod_job(const struct dt_pod *pod, char out[DT_POD_JOB_MAX]);

/* The same of this process; INDEX as above. */
bool dt_pod_read_job(const char *index, char out[DT_POD_JOB_MAX]);

#endif
