/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/nccl/flights.h"

#include <stdlib.h>

void dt_flights_init(struct dt_flights *f, const struct dt_nccl_calls *calls)
{
    f->calls = calls;
    pthread_mutex_init(&f->lock, NULL);
    for (int i = 0; i < DT_LANES; i++)
        dt_list_init(&f->lane[i]);
    dt_list_init(&f->spare);
}

static void destroy(struct dt_flights *f, struct dt_flight *flight)
{
    if (flight->ready)
        f->calls->event_destroy(flight->ready);
    if (flight->done)
        f->calls->event_destroy(flight->done);
    free(flight);
}

static void destroy_all(struct dt_flights *f, struct dt_list *l)
{
    struct dt_node *n;
    while ((n = dt_list_pop(l)))
        destroy(f, dt_container_of(n, struct dt_flight, in_list));
}

void dt_flights_finish(struct dt_flights *f)
{
    for (int i = 0; i < DT_LANES; i++)
        destroy_all(f, &f->lane[i]);
    destroy_all(f, &f->spare);
    pthread_mutex_destroy(&f->lock);
}

/* An event that CUDA will not speak of (after an error that lasts) is over too: the device says so
 * elsewhere. */
static bool over(const struct dt_flights *f, cudaEvent_t e)
{
    return f->calls->event_query(e) != cudaErrorNotReady;
}

/* Those at the front of LANE that nobody looks at any more. */
static void collect(struct dt_flights *f, struct dt_list *lane)
{
    struct dt_node *n;
    while ((n = dt_list_first(lane))) {
        struct dt_flight *flight = dt_container_of(n, struct dt_flight, in_list);
        if (flight->held || !over(f, flight->done))
            return;
        dt_list_remove(n);
        dt_list_append(&f->spare, n);
    }
}

static struct dt_flight *create(struct dt_flights *f, struct dt_err *err)
{
    struct dt_flight *flight = calloc(1, sizeof *flight);
    if (!flight) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a collective");
        return NULL;
    }
    dt_node_init(&flight->in_list);
    cudaError_t e = f->calls->event_create(&flight->ready, cudaEventDisableTiming);
    if (e == cudaSuccess)
        e = f->calls->event_create(&flight->done, cudaEventDisableTiming);
    if (e == cudaSuccess)
        return flight;
    destroy(f, flight);
    dt_err_set(err, DT_E_RUNTIME, "no event for a collective: %s", f->calls->cuda_text(e));
    return NULL;
}

struct dt_flight *dt_flights_take(struct dt_flights *f, enum dt_lane lane, struct dt_err *err)
{
    pthread_mutex_lock(&f->lock);
    for (int i = 0; i < DT_LANES; i++)
        collect(f, &f->lane[i]);
    struct dt_node *n = dt_list_pop(&f->spare);
    pthread_mutex_unlock(&f->lock);
    struct dt_flight *flight = n ? dt_container_of(n, struct dt_flight, in_list) : create(f, err);
    if (!flight)
        return NULL;
    flight->lane = lane;
    flight->held = true;
    flight->first_seen = 0;
    return flight;
}

static void put(struct dt_flights *f, struct dt_list *l, struct dt_flight *flight)
{
    pthread_mutex_lock(&f->lock);
    dt_list_append(l, &flight->in_list);
    pthread_mutex_unlock(&f->lock);
}

void dt_flights_begin(struct dt_flights *f, struct dt_flight *flight)
{
    put(f, &f->lane[flight->lane], flight);
}

void dt_flights_drop(struct dt_flights *f, struct dt_flight *flight)
{
    put(f, &f->spare, flight);
}

void dt_flights_let_go(struct dt_flights *f, struct dt_flight *flight)
{
    pthread_mutex_lock(&f->lock);
    flight->held = false;
    pthread_mutex_unlock(&f->lock);
}

static bool any_on(const struct dt_flights *f, struct dt_list *lane)
{
    dt_list_each(lane, n)
    {
        if (!over(f, dt_container_of(n, struct dt_flight, in_list)->done))
            return true;
    }
    return false;
}

bool dt_flights_any(struct dt_flights *f)
{
    bool any = false;
    pthread_mutex_lock(&f->lock);
    for (int i = 0; i < DT_LANES && !any; i++)
        any = any_on(f, &f->lane[i]);
    pthread_mutex_unlock(&f->lock);
    return any;
}

/* The first of LANE that is not done, if its turn has come. */
static struct dt_flight *running(struct dt_flights *f, struct dt_list *lane)
{
    dt_list_each(lane, n)
    {
        struct dt_flight *flight = dt_container_of(n, struct dt_flight, in_list);
        if (!over(f, flight->done))
            return over(f, flight->ready) ? flight : NULL;
    }
    return NULL;
}

bool dt_flights_oldest(struct dt_flights *f, dt_ms now, struct dt_flight_report *r)
{
    struct dt_flight *oldest = NULL;
    pthread_mutex_lock(&f->lock);
    for (int i = 0; i < DT_LANES; i++) {
        struct dt_flight *flight = running(f, &f->lane[i]);
        if (flight && flight->first_seen == 0)
            flight->first_seen = now;
        if (flight && (!oldest || flight->first_seen < oldest->first_seen))
            oldest = flight;
    }
    if (oldest)
        *r = (struct dt_flight_report){oldest->kind, oldest->sequence, now - oldest->first_seen};
    pthread_mutex_unlock(&f->lock);
    return oldest != NULL;
}
