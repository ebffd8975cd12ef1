/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/pod.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"

/* A pod with the network of its node has the node's name too, and the kubelet then writes
 * "# Kubernetes-managed hosts file (host network)." */
#define OWN_NETWORK "# Kubernetes-managed hosts file.\n"
#define NAMESPACE "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

/* Copies TEXT if it is a name as Kubernetes allows them. */
static bool take_name(const char *text, size_t len, char out[DT_POD_NAME_MAX])
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789-.";
    if (len == 0 || len >= DT_POD_NAME_MAX || strspn(text, allowed) < len)
        return false;
    memcpy(out, text, len);
    out[len] = '\0';
    return true;
}

bool dt_pod_job(const struct dt_pod *pod, char out[DT_POD_JOB_MAX])
{
    char job[DT_POD_NAME_MAX], space[DT_POD_NAME_MAX];
    size_t index = pod->index ? strlen(pod->index) : 0;
    size_t host = pod->host ? strcspn(pod->host, ".") : 0;
    if (index == 0 || strspn(pod->index, "0123456789") < index || host < index + 2 ||
        pod->host[host - index - 1] != '-' ||
        strncmp(pod->host + host - index, pod->index, index) != 0)
        return false;
    if (!pod->hosts || strncmp(pod->hosts, OWN_NETWORK, strlen(OWN_NETWORK)) != 0)
        return false;
    if (!take_name(pod->host, host - index - 1, job))
        return false;
    bool spaced = pod->space && take_name(pod->space, strcspn(pod->space, "\n"), space);
    snprintf(out, DT_POD_JOB_MAX, "%s%s%s", spaced ? space : "", spaced ? "-" : "", job);
    return true;
}

/* The beginning of a file; "": there is none. */
static const char *read_beginning(const char *path, char *out, size_t size)
{
    DT_AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? 0 : read(fd, out, size - 1);
    out[n > 0 ? n : 0] = '\0';
    return out;
}

bool dt_pod_read_job(const char *index, char out[DT_POD_JOB_MAX])
{
    char host[256] = "", hosts[sizeof OWN_NETWORK], space[DT_POD_NAME_MAX + 1];
    if (gethostname(host, sizeof host - 1) < 0)
        return false;
    struct dt_pod pod = {.index = index,
                         .host = host,
                         .hosts = read_beginning("/etc/hosts", hosts, sizeof hosts),
                         .space = read_beginning(NAMESPACE, space, sizeof space)};
    return dt_pod_job(&pod, out);
}
