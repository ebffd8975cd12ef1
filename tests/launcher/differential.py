# SPDX-License-Identifier: Apache-2.0
#
# differential.py --dtrun COMMAND --launch COMMAND: real torchrun and dtrun read the same command
# lines. torchrun's own code runs, in this one process, up to where it would make its agent; of
# dtrun it is --print-config. Both must refuse or accept alike, with the same exit status, and what
# they accept must mean the same. Where we differ on purpose the row says why, and what dtrun does.

import argparse
import json
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import tap

try:
    import torch
    import torch.distributed.launch as legacy
    import torch.distributed.launcher.api as api
    import torch.distributed.run as run
    from torch.distributed.elastic.rendezvous.utils import parse_rendezvous_endpoint
except ImportError:
    tap.skip_all("python3-torch is not installed")

VERSION = tuple(int(n) for n in torch.__version__.split("+")[0].split(".")[:2])
PYTHON = "/usr/bin/python3"
OK, ERROR, USAGE = 0, 1, 2
# Where dtrun's are, when it runs away from home.
LIBRARIES = {n: v for n, v in os.environ.items() if n == "LD_LIBRARY_PATH"}

# Arguments; environment; then, by name: since, the PyTorch that has it; dtrun, what we do instead,
# and why.
ROWS = [
    # What is executed.
    ("s.py", ""),
    ("s.py a 'b c' --nnodes 3 -m", ""),
    ("-m pkg.mod -x", ""),
    ("--module pkg.mod", ""),
    ("-- s.py a", ""),
    ("--no_python /bin/true -u x", ""),
    ("--no_python -m pkg", ""),
    ("--run_path /x/s.py a", ""),
    ("--run_path --no_python -m /x/s.py", ""),
    ("s.py '$local_rank' '${local_rank}' '$$'", ""),
    ("-mr3 pkg", ""),
    # Usage.
    ("", ""),
    ("--no_such s.py", ""),
    ("--no_such", ""),
    ("-q s.py", ""),
    ("--max_restarts x s.py", ""),
    ("--max_restarts 1.5 s.py", ""),
    ("--max_restarts", ""),
    ("--monitor_interval often s.py", ""),
    ("--node_rank one s.py", ""),
    ("--master_port high s.py", ""),
    ("--start_method thread s.py", ""),
    ("--standalone=1 s.py", ""),
    ("-r -m s.py", ""),
    ("--n 2 s.py", ""),
    ("--nproc 2 s.py", "", dict(since=(2, 0), dtrun=OK)),  # two spellings of one option are clear
    ("--nproc_per 2 s.py", ""),
    ("--nproc-per 2 s.py", "", dict(since=(2, 0))),
    ("--nproc-per-node 2 s.py", "", dict(since=(2, 0))),
    ("--no_py /bin/true", ""),
    ("--rdzv_b c10d s.py", ""),
    ("--help", ""),
    ("--he", ""),
    # Values.
    ("--nproc_per_node 2 s.py", ""),
    ("--nproc_per_node=2 s.py", ""),
    ("--nproc_per_node ' 2 ' s.py", ""),
    ("--nproc_per_node 1_0 s.py", ""),
    ("--nproc_per_node +2 s.py", ""),
    ("--nproc_per_node 1 --nproc_per_node 3 s.py", ""),
    ("--nproc_per_node cpu s.py", ""),
    ("--nproc_per_node auto s.py", ""),
    ("--nproc_per_node gpu s.py", "CUDA_VISIBLE_DEVICES="),
    ("--nproc_per_node many s.py", ""),
    ("--nproc_per_node '' s.py", ""),
    ("--nproc_per_node 0 s.py", ""),
    ("--nproc_per_node -1 s.py", ""),
    ("--nproc_per_node 1.0 s.py", ""),
    ("--max_restarts 3 s.py", ""),
    ("--max_restarts ' 3 ' s.py", ""),
    ("--max_restarts -1 s.py", ""),
    ("--monitor_interval 0.5 s.py", ""),
    ("--monitor_interval 1e-2 s.py", ""),
    ("--monitor_interval 0 s.py", ""),
    ("--monitor_interval -1 s.py", ""),
    ("--monitor_interval nan s.py", ""),
    ("--role trainer s.py", ""),
    ("--role '' s.py", ""),
    # Nodes.
    ("--nnodes 1 s.py", ""),
    ("--nnodes 2 --node_rank 1 --master_addr n0 --master_port 1234 s.py", ""),
    ("--nnodes 2 s.py", ""),
    ("--nnodes 1:1 --master_port 7 s.py", ""),
    ("--nnodes 3:3 s.py", ""),
    ("--nnodes 0 s.py", ""),
    ("--nnodes 2:1 s.py", ""),
    ("--nnodes 1:2:3 s.py", ""),
    ("--nnodes 1: s.py", ""),
    ("--nnodes two s.py", ""),
    ("--nnodes '' s.py", ""),
    ("--nnodes 2 --master_addr '[::1]' s.py", ""),
    ("--nnodes 2 --master_addr fd00::1 s.py", ""),
    ("--nnodes 2 --master_addr 'a b' s.py", ""),
    ("--nnodes 2 --master_port 70000 s.py", ""),
    ("--nnodes 2 --master_port -1 s.py", ""),
    ("--nnodes 2 --node_rank 5 s.py", "", dict(dtrun=ERROR, why="it could only wait in vain")),
    # Rendezvous.
    ("--standalone s.py", ""),
    ("--standalone --nproc_per_node 2 --rdzv_id x --rdzv_backend etcd s.py", ""),
    ("--nnodes 2 --rdzv_id job s.py", ""),
    ("--nnodes 2 --rdzv_endpoint h:5 --master_addr other s.py", ""),
    ("--nnodes 2 --rdzv_endpoint '[::1]:5' s.py", ""),
    ("--nnodes 2 --rdzv_endpoint ' h:5 ' s.py", ""),
    ("--nnodes 2 --rdzv_endpoint h s.py", ""),
    ("--nnodes 2 --rdzv_endpoint h: s.py", ""),
    ("--nnodes 2 --rdzv_endpoint h:x s.py", ""),
    ("--nnodes 2 --rdzv_endpoint h:65536 s.py", ""),
    ("--nnodes 2 --rdzv_endpoint h:000080 s.py", ""),
    ("--nnodes 2 --rdzv_endpoint :80 s.py", ""),
    ("--nnodes 2 --rdzv_endpoint http://h:80 s.py", ""),
    ("--nnodes 2 --rdzv_endpoint ::1 s.py", "", dict(dtrun=ERROR, why="no host is called \":\"")),
    ("--nnodes 2 --rdzv_conf timeout=60 s.py", ""),
    ("--nnodes 2 --rdzv_conf ' timeout = 60 , x = y=z ' s.py", ""),
    ("--nnodes 2 --rdzv_conf timeout= s.py", ""),
    ("--nnodes 2 --rdzv_conf timeout s.py", ""),
    ("--nnodes 2 --rdzv_conf =1 s.py", ""),
    ("--nnodes 2 --rdzv_conf a=1, s.py", ""),
    ("--nnodes 2 --rdzv_conf timeout=soon s.py", ""),
    ("--nnodes 2 --rdzv_conf join_timeout=abc s.py", ""),
    ("--rdzv_backend c10d s.py", ""),
    ("--rdzv_backend c10d --rdzv_endpoint localhost:0 --rdzv_id j s.py", ""),
    ("--rdzv_backend c10d --rdzv_endpoint localhost s.py", ""),
    ("--rdzv_backend c10d --rdzv_endpoint localhost:x s.py", ""),
    ("--rdzv_backend c10d --rdzv_conf is_host=perhaps s.py", ""),
    ("--rdzv_backend c10d --rdzv_conf is_host=Yes s.py", ""),
    ("--rdzv_backend c10d --rdzv_conf read_timeout=0 s.py", ""),
    ("--rdzv_backend c10d --rdzv_conf join_timeout=x s.py", ""),
    ("--rdzv_backend c10d --rdzv_conf join_timeout=-1 s.py", ""),
    ("--rdzv_backend c10d --rdzv_conf store_type=sql s.py", ""),
    ("--rdzv_backend zeus s.py", ""),
    ("--rdzv_backend '' s.py", ""),
    ("--rdzv_backend c10d --nnodes 1:2 --rdzv_endpoint h:1 s.py", ""),
    ("--rdzv_backend c10d --nnodes 2 s.py", ""),
    ("--rdzv_backend c10d --nnodes 2:2 --rdzv_endpoint h s.py", ""),
    ("--rdzv_backend c10d --nnodes 2 --rdzv_endpoint '[::1]:5' --rdzv_id job s.py", ""),
    ("--rdzv_backend c10d --nnodes 2 --rdzv_endpoint h:x s.py", ""),
    ("--rdzv_backend c10d --nnodes 2 --rdzv_endpoint h:0 s.py", "",
     dict(dtrun=ERROR, why="the nodes could not find each other")),
    ("--rdzv_backend c10d --nnodes 1:2 --rdzv_endpoint h:1 --node_rank 7 --max_restarts 3 s.py", ""),
    ("--rdzv_backend c10d --nnodes 1:2 --rdzv_endpoint h:1 --local_addr me --role r s.py", "",
     dict(since=(2, 0))),
    ("--rdzv_backend c10d --nnodes 2 --rdzv_conf join_timeout=5,read_timeout=6,is_host=no s.py", ""),
    ("--rdzv_backend c10d --nnodes 2 --rdzv_conf last_call_timeout=0 s.py", ""),
    ("--rdzv_backend c10d --nnodes 2 --rdzv_conf close_timeout=soon s.py", ""),
    ("--rdzv_backend c10d --nnodes 2 --rdzv_conf timeout=soon,zeal=1 s.py", ""),
    ("--rdzv_backend c10d --nnodes 2 --rdzv_conf store_type=sql s.py", ""),
    # Output.
    ("-r 3 s.py", ""),
    ("-r3 -t 1 s.py", ""),
    ("--nproc_per_node 3 -t 0:1,2:3 s.py", ""),
    ("--nproc_per_node 2 --redirects 1:2 --tee 3 s.py", ""),
    ("-r 0:3,7:1 s.py", ""),
    ("-r 4 s.py", ""),
    ("-r '' s.py", ""),
    ("-t 0:1, s.py", ""),
    ("-t 0:4 s.py", ""),
    ("-t 33 s.py", ""),
    ("--nproc_per_node 12 -t 10:1 s.py", "", dict(dtrun=OK, why="any local rank can be named")),
    ("--log_dir @/logs s.py", ""),
    ("--log_dir /dev/null -t 3 s.py", "", dict(since=(2, 3))),
    ("--log_dir /etc/passwd s.py", "", dict(since=(2, 3))), # before, the agent found that
    ("--local_ranks_filter 0,1 s.py", "", dict(since=(2, 3))),
    ("--local_ranks_filter ' 0 , 1' s.py", "", dict(since=(2, 3))),
    ("--local_ranks_filter 0,x s.py", "", dict(since=(2, 3))),
    ("--local_ranks_filter 0, s.py", "", dict(since=(2, 3))),
    ("--local-addr 10.0.0.1 --standalone s.py", "", dict(since=(2, 0))),
    ("--logs-specs mine s.py", "", dict(since=(2, 3))),
    ("--logs-specs default -r 3 s.py", "", dict(since=(2, 3))),
    # The environment.
    ("s.py", "PET_NPROC_PER_NODE=3 PET_ROLE=r PET_MAX_RESTARTS=2"),
    ("--nproc_per_node 2 s.py", "PET_NPROC_PER_NODE=x"),
    ("s.py", "PET_NPROC_PER_NODE=x"),
    ("s.py", "PET_MAX_RESTARTS=x"),
    ("--max_restarts 1 s.py", "PET_MAX_RESTARTS=x"),
    ("s.py", "PET_NODE_RANK=abc"),
    ("s.py", "PET_START_METHOD=bogus"),
    ("pkg", "PET_MODULE=1"),
    ("s.py", "PET_MODULE=0"),
    ("pkg", "PET_MODULE=' 7 '"),
    ("s.py", "PET_STANDALONE=true"),
    ("s.py", "PET_STANDALONE="),
    ("--standalone s.py", "PET_STANDALONE=true", dict(dtrun=OK, why="what is overridden hurts nobody")),
    ("s.py", "PET_NNODES=2 PET_MASTER_PORT=5 PET_MASTER_ADDR=h"),
    ("s.py", "PET_MASTER_PORT=5"),
    ("s.py", "PET_RDZV_ID= PET_NNODES=2"),
    ("s.py", "PET_REDIRECTS=2 PET_TEE=1"),
    ("s.py", "PET_NO_SUCH=1"),
]

