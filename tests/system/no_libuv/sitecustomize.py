# SPDX-License-Identifier: Apache-2.0
#
# For tests only. Debian 13's PyTorch is built without libuv, and yet its TCPStore asks for libuv
# unless told otherwise, which the agent-store mode of a process group never does. The bytes on the
# wire are the same either way. So, in every Python process of a test, and of a test root: once
# torch.distributed has been imported, each TCPStore that knows use_libuv is constructed with
# use_libuv=False, whoever constructs it.

import importlib.util
import sys

POSITION_OF_USE_LIBUV = 8


def never_ask_for_libuv(store_class):
    construct = store_class.__init__

    def __init__(self, *args, **kwargs):
        kwargs["use_libuv"] = False
        construct(self, *args[:POSITION_OF_USE_LIBUV], **kwargs)

    store_class.__init__ = __init__


class AfterTorchDistributed:
    """A finder that finds nothing itself; it adds a step to the loading of one module."""

    def find_spec(self, name, path, target=None):
        if name != "torch.distributed":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            if hasattr(getattr(module, "TCPStore", None), "libuvBackend"):
                never_ask_for_libuv(module.TCPStore)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, AfterTorchDistributed())
