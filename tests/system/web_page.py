# SPDX-License-Identifier: Apache-2.0
#
# The page of a rendezvous in a browser: what people see of it, in which states, and with what names. The rendezvous is played,
# but for the last two stories. web_page.py [--server PROGRAM --dtrun PROGRAM --train PROGRAM] [--pictures FOLDER] [STORY...]:
# with FOLDER, what was seen at the end of each story is kept there.

import argparse
import contextlib
import importlib.util
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

import browser
import played
import servers
import tap
import training

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STORIES = []
HOSTILE = "<img src=x onerror=\"document.title='owned'\">'; rm -rf ~ #"
TURNED = "no\u202ede\x1b[2J\n7"

# Texts on what is behind them, those that are too pale by the rules for people who see little (WCAG 2, AA).
PALE = """(() => {
    const numbers = text => text.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = e => {
        for (; e; e = e.parentElement) {
            const colour = numbers(getComputedStyle(e).backgroundColor);
            if (colour.length === 3 || colour[3] === 1)
                return colour;
        }
    };
    return [...document.querySelectorAll("body *")].filter(e => e.checkVisibility() &&
        [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())).map(e => {
        const style = getComputedStyle(e), a = light(numbers(style.color)), b = light(behind(e));
        return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.tagName + " " + e.className + ": " + e.textContent.slice(0, 40)];
    }).filter(([ratio]) => ratio < 4.5).map(([ratio, what]) => ratio.toFixed(1) + " " + what);
})()"""
# Elements of the tab's order that say nothing to those who listen.
NAMELESS = """[...document.querySelectorAll("a[href], button, input, canvas, table")].filter(e => e.checkVisibility() &&
    !(e.textContent.trim() || e.getAttribute("aria-label") || e.labels?.[0]?.textContent.trim())).map(e => e.outerHTML)"""
WIDER = "document.documentElement.scrollWidth - innerWidth"

# Until the rendezvous has two points with a loss.
KEPT = """(async () => {
    while ((await (await fetch('status.json?run=llama')).json()).samples.points.filter(p => p[2] > 0).length < 2)
        await new Promise(done => setTimeout(done, 50));
})()"""


