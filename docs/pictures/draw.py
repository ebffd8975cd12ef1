#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of the README from measured figures: docs/pictures/start.svg from docs/benchmarks.md, and
docs/pictures/spare.svg from docs/pictures/spare.json, which record-spare writes.

    docs/pictures/draw.py            writes both
    docs/pictures/draw.py --check    fails when one differs from what it would write
"""
import html
import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
WIDTH = 800
STYLE = """
text { font: 15px system-ui, sans-serif; fill: #24292f }
.small { font-size: 13px; fill: #57606a }
.strong { font-weight: 600 }
.ours { fill: #0a7d55 } .theirs { fill: #8c959f } .lost { fill: #c0362c } .idle { fill: #d0d7de }
.line { stroke: #8c959f; stroke-width: 1 } .cut { stroke: #c0362c; stroke-width: 2; stroke-dasharray: 4 3 }
.on { fill: #ffffff; font-size: 13px }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .small { fill: #9198a1 }
  .ours { fill: #2ea97b } .theirs { fill: #6e7681 } .lost { fill: #f0665b } .idle { fill: #3d444d }
  .line { stroke: #6e7681 } .cut { stroke: #f0665b } .on { fill: #0d1117 }
}
"""


class Picture:
    def __init__(self, height, title, words):
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{html.escape(words)}">',
            f"<title>{html.escape(title)}</title>",
            f"<style>{STYLE}</style>",
        ]

    def text(self, x, y, words, kind="", anchor="start"):
        self.parts.append(f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{html.escape(words)}</text>')

    def bar(self, x, y, width, height, kind):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:g}" width="{max(width, 1.5):.1f}" height="{height:g}" rx="2" class="{kind}"/>')

    def line(self, x1, y1, x2, y2, kind="line"):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:g}" x2="{x2:.1f}" y2="{y2:g}" class="{kind}"/>')

    def whole(self):
        return "\n".join(self.parts + ["</svg>"]) + "\n"


def start_figures(text):
    """Milliseconds to start and end jobs of workers that do nothing: [(workers, torchrun's version, theirs, ours), ...]."""
    rows = re.findall(r"^a job of (\d+) workers that do nothing.*?^ +dtrun +([\d.]+).*?^ +(torchrun [\d.]+)\S* +([\d.]+)", text, re.M | re.S)
    if not rows:
        raise SystemExit("docs/benchmarks.md has no figures of jobs that do nothing")
    return [(int(workers), theirs, float(their_ms), float(our_ms)) for workers, our_ms, theirs, their_ms in rows]


def said(ms):
    return f"{ms / 1000:.1f} s" if ms >= 1000 else f"{ms:.0f} ms"


def draw_start(figures):
    slowest = max(row[2] for row in figures)
    left, widest = 120, 560
    title = "Time to start and end a job of workers that do nothing"
    picture = Picture(50 + 90 * len(figures), title,
                      "; ".join(f"{n} workers: {theirs} {said(slow)}, dtrun {said(fast)}" for n, theirs, slow, fast in figures))
    picture.text(10, 26, title, "strong")
    for i, (workers, theirs, slow, fast) in enumerate(figures):
        y = 50 + 90 * i
        picture.text(10, y + 34, f"{workers} workers")
        for row, (name, ms, kind) in enumerate([(theirs, slow, "theirs"), ("dtrun", fast, "ours")]):
            width = widest * ms / slowest
            picture.bar(left, y + 34 * row, width, 24, kind)
            if width > 200:
                picture.text(left + 10, y + 34 * row + 17, name, "on")
                picture.text(left + width + 10, y + 34 * row + 17, said(ms), "")
            else:
                picture.text(left + width + 10, y + 34 * row + 17, f"{name}  {said(ms)}", "strong")
    return picture.whole()


def draw_spare(run):
    """A lane for each node: when it trained, when it waited, and when it was killed."""
    left, right, top, lane = 110, 780, 96, 44
    length = run["seconds"]
    x = lambda s: left + (right - left) * s / length
    kill, back = run["killed_at"], run["next_step_at"]
    title = f"A node is killed with -9; {back - kill:.2f} s later the spare has finished the next step"
    picture = Picture(top + lane * 3 + 66, title, f"{title}: step {run['last_step']} is followed by step {run['last_step'] + 1}")
    picture.text(10, 26, title, "strong")
    picture.text(10, 48, f"The last step before is {run['last_step']}, the first one after is {run['last_step'] + 1}: none is done twice.", "small")
    lanes = [
        ("node a", [(0, kill, "ours", "rank 0 trains"), (kill, back, "idle", ""), (back, length, "ours", "rank 0 trains on")]),
        ("node b", [(0, kill, "ours", "rank 1 trains")]),
        ("node c", [(0, kill, "idle", ""), (kill, back, "idle", ""), (back, length, "ours", "rank 1 trains on")]),
    ]
    for i, (name, spans) in enumerate(lanes):
        y = top + lane * i
        picture.text(10, y + 20, name)
        for begin, end, kind, words in spans:
            picture.bar(x(begin), y, x(end) - x(begin) - 2, 28, kind)
            picture.text(x(begin) + 8, y + 19, words, "on" if kind == "ours" else "small")
    picture.text(x(0) + 8, top + lane * 2 + 19, "stands by as a spare", "small")
    picture.line(x(kill), top - 14, x(kill), top + lane * 3, "cut")
    picture.text(x(kill), top - 20, "kill -9", "small", "middle")
    picture.line(x(back), top - 14, x(back), top + lane * 3)
    picture.text(x(back), top - 20, f"step {run['last_step'] + 1}", "small", "middle")
    y = top + lane * 3 + 14
    picture.line(left, y, right, y)
    for tick in range(int(length) + 1):
        picture.line(x(tick), y, x(tick), y + 6)
        picture.text(x(tick), y + 24, f"{tick} s", "small", "middle")
    picture.text(10, y + 46, run["where"], "small")
    return picture.whole()


def main():
    with open(os.path.join(HERE, "..", "benchmarks.md"), encoding="utf-8") as f:
        wanted = {"start.svg": draw_start(start_figures(f.read()))}
    with open(os.path.join(HERE, "spare.json"), encoding="utf-8") as f:
        wanted["spare.svg"] = draw_spare(json.load(f))
    stale = 0
    for name, drawn in wanted.items():
        path = os.path.join(HERE, name)
        if sys.argv[1:] == ["--check"]:
            there = open(path, encoding="utf-8").read() if os.path.exists(path) else ""
            if there != drawn:
                stale = 1
                print(f"docs/pictures/{name} is not what its figures say: run docs/pictures/draw.py", file=sys.stderr)
        else:
            with open(path, "w", encoding="utf-8") as f:
                f.write(drawn)
    return stale


sys.exit(main())
