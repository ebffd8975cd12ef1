# SPDX-License-Identifier: Apache-2.0
#
# A worker for torch_lines.py. First it notes in $SEEN all that it was given, and waits until the
# other workers of its node have done so too; then it does what its arguments say, one after the
# other, and ignores those that say nothing to it:
#
#   say:TEXT err:TEXT      a line            exit:N kill:N raise:TEXT   ends so
#   record:TEXT            raises it under PyTorch's decorator          error:JSON  its error file
#   rank:R:ACTION          does ACTION only where RANK is R
#   below:N:ACTION         ... where the restart count is below N
#   hang                   lives until a signal comes, says which, and exits with 3
#   ready:N                waits until N workers of its node hang

import glob
import json
import os
import resource
import signal
import sys
import time

STOPS = signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT


def given():
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    signals = {name: status[name].strip() for name in ("SigIgn", "SigBlk")}
    mask = os.umask(0)
    os.umask(mask)
    # The folder that was read is closed by now.
    there = {fd for fd in os.listdir("/proc/self/fd") if os.path.lexists("/proc/self/fd/" + fd)}
    ours = {os.environ.get("DTRUN_" + name) for name in ("PROGRESS_FD", "VAULT_FD", "VAULT_PEER_FD")}
    return {
        "argv": sys.argv,
        "flags": repr(sys.flags),
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "umask": mask,
        "signals": signals,
        "leads a session": os.getsid(0) == os.getpid(),
        "terminals": [os.isatty(fd) for fd in range(3)],
        "descriptors": sorted(there - ours),
        "limits": [resource.getrlimit(n) for n in range(16)],
        "nice": os.nice(0),
        "processors": sorted(os.sched_getaffinity(0)),
    }


def place(kind):
    """Where the workers of this attempt, on this node, leave files of a kind."""
    names = ("GROUP_RANK", "TORCHELASTIC_RESTART_COUNT")
    return os.path.join(os.environ["SEEN"], kind, ".".join(os.environ[n] for n in names))


def await_files(kind, count):
    while len(glob.glob(place(kind) + ".?")) < count:
        time.sleep(0.005)


def leave_file(kind, text):
    path = place(kind) + "." + os.environ["LOCAL_RANK"]
    with open(path + ".part", "w") as f:
        f.write(text)
    os.rename(path + ".part", path)


def note_and_wait():
    leave_file("given", json.dumps(given()))
    await_files("given", int(os.environ["LOCAL_WORLD_SIZE"]))


def print_line(fd, text):
    os.write(fd, ("told: %s\n" % text).encode())  # whole, where print() is unbuffered and is not


def record(text):
    from torch.distributed.elastic.multiprocessing.errors import record as recorded

    @recorded
    def main():
        raise ValueError(text)

    main()


def hang():
    def stop(number, _):
        print_line(1, "signal %d" % number)
        os._exit(3)

    for number in STOPS:
        signal.signal(number, stop)
    leave_file("hanging", "")
    print_line(1, "hanging")
    while True:
        signal.pause()


def act(action):
    verb, _, rest = action.partition(":")
    if verb == "say":
        print_line(1, rest)
    elif verb == "err":
        print_line(2, rest)
    elif verb == "exit":
        sys.exit(int(rest))
    elif verb == "kill":
        os.kill(os.getpid(), int(rest))
    elif verb == "raise":
        raise ValueError("told: " + rest)
    elif verb == "record":
        record("told: " + rest)
    elif verb == "error":
        with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as f:
            f.write(rest)
    elif verb == "hang":
        hang()
    elif verb == "ready":
        await_files("hanging", int(rest))
    elif verb in ("rank", "below"):
        number, _, rest = rest.partition(":")
        rank, attempt = (int(os.environ[n]) for n in ("RANK", "TORCHELASTIC_RESTART_COUNT"))
        if rank == int(number) if verb == "rank" else attempt < int(number):
            act(rest)


if __name__ == "__main__":
    note_and_wait()
    for argument in sys.argv[1:]:
        act(argument)
