# SPDX-License-Identifier: Apache-2.0
#
# A Chromium without a window, asked over two pipes by its DevTools protocol: messages of JSON, each ended by a NUL.

import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import queue

import tap

LONGEST = 60  # seconds for one answer, on a busy machine
OPTIONS = ["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
           "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions", "--disable-breakpad",
           "--disable-dev-shm-usage", "--no-proxy-server", "--force-color-profile=srgb", "about:blank"]
# Whether CONDITION holds, looked at again and again: what makes it hold may be an answer, a timer or a frame.
UNTIL = """new Promise(done => {
    const look = () => { let held = false; try { held = %s; } catch {} if (held) { clearInterval(timer); done(held); } };
    const timer = setInterval(look, 20);
    look();
})"""


def program():
    return shutil.which("chromium")


class Browser:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="browser-")  # goes with the test's
        to_read, self.to = os.pipe()
        self.back, back_write = os.pipe()
        # dbus, keyrings and the like are looked for where there are none.
        env = dict(os.environ, HOME=self.folder, DBUS_SESSION_BUS_ADDRESS="disabled:")
        self.log = open(os.path.join(self.folder, "log"), "wb")
        self.process = subprocess.Popen(
            ["sh", "-c", 'exec "$@" 3<&%d 4>&%d' % (to_read, back_write), "sh", program(),
             "--user-data-dir=" + self.folder, *OPTIONS],
            pass_fds=(to_read, back_write), stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env=env,
            start_new_session=True, preexec_fn=tap.die_with_parent)
        os.close(to_read)
        os.close(back_write)
        self.count, self.answers, self.pages = 0, {}, {}
        self.changed = threading.Condition()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        rest = b""
        while True:
            data = os.read(self.back, 1 << 16)
            *messages, rest = (rest + data).split(b"\0")
            with self.changed:
                for m in map(json.loads, messages):
                    if "id" in m:
                        self.answers[m["id"]] = m
                    elif m.get("sessionId") in self.pages:
                        self.pages[m["sessionId"]].take(m["method"], m["params"])
                if not data:
                    self.answers = None
                self.changed.notify_all()
            if not data:
                return

    def ask(self, method, session=None, **params):
        with self.changed:
            self.count += 1
            number, m = self.count, {"id": self.count, "method": method, "params": params}
        if session:
            m["sessionId"] = session
        os.write(self.to, json.dumps(m).encode() + b"\0")
        with self.changed:
            if not self.changed.wait_for(lambda: self.answers is None or number in self.answers, LONGEST):
                raise AssertionError("the browser does not answer %s %.200r" % (method, params))
            if self.answers is None:
                raise AssertionError("the browser ended: %s" % self.last_words())
            answer = self.answers.pop(number)
        if "error" in answer:
            raise AssertionError("%s: %s" % (method, answer["error"]))
        return answer["result"]

    def last_words(self):
        with open(self.log.name, encoding="utf-8", errors="replace") as f:
            return f.read()[-2000:]

    def page(self, **look):
        return Page(self, **look)

    def close(self):
        """Its processes write into the folder until they are gone."""
        try:
            self.ask("Browser.close")
        except AssertionError:
            pass  # it may end before it answers
        try:
            self.process.wait(LONGEST)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.reader.join()
        self.log.close()
        os.close(self.to)
        os.close(self.back)
        shutil.rmtree(self.folder)


class Page:
    """A tab. What it complains of, exceptions and refused resources, is kept for who asks at the end."""

    def __init__(self, browser, width=1200, height=900, dark=False, still=True):
        self.browser, self.complaints, self.loads = browser, [], queue.Queue()
        self.target = browser.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.ask("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        browser.pages[self.session] = self
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(domain + ".enable")
        self.ask("Emulation.setFocusEmulationEnabled", enabled=True)
        self.look(width, height, dark, still)

    def ask(self, method, **params):
        return self.browser.ask(method, self.session, **params)

    def look(self, width, height, dark=False, still=True):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.ask("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce" if still else "no-preference"}])

    def take(self, method, params):
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append("%s %s" % (params["entry"]["text"], params["entry"].get("url", "")))
        elif method == "Page.loadEventFired":
            self.loads.put(True)

    def go(self, url):
        self.ask("Page.navigate", url=url)
        self.loads.get(timeout=LONGEST)

    def run(self, expression):
        """What EXPRESSION is, once it is no promise any more."""
        answer = self.ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, userGesture=True,
                          allowUnsafeEvalBlockedByCSP=False)
        if "exceptionDetails" in answer:
            raise AssertionError("%s: %s" % (expression, answer["exceptionDetails"].get("exception", {}).get("description")))
        return answer["result"].get("value")

    def until(self, condition):
        try:
            return self.run(UNTIL % condition)
        except AssertionError as e:
            raise AssertionError("waited for %s; the page says %.1500r" % (condition, self.run("document.body.innerText"))) from e

    def press(self, key, text=None):
        named = {"text": text} if text else {}
        code = {"Enter": 13, "Escape": 27, "ArrowRight": 39, "ArrowDown": 40}.get(key, 0)
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **(named if kind == "keyDown" else {}))

    def type(self, text):
        for c in text:
            self.press(c, c)

    def picture(self, path, whole=True):
        data = self.ask("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))

    def close(self):
        self.browser.ask("Target.closeTarget", targetId=self.target)
