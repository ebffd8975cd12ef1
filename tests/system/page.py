# SPDX-License-Identifier: Apache-2.0
#
# A page of HTML as a reader of it meets it: whether it is well-formed, needs nothing beside it, and all that it points to is there.

import re
import xml.etree.ElementTree as xml

SVG = "{http://www.w3.org/2000/svg}"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


class Page:
    def __init__(self, path):
        with open(path, encoding="utf-8") as f:
            self.text = f.read()
        self.root = xml.fromstring(self.text)
        self.ids = [e.get("id") for e in self.root.iter() if e.get("id")]

    def all(self, tag, kind=None):
        return [e for e in self.root.iter(tag) if kind is None or kind in (e.get("class") or "").split()]

    def words(self, element=None):
        return " ".join("".join((element if element is not None else self.root).itertext()).split())

    def rows(self, heading):
        """Of the table below that heading: its cells by the name of their column."""
        for table in self.all("table"):
            if table.get("aria-labelledby") == heading:
                return [{d.get("data-name"): self.words(d) for d in row.findall("td")} for row in table.find("tbody")]
        return []

    def check(self):
        """Raises what is wrong with any page of ours."""
        wrong = []
        if len(self.ids) != len(set(self.ids)):
            wrong.append("an id is there twice")
        for e in self.root.iter():
            for name, value in e.attrib.items():
                if name.startswith("on") or name in ("src", "action", "style", "xlink:href"):
                    wrong.append("%s has %s=%r" % (e.tag, name, value))
                if name == "href" and not value.startswith("#"):
                    wrong.append("a link leads away: %r" % value)
                if name == "href" and value[1:] not in self.ids:
                    wrong.append("a link leads nowhere: %r" % value)
                if name in ("aria-labelledby", "aria-describedby"):
                    wrong += ["no element is called %r" % i for i in value.split() if i not in self.ids]
            if e.tag in ("link", "img", "iframe", "object", "embed", "base", "image", "use"):
                wrong.append("there is a %s" % e.tag)
        styles = "".join(self.words(e) for e in self.all("style"))
        if "url(" in styles or "@import" in styles:
            wrong.append("the style wants more than is there")
        wrong += self.strange_places()
        if wrong:
            raise AssertionError("; ".join(wrong[:5]))

    def strange_places(self):
        """Paths that leave their picture, and labels beside their chart."""
        wrong = []
        for svg in self.all("svg", "ink"):
            for path in svg.iter("path"):
                places = [float(n) for n in NUMBER.findall(path.get("d"))]
                if "line" in (path.get("class") or "") and any(n < -10.01 or n > 1000.01 for n in places):
                    wrong.append("a line leaves its picture: %r" % path.get("d")[:60])
        for text in self.all("text"):
            x = text.get("x")
            if x.endswith("%") and not -0.01 <= float(x[:-1]) <= 100.01:
                wrong.append("a label stands at %s" % x)
        return wrong
