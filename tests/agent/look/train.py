# SPDX-License-Identifier: Apache-2.0
"""What the images of memory beside this were recorded of: threads that stand at lines that a test knows."""
import _thread
import os

lock = _thread.allocate_lock()
inside, outside = os.pipe()


def stay():
    os.write(outside, b"x"), lock.acquire()


class Läufer:
    def größe(self):
        def 長さ():
            def 𐐨(x):
                return self.schritt(x)
            return sorted([1], key=𐐨)
        return 長さ()

    def schritt(self, x):
        for y in self.schritte():
            return y

    def schritte(self):
        yield (
            stay(),
            1,
        )


async def deep(n):
    if n == 0:
        stay()
    else:
        await deep(n - 1)


exec(compile("def far():\n    None\n" + "\n" * 300 + "    stay()\n", "/srv/far.py", "exec"))
lock.acquire()
_thread.start_new_thread(lambda: far(), ())
os.read(inside, 1)
_thread.start_new_thread(lambda: deep(3).send(None), ())
os.read(inside, 1)
_thread.start_new_thread(Läufer().größe, ())
os.read(inside, 1)
print(os.getpid(), flush=True)
os.read(0, 1)
