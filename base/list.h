/* SPDX-License-Identifier: Apache-2.0 */
/* Intrusive doubly linked list. A node lives inside the thing it links; the list owns nothing. An
 * unlinked node points at itself, so removing twice is harmless and "is it on a list" is a question
 * a node can answer. */
#ifndef DT_BASE_LIST_H
#define DT_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#define dt_container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

struct dt_node {
    struct dt_node *prev, *next;
};

/* A list is a node that belongs to no thing. */
struct dt_list {
    struct dt_node head;
};

static inline void dt_node_init(struct dt_node *n)
{
    n->prev = n->next = n;
}

static inline bool dt_node_linked(const struct dt_node *n)
{
    return n->next != n;
}

static inline void dt_list_init(struct dt_list *l)
{
    dt_node_init(&l->head);
}

static inline bool dt_list_empty(const struct dt_list *l)
{
    return !dt_node_linked(&l->head);
}

static inline void dt_list_append(struct dt_list *l, struct dt_node *n)
{
    n->prev = l->head.prev;
    n->next = &l->head;
    l->head.prev->next = n;
    l->head.prev = n;
}

static inline void dt_list_remove(struct dt_node *n)
{
    n->prev->next = n->next;
    n->next->prev = n->prev;
    dt_node_init(n);
}

/* NULL when empty. */
static inline struct dt_node *dt_list_first(const struct dt_list *l)
{
    return dt_list_empty(l) ? NULL : l->head.next;
}

static inline struct dt_node *dt_list_pop(struct dt_list *l)
{
    struct dt_node *n = dt_list_first(l);
    if (n)
        dt_list_remove(n);
    return n;
}

/* Moves every node of FROM behind those of TO; FROM is empty afterwards. For walks whose callbacks
 * change FROM. */
static inline void dt_list_move(struct dt_list *to, struct dt_list *from)
{
    if (dt_list_empty(from))
        return;
    struct dt_node *first = from->head.next, *last = from->head.prev;
    first->prev = to->head.prev;
    to->head.prev->next = first;
    last->next = &to->head;
    to->head.prev = last;
    dt_list_init(from);
}

/* Walks L; the current node N may be removed inside the body, no other may. */
#define dt_list_each(l, n)                                                                         \
    for (struct dt_node *n = (l)->head.next, *n##_next = n->next; n != &(l)->head;                 \
         n = n##_next, n##_next = n->next)

#endif
