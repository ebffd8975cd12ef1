#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# make_page.py PAGE.html OUTPUT.c: the style sheets and the scripts that PAGE.html names are put into it, and the document
# becomes an array of C, with the policy under which a browser runs these scripts and no other.

import base64
import hashlib
import os
import re
import sys

STYLES = re.compile(r'(?:<link rel="stylesheet" href="[a-z./]+\.css">\n)+')
STYLE = re.compile(r'href="([a-z./]+\.css)"')
SCRIPTS = re.compile(r'(?:<script src="[a-z]+\.js"></script>\n)+')
SCRIPT = re.compile(r'src="([a-z]+\.js)"')

# A text that becomes markup is an error that the browser reports (trusted types), wherever a script should try.
POLICY = ("default-src 'none'; script-src '%s'; style-src '%s'; img-src data:; connect-src 'self'; base-uri 'none'; "
          "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'")


def read(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as f:
        text = f.read()
    if re.search(r"</(?:script|style)|<!--", text, re.IGNORECASE):
        raise SystemExit("%s: what ends an element, or begins a comment, cannot stand inside a document" % name)
    return text


def digest(text):
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def inline(text, pattern, tag, contents_of):
    """TEXT with the one match of PATTERN as an element, and the digest of what stands in that."""
    [match] = pattern.finditer(text)
    inside = "\n" + contents_of(match)
    whole = text[:match.start()] + "<%s>%s</%s>\n" % (tag, inside, tag) + text[match.end():]
    return whole, digest(inside)


def make(path):
    """The document and its policy."""
    folder = os.path.dirname(path)
    with open(path, encoding="utf-8") as f:
        text = f.read()
    text, style = inline(text, STYLES, "style", lambda m: "".join(read(folder, name) for name in STYLE.findall(m[0])))
    text, script = inline(text, SCRIPTS, "script", lambda m: "".join(read(folder, name) for name in SCRIPT.findall(m[0])))
    return text, POLICY % (script, style)


def as_c(document, policy):
    data = document.encode()
    rows = "".join("    %s,\n" % ", ".join("%d" % byte for byte in data[i:i + 24]) for i in range(0, len(data), 24))
    return ('/* Made by make_page.py. */\n#include "rendezvous/web/page/page.h"\n\n'
            "const unsigned char dt_web_page[] = {\n%s};\n\nconst size_t dt_web_page_len = sizeof dt_web_page;\n\n"
            'const char dt_web_page_policy[] = "%s";\n') % (rows, policy)


if __name__ == "__main__":
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        out.write(as_c(*make(sys.argv[1])))
