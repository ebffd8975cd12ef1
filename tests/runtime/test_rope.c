/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of the formulas as Hugging Face writes them, in double precision, for models of the hub.
 */
#include "worker_runtime/model/rope.h"

#include "tests/lib/check.h"

#include <math.h>

#define ROWS(t) (sizeof(t) / sizeof *(t))

static const struct {
    const char *what;
    struct dt_rope_scaling s;
    float theta;
    size_t head_dim;
    struct {
        size_t pair;
        double speed;
    } wanted[8];
} rows[] = {
    {"plain",
     {0},
     500000,
     128,
     {{0, 1}, {1, 0.814617234}, {31, 0.0017360467}, {63, 2.45514079e-06}}},
    {"dynamic",
     {.kind = DT_ROPE_DYNAMIC, .factor = 2},
     500000,
     128,
     {{0, 1}, {1, 0.814617234}, {31, 0.0017360467}, {63, 2.45514079e-06}}},
    {"linear",
     {.kind = DT_ROPE_LINEAR, .factor = 4},
     10000,
     128,
     {{0, 0.25}, {1, 0.216491081}, {31, 0.00288695496}, {63, 2.88695496e-05}}},
    {"Llama 3.1",
     {.kind = DT_ROPE_LLAMA3, .factor = 8, .low_freq = 1, .high_freq = 4, .original = 8192},
     500000,
     128,
     {{0, 1},
      {28, 0.00321144599},
      {29, 0.00216657076},
      {32, 0.000524846161},
      {34, 0.000178507813},
      {35, 9.55621235e-05},
      {36, 7.78465527e-05},
      {63, 3.06892599e-07}}},
    {"Llama 3.2",
     {.kind = DT_ROPE_LLAMA3, .factor = 32, .low_freq = 1, .high_freq = 4, .original = 8192},
     500000,
     64,
     {{0, 1},
      {14, 0.00321144599},
      {15, 0.00129054793},
      {16, 0.000429556797},
      {17, 9.7082878e-05},
      {18, 1.94616382e-05},
      {31, 9.41830673e-08}}},
    {"Qwen 2.5, yarn",
     {.kind = DT_ROPE_YARN, .factor = 4, .beta_fast = 32, .beta_slow = 1, .original = 32768},
     1000000,
     128,
     {{0, 1},
      {23, 0.00697830585},
      {24, 0.00537532149},
      {30, 0.00106436098},
      {39, 6.49039432e-05},
      {40, 4.44569853e-05},
      {41, 3.58253143e-05},
      {63, 3.1023444e-07}}},
    {"yarn whose ramp is not rounded",
     {.kind = DT_ROPE_YARN,
      .factor = 4,
      .beta_fast = 32,
      .beta_slow = 1,
      .original = 32768,
      .exact = true},
     1000000,
     128,
     {{23, 0.00697830585},
      {24, 0.00551727048},
      {30, 0.00107923774},
      {39, 6.18780681e-05},
      {40, 4.44569853e-05}}},
    {"yarn without a ramp",
     {.kind = DT_ROPE_YARN, .factor = 2, .beta_fast = 32, .beta_slow = 1, .original = 4},
     10000,
     8,
     {{0, 1}, {1, 0.05}, {2, 0.005}, {3, 0.0005}}},
};

TEST(pairs_turn_as_fast_as_in_the_models_of_the_hub)
{
    for (size_t i = 0; i < ROWS(rows); i++) {
        float speeds[64];
        dt_rope_speeds(&rows[i].s, rows[i].theta, rows[i].head_dim, speeds);
        for (size_t k = 0; k < ROWS(rows[i].wanted) && rows[i].wanted[k].speed > 0; k++) {
            size_t pair = rows[i].wanted[k].pair;
            double apart = fabs((double)speeds[pair] / rows[i].wanted[k].speed - 1);
            CHECK_ROW("%s, pair %zu: %.9g, wanted %.9g", rows[i].what, pair, (double)speeds[pair],
                      rows[i].wanted[k].speed);
            CHECK(apart < 2e-7);
        }
    }
}

TEST(yarn_scales_what_it_turns_and_nothing_else_does)
{
    struct dt_rope_scaling s = {.kind = DT_ROPE_YARN, .factor = 4, .attention = 1.25f};
    CHECK(dt_rope_scale(&s) == 1.25f);
    s.kind = DT_ROPE_LLAMA3;
    CHECK(dt_rope_scale(&s) == 1);
    CHECK(fabs((double)dt_rope_yarn_attention(4, 0, 0) - 1.138629436) < 1e-6);
    CHECK(fabs((double)dt_rope_yarn_attention(40, 0.707, 1) - 0.921042355) < 1e-6);
    CHECK(dt_rope_yarn_attention(0.5, 0, 0) == 1);
}