# For torch.distributed.launch.
LEGACY_ROWS = [
    ("s.py a", ""),
    ("-m pkg a", ""),
    ("--use_env s.py a", ""),
    ("--use_env --no_python /bin/true a", ""),
    ("--no_python /bin/true a", ""),
    ("--run_path /x/s.py a", ""),
    ("s.py", "PET_USE_ENV=1"),
    ("--nproc_per_node 2 --nnodes 2 s.py", ""),
    ("--use_env=1 s.py", ""),
    ("", ""),
]


NEWER = ("virtual_local_rank", "numa_binding", "local_addr", "signals_to_handle",
         "shutdown_timeout", "local_ranks_filter", "duplicate_stdout_filters",
         "duplicate_stderr_filters", "event_log_handler", "logs_specs")


def valid_value(action):
    return [] if action.nargs == 0 else ["spawn" if action.choices else "1"]


def abbreviations(command):
    """What argparse takes for an option, dtrun takes for the same one. It also takes what argparse
    calls ambiguous where all that it finds are spellings of one option, or where only one of the
    options was there in PyTorch 1.13."""
    actions = {name: action for action in run.get_args_parser()._actions
               for name in action.option_strings if name.startswith("--")}
    parts = {name[:n] for name in actions for n in range(3, len(name))} - set(actions)

    def printed(name, action):
        done = subprocess.run(command + ["--print-config", name] + valid_value(action) +
                              ["--no-python", "/bin/true"],
                              env=dict(LIBRARIES, PATH="/usr/bin:/bin"), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              universal_newlines=True)
        return done.returncode, re.sub(r"(?m)^run id: .*", "", done.stdout)

    for part in sorted(parts):
        meant = {action for name, action in actions.items() if name.startswith(part)}
        meant = {action for action in meant if action.dest not in NEWER} or meant
        status, text = printed(part, next(iter(meant)))
        if len(meant) > 1:
            tap.check_equal(status, USAGE, "exit status of " + part)
        else:
            action = meant.pop()
            tap.check_equal((status, text), printed(action.option_strings[-1], action), part)


