# SPDX-License-Identifier: Apache-2.0
#
# dtrun --hosts: jobs on several hosts from one terminal, by real ssh, and by something that stands in for srun. Hosts are network
# namespaces. A story is over when nothing of its job is left on any host.

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

import ssh_hosts
import tap

# It says what it was told, and does what DT_DO says.
WORKER = """
import json, os, signal, sys, time
told = {"rank": int(os.environ["RANK"]), "size": int(os.environ["WORLD_SIZE"]), "args": sys.argv[1:],
        "env": os.environ.get("DT_HELLO"), "cwd": os.getcwd()}
print("told", json.dumps(told))
do = os.environ.get("DT_DO", "end")
if do == "stay" or do == "ignore":
    if do == "ignore":
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("ready", flush=True)
    while True:
        signal.pause()
elif do.startswith("until:"):
    print("ready", flush=True)
    while not os.path.exists(do[6:]):
        time.sleep(0.02)
elif do.startswith("exit:") and told["rank"] == 1:
    sys.exit(int(do[5:]))
elif do == "print":
    for i in range(2000):  # Python writes each word by itself, as dtrun runs it without buffers
        print("line", i, "of rank", told["rank"], "x" * (i % 200))
    sys.stdout.write("without an end")
"""

# srun's way to a host, without a Slurm: its options, and then the program, with its input.
FAKE_SRUN = """#!/bin/sh
for word; do
    case $word in
        --nodelist=*) host=${word#--nodelist=}; shift ;;
        --*) shift ;;
        *) break ;;
    esac
done
echo "srun: step on $host" >&2
exec "$@"
"""

# A dtrun of another version, as far as it gets.
OTHER_DTRUN = """#!/bin/sh
echo "dtrun-fleet-agent 1 9.9.9 1"
exec cat >/dev/null
"""

# dtrun on a host that cannot begin its part of a job, once it was told what that is.
UNABLE_DTRUN = """#!/bin/sh
[ "$(hostname)" = node1 ] || exec '%s' "$@"
echo "dtrun-fleet-agent 1 %s 1"
head -c 4 >/dev/null
exit 9
"""

# dtrun on a host where it takes long to save what workers of a failed job had in memory: longer than a Ctrl-C would wait for.
SAVING_DTRUN = """#!/bin/sh
status=0
'%s' "$@" || status=$?
[ $status = 37 ] || sleep 18
exit $status
"""

HOSTILE = ["a'b \"c\" $d;e", "", "two\nlines", "$(touch gone)", "--hosts", "*", "\\", "~", "!!", "é"]


class Fleet:
    """A story's hosts, and a terminal to start jobs from."""

    def __init__(self, hosts, tools):
        self.hosts = hosts
        self.dtrun = os.path.abspath(tools.dtrun)
        self.folder = hosts.folder
        self.script = os.path.join(hosts.folder, "worker.py")
        ssh_hosts.write(self.script, WORKER)

    def run(self, *options, word=(), do="end", args=(), names=None, env=None):
        names = self.hosts.names if names is None else names
        return self.hosts.terminal.run(
            "sh", "-c", 'cd "$0" && exec "$@"', self.folder, self.dtrun, *word,
            *(["--hosts", ",".join(names)] if names else []),
            "--export", "DT_DO=" + do, *options, self.script, *args,
            env=dict(dict(self.hosts.env, PYTHON_EXEC=sys.executable, DTRUN_LOG_LEVEL="info"), **(env or {})))

    def told(self, job):
        """What the workers of a job say, by rank; their hosts too."""
        told = {}
        size = 1
        while len(told) < size:
            m = job.expect(r"^\[(\S+)\] told (.*)$")
            one = json.loads(m.group(2))
            size = one["size"]
            told[one["rank"]] = dict(one, host=m.group(1))
        return [told[rank] for rank in sorted(told)]


