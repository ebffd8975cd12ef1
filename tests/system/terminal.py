# SPDX-License-Identifier: Apache-2.0
#
# A terminal at which a program runs as the job of a shell, and what a person sees there. It knows the sequences that our programs
# send; any other one is a failure.

import fcntl
import os
import re
import select
import signal
import struct
import termios
import time

import tap

PATIENCE = 60
SEQUENCE = re.compile(rb"\x1b\[([?\d;]*)([A-Za-z])")


def open_terminal():
    try:
        return os.openpty()
    except OSError as e:
        raise tap.Skip("no pseudo-terminal can be had (is /dev/pts mounted?): %s" % e.strerror) from None


class Screen:
    def __init__(self, rows, columns):
        self.modes = {"?7", "?25"}
        self.colours = False
        self.left = b""  # the beginning of a sequence
        self.resize(rows, columns)

    def resize(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.lines = [[" "] * columns for _ in range(rows)]
        self.row = self.column = 0

    def feed(self, data):
        data = self.left + data
        while data:
            if data[0] == 0x1b:
                match = SEQUENCE.match(data)
                if not match:
                    break
                self.obey(match[1].decode(), match[2].decode())
                data = data[match.end():]
            else:
                self.put(chr(data[0]))
                data = data[1:]
        if len(data) > 16:
            raise AssertionError("the terminal was steered by %r" % data[:40])
        self.left = data

    def put(self, c):
        if c == "\n" and self.row + 1 == self.rows:
            self.lines = self.lines[1:] + [[" "] * self.columns]
        elif c == "\n":
            self.row += 1
        elif c == "\r":
            self.column = 0
        elif not c.isprintable() or not c.isascii():
            raise AssertionError("the terminal got %r" % c)
        else:
            if self.row < self.rows and self.column < self.columns:
                self.lines[self.row][self.column] = c
            self.column += 1

    def obey(self, parameters, final):
        if final in "hl" and parameters.startswith("?"):
            (self.modes.add if final == "h" else self.modes.discard)(parameters)
            if parameters == "?1049":  # another screen, or that of before
                self.lines = [[" "] * self.columns for _ in range(self.rows)]
                self.row = self.column = 0
        elif final == "H":
            row, column = [int(n) for n in (parameters or "1;1").split(";")]
            self.row, self.column = row - 1, column - 1
        elif final == "J":
            self.lines = [[" "] * self.columns for _ in range(self.rows)]
        elif final == "K" and self.row < self.rows:
            self.lines[self.row][self.column:] = [" "] * (self.columns - self.column)
        elif final == "m":
            self.colours = self.colours or bool(re.search(r"(^|;)3\d", parameters))
        else:
            raise AssertionError("the terminal got ESC [ %s %s" % (parameters, final))

    def text(self):
        return "\n".join("".join(line).rstrip() for line in self.lines)


class Terminal:
    """with Terminal([program, ...]) as t: ... The program is the foreground job of a shell that says how it fares."""

    def __init__(self, command, rows=24, columns=80, **environment):
        self.screen = Screen(rows, columns)
        self.raw = b""
        self.master, self.slave = open_terminal()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        self.told, tell = os.pipe()
        hear, self.orders = os.pipe()
        self.shell = os.fork()
        if self.shell == 0:
            try:
                self.be_shell(command, {**os.environ, "TERM": "xterm", **environment}, hear, tell)
            finally:
                os._exit(1)
        os.close(tell)
        os.close(hear)
        self.pid = int(self.next_told())

    def be_shell(self, command, environment, hear, tell):
        tap.die_with_parent()
        os.close(self.told)
        os.close(self.orders)  # or it would never read the end of them
        os.setsid()
        fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        ready, go = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            os.read(ready, 1)
            signal.signal(signal.SIGTTOU, signal.SIG_DFL)
            for number in range(3):
                os.dup2(self.slave, number)
            os.execvpe(command[0], command, environment)
        os.setpgid(pid, pid)
        os.tcsetpgrp(self.slave, pid)
        os.write(tell, b"%d\n" % pid)
        os.write(go, b"g")
        while True:
            _, status = os.waitpid(pid, os.WUNTRACED)
            if not os.WIFSTOPPED(status):
                os.write(tell, b"%d\n" % (os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)))
                os._exit(0)
            os.write(tell, b"stopped\n")
            if not os.read(hear, 1):
                os._exit(0)
            os.tcsetpgrp(self.slave, pid)
            os.kill(-pid, signal.SIGCONT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.close(self.orders)
        os.waitpid(self.shell, 0)
        os.close(self.told)
        os.close(self.master)
        os.close(self.slave)

    def read_some(self, until, *others):
        ready, _, _ = select.select([self.master, *others], [], [], max(0, until - time.monotonic()))
        if not ready:
            raise AssertionError("nothing more came; the screen is\n%s" % self.screen.text())
        if self.master in ready:
            data = os.read(self.master, 65536)
            self.raw += data
            self.screen.feed(data)
        return ready

    def next_told(self):
        """What the shell says next; the screen is read meanwhile."""
        until, line = time.monotonic() + PATIENCE, b""
        while not line.endswith(b"\n"):
            if self.told in self.read_some(until, self.told):
                data = os.read(self.told, 1)
                if not data:
                    raise AssertionError("the shell is gone")
                line += data
        return line.decode().strip()

    def drain(self):
        """Takes what was written before the program ended or stopped."""
        while select.select([self.master], [], [], 0)[0]:
            self.read_some(time.monotonic() + PATIENCE)

    def shows(self, *patterns, never=()):
        """Waits until the screen has them all, and none of the others."""
        until = time.monotonic() + PATIENCE
        while not (all(re.search(p, self.screen.text(), re.M) for p in patterns)
                   and not any(re.search(p, self.screen.text(), re.M) for p in never)):
            try:
                self.read_some(until)
            except AssertionError as e:
                raise AssertionError("not shown: %s; %s" % (patterns, e)) from None
        return self.screen.text()

    def press(self, keys):
        os.write(self.master, keys.encode())

    def resize(self, rows, columns):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.resize(rows, columns)

    def go_on(self):
        """The shell's fg."""
        os.write(self.orders, b"f")

    def is_as_before(self):
        self.drain()
        tap.check_equal(termios.tcgetattr(self.slave), self.before, "how the terminal is set")
        tap.check_equal(self.screen.modes, {"?7", "?25"}, "modes of the terminal: right margin and cursor")

    def ends(self, status):
        told = self.next_told()
        self.drain()
        tap.check_equal(told, str(status), "how it ended, with on the screen\n%s\n" % self.screen.text())
