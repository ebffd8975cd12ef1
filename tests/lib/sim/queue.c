/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/sim/queue.h"

#include "tests/lib/sim/letter.h"

#include <stdlib.h>

static bool is_before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at != b->at ? a->at < b->at : a->number < b->number;
}

static void insert(struct sim_queue *q, struct sim_event ev)
{
    if (q->len == q->size) {
        q->size = q->size ? q->size * 2 : 256;
        q->heap = realloc(q->heap, q->size * sizeof *q->heap);
        if (!q->heap)
            abort();
    }
    size_t i = q->len++;
    for (; i > 0 && is_before(&ev, &q->heap[(i - 1) / 2]); i = (i - 1) / 2)
        q->heap[i] = q->heap[(i - 1) / 2];
    q->heap[i] = ev;
}

void sim_queue_put(struct sim_queue *q, struct sim_event ev)
{
    ev.number = ++q->numbers;
    insert(q, ev);
}

void sim_queue_put_off(struct sim_queue *q, struct sim_event *ev, dt_ms until)
{
    ev->at = until;
    insert(q, *ev);
    ev->letter = NULL;
}

bool sim_queue_take(struct sim_queue *q, struct sim_event *ev)
{
    if (q->len == 0)
        return false;
    *ev = q->heap[0];
    struct sim_event last = q->heap[--q->len];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < q->len; i = child) {
        if (child + 1 < q->len && is_before(&q->heap[child + 1], &q->heap[child]))
            child++;
        if (!is_before(&q->heap[child], &last))
            break;
        q->heap[i] = q->heap[child];
    }
    if (q->len)
        q->heap[i] = last;
    return true;
}

void sim_queue_finish(struct sim_queue *q)
{
    for (size_t i = 0; i < q->len; i++)
        sim_letter_free(q->heap[i].letter);
    free(q->heap);
    *q = (struct sim_queue){0};
}
