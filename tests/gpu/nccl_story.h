/* SPDX-License-Identifier: Apache-2.0 */
/* How stories over the fake NCCL begin and end: all of it is well, and in the end nothing of it is
 * left.
 *
 *   STORY(a_part_is_split_off)            fake_reset() before, CHECK_NOTHING_LEFT behind
 *   {
 *       ...
 *   }
 *   GROUP_STORY(ranks_meet)               the same with s, a struct scene, made before and ended
 *   {                                     behind it
 *       struct dt_nccl *n = scene_rank(s, 2, 0);
 *       ...
 *       dt_cuda_nccl.close(n);
 *   } */
#ifndef DT_TESTS_GPU_NCCL_STORY_H
#define DT_TESTS_GPU_NCCL_STORY_H

#include "tests/gpu/fake_nccl.h"
#include "tests/runtime/meeting.h"

#define STORY(name)                                                                                \
    static void tell_##name(void);                                                                 \
    TEST(name)                                                                                     \
    {                                                                                              \
        fake_reset();                                                                              \
        tell_##name();                                                                             \
        CHECK_NOTHING_LEFT;                                                                        \
    }                                                                                              \
    static void tell_##name(void)

struct scene { /* a GPU, and where ranks on it meet */
    struct dt_cuda gpu;
    struct meeting *meeting;
};

#define GROUP_STORY(name)                                                                          \
    static void tell_##name##_of(struct scene *s);                                                 \
    STORY(name)                                                                                    \
    {                                                                                              \
        struct scene s = {.meeting = meeting_create()};                                            \
        fake_gpu(&s.gpu);                                                                          \
        tell_##name##_of(&s);                                                                      \
        meeting_destroy(s.meeting);                                                                \
    }                                                                                              \
    static void tell_##name##_of(struct scene *s)

/* Of ranks 4 and 5 of the world. */
static inline struct dt_coll_group scene_group(struct scene *s, int size, int rank)
{
    static const struct dt_coll_member members[2] = {{.world_rank = 4}, {.world_rank = 5}};
    return (struct dt_coll_group){.members = members,
                                  .size = size,
                                  .rank = rank,
                                  .epoch = 3,
                                  .name = "world",
                                  .timeout = 2000,
                                  .device = &s->gpu.device};
}

static inline struct dt_nccl *scene_open(struct scene *s, const struct dt_coll_group *g,
                                         struct dt_err *err)
{
    return dt_cuda_nccl.open(g, &s->meeting->table, err);
}

static inline struct dt_nccl *scene_rank(struct scene *s, int size, int rank)
{
    struct dt_err err = {0};
    struct dt_coll_group g = scene_group(s, size, rank);
    struct dt_nccl *n = scene_open(s, &g, &err);
    CHECK_OK(n ? 0 : -1, err);
    return n;
}

#endif
