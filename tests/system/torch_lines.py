# SPDX-License-Identifier: Apache-2.0
#
# torch_lines.py --dtrun PROGRAM --launch PROGRAM [WORD...]: lines of launch scripts, each run by the
# real torchrun and by dtrun, whose exit status, output, report, folders and files, and all that the
# workers were given must be the same. What differs on purpose is named here, with its reason. With
# WORDs only the lines that contain one of them are run.

import argparse
import concurrent.futures
import os
import shlex
import sys
import tempfile

import line
import servers
import tap

try:
    import torch
except ImportError:
    tap.skip_all("python3-torch is not installed")

VERSION = tuple(int(n) for n in torch.__version__.split("+")[0].split(".")[:2])
# There the enumeration of streams has no member for none of them, and none for both.
NO_STREAMS = VERSION < (2, 0) and sys.version_info >= (3, 11)
# What is run, and its elder with arguments of its own.
TORCHRUN = [[sys.executable, "-B", "-m", "torch.distributed." + n] for n in ("run", "launch")]

# Variables of workers that are not compared.
VARIABLES = {
    "DTRUN": "ours alone",
    "DTRUN_LOG_DIR": "ours alone",
    "DTRUN_PROGRESS_FD": "ours alone",
    "DTRUN_ROUND": "ours alone",
    "DTRUN_VAULT_FD": "ours alone",
    "DTRUN_VAULT_PEER_FD": "ours alone",
    "NCCL_PROFILER_PLUGIN": "ours alone",
    "DTRUN_RESTART_COUNT": "ours alone",
    "TORCHELASTIC_SIGNALS_TO_HANDLE": "of newer torchruns, and ours",
    "TORCH_FR_BUFFER_SIZE": "ours, for PyTorch 2.8 and later",
    "TORCH_FR_DUMP_TEMP_FILE": "ours, for PyTorch 2.8 and later",
    "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": "ours alone",
    "_": "bash notes there what it starts",
}
if VERSION < (2, 2):
    VARIABLES.update(dict.fromkeys(
        ("NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ASYNC_ERROR_HANDLING"), "renamed in 2.2"))

