#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# deb.sh [FOLDER]: makes the Debian packages, or takes those in FOLDER, installs them into this system, uses them, and purges them
# again; so it is for a root of its own, as root: scripts/in-root trixie root tests/package/deb.sh. Speaks TAP.
# shellcheck disable=SC2317 # functions are reached through check
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/lib/tap.sh"
. "$top/scripts/lib/packages.sh"
given=${1:-}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
chmod 755 "$tmp"

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

# All files but what dpkg and apt know of themselves, and the caches and logs of others.
files()
{
    {
        find /etc /opt /srv /usr /var -xdev \( -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/cache -o -path /var/log \
            -o -path /var/lib/systemd \) -prune -o -print
        find /var/log -path '*/dtrun*'
    } | grep -v '/ld.so.cache$' | sort
}

packages='dtrun dtrun-rendezvous libdtrun0 libdtrun-dev'

make()
{
    if [ -n "$given" ]; then
        cp "$given"/*.deb "$tmp"
    else
        DIST=$tmp "$top/scripts/package" deb
    fi
    for package in $packages; do
        ls "$tmp/$package"_*.deb || return 1
    done
}

# All that they depend on is here, as the root can build them; dpkg sees to that.
install()
{
    for package in $packages; do
        set -- "$@" "$tmp/$package"_*.deb
    done
    dpkg -i "$@"
}

programs_run()
{
    for program in dtrun dtrun-ctl dtrun-launch dtrun-rendezvous dtrun-train; do
        "$program" --version || return 1
    done
}

# By somebody who is not root.
job_runs()
{
    mkdir -m 777 "$tmp/seen"
    setpriv --reuid=nobody --regid=nogroup --clear-groups env TMPDIR=/tmp dtrun --nproc-per-node 2 --no-python \
        sh -c ": >'$tmp/seen/'\$RANK-of-\$WORLD_SIZE" || return 1
    [ "$(ls "$tmp/seen")" = "0-of-2
1-of-2" ]
}

# Each helper library finds what it stands on: that is what is recommended.
helpers_load()
{
    ldd /usr/lib/*/dtrun/dt_*.so || return 1
    ! ldd /usr/lib/*/dtrun/dt_*.so | grep 'not found' || return 1
    recommended=$(dpkg-query -W -f '${Recommends}' dtrun)
    for library in libcurl libdw libhwloc libmicrohttpd libsodium libucx; do
        echo "$library: $recommended"
        case $recommended in *"$library"*) ;; *) return 1 ;; esac
    done
}

pages_are_there()
{
    for page in man1/dtrun.1 man1/dtrun-ctl.1 man1/dtrun-launch.1 man1/dtrun-train.1 man8/dtrun-rendezvous.8 man3/dtrun.3; do
        mandoc -T html "/usr/share/man/$page.gz" | grep DESCRIPTION || return 1
    done
    ls /usr/share/doc/dtrun-rendezvous/operations.md* /usr/share/doc/dtrun-rendezvous/examples/kubernetes/job.yaml
}

nothing_is_enabled()
{
    ! find /etc/systemd -name '*dtrun*' | grep . || return 1
    [ "$(systemctl is-enabled dtrun-rendezvous.service)" = disabled ] &&
        [ "$(systemctl is-enabled dtrun-rendezvous.socket)" = disabled ]
}

units_are_good()
{
    systemd-analyze verify --man=no dtrun-rendezvous.service dtrun-rendezvous.socket >"$tmp/said" 2>&1
    cat "$tmp/said"
    ! grep -q dtrun "$tmp/said" && dtrun-rendezvous --config /etc/dtrun/rendezvous.conf --check-config
}

library_links()
{
    # shellcheck disable=SC2046 # words
    cc "$top/examples/train.c" -o "$tmp/train" $(pkg-config --cflags --libs libdtrun) -lm &&
        (cd "$tmp" && dtrun --nproc-per-node 2 --no-python ./train "$tmp/checkpoints" 20)
}

# Also what the daemon keeps: systemd puts it there for a user that it makes up.
purge_leaves_nothing()
{
    mkdir -p /var/lib/private/dtrun /var/log/private/dtrun
    : >/var/lib/private/dtrun/journal
    : >/var/log/private/dtrun/events.log
    ln -s private/dtrun /var/lib/dtrun
    ln -s private/dtrun /var/log/dtrun
    # shellcheck disable=SC2086 # a list of words
    dpkg --purge $packages || return 1
    for folder in /var/lib/private /var/log/private; do
        grep -qx "$folder" "$tmp/before" || rmdir "$folder"
    done
    files | diff "$tmp/before" -
}

# shellcheck disable=SC2086,SC2154 # a list of words; of packages.sh
install_packages $build_packages libucx-dev $package_packages mandoc >/dev/null
files >"$tmp/before"
echo 1..11
check 'the packages are made' make
check 'lintian finds no fault with them' lintian --allow-root --fail-on error,warning "$tmp"/*.deb
check 'they are installed' install
check 'their programs run' programs_run
check 'somebody starts a job' job_runs
check 'helper libraries load, and their libraries are recommended' helpers_load
check 'manual pages, documents and examples are there' pages_are_there
check 'nothing is enabled' nothing_is_enabled
check 'the units and the configuration are good' units_are_good
check 'a program is made with the library' library_links
check 'nothing stays when they are purged' purge_leaves_nothing
exit "$failed"