def make_page():
    path = os.path.join(TOP, "rendezvous", "web", "page")
    spec = importlib.util.spec_from_file_location("make_page", os.path.join(path, "make_page.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.make(os.path.join(path, "page.html"))


class Story:
    def __init__(self, chromium, document, options):
        self.chromium, self.document = chromium, document
        self.server, self.dtrun, self.options = options.server, options.dtrun, options
        self.servers, self.pages = [], []

    def serve(self, said=None, token=None):
        server = played.Server(*self.document, token=token)
        server.say(said or played.status())
        self.servers.append(server)
        return server

    def open(self, server, place="", **look):
        page = self.chromium.page(**look)
        self.pages.append(page)
        page.go(server.url + place)
        return page

    def finish(self):
        for page in self.pages:
            page.close()
        for server in self.servers:
            server.be_up(False)
            server.shutdown()
            server.server_close()


def story(tell):
    STORIES.append(tell)
    return tell


def text(page, selector):
    return page.run("document.querySelector(%r).innerText" % selector)


def texts(page, selector):
    return page.run("[...document.querySelectorAll(%r)].filter(e => e.checkVisibility()).map(e => e.innerText)" % selector)


def check_calm(page, missing="nothing"):
    """That MISSING is answered with 404 is what is wanted, whenever the browser complains of it."""
    tap.check_equal([c for c in page.complaints if missing not in c], [], "what the browser complains of")


def check_fit(page, missing="nothing"):
    """Whatever the view: it is as wide as its window, its texts are dark enough, all controls have names."""
    tap.check_equal(page.run(WIDER), 0, "pixels beyond the window")
    tap.check_equal(page.run(PALE), [], "texts that are too pale")
    tap.check_equal(page.run(NAMELESS), [], "what has no name")
    check_calm(page, missing)


@story
def empty(s):
    """where no job has come yet, the page says how to start one"""
    page = s.open(s.serve())
    page.until("!document.getElementById('runs').hidden")
    tap.check_equal("dtrun --rdzv-backend c10d --rdzv-endpoint 127.0.0.1:29400" in text(page, "#runs code"), True, text(page, "#runs"))
    tap.check_equal(page.run("document.title"), "nothing runs · dtrun", "the title")
    check_fit(page)


@story
def several(s):
    """the list has those that go on, those that ended and how, and who is kept out"""
    server = s.serve(played.busy())
    server.tell(*played.night("llama"))
    page = s.open(server)
    page.until("document.querySelectorAll('.events li').length === 9")
    rows = texts(page, ".runs tbody tr")
    tap.check_equal([r.split()[0] for r in rows], ["llama", "tune", "Ended", "eval", "night"], "rows")
    tap.check_equal(["● running" in rows[0], "… waiting" in rows[1], "✓ succeeded" in rows[3], "✕ failed" in rows[4]], [True] * 4, rows)
    tap.check_equal(["18,420" in rows[0], "205 k" in rows[0], "1 of 3" in rows[0], "alice on login1" in rows[0]], [True] * 4, rows[0])
    tap.check_equal(text(page, "#out code"), "dtrun-ctl node undrain node5", "the command for who is kept out")
    tap.check_equal("9 min more" in text(page, "#out"), True, text(page, "#out"))
    page.run("document.querySelector('#out button').click()")
    page.until("document.querySelector('#out button').innerText === 'copied'")
    check_fit(page)


@story
def one(s):
    """one run of one node: a sentence, its world, its node"""
    page = s.open(s.serve(played.one_node()), "#/run/llama")
    page.until("document.querySelector('#run .nodes tbody tr')")
    tap.check_equal(text(page, "#run .lead"), "Running for 2 h 1 min, its first round, step 18,420.", "what is said first")
    tap.check_equal(page.run("document.title"), "running · llama · dtrun", "the title")
    tap.check_equal(page.run("document.querySelector('canvas').getAttribute('aria-label')"), "1 node. Ranks: running: 8", "the map, in words")
    check_fit(page)


@story
def behind(s):
    """a node that lacks steps and stands still is told, one that lacks them by the time of its beats is not"""
    page = s.open(s.serve(played.busy()), "#/run/llama")
    page.until("document.querySelector('#run .nodes tbody tr')")
    tap.check_equal(text(page, "#run .lead"), "Running for 2 h 1 min, round 2, step 18,420. Look at node2.", "what is said first")
    page.run("document.querySelector('[value=lag]').click()")
    tap.check_equal(texts(page, ".key li"), ["at the furthest step: 16", "3 to 10 behind: 16"], "the map's key")


@story
def tells_all(s):
    """what a job tells of its steps is shown: shares, lines of the night, slow ranks, GPUs, disks, uploads, alerts"""
    server = s.serve(played.training())
    page = s.open(server, "#/run/llama")
    page.until("document.querySelectorAll('#run .nodes tbody tr').length === 8")
    tiles = texts(page, ".tiles div")
    tap.check_equal([t.split("\n")[:2] for t in tiles if not t.startswith(("Nodes", "Workers", "Restarts"))],
                    [["Step", "18,420"], ["Loss", "2.1347"], ["Tokens/s", "1.64 M"], ["MFU", "41.2 %"]], "tiles")
    tap.check_equal("of 50,000, 14 h" in tiles[2], True, tiles[2])
    tap.check_equal(texts(page, "[data-is=share-key] li"),
                    ["compute 70.2 %", "communication 18.1 %", "waiting for data 2.3 %", "all else 9.4 %"], "shares")
    tap.check_equal(texts(page, "[data-is=worries] li"), ["node3: the disk of /scratch/ckpt has 1.2 GiB left, of 1.7 TiB",
                                                         "node5: a checkpoint has waited for 45 min to be uploaded"], "worries")
    tap.check_equal([a.split("\n")[0] for a in texts(page, "#alerts li")], ["▲ straggler since 06:59:00"], "alerts of this run")
    tap.check_equal(texts(page, ".charts figcaption b"), ["Loss", "Tokens/s", "Step"], "lines")
    # A loss that was no number, and a time of which nothing is known, break the line.
    tap.check_equal(page.run("document.querySelector('[data-is=loss-line] path.line:not(.guessed)').getAttribute('d').split('M').length - 1"), 3, "pieces")
    page.run("document.querySelector('[name=span][value=\"3600\"]').click()")
    page.until("document.querySelector('[data-is=loss-line] .foot span').innerText === '06:00:00'")
    page.run("document.querySelector('[data-is=loss-line] svg').focus()")
    page.press("End")
    page.until("document.querySelector('[data-is=loss-line] .foot output').innerText.startsWith('2.13')")
    page.run("document.querySelector('[value=time]').click()")
    tap.check_equal(texts(page, "#run .bar .key li"), ["usual, 807 ms: 62", "10 to 25 % slower: 1", "more than 2 × the usual: 1"], "the map's key")
    rows = {r.split()[0]: r for r in texts(page, ".nodes tbody tr")}
    tap.check_equal(list(rows)[:2], ["node3", "node5"], "the first rows")
    tap.check_equal(["93 %" in rows["node0"], "94 % of 640 GiB" in rows["node0"], "1.2 s" in rows["node0"], " –" in rows["node3"].replace("\t", " ")],
                    [True] * 4, rows)
    page.run("location.hash = '#/'")
    page.until("!document.getElementById('runs').hidden")
    tap.check_equal([a.split("\n")[0].split(" since")[0] for a in texts(page, "#alerts li")], ["✕ hang other", "▲ straggler llama"], "all alerts")
    page.run("location.hash = '#/run/llama/node/node2'")
    page.until("document.querySelector('.node').checkVisibility()")
    check_fit(page)
    said = played.training()
    said["runs"] = [played.run("llama", "closed", step=18420, why="all nodes (8) have succeeded")]
    said["nodes"] = []
    server.say(said)
    server.tell(played.event("run_ended_well", "it ended", run="llama"))
    page.until("document.querySelector('#run .badge').innerText.includes('succeeded')")
    tap.check_equal([t.split("\n") for t in texts(page, ".tiles div")[2:4]],
                    [["Step", "18,420", "the last that was told"], ["Loss", "2.135", "the last that was told"]], "tiles of a run that is over")
    tap.check_equal(texts(page, ".charts figcaption b"), ["Loss", "Tokens/s", "Step"], "lines of a run that is over")


@story
def again(s):
    """a job that was begun anew under the name of another has lines of its own"""
    server, said = s.serve(played.training()), played.training()
    page = s.open(server, "#/run/llama")
    page.until("document.querySelector('[data-is=step-line] path.line')")
    said["runs"][0].update(begun_s=played.epoch(), step=1, since_s=1)
    for n in said["nodes"]:
        n["step"] = 1
    said["samples"]["points"] = []
    said["server"]["now"] = played.utc(-10)
    server.say(said)
    page.until("document.querySelector('#run .lead').innerText.includes('step 1.')")
    page.until("document.querySelector('[data-is=curves]').hidden")


@story
def thousand(s):
    """of 1,000 nodes × 8 ranks those that want a person stand first, and each can be found"""
    server = s.serve(played.thousand())
    server.tell(*played.night())
    page = s.open(server, "#/run/llama-405b")
    page.until("document.querySelectorAll('.nodes tbody tr').length")
    tap.check_equal(text(page, "#run .lead").endswith("Look at node7, seat 412, node640."), True, text(page, "#run .lead"))
    tap.check_equal("node1007 rank 8061: killed by SIGBUS" in text(page, ".callout"), True, text(page, ".callout"))
    tap.check_equal("by alice on login1 · pretrain.py · slurm 4711" in text(page, "#run [data-is=owner]"), True, text(page, "#run [data-is=owner]"))
    tap.check_equal(texts(page, ".nodes tbody th")[:3], ["seat 412", "node7", "node640"], "the first rows")
    tap.check_equal(page.run("document.querySelector('canvas').getAttribute('aria-label')"),
                    "1,000 nodes. Ranks: running: 7,984, suspect: 8, lost: 8", "the map, in words")
    tap.check_equal([r.split()[0] for r in texts(page, ".past tbody tr")], ["2", "1", "0"], "rounds")
    page.run("(f => { f.value = 'node99'; f.dispatchEvent(new Event('input')); })(document.getElementById('filter'))")
    tap.check_equal(texts(page, ".nodes tbody th"), ["node99"] + ["node%d" % i for i in range(990, 1000)], "what the filter leaves")
    page.run("(f => { f.value = ''; f.dispatchEvent(new Event('input')); })(document.getElementById('filter'))")
    page.run("document.querySelector('[data-by=seat]').click(); document.querySelector('[data-by=seat]').click()")
    tap.check_equal(texts(page, ".nodes tbody th")[:2], ["node999", "node998"], "by seat, the last first")
    page.run("document.querySelector('[data-is=nodes] [data-is=more]').click()")
    tap.check_equal(len(texts(page, ".nodes tbody th")), 516, "rows when more are asked for")
    check_fit(page)
    tell_time(page)


def tell_time(page):
    """No check: how long it takes from the click on a link until the browser has drawn, and what of that its thread worked."""
    def worked():
        return next(m["value"] for m in page.ask("Performance.getMetrics")["metrics"] if m["name"] == "TaskDuration") * 1000

    page.run("location.hash = '#/'")
    page.until("!document.getElementById('runs').hidden")
    page.ask("Performance.enable", timeDomain="threadTicks")
    before = worked()
    took = page.run("""new Promise(done => { const begun = performance.now(); location.hash = '#/run/llama-405b';
        const look = () => document.querySelector('#run .nodes tbody tr')?.checkVisibility()
            ? requestAnimationFrame(() => setTimeout(() => done(performance.now() - begun))) : requestAnimationFrame(look);
        look(); })""")
    tap.comment("1,000 nodes are drawn after %.0f ms, with %.0f ms of a processor" % (took, worked() - before))


@story
def news(s):
    """news come in without a reload, and what has the focus, is selected, or is scrolled to stays"""
    server = s.serve(played.thousand(200))
    page = s.open(server, "#/run/llama-405b")
    page.until("document.querySelectorAll('.nodes tbody tr').length")
    page.run("""scrollTo(0, 300); row = document.querySelectorAll('.nodes tbody tr')[8]; row.querySelector('a').focus({preventScroll: true});
        getSelection().selectAllChildren(document.querySelector('.callout [data-is=cause]')); where = scrollY""")
    said = played.thousand(200)
    for n in said["nodes"]:
        n["step"] += 1
    server.say(said)
    server.tell(played.event("round_began", "it goes on", run="llama-405b"), played.event("node_lost", "of another", run="other"))
    page.until("document.querySelector('#run .lead').innerText.includes('18,421')")
    tap.check_equal(page.run("[document.activeElement === row.querySelector('a'), row.isConnected, row.innerText.includes('18,421'),"
                             " String(getSelection()).includes('SIGBUS'), scrollY === where]"), [True] * 5, "what stays")
    page.until("document.querySelectorAll('.events li').length === 1")
    server.tell(played.event("hang", "rank 3 keeps the others waiting", "error", run="llama-405b"))
    page.until("document.querySelectorAll('.events li').length === 2")
    page.run("document.querySelector('[name=weight][value=\"2\"]').click()")
    tap.check_equal(texts(page, ".events .what"), ["rank 3 keeps the others waiting"], "errors alone")
    check_calm(page)


@story
def lost(s):
    """a rendezvous that is gone leaves its last news and a banner; when it is back the page is, too"""
    server = s.serve(played.busy())
    server.tell(*played.night("llama"))
    page = s.open(server)
    page.until("document.querySelectorAll('.events li').length === 9")
    server.be_up(False)
    page.until("!document.getElementById('lost').hidden")
    tap.check_equal(page.run("document.title"), "connection lost · dtrun", "the title")
    tap.check_equal("Last news" in text(page, "#lost"), True, text(page, "#lost"))
    tap.check_equal(len(texts(page, ".runs tbody tr")), 5, "rows that stay")
    page.until("!/Last news [01] s ago/.test(document.getElementById('lost').innerText)")
    server.say(played.one_node())
    server.be_up(True)
    page.until("document.getElementById('lost').hidden && document.querySelectorAll('.runs tbody[data-is=now] tr').length === 1")
    server.tell(played.event("node_joined", "after the break"))
    page.until("document.querySelector('.events .what').innerText === 'after the break'")
    tap.check_equal(len(texts(page, ".events li")), 10, "events, each once")


@story
def anew(s):
    """a rendezvous that began anew counts its events anew, and the page takes that"""
    server = s.serve(played.one_node())
    server.tell(*played.night("llama"))
    page = s.open(server)
    page.until("document.querySelectorAll('.events li').length === 9")
    server.be_up(False)
    page.until("!document.getElementById('lost').hidden")
    server.events.clear()
    said = played.one_node()
    said["server"]["started"] = played.utc(1)
    server.say(said)
    server.tell(played.event("server_started", "here again"))
    server.be_up(True)
    page.until("document.querySelector('.events')?.innerText.includes('here again')")
    tap.check_equal(len(texts(page, ".events li")), 1, "events")


@story
def token(s):
    """the token is asked for once, kept for the tab, and said in no address"""
    page = s.open(s.serve(played.one_node(), token="open sesame"))
    page.until("document.getElementById('token').open")
    tap.check_equal(page.run("document.getElementById('runs').hidden"), True, "that nothing is shown")
    page.type("wrong")
    page.press("Enter", "\r")
    page.until("document.getElementById('token').open && document.querySelector('.wrong').checkVisibility()")
    page.type("open sesame")
    page.press("Enter", "\r")
    page.until("!document.getElementById('token').open && !document.getElementById('runs').hidden")
    page.ask("Page.reload")
    page.until("!document.getElementById('runs').hidden")
    tap.check_equal(page.run("[location.href.includes('sesame'), document.cookie, localStorage.length]"), [False, "", 0], "where it is not")


@story
def late_refusal(s):
    """a refusal of what was asked before the token was typed asks for it no second time"""
    server = s.serve(played.one_node(), token="open sesame")
    server.refuses_events.clear()
    page = s.open(server)
    page.until("document.getElementById('token').open")
    page.type("open sesame")
    page.press("Enter", "\r")
    page.until("!document.getElementById('token').open && !document.getElementById('runs').hidden")
    server.tell(*played.night("llama"))
    server.refuses_events.set()
    page.until("document.querySelectorAll('.events li').length === 9")
    tap.check_equal(page.run("document.getElementById('token').open"), False, "that it is asked for")


@story
def hostile(s):
    """names and reasons that are markup, commands, options or control characters are text, in rows, links and commands"""
    said = played.status([played.run(HOSTILE, nodes=2, why=HOSTILE, user=HOSTILE, begun_on=TURNED, loss=HOSTILE)],
                         [played.node(HOSTILE, HOSTILE, 0, disk=HOSTILE, disk_total_mib=1 << 20, worker_ms=HOSTILE),
                          played.node(TURNED, HOSTILE, 1, doing="constructor", worker_ms="7,,-1,1e999,__proto__")],
                         [played.excluded(HOSTILE, HOSTILE, drained=True), played.excluded(TURNED, TURNED, until_s=9),
                          played.excluded("-rf", "why", until_s=8)],
                         [played.past(0, 900, 800, 1, 2, HOSTILE, HOSTILE)],
                         [played.alert(HOSTILE, HOSTILE, HOSTILE, run=HOSTILE, node="-rf", advice="dtrun-ctl node undrain NODE, RUN")])
    server = s.serve(said)
    server.tell(played.event(HOSTILE, HOSTILE, HOSTILE, run=HOSTILE, node=HOSTILE), played.event("__proto__", "javascript:", "constructor", run="javascript:alert(1)"))
    page = s.open(server)
    page.until("document.querySelectorAll('.events li').length === 2")
    tap.check_equal(texts(page, ".runs tbody th"), [HOSTILE], "the run's name")
    page.run("document.querySelector('.runs tbody a').click()")
    page.until("document.querySelectorAll('.nodes tbody tr').length === 2")
    tap.check_equal("undrain -- '-rf', '<img" in text(page, "#alerts"), True, text(page, "#alerts"))
    tap.check_equal(texts(page, "[data-is=worries] a"), [HOSTILE], "whose disk is full")
    page.run("document.querySelector('[value=time]').click()")
    page.run("[...document.querySelectorAll('.nodes tbody a')].find(a => a.innerText.startsWith('<img')).click()")
    page.until("!document.querySelector('.node').hidden")
    tap.check_equal(text(page, "#node-title span"), HOSTILE, "the node's name")
    shown = "no\\u{202e}de\\u{1b}[2J\\u{a}7"
    tap.check_equal(shown in texts(page, ".nodes tbody th"), True, texts(page, ".nodes tbody th"))
    quoted = "'<img src=x onerror=\"document.title='\\''owned'\\''\">'\\''; rm -rf ~ #'"
    tap.check_equal(quoted in texts(page, ".node code")[1], True, texts(page, ".node code"))
    tap.check_equal(texts(page, "#out code"), ["dtrun-ctl node undrain $'no\\xe2\\x80\\xaede\\x1b[2J\\x0a7'",
                                               "dtrun-ctl node undrain -- '-rf'", "dtrun-ctl node undrain " + quoted], "commands")
    tap.check_equal(page.run("[document.images.length, document.scripts.length, document.querySelectorAll('table b').length,"
                             " [...document.links].every(a => a.protocol === 'http:')]"), [0, 1, 0, True], "elements")
    tap.check_equal(page.run("document.title.includes('owned ')"), False, "the title")
    check_calm(page)


@story
def guarded(s):
    """were a name to become markup after all, the browser would refuse it: the page's policy says so"""
    page = s.open(s.serve(played.one_node()))
    page.until("!document.getElementById('runs').hidden")
    refused = """(() => { try { %s; return "taken"; } catch (e) { return e.name; } })()"""
    tap.check_equal(page.run(refused % "document.body.innerHTML = '<b>'"), "TypeError", "markup made of a text")
    tap.check_equal(page.run(refused % "new Function('return 1')()"), "EvalError", "a script made of a text")
    tap.check_equal(page.run(refused % "document.createElement('script').text = 'owned = 1'"), "TypeError", "a script that is added")
    tap.check_equal(page.run("fetch('http://127.0.0.1:1/').catch(e => e.name)"), "TypeError", "what is asked elsewhere")
    tap.check_equal(page.run("typeof owned"), "undefined", "whether it ran")


@story
def keyboard(s):
    """everything is reached by keys"""
    server = s.serve(played.thousand(200))
    page = s.open(server)
    page.until("!document.getElementById('runs').hidden")
    page.press("?", "?")
    page.until("document.getElementById('keys').open")
    page.press("Escape")
    page.until("!document.getElementById('keys').open")
    page.press("j", "j")
    tap.check_equal(page.run("document.activeElement.innerText"), "llama-405b", "the row that j goes to")
    page.press("Enter", "\r")
    page.until("location.hash === '#/run/llama-405b' && document.querySelector('.nodes tbody tr')")
    page.press("/", "/")
    page.type("node19")
    page.until("document.querySelectorAll('.nodes tbody tr').length === 11")
    page.press("Escape")
    page.until("document.querySelectorAll('.nodes tbody tr').length === 16 && document.activeElement === document.body")
    page.press("w", "w")
    page.press("ArrowRight")
    page.until("document.querySelector('[data-is=here]').innerText.startsWith('node1:')")
    page.press("Enter", "\r")
    page.until("location.hash.endsWith('/node/node1') && document.querySelector('.node').checkVisibility()")
    page.press("Escape")
    page.until("location.hash === '#/run/llama-405b'")
    page.press("Escape")
    page.until("location.hash === '#/'")
    check_calm(page)


@story
def unknown(s):
    """a link to a run that is not there says so, and leads on"""
    page = s.open(s.serve(played.busy()), "#/run/%3Cb%3E")
    page.until("!document.getElementById('missing').hidden")
    tap.check_equal("knows no run “<b>”" in text(page, "#missing"), True, text(page, "#missing"))
    page.run("document.querySelector('#missing a').click()")
    page.until("!document.getElementById('runs').hidden")
    tap.check_equal(len(texts(page, ".runs tbody tr")), 5, "rows")


@story
def narrow(s):
    """a phone of 360 pixels shows all of it without moving sideways, in the dark, too"""
    server = s.serve(played.thousand())
    server.tell(*played.night())
    tells = s.serve(played.training())
    for of, place in ((server, ""), (server, "#/run/llama-405b"), (server, "#/run/llama-405b/node/node7"), (server, "#/run/none"),
                      (tells, ""), (tells, "#/run/llama/node/node2")):
        page = s.open(of, place, width=360, height=740, dark=True)
        page.until("[...document.querySelectorAll('main > section')].some(e => !e.hidden)")
        check_fit(page, missing="run=none")


@story
def dark(s):
    """in the dark, on paper, and after an end, texts can be read"""
    busy, tells = s.serve(played.busy()), s.serve(played.training())
    for of, place in ((busy, ""), (busy, "#/run/llama/node/node2"), (busy, "#/run/tune"), (busy, "#/run/night"),
                      (tells, ""), (tells, "#/run/llama/node/node3")):
        page = s.open(of, place, dark=True)
        page.until("[...document.querySelectorAll('main > section')].some(e => !e.hidden)")
        check_fit(page)
        page.ask("Emulation.setEmulatedMedia", media="print")
        tap.check_equal(page.run(PALE), [], "texts that are too pale on paper")


@contextlib.contextmanager
def real_rendezvous(s):
    """A daemon, and the page that it serves."""
    if not s.server:
        raise tap.Skip("no --server, --dtrun and --train were given")
    port = servers.free_port()
    with servers.Server("dtrun-rendezvous", [s.server, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:%d" % port], "stderr") as daemon:
        page = s.chromium.page()
        s.pages.append(page)
        page.go("http://127.0.0.1:%d/" % port)
        page.until("!document.getElementById('runs').hidden")
        yield daemon, page


@story
def real(s):
    """a daemon serves it with its policy, and a job that failed once is on it"""
    over = os.path.join(tempfile.mkdtemp(), "over")
    with real_rendezvous(s) as (daemon, page):
        job = subprocess.Popen([s.dtrun, "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:%d" % daemon.port, "--rdzv-id", "<b>x",
                                "--nnodes", "1:1", "--nproc-per-node", "2", "--max-restarts", "3", "--no-python", "sh", "-c",
                                '[ "$DTRUN_ROUND" = 1 ] || exit 7; until [ -e %s ]; do sleep 0.05; done' % over], preexec_fn=tap.die_with_parent,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            page.until("[...document.querySelectorAll('.runs tbody a')].some(a => a.innerText === '<b>x')")
            page.run("document.querySelector('.runs tbody a').click()")
            # It says that the round has ended, and then why, when the node has told.
            page.until("document.querySelector('.callout').innerText.includes('exit status 7')")
            page.until("document.querySelector('canvas').getAttribute('aria-label') === '1 node. Ranks: running: 2'")
            page.until("[...document.querySelectorAll('.events .what')].some(e => e.innerText.startsWith('root cause of round 0'))")
            check_calm(page)
            with open(over, "w", encoding="utf-8"):
                pass
            tap.check_equal(job.wait(60), 0, "the job's exit status")
            page.until("document.querySelector('#run h1 .badge').innerText.includes('succeeded')")
            tap.check_equal(page.run("(() => { try { document.body.innerHTML = ''; } catch (e) { return e.name; } })()"), "TypeError",
                            "markup made of a text")
        finally:
            job.kill()
            job.wait()


@story
def trained(s):
    """what dtrun-train tells is on it: loss, shares, the time of each rank, and lines of the time before the page was opened"""
    with real_rendezvous(s) as (daemon, page):
        job = training.Story(s.options)
        try:
            job.start(job.config(steps=1000000, batch=4), world=2,
                      dtrun=["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:%d" % daemon.port, "--rdzv-id", "llama", "--nnodes", "1:1"])
            page.until("document.querySelector('.runs tbody[data-is=now] [data-column=loss]').innerText.match(/^\\d+\\.\\d+$/)")
            page.run(KEPT)
            page.run("location.hash = '#/run/llama'")
            page.until("document.querySelector('[data-is=loss-line] path.line:not(.guessed)').getAttribute('d').includes('L')")
            page.until("document.querySelector('[data-is=share-key]').innerText.includes('compute')")
            page.run("document.querySelector('[value=time]').click()")
            page.until("document.querySelector('canvas').getAttribute('aria-label').includes('usual, ')")
            tap.check_equal([t for t in texts(page, ".tiles dt") if t not in ("Nodes", "Workers", "Restarts")], ["Step", "Loss", "Tokens/s"], "tiles")
            check_calm(page)
        finally:
            job.finish()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server")
    parser.add_argument("--dtrun")
    parser.add_argument("--train")
    parser.add_argument("--pictures")
    parser.add_argument("only", nargs="*")
    options = parser.parse_args()
    tap.start()
    if not browser.program():
        tap.skip_all("there is no chromium here")
    document, chromium = make_page(), browser.Browser()
    for tell in STORIES:
        if options.only and tell.__name__ not in options.only:
            continue

        def run(tell=tell):
            s = Story(chromium, document, options)
            try:
                tell(s)
            finally:
                if options.pictures and s.pages:
                    s.pages[-1].picture(os.path.join(options.pictures, tell.__name__ + ".png"))
                s.finish()
        tap.case(tell.__doc__, run)
    chromium.close()
    tap.done()


main()
