/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hang/calls.h"

#include "tests/lib/check.h"

static struct dt_comm_told comm(const char *name, const char *function, int64_t entered,
                                int64_t ended, int64_t ns)
{
    struct dt_comm_told c = {.entered = entered,
                             .ended = ended,
                             .count = 1024,
                             .entered_ns = ns,
                             .peer = -1,
                             .datatype = "Float32"};
    snprintf(c.name, sizeof c.name, "%s", name);
    snprintf(c.function, sizeof c.function, "%s", function);
    return c;
}

static struct dt_stance stance_of(enum dt_doing doing, const char *collective)
{
    struct dt_stance s = {.doing = doing, .sequence = -1, .step = -1};
    snprintf(s.collective, sizeof s.collective, "%s", collective);
    return s;
}

TEST(a_collective_gets_the_number_of_its_call)
{
    static const struct {
        const char *collective, *function;
        bool fits;
    } rows[] = {
        {"all_reduce", "AllReduce", true},
        {"barrier", "AllReduce", true},
        {"all_gather_into_tensor", "AllGather", true},
        {"reduce_scatter_tensor", "ReduceScatter", true},
        {"", "AllReduce", true},
        {"broadcast", "AllReduce", false}, /* gloo's, beside NCCL */
        {"barrier", "AllGather", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s by %s", rows[i].collective, rows[i].function);
        struct dt_comms_told comms = {.count = 2};
        comms.at[0] = comm("tp", "Broadcast", 7, -1, 10);
        comms.at[1] = comm("default_pg", rows[i].function, 812, -1, 20);
        struct dt_stance s = stance_of(DT_DOING_COLLECTIVE, rows[i].collective);
        dt_calls_tell(&comms, &s);
        CHECK_EQ(s.doing, DT_DOING_COLLECTIVE);
        CHECK_EQ(s.sequence, rows[i].fits ? 812 : -1);
        CHECK_STR(s.group, rows[i].fits ? "default_pg" : "");
        CHECK_STR(s.shape, rows[i].fits ? "Float32 [1024]" : "");
        CHECK_STR(s.collective, *rows[i].collective ? rows[i].collective : "all_reduce");
    }
}

TEST(one_that_waits_for_a_gpu_stands_in_the_first_collective_that_is_not_over)
{
    struct dt_comms_told comms = {.count = 3};
    comms.at[0] = comm("over", "Broadcast", 7, 7, 5);
    comms.at[1] = comm("behind", "AllReduce", 9, 8, 30);
    comms.at[2] = comm("default_pg", "ReduceScatter", 812, 811, 20);
    struct dt_stance s = stance_of(DT_DOING_COMPUTE, "");
    dt_calls_tell(&comms, &s);
    CHECK_EQ(s.doing, DT_DOING_COLLECTIVE);
    CHECK_STR(s.collective, "reduce_scatter");
    CHECK_STR(s.group, "default_pg");
    CHECK_EQ(s.sequence, 812);
    CHECK_STR(s.shape, "Float32 [1024]");

    comms.at[2].ended = 805; /* of an earlier call nothing is known but its number */
    s = stance_of(DT_DOING_WAIT, "");
    dt_calls_tell(&comms, &s);
    CHECK_STR(s.collective, "");
    CHECK_EQ(s.sequence, 806);
    CHECK_STR(s.shape, "");
}

TEST(others_do_what_they_did_and_have_the_number_of_their_last_call)
{
    static const enum dt_doing doings[] = {DT_DOING_SLEEP, DT_DOING_STOPPED, DT_DOING_CHILD,
                                           DT_DOING_STORE, DT_DOING_DISK,    DT_DOING_COMPUTE};
    for (size_t i = 0; i < sizeof doings / sizeof *doings; i++) {
        CHECK_ROW("%d", doings[i]);
        struct dt_comms_told comms = {.count = 1};
        /* The last row is of a worker that is not told of ends. */
        comms.at[0] = comm("pg", "AllReduce", 5, doings[i] == DT_DOING_COMPUTE ? -1 : 4, 1);
        struct dt_stance s = stance_of(doings[i], "");
        dt_calls_tell(&comms, &s);
        CHECK_EQ(s.doing, doings[i]);
        CHECK_EQ(s.sequence, 5);
        CHECK_STR(s.group, "pg");
        CHECK_STR(s.collective, "all_reduce");
        CHECK_STR(s.detail, "its last call of NCCL was AllReduce 5 of pg, Float32 [1024]");
        strcpy(s.detail, "holds the GIL");
        dt_calls_tell(&comms, &s);
        CHECK_STR(s.detail, "holds the GIL");
    }
    struct dt_comms_told none = {0}, send = {.count = 1}, over = {.count = 1};
    over.at[0] = comm("pg", "AllReduce", 5, 5, 1);
    struct dt_stance computes = stance_of(DT_DOING_COMPUTE, "");
    dt_calls_tell(&over, &computes);
    CHECK_EQ(computes.sequence, -1);
    send.at[0] = comm("pp", "Send", 5, -1, 1);
    send.at[0].peer = 3;
    struct dt_stance s = stance_of(DT_DOING_COLLECTIVE, "all_reduce");
    dt_calls_tell(&none, &s);
    dt_calls_tell(&send, &s);
    CHECK_EQ(s.sequence, -1);
}

TEST(people_read_a_line_for_each_communicator_that_was_called)
{
    struct dt_comms_told comms = {.count = 3};
    struct dt_buf out = {0};
    comms.at[0] = comm("tp", "Broadcast", 7, -1, 10);
    comms.at[1] = comm("never", "", 0, 0, 0);
    comms.at[2] = comm("default_pg", "AllReduce", 812, 811, 20);
    dt_calls_put_text(&comms, &out);
    CHECK_STR(dt_buf_cstr(&out),
              "NCCL: the last call was Broadcast 7 of tp, Float32 [1024]\n"
              "NCCL: the last call was AllReduce 812 of default_pg, Float32 [1024]; 811 of 812 "
              "collectives are over\n");
    dt_buf_finish(&out);
}
