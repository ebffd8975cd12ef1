# SPDX-License-Identifier: Apache-2.0
#
# Which GPUs a story has: real ones, or, with DT_EMULATED=1, mock ones, of which there are as many as it wants.

import os
import subprocess

import tap

EMULATED = os.environ.get("DT_EMULATED") == "1"


def gpus(n):
    """The environment of a story with N devices; skipped where there are fewer."""
    if EMULATED:
        return {"DT_EMULATOR_DEVICES": str(n)}
    listed = subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.PIPE, text=True, check=False).stdout
    if listed.count("GPU ") < n:
        raise tap.Skip("%d GPUs are needed, there are %d" % (n, listed.count("GPU ")))
    return {}


def emulated():
    if not EMULATED:
        raise tap.Skip("only on the emulator can a GPU be so")


def why_not():
    """What is missing for a GPU here, or None."""
    if EMULATED:
        return None
    if not os.path.exists("/dev/nvidiactl"):
        return "there is no GPU here"
    return None
