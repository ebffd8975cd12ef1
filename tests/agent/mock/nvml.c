/* SPDX-License-Identifier: Apache-2.0 */
/* A mock of NVIDIA's management library, as tests run where no GPU is: $MOCK_NVML lists its cards,
 * "UUID@BUS" each, every part of the card before as "+UUID", a hole among the parts as "+". A
 * number there is what initialising fails with. $MOCK_NVML_ILL says what all cards suffer from:
 * "ecc=5" errors of memory, "throttle=64" as a reason to be slow, "nvlink=2" links that are down;
 * "use=7" per cent that they are busy, and GiB of their memory that is in use. Parts do not tell.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { OK = 0, INVALID = 2, NOT_FOUND = 6 };

struct device {
    int card; /* of which it is or a part of which it is */
    int part; /* -1: it is a card */
    char uuid[80];
    unsigned domain, bus, device;
};

struct pci {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char text[32];
};

static struct device devices[64];
static int count, cards;
static int started; /* so many more times than it was shut down */

static void add(const char *word)
{
    struct device *d = &devices[count++];
    if (*word == '+') {
        int part = count > 1 && devices[count - 2].part >= 0 ? devices[count - 2].part + 1 : 0;
        *d = (struct device){.card = cards - 1, .part = part};
        snprintf(d->uuid, sizeof d->uuid, "%s", word + 1);
    } else {
        *d = (struct device){.card = cards++, .part = -1};
        sscanf(word, "%79[^@]@%x:%x:%x", d->uuid, &d->domain, &d->bus, &d->device);
    }
}

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlInit_v2(void)
{
    if (started > 0) {
        started++;
        return OK;
    }
    char *list = strdup(getenv("MOCK_NVML") ? getenv("MOCK_NVML") : ""), *rest = list, *word;
    int status = isdigit((unsigned char)*list) ? atoi(list) : OK;
    count = cards = 0;
    while (status == OK && (word = strsep(&rest, " ")))
        if (*word)
            add(word);
    free(list);
    started = status == OK;
    return status;
}

EXPORT int nvmlShutdown(void);
EXPORT int nvmlShutdown(void)
{
    started -= started > 0;
    return OK;
}

static struct device *find(int card, int part)
{
    for (int i = 0; started && i < count; i++)
        if (devices[i].card == card && devices[i].part == part)
            return &devices[i];
    return NULL;
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *n);
EXPORT int nvmlDeviceGetCount_v2(unsigned *n)
{
    *n = (unsigned)cards;
    return started ? OK : INVALID;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **out);
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **out)
{
    *out = find((int)i, -1);
    return *out ? OK : INVALID;
}

EXPORT int nvmlDeviceGetPciInfo_v3(void *device, struct pci *out);
EXPORT int nvmlDeviceGetPciInfo_v3(void *device, struct pci *out)
{
    const struct device *d = device;
    *out = (struct pci){.domain = d->domain, .bus = d->bus, .device = d->device};
    return OK;
}

EXPORT int nvmlDeviceGetUUID(void *device, char *out, unsigned size);
EXPORT int nvmlDeviceGetUUID(void *device, char *out, unsigned size)
{
    const struct device *d = device;
    return snprintf(out, size, "%s", d->uuid) < (int)size ? OK : INVALID;
}

EXPORT int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *n);
EXPORT int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *n)
{
    (void)device;
    *n = 7;
    return OK;
}

EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned i, void **out);
EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned i, void **out)
{
    struct device *part = find(((const struct device *)device)->card, (int)i);
    *out = part;
    return part && *part->uuid ? OK : NOT_FOUND;
}

/* The number behind NAME= in $MOCK_NVML_ILL, or 0. */
static int illness(const char *name)
{
    const char *all = getenv("MOCK_NVML_ILL"), *at = all ? strstr(all, name) : NULL;
    return at ? atoi(at + strlen(name) + 1) : 0;
}

EXPORT int nvmlDeviceGetName(void *device, char *out, unsigned size);
EXPORT int nvmlDeviceGetName(void *device, char *out, unsigned size)
{
    (void)device;
    snprintf(out, size, "Mock H100");
    return OK;
}

EXPORT int nvmlDeviceGetMemoryInfo(void *device, unsigned long long out[3]);
EXPORT int nvmlDeviceGetMemoryInfo(void *device, unsigned long long out[3])
{
    unsigned long long used = (unsigned long long)illness("use");
    (void)device;
    out[0] = 80ull << 30;
    out[2] = (used ? used : 1) << 30;
    out[1] = out[0] - out[2];
    return OK;
}

EXPORT int nvmlDeviceGetUtilizationRates(void *device, unsigned out[2]);
EXPORT int nvmlDeviceGetUtilizationRates(void *device, unsigned out[2])
{
    out[0] = out[1] = (unsigned)illness("use");
    return ((const struct device *)device)->part < 0 ? OK : INVALID;
}

EXPORT int nvmlDeviceGetTotalEccErrors(void *device, int kind, int counter,
                                       unsigned long long *out);
EXPORT int nvmlDeviceGetTotalEccErrors(void *device, int kind, int counter, unsigned long long *out)
{
    (void)device;
    *out = kind == 1 && counter == 0 ? (unsigned long long)illness("ecc") : 999;
    return OK;
}

EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *out);
EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *out)
{
    (void)device;
    *out = (unsigned long long)illness("throttle");
    return OK;
}

EXPORT int nvmlDeviceGetNvLinkState(void *device, unsigned link, int *active);
EXPORT int nvmlDeviceGetNvLinkState(void *device, unsigned link, int *active)
{
    (void)device;
    *active = (int)link >= illness("nvlink");
    return link < 18 ? OK : INVALID;
}
