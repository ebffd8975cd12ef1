# SPDX-License-Identifier: Apache-2.0
#
# The line is a file of the wheel, so that pip removes it with the rest. Python carries it out whenever it starts.
"""python -m dtrun.install_hook [--remove]

From now on "python -m torch.distributed.run", torchrun, and programs that call torch.distributed.run (accelerate launch,
fabric run, tune run) run dtrun in this environment. DTRUN_REPLACES_TORCHRUN=1 does so for one command without this, and
DTRUN_REPLACES_TORCHRUN=0 keeps one command away from it."""
import argparse
import os
import sys

NAME = "dtrun.pth"


def line(unless_told):
    return ('import os; os.environ.get("DTRUN_REPLACES_TORCHRUN", "%d") not in ("", "0") and __import__("dtrun.hook")\n'
            % unless_told)


def main():
    parser = argparse.ArgumentParser(prog="python -m dtrun.install_hook", description=__doc__.split("\n\n")[1])
    parser.add_argument("--remove", action="store_true", help="torchrun is PyTorch's again")
    remove = parser.parse_args().remove
    path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), NAME)
    with open(path + ".new", "w") as f:
        f.write(line(not remove))
    os.replace(path + ".new", path)
    print("in %s torchrun is %s now" % (sys.prefix, "PyTorch's" if remove else "dtrun"))


if __name__ == "__main__":
    main()