class Reached(BaseException):
    """torchrun was about to make its agent."""


def stand_in_for_the_agent():
    real_launch, registry = api.launch_agent, api.rdzv_registry
    real_handler = registry.get_rendezvous_handler

    def launch_agent(config, entrypoint, args):
        stand_in_for_the_agent.seen = (config, entrypoint, args)
        return real_launch(config, entrypoint, args)

    def get_handler(params):
        # c10d would connect. What it reads of the parameters first:
        if params.backend == "c10d":
            parse_rendezvous_endpoint(params.endpoint, 29400)
            params.get_as_bool("is_host")
            if params.get("store_type", "tcp").strip().lower() not in ("tcp", "file"):
                raise ValueError("store_type")
            for key in "read_timeout", "join_timeout", "last_call_timeout", "close_timeout":
                if params.get_as_int(key, 1) <= 0:
                    raise ValueError(key)
            return None
        return real_handler(params)

    class Agent:
        def __init__(self, spec, *args, **kwargs):
            raise Reached(spec)

    api.launch_agent = launch_agent
    api.LocalElasticAgent = Agent
    registry.get_rendezvous_handler = get_handler


def torchrun(args, is_legacy):
    """The exit status, and what an accepted command line means."""
    module = legacy if is_legacy else run
    try:
        if is_legacy:
            module.launch(module.parse_args(args))
        else:
            module.run(module.parse_args(args))
    except SystemExit as e:
        return e.code or 0, None
    except Reached as e:
        return OK, (e.args[0],) + stand_in_for_the_agent.seen
    except Exception:
        return ERROR, None
    raise AssertionError("torchrun came back")


