# SPDX-License-Identifier: Apache-2.0
#
# examples.py --dtrun PROGRAM --rendezvous PROGRAM: the manifests and job files of examples/ say what the programs understand:
# containers are started with their command lines, probes are asked, and job files run under a batch system of ten lines. Speaks TAP.

import argparse
import glob
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.request

import yaml

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests/system"))
import tap  # noqa: E402

SRUN = """#!/bin/sh
# Its own options end at the first word that is none.
while case $1 in -*) true ;; *) false ;; esac do shift; done
node=0
while [ $node -lt "$SLURM_NNODES" ]; do
    SLURM_NODEID=$node SLURM_PROCID=$node "$@" & pids="$pids $!"
    node=$((node + 1))
done
status=0
for pid in $pids; do wait "$pid" || status=$?; done
exit $status
"""
SCONTROL = "#!/bin/sh\necho 127.0.0.1\n"
WORKER = "#!/bin/sh\n: >\"$SEEN/$RANK-of-$WORLD_SIZE-$1\"\n"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def parts(name):
    with open(os.path.join(TOP, "examples/kubernetes", name)) as f:
        return list(yaml.safe_load_all(f))


def pods(what):
    """The descriptions of pods anywhere in WHAT."""
    if isinstance(what, list):
        return [pod for item in what for pod in pods(item)]
    if not isinstance(what, dict):
        return []
    own = [what] if "containers" in what.get("spec", {}) else []
    return own + [pod for value in what.values() for pod in pods(value)]


def check_pod(pod):
    """What Kubernetes takes and a person does not mean: names that name nothing."""
    spec = pod["spec"]
    volumes = {volume["name"] for volume in spec.get("volumes", [])}
    assert spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["runAsUser"] > 0
    for container in spec["containers"]:
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        tap.check_equal({mount["name"] for mount in container["volumeMounts"]} - volumes, set(), "volumes that are missing")
        tap.check_equal(volumes - {mount["name"] for mount in container["volumeMounts"]}, set(), "volumes that nobody uses")
        probes = [probe["httpGet"]["port"] for name, probe in container.items() if name.endswith("Probe")]
        assert probes
        tap.check_equal(set(probes) - set(ports), set(), "ports of probes that are missing")
        for port in ports.values():
            assert any(argument.endswith(("=%d" % port, ":%d" % port)) for argument in container["args"]), port


def check_line(container, program, folder):
    """The program understands its command line; files of the container are in FOLDER."""
    arguments = [a.replace("/etc/dtrun-token", folder).replace("/var/lib/dtrun", folder + "/state") for a in container["args"]]
    check = {"dtrun": "--print-config", "dtrun-rendezvous": "--check-config"}[container["command"][0]]
    # A machine without a GPU cannot say how many it has.
    arguments = [a.replace("=gpu", "=8") for a in arguments]
    job = subprocess.run([program, check] + arguments, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         universal_newlines=True)
    if job.returncode or "has no effect" in job.stdout:
        raise AssertionError(job.stdout)


def ask(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.status


class Daemon:
    """A dtrun-rendezvous that has said WORDS, by which it is there."""

    def __init__(self, words, *command):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True,
                                        preexec_fn=tap.die_with_parent)
        said = ""
        for line in self.process.stdout:
            said += line
            if words in line:
                return
        raise AssertionError(said)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate()


def check_probes(container, program, folder):
    """The daemon of the manifest, on ports of this host, answers its own probes."""
    ports = {port["name"]: (port["containerPort"], free_port()) for port in container["ports"]}
    arguments = [a.replace("/etc/dtrun-token", folder).replace("/var/lib/dtrun", folder + "/state") for a in container["args"]]
    for before, now in ports.values():
        arguments = [a.replace("*:%d" % before, "127.0.0.1:%d" % now) for a in arguments]
    with Daemon("HTTP at", program, *arguments):
        for name, probe in sorted(container.items()):
            if name.endswith("Probe"):
                get = probe["httpGet"]
                tap.check_equal(ask("http://127.0.0.1:%d%s" % (ports[get["port"]][1], get["path"])), 200, name)


