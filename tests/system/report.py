# SPDX-License-Identifier: Apache-2.0
#
# Pages about runs, made of what real runs left: one that was killed, one that reports nothing, one with hostile names.

import glob
import json
import os
import signal
import subprocess

import page
import tap
import training

MANY = 100000  # steps, of which few are made


def report(s, folder, *options):
    path = s.path("report.html")
    subprocess.run([s.tools.ctl, "report", folder, "-o", path, *options], check=True)
    made = page.Page(path)
    made.check()
    return made


def lines_of(pattern):
    """Of the one file of that name; the last may be half of one."""
    lines = []
    for path in glob.glob(pattern):
        with open(path, encoding="utf-8") as f:
            lines = [json.loads(line) for line in f if line.endswith("\n")]
    return lines


def run_and_kill(s, **train):
    """Two ranks, of which one is killed once some steps are made: the folder of their logs."""
    logs, c = s.path("logs"), s.config(steps=MANY, stage=1)
    with open(c, encoding="utf-8") as f:
        whole = json.load(f)
    del whole["train"]["metrics"]  # so that they lie beside the logs
    whole["train"].update(save_dir=s.path("saved"), save_every=20, **train)
    with open(c, "w", encoding="utf-8") as f:
        json.dump(whole, f)
    program = s.start(c, world=2, dtrun=["--log-dir", logs, "--max-restarts", "1"])
    metrics = logs + "/*/metrics.jsonl"
    training.wait_for(lambda: len(lines_of(metrics)) >= 7, "seven steps")
    tap.check_equal(report(s, logs).rows("rounds")[0]["End"], "it has not ended", "the end of a round that runs")
    os.kill(s.workers(program)[1], signal.SIGKILL)
    training.wait_for(lambda: [x for x in lines_of(metrics) if x["round"] == 1], "a step of the next round")
    program.kill(signal.SIGTERM)
    program.end()
    return logs


def check_rounds(made, last_step):
    rounds = made.rows("rounds")
    tap.check_equal([r["Round"] for r in rounds], ["0", "1"], "rounds")
    tap.check_equal("SIGKILL" in rounds[0]["End"] and "restart 1 of 1" in rounds[0]["End"], True, rounds[0]["End"])
    tap.check_equal(rounds[1]["End"], "a signal ended the job", "the end of the last round")
    tap.check_equal(rounds[1]["Steps"].split()[2], str(last_step), "the last step")


def tiles_of(made):
    return {made.words(d.find("dt")): made.words(d.find("dd")) for d in made.all("div") if d.find("dt") is not None}


@training.story
def killed(s):
    """a run that lost a rank is a page with both rounds, the steps done again, and where the time went"""
    logs = run_and_kill(s, vault="off")
    made, metrics = report(s, logs), logs + "/*/metrics.jsonl"
    done, redone = lines_of(metrics), lines_of(metrics + ".redone")
    steps = "%d step%s" % (len(redone), "" if len(redone) == 1 else "s")
    check_rounds(made, done[-1]["step"])
    tap.check_equal(made.rows("rounds")[0]["Cost"].split(",")[0], steps, "what the first round cost")
    tap.check_equal(tiles_of(made)["Steps"], "%d of %d" % (done[-1]["step"], MANY), "the tile of steps")
    tap.check_equal(tiles_of(made)["Steps done again"].split()[0], str(len(redone)), "the tile of steps done again")
    shares = [float(made.words(e).split()[-2]) for e in made.all("li") if made.words(e).endswith("%")]
    tap.check_equal(abs(sum(shares) - 100) < 1, True, "shares of the time: %r" % shares)
    tap.check_equal([e.get("id") for e in made.all("figure")],
                    ["rounds-chart", "steps", "loss", "norm", "rate", "tokens", "split"], "charts")
    tap.check_equal(len(made.all("path", "redone")), 5, "lines of what was done again")
    tap.check_equal([r["Step"] for r in made.rows("saves")][-1], str(done[-1]["step"]), "the last checkpoint")


