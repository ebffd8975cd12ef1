/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's management library by hand: its header is not everywhere, its binary interface is fixed
 * by version suffixes. A driver that is ill may not answer a call for ever. */
#ifndef DT_BASE_NVML_H
#define DT_BASE_NVML_H

#include <stdbool.h>

#define DT_NVML_OK 0
#define DT_NVML_CARDS_MAX 1024u

typedef void *dt_nvml_device;

struct dt_nvml_pci { /* nvmlPciInfo_t, version 3 */
    char bus_id_legacy[16];
    unsigned domain, bus, device;
    unsigned device_id, subsystem_id;
    char bus_id[32];
};

struct dt_nvml_memory { /* nvmlMemory_t: bytes */
    unsigned long long total, free, used;
};

struct dt_nvml_utilization { /* nvmlUtilization_t: percent of the last moments */
    unsigned gpu, memory;
};

/* Calls answer DT_NVML_OK or a number of the library's. */
struct dt_nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *);
    int (*device)(unsigned, dt_nvml_device *);
    int (*pci)(dt_nvml_device, struct dt_nvml_pci *);
    int (*uuid)(dt_nvml_device, char *, unsigned);
    /* NULL where an old driver has no such call: */
    int (*parts)(dt_nvml_device, unsigned *);
    int (*part)(dt_nvml_device, unsigned, dt_nvml_device *);
    int (*name)(dt_nvml_device, char *, unsigned);
    int (*memory)(dt_nvml_device, struct dt_nvml_memory *);
    int (*utilization)(dt_nvml_device, struct dt_nvml_utilization *);
    /* Kind 0: corrected, 1: not; counter 0: since the driver was loaded, 1: ever. */
    int (*ecc_errors)(dt_nvml_device, int kind, int counter, unsigned long long *);
    int (*remapped_rows)(dt_nvml_device, unsigned *corrected, unsigned *uncorrected,
                         unsigned *pending, unsigned *failed);
    int (*throttle)(dt_nvml_device, unsigned long long *reasons);
    int (*persistence)(dt_nvml_device, int *on);
    int (*nvlink)(dt_nvml_device, unsigned link, int *active);
};

enum dt_nvml_opened {
    DT_NVML_ABSENT,   /* this host has no such library */
    DT_NVML_TOO_OLD,  /* it lacks calls that every driver of the last years has */
    DT_NVML_NO_START, /* it does not start: there is no driver, or it is broken */
    DT_NVML_OPEN,
};

/* *STATUS, which may be NULL, is what starting it answered. Close also what is not open. */
enum dt_nvml_opened dt_nvml_open(struct dt_nvml *n, int *status);
void dt_nvml_close(struct dt_nvml *n, enum dt_nvml_opened how);

#endif
