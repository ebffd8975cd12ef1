#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# swift_server.py FOLDER AHEAD ACCOUNT:USER:SECRET...: OpenStack's object store, as Debian's python3-swift has it, in one process
# with its four servers: what speaks S3, and those behind it, which keep objects in memory and listings in FOLDER. Its clients
# sign with ACCOUNT:USER as their access key. Its clock is AHEAD seconds ahead. Prints the port of S3 and serves until it is
# killed.

import os
import sys
import time

import eventlet

ahead, now = int(sys.argv[2]), time.time
time.time = lambda: now() + ahead

eventlet.monkey_patch()

import eventlet.wsgi  # noqa: E402
from swift.account.server import AccountController  # noqa: E402
from swift.common import utils  # noqa: E402
from swift.common.ring import RingBuilder  # noqa: E402
from swift.common.wsgi import loadapp  # noqa: E402
from swift.container.server import ContainerController  # noqa: E402
from swift.obj.mem_server import ObjectController  # noqa: E402

PROXY = """
[DEFAULT]
swift_dir = {folder}
log_level = ERROR
[pipeline:main]
pipeline = catch_errors listing_formats s3api tempauth copy slo proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
node_timeout = 60
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:listing_formats]
use = egg:swift#listing_formats
[filter:s3api]
use = egg:swift#s3api
min_segment_size = 1048576
max_bucket_listing = 7
max_parts_listing = 2
storage_domain = localhost
[filter:copy]
use = egg:swift#copy
[filter:slo]
use = egg:swift#slo
[filter:tempauth]
use = egg:swift#tempauth
{users}
"""


class NoCache:
    """In the place of memcached: nothing is ever found."""

    def get(self, *_, **__):
        return None

    def set(self, *_, **__):
        pass

    delete = set


def ring(folder, name, port):
    builder = RingBuilder(1, 1, 1)
    builder.add_dev({"id": 0, "region": 1, "zone": 1, "weight": 1, "ip": "127.0.0.1", "port": port, "device": "d", "meta": ""})
    builder.rebalance()
    builder.get_ring().save(os.path.join(folder, name + ".ring.gz"))


def serve(socket, app):
    log = open(os.devnull, "w")
    eventlet.spawn(eventlet.wsgi.server, socket, app, log=log, debug=False, max_size=200)


def main(folder, _, *users):
    os.makedirs(os.path.join(folder, "devices", "d"))
    utils.HASH_PATH_SUFFIX = b"suffix"
    conf = {"devices": os.path.join(folder, "devices"), "mount_check": "false", "log_level": "ERROR", "swift_dir": folder}
    for name, controller in (("account", AccountController), ("container", ContainerController), ("object", ObjectController)):
        socket = eventlet.listen(("127.0.0.1", 0))
        ring(folder, name, socket.getsockname()[1])
        serve(socket, controller(conf))
    rows = ["user_%s_%s = %s .admin" % tuple(user.split(":")) for user in users]
    proxy = os.path.join(folder, "proxy.conf")
    with open(proxy, "w") as f:
        f.write(PROXY.format(folder=folder, users="\n".join(rows)))
    socket = eventlet.listen(("127.0.0.1", 0))
    app, cache = loadapp(proxy), NoCache()

    def with_cache(env, start_response):
        env["swift.cache"] = cache
        return app(env, start_response)

    serve(socket, with_cache)
    print(socket.getsockname()[1], flush=True)
    while True:
        eventlet.sleep(3600)


main(*sys.argv[1:])