# Elder torchruns have made folders by the time that they notice.
NO_FOLDERS = {"files": "noticed before folders are made"} if VERSION < (2, 0) else {}
RUN_PATH = dict.fromkeys(("report", "files"), "the stack shows how the script is run")
TWO = "--nproc_per_node 2 "
ROWS = [
    # What is started.
    ("train.py", {}),
    (TWO + "train.py say:hello err:oops", {}),
    ("--nproc-per-node=2 train.py say:hello", dict(since=(2, 0))),
    (TWO + "train.py --nproc_per_node 7 -m --no_python -r 3 --standalone --help -- x", {}),
    ("-- train.py --lr 1e-4 -- say:hello", {}),
    (TWO + "-m pkg.train a 'b  c' ''", {}),
    ("-m pkg.train raise:boom", {}),
    (TWO + "--no_python python3 train.py exit:0", {}),
    (TWO + "--no_python sh -c 'echo told: $0 $LOCAL_RANK $$LOCAL_RANK $RANK' $local_rank",
     {}),
    ("--no_python ./absent", dict(differs=NO_FOLDERS)),
    ("-r 2 -t 2 absent.py", dict(differs=dict.fromkeys(
        ("report", "files"), "noticed before anything starts"))),
    (TWO + "train.py '$local_rank' '${local_rank}x' '$$' '${RANK}' '$' '$$local_rank' 'é'", {}),
    ("--run_path absent.py", dict(differs=RUN_PATH)),
    ("--run_path train.py say:hello a", dict(differs={"workers": "programs of their own"})),
    ("--run_path train.py exit:4", dict(differs={"workers": "programs of their own"})),
    ("train.py a", dict(env="PYTHON_EXEC=/bin/echo")),
    ("-m train a", dict(env="PYTHON_EXEC=/bin/echo")),
    ("train.py a", dict(env="PYTHON_EXEC=/bin/false")),
    # What it finds.
    (TWO + "--role trainer train.py", {}),
    (TWO + "train.py", dict(env="OMP_NUM_THREADS=3")),
    (TWO + "train.py", dict(env="OMP_NUM_THREADS=")),
    ("train.py", dict(env="RANK=7 WORLD_SIZE=x MASTER_ADDR=h NODE_RANK=4 TORCHELASTIC_RUN_ID=q")),
    ("train.py", dict(env="TORCH_NCCL_ASYNC_ERROR_HANDLING=0 NCCL_DEBUG=INFO A= CUDA_VISIBLE_DEVICES=")),
    # Python looks for a locale of its own in the C locale, and its workers inherit what it finds.
    ("train.py é", dict(env="LANG=")),
    (TWO + "--no_python sh -c 'echo told: $LC_CTYPE'", dict(env="LANG=C")),
    ("-m train", dict(env="LANG=xx_XX.UTF-8")),
    ("train.py", dict(env="LC_CTYPE=POSIX LANG=C.UTF-8")),
    ("train.py", dict(env="LC_CTYPE=C.UTF-8 LANG=C")),
    ("train.py", dict(env="LC_ALL=C")),
    ("train.py", dict(env="LANG=C PYTHONCOERCECLOCALE=0")),
    ("env -u LANG -u LC_ALL -u LC_CTYPE {run} train.py say:x", {}),
    (TWO + "--standalone train.py", {}),
    ("--rdzv_backend c10d --rdzv_endpoint localhost:0 --rdzv_id j train.py", {}),
    ("--rdzv_backend c10d --rdzv_id j --nnodes 1:1 " + TWO + "train.py", {}),
    ("--master_addr localhost --master_port {port} train.py", {}),
    ("--rdzv_endpoint 127.0.0.1:{port} --rdzv_id j --max_restarts 2 train.py", {}),
    ("--nnodes=1 --node_rank=0 --nproc_per_node=1 --monitor_interval=0.5 --max_restarts=0 "
     "--rdzv_conf timeout=30 --start_method=fork train.py", {}),
    ("sh -c 'echo told: $0' '$local_rank'", dict(env="PET_NO_PYTHON=1")),
    ("pkg.train", dict(env="PET_MODULE=1 PET_STANDALONE=1 PET_NPROC_PER_NODE=2")),
    ("train.py say:out err:err", dict(streams=True, env="PET_LOG_DIR=@/logs PET_REDIRECTS=2 PET_TEE=1")),
    ("train.py", dict(env="PET_NPROC_PER_NODE=2 PET_ROLE=r PET_MAX_RESTARTS=1 PET_RDZV_ID=i "
                          "PET_MASTER_PORT={port}")),
    # Where output goes.
    (TWO + "-r 3 --log_dir @/logs train.py say:out err:err", dict(streams=True)),
    (TWO + "-r 1 -t 2 --log_dir @/logs train.py say:out err:err", dict(streams=True)),
    (TWO + "--redirects 0:1,1:2 --tee 1:3 --log_dir @/logs train.py say:out err:err",
     dict(streams=True)),
    (TWO + "-t 3 --log_dir @/logs/deep/er --rdzv_id some.job train.py say:out err:err rank:0:hang "
     "ready:1 raise:boom",
     dict(streams=True)),
    (TWO + "--tee 3 train.py say:a err:b", dict(
        streams=True, env="TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE=<${role_name}|$rank|$local_rank|$x>")),
    (TWO + "-r 2 --tee 1 train.py say:a err:b", dict(
        streams=True, env="TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE=")),
    (TWO + "--local_ranks_filter 1 -t 1 train.py say:out err:err", dict(since=(2, 3), streams=True)),
    (TWO + "--local_ranks_filter 0 train.py say:out err:err", dict(since=(2, 3), streams=True)),
    (TWO + "--log_dir /dev/null -t 3 train.py say:out err:err", dict(since=(2, 3), streams=True)),
    # Where there is no such folder.
    (TWO + "train.py", dict(env="TMPDIR=@/nowhere TEMP=@/tmp")),
    ("train.py raise:boom", dict(env="TMPDIR=@/here/train.py TMP=@/tmp")),
    # How it ends.
    ("train.py raise:boom", {}),
    ("train.py exit:3", {}),
    (TWO + "train.py rank:0:hang ready:1 kill:9", {}),
    (TWO + "train.py rank:1:hang ready:1 kill:11", {}),
    ("train.py kill:40", dict(since=(2, 0))),
    (TWO + "train.py rank:0:exit:0 raise:boom", {}),
    (TWO + "train.py rank:0:hang ready:1 record:boom", {}),
    (TWO + "-m pkg.train rank:1:hang ready:1 record:bö\u20acm", {}),
    ("train.py record:boom", dict(env="TORCHELASTIC_ERROR_FILE=@/parent.json")),
    ("train.py kill:9", dict(env="TORCHELASTIC_ERROR_FILE=@/parent.json")),
    ("""train.py 'error:{"message": {"message": "m", "extraInfo": {"timestamp": "1"}}}' exit:5""",
     dict(env="TORCHELASTIC_ERROR_FILE=@/parent.json")),
    ("""train.py 'error:{"message": "told: m", "timestamp": "7"}' exit:5""",
     dict(env="TORCHELASTIC_ERROR_FILE=@/parent.json")),
    (TWO + "--max_restarts 2 train.py say:on rank:0:below:2:hang below:2:ready:1 below:2:exit:3", {}),
    (TWO + "--max_restarts 1 -t 1 --log_dir @/logs train.py rank:0:hang ready:1 record:boom",
     dict(streams=True)),
] + [("train.py hang", dict(stop=s)) for s in ("SIGTERM", "SIGINT", "SIGHUP")] + [
    ("train.py hang", dict(stop="SIGQUIT", env="DTRUN_LOOK_ON_SIGNAL=none")), # without it, the first one shows a look
    (TWO + "--max_restarts 3 train.py hang", dict(stop="SIGTERM", hanging=2)),
    ("--no_python sh -c 'python3 train.py hang; exit 5'", dict(since=(2, 0), stop="SIGINT")),
    # What stands around it.
    ("nice -n 5 taskset -c 0 {run} train.py", {}),
    ("sh -c 'ulimit -n 512; ulimit -c 0; umask 027; exec {run} train.py say:x'", {}),
    ("sh -c 'cd pkg && env -u HOME {run} --log_dir=../logs train.py exit:3 || echo told: $?'",
     dict(since=(2, 0))),
    ("sh -c 'echo told: a line | {run} --no_python cat'", {}),
    ("sh -c '{run} train.py say:x err:y <&- | cat'", {}),
    ("unshare --pid --fork {run} train.py exit:3", {}),
    ("setsid --wait {run} train.py exit:0", {}),
    ("nohup {run} train.py", dict(differs={"workers": "what is to be ignored stays ignored"})),
    ("srun -N 2 bash -c '{run} --nnodes $SLURM_NNODES --node_rank $SLURM_NODEID --rdzv_id 77 "
     "--master_addr localhost --master_port {port} --nproc_per_node 2 -m pkg.train "
     "say:$SLURM_PROCID'", {}),
    ("{launch} --nproc_per_node 2 train.py say:x", dict(since=(2, 0))),
    ("{launch} --use_env --nproc_per_node 2 -m pkg.train say:x", {}),
]