def dtrun(command, args, env):
    """The same of dtrun: its exit status and the lines it printed, by name."""
    done = subprocess.run(command + ["--print-config"] + args, env=dict(LIBRARIES, **env),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, universal_newlines=True)
    lines = {}
    for line in done.stdout.splitlines():
        name, _, value = line.partition(": ")
        lines.setdefault(name, value)
    if done.returncode != OK and not done.stderr.startswith("dtrun"):
        raise AssertionError("no sentence on standard error: %r" % done.stderr)
    return done.returncode, lines


def streams_of(config, nproc):
    """What torchrun made of --redirects and --tee: a pair for each local rank."""
    specs = getattr(config, "logs_specs", None)
    def masks(name):
        value = getattr(specs, "_" + name) if specs else getattr(config, name)
        each = value if isinstance(value, dict) else {i: value for i in range(nproc)}
        # A None is how PyTorch 1.13 fails to read 0 and 3 on Python 3.11.
        return [None if each.get(i, 0) is None else each[i].value if i in each else 0
                for i in range(nproc)]
    return list(zip(masks("redirects"), masks("tee")))


def streams_in(lines, nproc):
    words = {"nothing": 0, "stdout": 1, "stderr": 2, "stdout and stderr": 3}
    pairs = [None] * nproc
    for name, value in lines.items():
        if name.startswith("output of local rank "):
            first, _, last = name.split()[-1].partition("-")
            redirects, tees, _ = value.split(", ")
            for i in range(int(first), int(last or first) + 1):
                pairs[i] = (words[redirects[len("redirects "):]], words[tees[len("tees "):]])
    return pairs