def runs_everywhere(f):
    """a job runs on three hosts from one terminal, with arguments that no shell may touch"""
    job = f.run("--export", "DT_HELLO", args=HOSTILE, env={"DT_HELLO": "a b=c"},
                names=[f.hosts.names[0], "root@" + f.hosts.names[1], f.hosts.names[2] + ":2"])
    told = f.told(job)
    tap.check_equal(job.end(), 0, "status")
    tap.check_equal([t["host"] for t in told], f.hosts.names + [f.hosts.names[2]], "hosts of the ranks")
    for t in told:
        tap.check_equal(t["args"], HOSTILE, "arguments")
        tap.check_equal(t["env"], "a b=c", "an exported variable")
        tap.check_equal(t["cwd"], os.path.realpath(f.folder), "working directory")
    tap.check_equal(os.path.exists(os.path.join(f.folder, "gone")), False, "what an argument would have made a shell do")


def quoted(f):
    """dtrun may lie where a shell would find several words, or something to replace"""
    folder = os.path.join(f.folder, 'my $HOME; "tools"')
    os.mkdir(folder)
    os.symlink(f.dtrun, os.path.join(folder, "dtrun"))
    job = f.run("--remote-dtrun", os.path.join(folder, "dtrun"))
    tap.check_equal([t["host"] for t in f.told(job)], f.hosts.names, "hosts of the ranks")
    tap.check_equal(job.end(), 0, "status")