NODE = "--nnodes 2 --node_rank %d --master_addr 127.0.0.1 --master_port {port} "
PAIRS = [
    ("--nproc_per_node 1 train.py say:a", "--nproc_per_node 3 --role other train.py say:b", {}),
    ("--nproc_per_node 2 --max_restarts 1 train.py below:1:exit:3",
     "--nproc_per_node 1 --max_restarts 1 train.py below:1:exit:3 say:b", {}),
    ("train.py exit:3", "-r 1 train.py raise:boom", dict(streams=True)),
]


def variables_of(text, port):
    """Those that are not compared here."""
    names = set(VARIABLES)
    if not port:
        # Any free one, as in newer torchruns; those before are told one, as 29500 may be taken.
        names.update(("MASTER_PORT", "PET_MASTER_PORT"))
    if is_alone(text):
        names.add("MASTER_ADDR")  # the store listens on loopback alone, and theirs on all addresses
        if VERSION < (2, 4):
            names.add("TORCHELASTIC_USE_AGENT_STORE")  # there the first worker serves it
    return names


def is_alone(text):
    """Whether older torchruns, too, take any free port."""
    return any(word in text.lower() for word in ("c10d", "standalone"))


def only_compared(workers, hidden, names_job):
    for worker in workers.values():
        if VERSION < (2, 0):
            del worker["leads a session"]  # in those days Ctrl-C reached the workers too
        environment = worker["environment"]
        for name in hidden:
            environment.pop(name, None)
        if not names_job and environment["TORCHELASTIC_RUN_ID"] == "none":
            environment["TORCHELASTIC_RUN_ID"] = "JOB"
    return workers