def seconds(text):
    number, unit = text.split()
    return float(number) * {"ms": 0.001, "s": 1, "min": 60, "h": 3600, "d": 86400}[unit]


def compare_command(lines, entrypoint, args):
    theirs = [str(a).replace("--local_rank=", "--local-rank=") for a in args]
    if callable(entrypoint):
        ours = shlex.split(lines["command"].replace("$'", "'"))
        tap.check_equal(lines["title"], "run_script_path", "title")
        tap.check_equal(ours[-len(theirs):], theirs, "arguments")
        return
    ours = shlex.split(lines["command"])
    tap.check_equal(os.path.basename(ours[0]), os.path.basename(entrypoint), "program")
    tap.check_equal(ours[1:], theirs, "arguments")


def compare_static(lines, spec, config):
    tap.check_equal(lines["nodes"], str(config.max_nodes), "nodes")
    host = "[%s]" % spec.master_addr if ":" in spec.master_addr else spec.master_addr
    tap.check_equal(lines["endpoint"], "%s:%d" % (host, spec.master_port), "endpoint")
    tap.check_equal(lines["node rank"], str(config.rdzv_configs["rank"]), "node rank")
    tap.check_equal(seconds(lines["join timeout"]), float(config.rdzv_configs["timeout"]),
                    "timeout")


def compare_elastic(lines, config):
    nodes = sorted({config.min_nodes, config.max_nodes})
    tap.check_equal(lines["nodes"], ":".join(map(str, nodes)), "nodes")
    host, port = parse_rendezvous_endpoint(config.rdzv_endpoint, 29400)
    host = "[%s]" % host if ":" in host else host
    tap.check_equal(lines["endpoint"], "%s:%d" % (host, port), "endpoint")
    for key, name, default in (("join_timeout", "join timeout", 600),
                               ("read_timeout", "read timeout", 60),
                               ("last_call_timeout", "last call", 30)):
        tap.check_equal(seconds(lines[name]), float(config.rdzv_configs.get(key, default)), key)


def compare(lines, means, env):
    spec, config, entrypoint, args = means
    compare_command(lines, entrypoint, args)
    tap.check_equal(lines["workers"], str(spec.local_world_size), "workers")
    tap.check_equal(shlex.split(lines["role"]), [spec.role], "role")
    tap.check_equal(lines["restarts"], str(spec.max_restarts), "restarts")
    threads = "1" if spec.local_world_size > 1 else "as it is"
    tap.check_equal(lines["OMP_NUM_THREADS"], threads, "threads")
    if env.get("PET_LOG_DIR", lines["log folder"]) != "none":
        theirs = streams_of(config, spec.local_world_size)
        ours = [tuple(None if b is None else a for a, b in zip(mine, its))
                for mine, its in zip(streams_in(lines, spec.local_world_size), theirs)]
        tap.check_equal(ours, theirs, "streams")
    # A static job of one node without a port is one on a free port in newer torchrun, and here.
    if lines["backend"] == "static":
        compare_static(lines, spec, config)
    if "last call" in lines:
        compare_elastic(lines, config)
    named = config.run_id not in ("none", "") and not config.run_id.isdigit()
    if named and config.rdzv_endpoint[:10] != "localhost:":
        tap.check_equal(lines["run id"], config.run_id, "run id")


