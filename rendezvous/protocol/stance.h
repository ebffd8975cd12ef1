/* SPDX-License-Identifier: Apache-2.0 */
/* What workers do, seen from outside: where in the program each stands, and what it waits for. An
 * agent makes them of a look at its own workers; agents and the rendezvous pass them on, and
 * rendezvous/hang judges them. Workers that do the same thing at the same place share one, so that
 * a job of thousands has a handful. Pure.
 *
 * No stance holds a value, an argument or a variable of the environment: names, lines and paths. */
#ifndef DT_RENDEZVOUS_PROTOCOL_STANCE_H
#define DT_RENDEZVOUS_PROTOCOL_STANCE_H

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_write.h"

#include <stdbool.h>
#include <stdint.h>

/* In which of these a worker stands. The first that fits from the top down. */
enum dt_doing {
    DT_DOING_UNKNOWN,    /* it could not be looked at: DETAIL says why */
    DT_DOING_STOPPED,    /* by a signal or a debugger */
    DT_DOING_LEFT,       /* it has exited, or runs what Python runs at its exit */
    DT_DOING_CHILD,      /* waits for a process of its own, such as a data loader's; OBJECT: what
                            that one does: "process 812 is gone", "process 812: D state in FILE" */
    DT_DOING_COLLECTIVE, /* inside COLLECTIVE, where it waits for other workers */
    DT_DOING_STORE,      /* waits for KEYS of the job's store */
    DT_DOING_COMPILE,    /* compiles, which takes its time */
    DT_DOING_COLLECT,    /* collects garbage, likewise */
    DT_DOING_SAVE,       /* writes a checkpoint, likewise */
    DT_DOING_DISK,       /* waits for a disk, in an uninterruptible state; OBJECT: which file */
    DT_DOING_PIPE,       /* waits for bytes of a pipe or a terminal */
    DT_DOING_SOCKET,     /* waits for a peer; OBJECT: its address */
    DT_DOING_LOCK,       /* waits for another thread of its own process */
    DT_DOING_SLEEP,      /* sleeps for a time */
    DT_DOING_COMPUTE,    /* uses a processor */
    DT_DOING_WAIT,       /* waits in the kernel; OBJECT: in which call */
    DT_DOINGS,
};
/* "collective", "store", ...: as on the wire and in JSON. */
const char *dt_doing_name(enum dt_doing d);

#define DT_STANCE_WHERE_MAX 384 /* each with its NUL; longer text loses its start */
#define DT_STANCE_FUNCTION_MAX 128
#define DT_STANCE_NAME_MAX 64
#define DT_STANCE_OBJECT_MAX 256

struct dt_stance {
    enum dt_doing doing;
    char where[DT_STANCE_WHERE_MAX]; /* "FILE:LINE" of the innermost frame of the user's own code;
                                        "" where there is none, or no Python */
    char function[DT_STANCE_FUNCTION_MAX]; /* of that frame; or "section forward", of its page */
    char collective[DT_STANCE_NAME_MAX]; /* "all_reduce"; of one that does something else, the last
                                            that it has called */
    char group[DT_STANCE_NAME_MAX];      /* the collective's process group; "" unknown */
    char shape[DT_STANCE_NAME_MAX];      /* what it is called with: "Float [1024]"; "" unknown */
    int64_t sequence;                    /* of the collective in that group; -1 unknown */
    char keys[DT_STANCE_OBJECT_MAX]; /* of the job's store, for which it waits in there: "rank_3,
                                        rank_4 and 2 more"; "" none is known. See store_key.h */
    char object[DT_STANCE_OBJECT_MAX];
    char detail[DT_STANCE_OBJECT_MAX]; /* what else a person should know: "holds the GIL" */
    int first_line, last_line; /* it has been in FUNCTION for long, and goes to and fro between
                                  these lines, or computes at one; 0: it stands at WHERE */
    int64_t step;              /* -1: not told */
    dt_ms still;               /* it has stood there at least so long */
};

/* Ranks first to last, both included. */
struct dt_rank_range {
    int first, last;
};

/* A stance and the ranks that share it, in ascending ranges. */
struct dt_stance_group {
    struct dt_stance stance; /* STEP and STILL: the least of them */
    struct dt_rank_range *ranges;
    size_t len;
    int ranks; /* how many */
};

/* All that is known of a job, in the order of first ranks. Zeroed memory is an empty one. Whatever
 * was put in, no text here steers a terminal, and all of it is UTF-8. */
struct dt_stances {
    struct dt_stance_group *at;
    size_t len;
};

/* Groups: of one agent's workers, and of a job. What is beyond becomes UNKNOWN. */
#define DT_STANCES_MAX 64
#define DT_STANCES_ALL_MAX 1024
#define DT_STANCE_RANGES_MAX 256 /* of a group in JSON; ranks beyond are left out */

/* Whether two workers are shown as one: all but STEP and STILL. */
bool dt_stance_same(const struct dt_stance *a, const struct dt_stance *b);
/* Whether they do the same, though perhaps not with the same: KEYS, OBJECT and DETAIL may differ
 * too. */
bool dt_stance_alike(const struct dt_stance *a, const struct dt_stance *b);

/* Adds RANK to what an agent knows of its workers; or every group of MORE to what is known of a
 * job. A rank that is there already moves to the new stance. -1: no memory. */
int dt_stances_add(struct dt_stances *s, const struct dt_stance *stance, int rank,
                   struct dt_err *err);
int dt_stances_merge(struct dt_stances *s, const struct dt_stances *more, struct dt_err *err);
void dt_stances_finish(struct dt_stances *s);

/* "rank 2", "ranks 0, 1 and 3 to 63"; "ranks 0, 2, 4, ... (32 in all)" where OUT is too small. */
const char *dt_stance_ranks(const struct dt_stance_group *g, char *out, size_t size);

/* An array of objects; and back, added to S, every length and number checked. S is to be finished
 * after a failure too. */
void dt_stances_put_json(const struct dt_stances *s, const char *name, struct dt_json_writer *w);
int dt_stances_get_json(struct dt_stances *s, const struct dt_json *doc, const struct cJSON *array,
                        struct dt_err *err);

#endif