def differences(theirs, ours, where=""):
    """What is not the same, a line each."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted(set(theirs) | set(ours)):
            for d in differences(theirs.get(key), ours.get(key), where + "/" + key):
                yield d
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for i, pair in enumerate(zip(theirs, ours)):
            for d in differences(*pair, where="%s/%d" % (where, i)):
                yield d
    elif theirs != ours:
        yield "%s:\n  torchrun %r\n  dtrun    %r" % (where, theirs, ours)


def compare(theirs, ours, differs):
    for name, seen in theirs.items():
        if name == "all of standard error":
            continue
        found = list(differences(seen, ours[name], name))
        if name in differs:
            if not found:
                raise AssertionError("%s: no difference is left; drop the reason" % name)
        elif found:
            raise AssertionError("\n".join(found + ["dtrun said:"] + ours["all of standard error"]))


def fill(text, words, launch):
    """The line as it is for one launcher. Those that do not say where it stands begin with it."""
    if "{run}" not in text and "{launch}" not in text:
        text = "{run} " + text
    if NO_STREAMS:  # so that no member is asked for that is missing
        for word in "{run}", "{launch}":
            text = text.replace(word, word + " -r 2 -t 2 --monitor_interval 0.1")
    return text.replace("{run}", shlex.join(words)).replace("{launch}", shlex.join(launch))


def check_version(row):
    if VERSION < row.get("since", (0, 0)):
        raise tap.Skip("PyTorch %d.%d does not do that" % VERSION)
    if NO_STREAMS and row.get("streams"):
        raise tap.Skip("PyTorch %s cannot, with this Python" % torch.__version__)


def see(lines, row):
    """What came of LINES, which run at once."""
    text = " ".join(lines + [row.get("env", "")])
    env = shlex.split(row.get("env", ""))
    port = servers.free_port() if "{port}" in text else None
    names_job = any(n in text.lower() for n in ("rdzv_id", "{port}", "c10d"))
    if not port and not is_alone(text) and "torch.distributed" in text:
        env.append("PET_MASTER_PORT=%d" % servers.free_port())

    def fill_port(words):
        return [w.replace("{port}", str(port)) for w in words]

    with tempfile.TemporaryDirectory() as path:
        seen = line.see(path, [fill_port(shlex.split(t)) for t in lines], fill_port(env), port,
                        names_job, row.get("stop"), row.get("hanging", 1))
    only_compared(seen["workers"], variables_of(text, port), names_job)
    return seen


def check_row(ours, text, row):
    check_version(row)
    theirs = see([fill(text, *TORCHRUN)], row)
    compare(theirs, see([fill(text, *ours)], row), row.get("differs", {}))


def check_pair(ours, texts, row):
    """Both nodes by torchrun, and then every other way."""
    check_version(row)

    def see_mix(mix):
        return see([fill(NODE % i + text, *mix[i]) for i, text in enumerate(texts)], row)

    theirs = see_mix((TORCHRUN, TORCHRUN))
    for mix in (TORCHRUN, ours), (ours, TORCHRUN), (ours, ours):
        try:
            compare(theirs, see_mix(mix), row.get("differs", {}))
        except AssertionError as e:
            names = ("torchrun" if w is TORCHRUN else "dtrun" for w in mix)
            raise AssertionError("%s: %s" % (" and ".join(names), e))


def link(program, folder):
    """PROGRAM by a path in FOLDER, as the words of a command."""
    path = os.path.join(folder, os.path.basename(program))
    os.symlink(os.path.abspath(program), path)
    return [path]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtrun", required=True, metavar="PROGRAM")
    parser.add_argument("--launch", required=True, metavar="PROGRAM")
    parser.add_argument("word", nargs="*")
    args = parser.parse_args()
    # By names without a blank, as some lines have them in quotes.
    links = tempfile.TemporaryDirectory()
    ours = [link(program, links.name) for program in (args.dtrun, args.launch)]
    tap.start(900)
    tap.comment("PyTorch %s" % torch.__version__)

    # A line takes PyTorch seconds to load, and has folders and ports of its own.
    pool = concurrent.futures.ThreadPoolExecutor(min(4, os.cpu_count()))
    cases = []

    def case(name, check, *about):
        if not args.word or any(w in name for w in args.word):
            cases.append((name.replace("#", ""), pool.submit(check, ours, *about)))

    for text, row in ROWS:
        about = [row[k] for k in ("env", "stop") if k in row]
        case("; ".join([text] + about + sorted(set(row.get("differs", {}).values()))),
             check_row, text, row)
    for first, second, row in PAIRS:
        case("two nodes: %s | %s" % (first, second), check_pair, (first, second), row)
    for name, future in cases:
        tap.case(name, future.result)
    tap.done()


if __name__ == "__main__":
    main()