def lines_stay_whole(f):
    """what all hosts print at once comes in whole lines, and none is missing"""
    hostfile = os.path.join(f.folder, "hosts")
    ssh_hosts.write(hostfile, "# three\n" + "".join("%s slots=2\n" % name for name in f.hosts.names))
    job = f.run("--hostfile", hostfile, names=[], do="print")
    tap.check_equal(job.end(), 0, "status")
    found = [re.match(r"\[(\S+)\] (?:line (\d+) of rank (\d) (x*)|without an end)$", line) for line in job.lines
             if "line " in line or "end" in line]
    lines = [m for m in found if m and m.group(2)]
    tap.check_equal(len(lines), 12000, "whole lines")
    for rank in range(6):
        name = f.hosts.names[rank // 2]
        numbers = [int(m.group(2)) for m in lines if m.group(3) == str(rank) and m.group(1) == name
                   and len(m.group(4)) == int(m.group(2)) % 200]
        tap.check_equal(numbers, list(range(2000)), "lines of rank %d, in order" % rank)
        tap.check_equal(job.says(r"^\[%s\] without an end$" % re.escape(name)), True, "the end of what rank %d said" % rank)


def statuses(f):
    """the job ends with the status of the failure that came first, and says on which host"""
    job = f.run("--exit-code=root-cause", do="exit:37")
    tap.check_equal(job.end(), 37, "status by root cause")
    job.expect(r"the job failed on %s, with exit status 37$" % re.escape(f.hosts.names[1]))
    tap.check_equal(f.run(do="exit:37").end(), 1, "status as torchrun's")
    job = f.run("--exit-code=root-cause", do="exit:-1")
    tap.check_equal(job.end(), 255, "a status that is also that of an ssh without its connection")
    tap.check_equal(job.says("is lost"), False, "what is said of the connection")
    tap.check_equal(job.says("\x04"), False, "the end of an agent is shown")


def unable(f):
    """when a host ends before there was a round, the others are told that the job is lost, and wait for nobody"""
    path = os.path.join(f.folder, "unable-dtrun")
    version = subprocess.run([f.dtrun, "--version"], stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout.split()[1]
    ssh_hosts.write(path, UNABLE_DTRUN % (f.dtrun, version), 0o755)
    job = f.run("--remote-dtrun", path, "--exit-code=root-cause")
    job.expect(r"%s has ended with status 9; ending the other hosts" % re.escape(f.hosts.names[1]))
    for _ in range(2):
        job.expect(r"the job failed: too few of its hosts are left")
    tap.check_equal(job.end(), 9, "status")
    tap.check_equal(job.says("death signal"), False, "that somebody had to be told to end")


def saved(f):
    """hosts of a job that has failed are not left while they save what its workers had in memory"""
    saving = os.path.join(f.folder, "saving-dtrun")
    ssh_hosts.write(saving, SAVING_DTRUN % f.dtrun, 0o755)
    job = f.run("--remote-dtrun", saving, "--exit-code=root-cause", "--shutdown-timeout=1", do="exit:37")
    job.expect(r"%s has ended with status 37; ending the other hosts" % re.escape(f.hosts.names[1]))
    tap.check_equal(job.end(), 37, "status")
    tap.check_equal(job.says("does not end; leaving it"), False, "a host is left")


def interrupted(f):
    """Ctrl-C ends all hosts, and a second one those that do not want to"""
    job = f.run(do="stay")
    for _ in f.hosts.names:
        job.expect(r"\] ready$")
    job.kill(signal.SIGINT)
    tap.check_equal(job.end(), 1, "status")
    f.hosts.wait_until_empty()
    job = f.run("--exit-code=root-cause", "--shutdown-timeout=1000", do="ignore")
    for _ in f.hosts.names:
        job.expect(r"\] ready$")
    job.kill(signal.SIGINT)
    for _ in f.hosts.names:
        job.expect("Ctrl-C again kills them")
    job.kill(signal.SIGINT)
    tap.check_equal(job.end(), 130, "status by root cause")


def killed(f):
    """when the dtrun at the terminal is killed, nothing is left on any host"""
    job = f.run(do="stay")
    for _ in f.hosts.names:
        job.expect(r"\] ready$")
    job.kill(signal.SIGKILL)
    f.hosts.wait_until_empty()


def refused(f):
    """a host that cannot be had ends the start with one sentence that names it"""
    good, bad = f.hosts.names[0], f.hosts.names[1]
    other = os.path.join(f.folder, "other-dtrun")
    ssh_hosts.write(other, OTHER_DTRUN, 0o755)
    rows = [
        ([good, "10.99.0.77"], [], r"10\.99\.0\.77: cannot be reached: ssh: connect to host"),
        ([good, "nobody@" + bad], [], r"nobody@%s: no login without a password: .*Permission denied" % re.escape(bad)),
        ([good, bad], ["--remote-dtrun", "/nonexistent/dtrun"],
         r"10\.99\.0\.\d: `/nonexistent/dtrun` was not found there; .* --remote-dtrun \(here it is %s\)" % re.escape(f.dtrun)),
        ([good, bad], ["--remote-dtrun", other], r"10\.99\.0\.\d: has dtrun 9\.9\.9, and this is "),
        ([good, bad], ["--launch-agent", "ssh -oBatchMode=yes -oUserKnownHostsFile=/dev/null {host}"],
         r"10\.99\.0\.\d: ssh does not know, or does not believe, the host's key"),
        ([good, bad], ["--launch-agent", "/nonexistent/way {host}", "--remote-dtrun", "dtrun"],
         r"/nonexistent/way cannot be executed here: no such file"),
    ]
    for names, options, words in rows:
        job = f.run(*options, names=names)
        tap.check_equal(job.end(), 1, "status of " + words)
        job.expect(words)
        tap.check_equal(sum(" dtrun error: " in line for line in job.lines), 1, "errors in\n" + "\n".join(job.lines))
        f.hosts.wait_until_empty()


def cut_off(f):
    """when a host loses its network the others end, and so does that one"""
    job = f.run("--launch-agent", "ssh -oBatchMode=yes -oServerAliveInterval=1 -oServerAliveCountMax=2 {host}", do="stay")
    for _ in f.hosts.names:
        job.expect(r"\] ready$")
    f.hosts.hosts[1].cut()
    job.expect(r"%s: the connection to dtrun there is lost" % re.escape(f.hosts.names[1]))
    tap.check_equal(job.end(), 1, "status")
    f.hosts.wait_until_empty([f.hosts.hosts[0], f.hosts.hosts[2]])
    f.hosts.hosts[1].heal()


def goes_on(f):
    """a job that may have fewer nodes goes on without a host that is lost, and ends well"""
    control = os.path.join(f.folder, "go")
    job = f.run("--nnodes=2:3", "--rdzv-conf=keep_alive_interval=1,last_call_timeout=60", "--launch-agent",
                "ssh -oBatchMode=yes -oServerAliveInterval=1 -oServerAliveCountMax=2 {host}", do="until:" + control)
    for _ in f.hosts.names:
        job.expect(r"\] ready$")
    f.hosts.hosts[2].cut()
    for _ in range(2):
        job.expect(r"told .*\"size\": 2")
    ssh_hosts.write(control, "")
    tap.check_equal(job.end(), 0, "status")
    tap.check_equal(job.says(r"%s: the connection to dtrun there is lost" % re.escape(f.hosts.names[2])), True, "who was lost")
    f.hosts.hosts[2].heal()


def end_of_doctor(f, job):
    """Its status is that of the worst remark. A host that is busy with other tests may be too slow for a probe, which then is
    one that failed; hosts that are not are alike."""
    status = job.end()
    worst = 1 if job.says(r"\] FAIL ") else 3 if job.says(r"\] warn ") else 0
    said = "\n".join(job.lines)
    tap.check_equal(status, worst, "status by what was found:\n%s\n" % said)
    for name in f.hosts.names:
        at = r"^\[%s\] " % re.escape(name)
        tap.check_equal(job.says(at + r"\w+ +host +"), True, "what %s is, in\n%s\n" % (name, said))
        compared = r"\w+ +nodes +" if status == 1 else "ok +nodes +3 nodes, alike in all"
        tap.check_equal(job.says(at + compared), True, "what %s compared, in\n%s\n" % (name, said))
    tap.check_equal(job.says("did not meet|could not compare"), False, "that the nodes did not meet:\n%s\n" % said)


def with_a_token(f):
    """a token goes to the hosts and stands in no list of processes"""
    path = os.path.join(f.folder, "token")
    ssh_hosts.write(path, "open-sesame-and-more\n")
    job = f.run("--token-file", path, do="stay")
    for _ in f.hosts.names:
        job.expect(r"\] ready$")
    for host in f.hosts.hosts + [f.hosts.terminal]:
        for pid in f.hosts.processes(host):
            tap.check_equal("sesame" in ssh_hosts.command_line(pid), False, ssh_hosts.command_line(pid))
    job.kill(signal.SIGTERM)
    tap.check_equal(job.end(), 1, "status")
    end_of_doctor(f, f.run("--token-file", path, word=("doctor",)))


def doctor(f):
    """dtrun doctor looks at all hosts, lets each say all, and exits with the status of the worst"""
    for good in True, False:
        options = [] if good else ["--check-file", "/nonexistent/file"]
        job = f.run(*options, word=("doctor",))
        end_of_doctor(f, job)
        for name in f.hosts.names:
            at = r"^\[%s\] " % re.escape(name)
            tap.check_equal(job.says(at + "FAIL files +/nonexistent/file cannot be read"), not good, "the file at %s" % name)
        tap.check_equal(job.says("the job failed|ending the other hosts"), False, "it is no job")
        f.hosts.wait_until_empty()
    job = f.run(word=("doctor",), names=[f.hosts.names[0], "10.99.0.77"])
    tap.check_equal(job.end(), 1, "status where a host cannot be reached")
    job.expect(r"10\.99\.0\.77: cannot be reached")


def by_srun(f):
    """srun starts the agents, too"""
    ssh_hosts.write(os.path.join(f.folder, "bin", "srun"), FAKE_SRUN, 0o755)
    job = f.run("--launch-agent", "srun", names=["127.0.0.1", "127.0.0.2"])
    tap.check_equal([t["host"] for t in f.told(job)], ["127.0.0.1", "127.0.0.2"], "hosts of the ranks")
    tap.check_equal(job.end(), 0, "status")


STORIES = [runs_everywhere, quoted, lines_stay_whole, statuses, unable, saved, interrupted, killed, refused, cut_off, goes_on, doctor, by_srun]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtrun", required=True)
    parser.add_argument("--rendezvous", help="not used here")
    parser.add_argument("--ctl", help="not used here")
    parser.add_argument("--tokens", action="store_true", help="dtrun was built with libsodium")
    parser.add_argument("stories", nargs="*")
    tools = parser.parse_args()
    why = ssh_hosts.why_not()
    if why:
        tap.skip_all(why)
    tap.start()
    stories = STORIES + ([with_a_token] if tools.tokens else [])
    for story in stories:
        if tools.stories and story.__name__ not in tools.stories:
            continue

        def run(story=story):
            with tempfile.TemporaryDirectory(prefix="dt-fleet-") as folder, ssh_hosts.SshHosts(folder, 3) as hosts:
                story(Fleet(hosts, tools))
                hosts.wait_until_empty()

        tap.case(story.__doc__, run)
    tap.done()


if __name__ == "__main__":
    main()
