/* SPDX-License-Identifier: Apache-2.0 */
/* dtrun, in torchrun's place. */
#include "launcher/launch.h"
#include "launcher/options.h"

int main(int argc, char **argv)
{
    return dt_launch(&dt_launch_program, argc, argv);
}