def check_row(command, is_legacy, args, variables, since=(0, 0), dtrun_does=None):
    if VERSION < since:
        raise tap.Skip("PyTorch %d.%d has no such option" % VERSION)
    with tempfile.TemporaryDirectory() as folder:
        args = [a.replace("@", folder) for a in args]
        env = {"PATH": "/usr/bin:/bin", "HOME": "/", "PYTHON_EXEC": PYTHON, "TMPDIR": folder}
        env.update(v.split("=", 1) for v in variables)
        os.environ.clear()
        os.environ.update(env)
        out, err = sys.stdout, sys.stderr
        with open(os.devnull, "w") as nowhere:
            sys.stdout = sys.stderr = nowhere
            try:
                status, means = torchrun(args, is_legacy)
            finally:
                sys.stdout, sys.stderr = out, err
        ours, lines = dtrun(command, args, env)
        if dtrun_does is not None:
            if ours == status:
                raise AssertionError("no difference is left; drop the reason")
            tap.check_equal(ours, dtrun_does, "exit status of dtrun")
            return
        tap.check_equal(ours, status, "exit status")
        if means:
            compare(lines, means, env)


def found(program):
    """PROGRAM as words of a command, looked up before a row changes PATH."""
    return [shutil.which(program) or program]


SCRIPT = """import sys
assert __name__ == "__main__" and sys.argv[1:] == ["a b"], sys.argv
if LEAVE:
    sys.exit(LEAVE)
def fail():
    raise ValueError("b\u00f6om")
fail()
"""


def run_path_as_torch_does(command):
    """What --run-path has Python execute leaves the record that PyTorch's own handler would."""
    from torch.distributed.elastic.multiprocessing.errors.error_handler import ErrorHandler
    with tempfile.TemporaryDirectory() as folder:
        script, ours, theirs = (os.path.join(folder, n) for n in ("s.py", "ours", "theirs"))
        env = {"PATH": "/usr/bin:/bin", "PYTHON_EXEC": PYTHON, "TORCHELASTIC_ERROR_FILE": ours}
        _, lines = dtrun(command, ["--run-path", script, "a b"], env)
        argv = subprocess.run(["bash", "-c", "printf '%s\\0' " + lines["command"]], check=True,
                              stdout=subprocess.PIPE, universal_newlines=True).stdout.split("\0")
        for leave in 0, 3:
            with open(script, "w") as f:
                f.write("LEAVE = %d\n" % leave + SCRIPT)
            done = subprocess.run(argv[:-1], env=env, stderr=subprocess.PIPE)
            tap.check_equal(done.returncode, leave or 1, "exit status")
            tap.check_equal(os.path.exists(ours), leave == 0, "there is a record")
            if leave == 0:
                record = json.load(open(ours))["message"]
                os.remove(ours)
        os.environ["TORCHELASTIC_ERROR_FILE"] = theirs
        try:
            raise ValueError("b\u00f6om")
        except ValueError as e:
            ErrorHandler().record_exception(e)
        wanted = json.load(open(theirs))["message"]
        tap.check_equal(record["message"], wanted["message"], "message")
        tap.check_equal(sorted(record["extraInfo"]), sorted(wanted["extraInfo"]), "extra")
        for name, value in wanted["extraInfo"].items():
            tap.check_equal(type(record["extraInfo"][name]), type(value), name)
        stack = record["extraInfo"]["py_callstack"]
        if not stack.startswith("Traceback") or "in fail" not in stack:
            raise AssertionError("no stack of the script: " + stack)


def add_cases(command, rows, is_legacy):
    for row in rows:
        args, variables, more = row[0], row[1], row[2] if len(row) > 2 else {}
        name = " ".join(w for w in ("launch" if is_legacy else "torchrun", variables, args) if w)
        why = "; differs: " + more["why"] if "why" in more else ""
        tap.case(name.replace("#", "") + why,
                 lambda: check_row(command, is_legacy, shlex.split(args), shlex.split(variables),
                                   more.get("since", (0, 0)), more.get("dtrun")))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtrun", required=True)
    parser.add_argument("--launch", required=True)
    commands = parser.parse_args()
    tap.start()
    logging.disable(logging.CRITICAL)
    stand_in_for_the_agent()
    before = dict(os.environ)
    programs = found(commands.dtrun), found(commands.launch)
    add_cases(programs[0], ROWS, False)
    add_cases(programs[1], LEGACY_ROWS, True)
    tap.case("every abbreviation", lambda: abbreviations(programs[0]))
    tap.case("--run-path leaves the record that torchrun would",
             lambda: run_path_as_torch_does(programs[0]))
    os.environ.clear()
    os.environ.update(before)
    tap.comment("PyTorch " + torch.__version__)
    tap.done()


if __name__ == "__main__":
    main()