def check_sbatch(name, nodes, ranks, folder, **more):
    """The job file under srun: one worker on each node, RANKS of them in the job."""
    seen = tempfile.mkdtemp(dir=folder)
    env = dict(os.environ, PATH=folder + "/bin:" + os.environ["PATH"], SLURM_NNODES=str(nodes), SLURM_JOB_NODELIST="n[1-%d]" % nodes,
               SLURM_JOB_ID="4711", NPROC_PER_NODE="1", SEEN=seen, **more)
    job = subprocess.run([os.path.join(TOP, "examples/slurm", name), "--no-python", folder + "/worker", "3e-4"], env=env, cwd=folder,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, universal_newlines=True,
                         preexec_fn=tap.die_with_parent)
    if job.returncode:
        raise AssertionError(job.stdout)
    tap.check_equal(sorted(os.listdir(seen)), ["%d-of-%d-3e-4" % (rank, ranks) for rank in range(ranks)], "ranks")


def write(path, text):
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, 0o755)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtrun", required=True, metavar="PROGRAM")
    parser.add_argument("--rendezvous", required=True, metavar="PROGRAM")
    given = parser.parse_args()
    programs = {"dtrun": os.path.abspath(given.dtrun), "dtrun-rendezvous": os.path.abspath(given.rendezvous)}
    tap.start()
    folder = tempfile.mkdtemp()
    os.mkdir(folder + "/bin")
    os.mkdir(folder + "/state", 0o700)
    os.symlink(programs["dtrun"], folder + "/bin/dtrun")
    write(folder + "/bin/srun", SRUN)
    write(folder + "/bin/scontrol", SCONTROL)
    write(folder + "/worker", WORKER)
    write(folder + "/train.py", "")
    for name in ("token", "http-token", "operator-token"):
        with open(os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
            f.write("%s-of-more-than-sixteen-bytes\n" % name)

    files = sorted(os.path.basename(path) for path in glob.glob(os.path.join(TOP, "examples/kubernetes/*.yaml")))
    for name in files:
        found = pods(parts(name))

        def manifest():
            tap.check_equal(len(found), 1, "kinds of pods")
            for container in found[0]["spec"]["containers"]:
                check_line(container, programs[container["command"][0]], folder)
            check_pod(found[0])

        tap.case("%s names what is there, and its command line is understood" % name, manifest)

    def services():
        service, job = parts("job.yaml")
        tap.check_equal(service["spec"]["selector"], {"job-name": job["metadata"]["name"]}, "whom the service names")
        spec = job["spec"]["template"]["spec"]
        tap.check_equal(spec["subdomain"], service["metadata"]["name"], "the names of pods")
        endpoint = "--rdzv-endpoint=%s-0.%s:29400" % (job["metadata"]["name"], service["metadata"]["name"])
        assert endpoint in spec["containers"][0]["args"], endpoint
        [secret] = [v["secret"] for v in pods(parts("jobset.yaml"))[0]["spec"]["volumes"] if "secret" in v]
        tap.check_equal([item["key"] for item in secret["items"]], ["token"], "secrets that a job reads")
        kinds = {part["kind"]: part for part in parts("rendezvous.yaml")}
        label = kinds["Deployment"]["spec"]["template"]["metadata"]["labels"]
        tap.check_equal(kinds["Service"]["spec"]["selector"], label, "whom the service names")
        allowed = kinds["NetworkPolicy"]["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"]
        tap.check_equal(pods(parts("jobset.yaml"))[0]["metadata"]["labels"], allowed, "who may reach the daemon")

    tap.case("services name the pods", services)
    daemon = pods(parts("rendezvous.yaml"))[0]["spec"]["containers"][0]
    tap.case("the daemon answers the probes of its manifest", lambda: check_probes(daemon, programs["dtrun-rendezvous"], folder))
    tap.case("static.sbatch runs a job on all nodes",
             lambda: check_sbatch("static.sbatch", 2, 2, folder, PET_MASTER_PORT=str(free_port())))

    def elastic():
        port = free_port()
        with Daemon("listening on", programs["dtrun-rendezvous"], "--listen", "127.0.0.1:%d" % port):
            check_sbatch("elastic.sbatch", 2, 1, folder, RENDEZVOUS="127.0.0.1:%d" % port)

    tap.case("elastic.sbatch keeps one node in reserve", elastic)
    shutil.rmtree(folder)
    tap.done()


main()
