# SPDX-License-Identifier: Apache-2.0
#
# torch.distributed.run as other programs call it: main(list), or run(namespace) with what get_args_parser() made. The job
# itself is dtrun's, a process of its own. A namespace may come from PyTorch's parser, whatever its version, and may have been
# changed since by accelerate or torchtune: attributes that are no options of torchrun are not looked at.
"""Stands in for torch.distributed.run: get_args_parser(), parse_args(), run() and main(), carried out by dtrun."""
import argparse
import os
import shutil
import signal
import subprocess
import sys

# Options of torchrun with a value, and what they are when nobody gives them.
VALUES = (
    ("nnodes", "1:1"),
    ("nproc_per_node", "1"),
    ("rdzv_backend", "static"),
    ("rdzv_endpoint", ""),
    ("rdzv_id", "none"),
    ("rdzv_conf", ""),
    ("max_restarts", 0),
    ("monitor_interval", 0.1),
    ("start_method", "spawn"),
    ("role", "default"),
    ("log_dir", None),
    ("redirects", "0"),
    ("tee", "0"),
    ("local_ranks_filter", ""),
    ("node_rank", 0),
    ("master_addr", "127.0.0.1"),
    ("master_port", 29500),
    ("local_addr", None),
    ("logs_specs", None),
    ("numa_binding", None),
    ("signals_to_handle", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"),
    ("shutdown_timeout", None),
    ("event_log_handler", "null"),
    ("duplicate_stdout_filters", ""),
    ("duplicate_stderr_filters", ""),
)
FLAGS = ("standalone", "module", "no_python", "run_path", "virtual_local_rank")
SHORT = {"redirects": ["-r"], "tee": ["-t"], "module": ["-m"]}

PR_SET_PDEATHSIG = 1


class JobFailed(RuntimeError):
    """The job did not end well; dtrun has said why on standard error."""

    def __init__(self, status):
        super().__init__("the job ended with exit status %d; dtrun's report above says why" % status)
        self.status = status


def find_program(name):
    """The path of a program of this package: in the bin folder of the tree that the package lies in, else by PATH."""
    here = os.path.dirname(os.path.abspath(__file__))
    # PREFIX/lib/python3.N/site-packages/dtrun, or what "pip install --target" makes.
    for up in ("../../../..", ".."):
        path = os.path.normpath(os.path.join(here, up, "bin", name))
        if os.access(path, os.X_OK):
            return path
    path = shutil.which(name)
    if not path:
        raise FileNotFoundError("the program %s is missing beside the Python package dtrun in %s; install the wheel again"
                                % (name, here))
    return path


def environment():
    """Ours, and the Python that workers run with: this one, as with torchrun."""
    return dict(os.environ, PYTHON_EXEC=os.environ.get("PYTHON_EXEC") or sys.executable)


def become(name, arguments):
    """This process becomes that program."""
    sys.stdout.flush()
    sys.stderr.flush()
    path = find_program(name)
    os.execve(path, [path] + list(arguments), environment())


def terminal_tells():
    """Whether the keys of a terminal send their signals to this process, and so to its children as well."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def die_with_parent():
    """For preexec_fn, so that no job is left behind by "kill -9"."""
    import ctypes
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def forward_signals(job):
    """Until what it returns is called, signals to this process are signals to the job."""
    def forward(number, _frame):
        if number not in (signal.SIGINT, signal.SIGQUIT) or not terminal_tells():
            job.send_signal(number)

    try:
        before = {number: signal.signal(number, forward)
                  for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)}
    except ValueError:  # only the main thread has them
        before = {}
    # None is a handler that is not Python's, which only its owner can set again.
    return lambda: [signal.signal(number, handler) for number, handler in before.items() if handler is not None]


def call(name, arguments):
    """Runs that program and waits for its end. Raises JobFailed."""
    job = subprocess.Popen([find_program(name)] + list(arguments), env=environment(), preexec_fn=die_with_parent())
    restore = forward_signals(job)
    try:
        status = job.wait()
    finally:
        restore()
    if status:
        raise JobFailed(status)


def spelled(name):
    return "--" + name.replace("_", "-")


def variable(name):
    return "PET_" + name.upper()


def get_args_parser():
    parser = argparse.ArgumentParser(description="dtrun, in the place of PyTorch's torchrun; dtrun --help has more options")
    for name, default in VALUES:
        kind = type(default) if isinstance(default, (int, float)) else str
        parser.add_argument(*SHORT.get(name, []), *dict.fromkeys((spelled(name), "--" + name)), dest=name, type=kind,
                            default=os.environ.get(variable(name), default))
    for name in FLAGS:
        parser.add_argument(*SHORT.get(name, []), *dict.fromkeys((spelled(name), "--" + name)), dest=name,
                            action="store_true", default=bool(int(os.environ.get(variable(name), "0"))))
    parser.add_argument("training_script")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER)
    return parser


def parse_args(args):
    return get_args_parser().parse_args(args)


def command(args):
    """The program and the arguments that mean ARGS. What is as torchrun has it anyway is left out, so that dtrun can say which
    of the given options have no effect; unless a variable says something else."""
    name, flags = "dtrun", FLAGS
    if hasattr(args, "use_env"):  # torch.distributed.launch
        name, flags = "dtrun-launch", FLAGS + ("use_env",)
    words = []
    for option, default in VALUES:
        value = getattr(args, option, default)
        if value is not None and (str(value) != str(default) or variable(option) in os.environ):
            words.append("%s=%s" % (spelled(option), value))
    words += [spelled(flag) for flag in flags if getattr(args, flag, False)]
    return name, words + ["--", str(args.training_script)] + [str(word) for word in args.training_script_args]


def run(args):
    call(*command(args))


def main(args=None):
    call("dtrun", sys.argv[1:] if args is None else args)


if __name__ == "__main__":
    become("dtrun", sys.argv[1:])
