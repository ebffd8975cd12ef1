#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# make_palette.py PALETTE.css OUTPUT.c: the style sheet as a string of C, a line each, without its comment.

import json
import re
import sys

if __name__ == "__main__":
    with open(sys.argv[1], encoding="ascii") as f:
        text = re.sub(r"/\*.*?\*/\n", "", f.read(), flags=re.DOTALL)
    if re.search("[<>&]", text):
        raise SystemExit("%s: a page of XML would have to escape what is in it" % sys.argv[1])
    with open(sys.argv[2], "w", encoding="ascii") as out:
        out.write('/* Made by make_palette.py. */\n#include "base/palette/palette.h"\n\nconst char dt_palette[] =\n%s;\n'
                  % "\n".join("    " + json.dumps(line + "\n") for line in text.splitlines() if line))
