/* SPDX-License-Identifier: Apache-2.0 */
/* dtrun-launch, in the place of python -m torch.distributed.launch. */
#include "launcher/launch.h"
#include "launcher/options.h"

int main(int argc, char **argv)
{
    return dt_launch(&dt_legacy_program, argc, argv);
}
