#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# image.sh ARCHIVE: the container image of scripts/package, as an engine would run it: its digests are right, it is smaller than
# 60 MB, and its daemon runs as its user on a root that cannot be written, with its health check. Speaks TAP. Wants root.
# shellcheck disable=SC2317 # functions are reached through check
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/lib/tap.sh"
archive=$1
user='' command='' health='' # from its settings
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# check WHAT COMMAND...: one test; what the command prints is shown when it fails.
check()
{
    what=$1
    shift
    if "$@" >"$tmp/out" 2>&1; then
        tap_ok "$what"
    else
        tap_not_ok "$what" <"$tmp/out"
    fi
}

# What a digest names, each by its own sum; the layer becomes $tmp/root, its settings $tmp/config.
unpack()
{
    mkdir "$tmp/layout" "$tmp/root" && tar -C "$tmp/layout" -xf "$archive" || return 1
    (cd "$tmp/layout/blobs/sha256" && for blob in *; do echo "$blob  $blob"; done | sha256sum -c) || return 1
    python3 - "$tmp" <<'PYTHON'
import gzip, hashlib, json, sys
layout = sys.argv[1] + "/layout/"
def read(what):
    with open(layout + "blobs/" + what["digest"].replace(":", "/"), "rb") as f:
        content = f.read()
    assert len(content) == what["size"]
    return content
index = json.load(open(layout + "index.json"))
names = index["manifests"][0]["annotations"]
version = names["org.opencontainers.image.ref.name"].partition("dtrun:")[2]
assert version and names["io.containerd.image.name"] == "docker.io/library/dtrun:" + version, names
manifest = json.loads(read(index["manifests"][0]))
config = json.loads(read(manifest["config"]))
files = gzip.decompress(read(manifest["layers"][0]))
assert config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(files).hexdigest()]
open(sys.argv[1] + "/layer.tar", "wb").write(files)
settings = config["config"]
with open(sys.argv[1] + "/config", "w") as f:
    f.write("user='%s'\ncommand='%s'\nhealth='%s'\n" % (
        settings["User"], " ".join(settings["Cmd"]), " ".join(settings["Healthcheck"]["Test"][1:])))
PYTHON
    tar -C "$tmp/root" -xf "$tmp/layer.tar"
}

is_small()
{
    size=$(du -s --apparent-size --block-size=1000 "$tmp/root" | cut -f 1)
    echo "$size kB unpacked"
    [ "$size" -lt 60000 ]
}

# in_image HEALTH COMMAND...: as the image's user, in its root, of which only its own folders can be written, with a network and
# processes of its own. Unless it is empty, HEALTH is what counts: it runs once COMMAND has said that it listens.
in_image()
{
    # shellcheck disable=SC2016 # for that shell
    unshare --mount --propagation private --net --pid --fork --kill-child sh -euc '
        root=$1 user=$2 health=$3
        shift 3
        ip link set lo up
        mount --bind "$root" "$root"
        mount -o remount,bind,ro "$root"
        mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
        mount -t tmpfs -o "mode=700,uid=${user%:*},gid=${user#*:}" tmpfs "$root/var/lib/dtrun"
        cd "$root"
        set -- chroot --userspec="$user" --groups= . "$@"
        [ -n "$health" ] || exec "$@"
        mkfifo var/lib/dtrun/said
        "$@" >var/lib/dtrun/said 2>&1 &
        exec 3<var/lib/dtrun/said
        while read -r line <&3; do
            echo "$line"
            case $line in *"listening on "*) break ;; esac
        done
        exec chroot --userspec="$user" --groups= . $health' sh "$tmp/root" "$user" "$@"
}

programs_run()
{
    for program in dtrun dtrun-ctl dtrun-launch dtrun-rendezvous dtrun-train; do
        in_image '' "$program" --version || return 1
    done
}

job_runs()
{
    [ "${user%:*}" -gt 0 ] && in_image '' dtrun --no-python dtrun-ctl --version
}

# shellcheck disable=SC2086 # the words of its command
daemon_is_healthy()
{
    in_image "$health" $command
}

# The same check of a daemon that is not there.
# shellcheck disable=SC2086 # the words of the check
health_check_can_fail()
{
    ! in_image '' $health
}

echo 1..6
check 'all that digests name is there' unpack
# shellcheck source=/dev/null
. "$tmp/config"
check 'it is smaller than 60 MB' is_small
check 'its programs run' programs_run
check 'its user, who is not root, starts a job' job_runs
check 'its daemon is healthy' daemon_is_healthy
check 'the health check of no daemon fails' health_check_can_fail
exit "$failed"
