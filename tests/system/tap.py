# SPDX-License-Identifier: Apache-2.0
#
# TAP for the Python tests, and the promise that a test ends: after LIMIT seconds a watchdog that
# needs no interpreter lock prints every stack and exits, so a store that never answers is a failed
# test with a trace and not a hanging one. Child processes die with the test, however it dies.

import ctypes
import faulthandler
import os
import signal
import sys
import tempfile
import traceback

LIMIT = int(os.environ.get("DTRUN_TEST_LIMIT", "280"))
PR_SET_PDEATHSIG = 1

# Before PyTorch is imported: it would print a stack for each failure that a test provokes.
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

_libc = ctypes.CDLL(None)
_count = _failed = 0
_folder = None


class Skip(Exception):
    """What this machine, or this PyTorch, does not have."""


def die_with_parent():
    """For preexec_fn: the new process is killed when the one that started it is gone."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def start(limit=LIMIT):
    global _folder
    faulthandler.dump_traceback_later(limit, exit=True)
    # Jobs that fail leave their logs where TMPDIR says; here they go with the test.
    _folder = tempfile.TemporaryDirectory(prefix="dt-test-")
    tempfile.tempdir = os.environ["TMPDIR"] = _folder.name
    # A shell that runs tests in its background, or nohup, has these ignored, and that stays so.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    # Python's finally blocks stop the servers; a plain SIGTERM would pass them by.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))


def skip_all(why):
    print("1..0 # SKIP " + why)
    sys.exit(0)


def comment(text, to=None):
    for line in str(text).splitlines():
        print("# " + line, file=to or sys.stdout, flush=True)


def explain(name, text):
    """Why NAME failed. Some runners, meson 1.0 among them, show nothing of a TAP program's stdout, so the
    reason goes to stderr, too, unless both are the same file."""
    comment(text)
    if not os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno()):
        print(name + ":", file=sys.stderr)
        comment(text, sys.stderr)


def case(name, run):
    """One line of the result: RUN() raises when the case fails, or raises Skip."""
    global _count, _failed
    _count += 1
    try:
        run()
    except Skip as why:
        print("ok %d - %s # SKIP %s" % (_count, name, why), flush=True)
    except Exception:
        _failed += 1
        print("not ok %d - %s" % (_count, name), flush=True)
        explain(name, traceback.format_exc())
    else:
        print("ok %d - %s" % (_count, name), flush=True)


def check_equal(got, expected, what):
    if got != expected:
        raise AssertionError("%s: got %.300r, expected %.300r" % (what, got, expected))


def done():
    """Prints the plan and ends the process."""
    if not _count:  # a plan of none is a skip, which would say that all is well
        sys.exit("no story was run; is there one of the names that were given?")
    print("1..%d" % _count, flush=True)
    sys.exit(1 if _failed else 0)