@training.story
def kept(s):
    """one that is back from its vault has done no step twice, and its page says so"""
    logs = run_and_kill(s, vault="local", vault_every=1)
    made = report(s, logs)
    check_rounds(made, lines_of(logs + "/*/metrics.jsonl")[-1]["step"])
    tap.check_equal("No step was done twice." in made.words(), True, "what is said first")
    tap.check_equal(made.rows("rounds")[0]["Cost"].endswith("to the next step"), True, made.rows("rounds")[0]["Cost"])
    tap.check_equal(made.rows("rounds")[1]["Steps"].endswith("rank 0 from its own memory, rank 1 from its own vault"), True, made.rows("rounds")[1]["Steps"])
    tap.check_equal(made.all("path", "redone"), [], "lines of what was done again")
    tap.check_equal(any("copies into the vault" in made.words(e) for e in made.all("li")), True, "what the vault cost")


@training.story
def silent(s):
    """a program that reports no steps has its rounds, why they ended, and their times"""
    logs = s.path("logs")
    s.start_words([s.tools.dtrun, "--log-dir", logs, "--max-restarts", "1", "--nproc-per-node", "2", "--no-python", "sh", "-c",
                   '[ "$DTRUN_ROUND" = 1 ] || { [ "$RANK" = 0 ] && exit 7; exec sleep 1000; }']).end()
    made = report(s, logs)
    rounds = made.rows("rounds")
    tap.check_equal([r["Ranks"] for r in rounds], ["2", "2"], "ranks")
    tap.check_equal("exit code 7" in rounds[0]["End"] and "restart 1 of 1" in rounds[0]["End"], True, rounds[0]["End"])
    tap.check_equal(rounds[0]["Cost"].endswith("to the next round"), True, rounds[0]["Cost"])
    tap.check_equal([e.get("id") for e in made.all("figure")], ["rounds-chart"], "charts")
    tap.check_equal(made.all("script"), [], "scripts")
    with open("/dev/full", "w", encoding="utf-8") as full:
        ended = subprocess.run([s.tools.ctl, "report", logs], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    tap.check_equal((ended.returncode, "standard output" in ended.stderr), (1, True), "a page that finds no room")


@training.story
def hostile(s):
    """what a run is called, and what its workers say, is text on the page whatever it is"""
    logs, name, said = s.path("logs"), "\"><img src=x onerror=alert(1)>&'", "</td><script>alert(2)</script>\u202e & \x1b[2J"
    script = s.path("boom.py")
    with open(script, "w", encoding="utf-8") as f:
        f.write("raise RuntimeError(%r)\n" % said)
    s.start_words([s.tools.dtrun, "--log-dir", logs, "--rdzv-id", name, "--nnodes", "1", script]).end()
    [folder] = glob.glob(logs + "/*")
    with open(folder + "/metrics.jsonl", "w", encoding="utf-8") as f:
        f.write('{"step":1,"time":"2026-11-23T02:53:10Z","loss":NaN}\n{"step":2,"time":"2099-01-01T00:00:00Z","loss":1e999}\n'
                '{"step":3,"time":"2099-01-01T00:00:09Z","loss":3}\n\0\0\n{"step":4')
    with open(folder + "/train.json", "w", encoding="utf-8") as f:
        json.dump({"model": "<b>&", "device": "</title><script>", "metrics": "/dev/zero", "save_dir": "/proc/self/fd"}, f)
    tap.check_equal("/dev/zero is no ordinary file" in report(s, logs).words(), True, "what is told of metrics that are none")
    made = report(s, logs, "--metrics", folder + "/metrics.jsonl")
    tap.check_equal(name.replace("/", "_") in made.words(made.all("h1")[0]), True, "its name")
    tap.check_equal("</td><script>alert(2)</script>" in made.rows("rounds")[0]["End"], True, made.rows("rounds")[0]["End"])
    tap.check_equal("<b>&" in made.words(), True, "its model")
    tap.check_equal("3 lines of the metrics made no sense" in made.words(), True, made.words(made.all("footer")[0]))
    tap.check_equal(sorted(set(e.get("type") or "" for e in made.all("script"))), ["", "application/json"], "scripts")
    tap.check_equal("alert(" in "".join(made.words(e) for e in made.all("script")), False, "scripts of others")


training.main()
