# SPDX-License-Identifier: Apache-2.0
#
# Imported when Python starts, by dtrun.pth where somebody asked for it, see install_hook.py. Where this Python was started only to
# become torchrun, it becomes dtrun before PyTorch is imported. Else PyTorch's launcher stays as it is until a program
# imports it: then dtrun's run() and main() take the places of its own, and all else in it remains PyTorch's.
import os
import sys
from importlib.machinery import PathFinder

LAUNCHERS = {"torch.distributed.run": "dtrun", "torch.distributed.launch": "dtrun-launch"}


def module_of(arguments, words):
    """What "python -m" was given, of sys.argv, which has "-m" in that place while modules are being looked for, and all WORDS of
    the command line. None: no module."""
    if not arguments or arguments[0] != "-m" or len(words) <= len(arguments):
        return None
    word = words[-len(arguments)]
    return word[2:] if word.startswith("-m") else word


def asked_for(arguments, words):
    """The program that this Python is to become, or None."""
    if arguments and os.path.basename(arguments[0]) == "torchrun":
        return "dtrun"
    return LAUNCHERS.get(module_of(arguments, words))


class Finder:
    """Finds torch.distributed.run where it is, and has it changed once it is loaded."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != "torch.distributed.run":
            return None
        sys.meta_path.remove(cls)
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                from dtrun import run
                execute(module)
                module.run, module.main = run.run, run.main

            spec.loader.exec_module = exec_module
        return spec


def start():
    arguments = getattr(sys, "argv", [])
    with open("/proc/self/cmdline", "rb") as f:
        words = [os.fsdecode(word) for word in f.read().split(b"\0")[:-1]]
    name = asked_for(arguments, words)
    if name:
        from dtrun.run import become
        become(name, arguments[1:])
    sys.meta_path.insert(0, Finder)


start()
