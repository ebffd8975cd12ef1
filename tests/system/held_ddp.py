# SPDX-License-Identifier: Apache-2.0
#
# examples/train_ddp.py with a hold: before step $HOLD of the first round the last rank says so, and
# waits on its FIFO until it is told to go on. By then the others are in the middle of that step.

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "examples"))
sys.dont_write_bytecode = True

import train_ddp

HOLD = int(os.environ.get("HOLD", "-1"))
LAST = int(os.environ["WORLD_SIZE"]) - 1
batch = train_ddp.batch


def held_batch(step, rank):
    if step == HOLD and rank == LAST and os.environ["DTRUN_ROUND"] == "0":
        print("rank %d holds at step %d" % (rank, step), flush=True)
        with open("%s.%s" % (os.environ["CONTROL"], os.environ["LOCAL_RANK"])) as control:
            control.readline()
    return batch(step, rank)


train_ddp.batch = held_batch
train_ddp.main()
