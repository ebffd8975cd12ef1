/* SPDX-License-Identifier: Apache-2.0 */
/* cuDNN as a table that a test fills: what calls answer is said in `fake`, what was made and not
 * given back is counted, and what a graph was told stands in its log. Nothing is computed but what
 * `result` says: executing fills the results with it. */
#ifndef DT_TESTS_GPU_FAKE_CUDNN_H
#define DT_TESTS_GPU_FAKE_CUDNN_H

#include "cuda/cudnn/attention.h"
#include "cuda/cudnn/graph.h"
#include "cuda/cudnn/shape.h"
#include "tests/lib/check.h"

struct fake {
    /* What calls answer. */
    size_t version;
    int create, set_stream, execute;
    int fail_at;       /* of all calls that make, describe and finalize: from 1 on; 0: none */
    int engines;       /* that heuristics name */
    int varying;       /* the first so many of them have sums that vary */
    int unfit;         /* the first so many of them make no plan */
    int64_t workspace; /* of a plan */
    void (*result)(int count, const int64_t *ids, void *const *at);
    /* What has happened. */
    int calls;         /* that fail_at counts */
    int made, handles; /* that there are */
    int executed;
    int engine;     /* of the last plan that was made */
    int operations; /* of the last graph */
    void *workspace_at;
};

extern struct fake fake;

void fake_reset(void);
const struct dt_cudnn_calls *fake_calls(void);

#endif
