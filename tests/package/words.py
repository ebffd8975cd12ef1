# SPDX-License-Identifier: Apache-2.0
#
# words.py TOP: each message that docs/troubleshooting.md quotes is one of the programs, and all packages have one version. Speaks TAP.

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../system"))
import tap  # noqa: E402

SOURCES = ("agent", "base", "ctl", "launcher", "preflight", "rendezvous", "worker_runtime", "packaging/wheel/dtrun")
TEXT = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
# Between the parts of a text that stands on several lines, or has the name of a format.
JOINT = re.compile(r'"\s*(?:PRI\w+\s*)?"')
FORMAT = re.compile(r"%(?:%|[-+ #0]*[\d*]*(?:\.[\d*]+)?(?:hh?|ll?|z|j)?[a-zA-Z]?)")
# Where else the version stands; the first one in each file.
VERSIONS = (
    ("CHANGELOG.md", r"^## ([0-9.]+)"),
    ("debian/changelog", r"^dtrun \((.*)\)"),
    ("packaging/rpm/dtrun.spec", r"^Version: +(.*)"),
    ("packaging/rpm/dtrun.spec", r"^\* .* - (.*)-1$"),
    ("examples/kubernetes/rendezvous.yaml", r"image: dtrun:(\S+)"),
)
SHORTEST = 20  # characters: shorter texts say nothing by themselves
ENOUGH = 0.7   # of a message has to be one text of the programs; the rest is what other places add


def pattern(text):
    """What TEXT, a format of printf(), can become; None when too little of it is fixed."""
    text = text.replace('\\"', '"').replace("\\\\", "\\").replace("\\n", "")
    fixed = [part for part in FORMAT.split(text)]
    if sum(map(len, fixed)) < SHORTEST:
        return None
    made = re.sub(r"(\.\*\?)+", ".*?", ".*?".join(re.escape(part) for part in fixed))  # one for several, or a search takes for ever
    return re.compile(made + ("$" if text.endswith(("s", "d")) and not fixed[-1] else ""))


def texts(source):
    source = re.sub(r"/\*.*?\*/", "", source, flags=re.DOTALL)
    return TEXT.findall(JOINT.sub("", source))


def patterns(top):
    for folder in SOURCES:
        for here, _, names in os.walk(os.path.join(top, folder)):
            for name in names:
                if name.endswith((".c", ".h", ".py")):
                    with open(os.path.join(here, name)) as f:
                        yield from filter(None, map(pattern, texts(f.read())))


def known(message, all_patterns):
    longest = max((m.end() - m.start() for m in (p.search(message) for p in all_patterns) if m), default=0)
    return longest >= ENOUGH * len(message)


def version_in(top, name, expression):
    with open(os.path.join(top, name)) as f:
        found = re.search(expression, f.read(), re.MULTILINE)
    assert found, name
    return found.group(1)


def main():
    top = sys.argv[1]
    all_patterns = list(patterns(top))
    with open(os.path.join(top, "docs/troubleshooting.md")) as f:
        messages = [line.strip() for line in f if line.startswith("    ")]

    def planted():
        right = "SCRIPT is empty; is a variable in its place on the command line unset?"
        assert known(right, all_patterns)
        assert not known(right.replace("variable", "word"), all_patterns)

    def quoted():
        wrong = [message for message in messages if not known(message, all_patterns)]
        assert not wrong, "no program says so:\n" + "\n".join(wrong)

    def versions():
        here = version_in(top, "meson.build", r"^  version: '(.*)'")
        for name, expression in VERSIONS:
            tap.check_equal(version_in(top, name, expression), here, name)

    tap.start()
    tap.case("a message that no program has is noticed", planted)
    tap.case("programs say what the page quotes", quoted)
    tap.case("there are messages", lambda: tap.check_equal(len(messages) > 40, True, "more than 40"))
    tap.case("packages have the version of the programs", versions)
    tap.done()


main()
