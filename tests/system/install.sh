#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# install.sh: installs into a prefix and into a DESTDIR as a packager would, and looks at what lies there: the program runs, the
# page is found, systemd finds no fault with the units and scores their hardening 2.0 or better. Speaks TAP.
# shellcheck disable=SC2317 # functions are reached through check
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

number=0 failed=0
# check WHAT COMMAND...: one test; what the command prints is shown when it fails.
check()
{
    what=$1
    shift
    number=$((number + 1))
    if "$@" >"$tmp/out" 2>&1; then
        echo "ok $number - $what"
    else
        sed 's/^/# /' "$tmp/out"
        echo "not ok $number - $what"
        failed=1
    fi
}
skip()
{
    number=$((number + 1))
    echo "ok $number - $1 # SKIP $2"
}

units_are_silent()
{
    systemd-analyze verify --man=no "$units/dtrun-rendezvous.service" "$units/dtrun-rendezvous.socket" >"$tmp/said" 2>&1
    cat "$tmp/said"
    ! grep -q dtrun "$tmp/said" # what it says of other units of this machine is not ours
}

units_are_hardened()
{
    score=$(systemd-analyze security --offline=yes "$units/dtrun-rendezvous.service" |
        sed -n 's/.*Overall exposure level.*: \([0-9.]*\) .*/\1/p')
    echo "exposure level $score"
    awk -v score="$score" 'BEGIN { exit !(score != "" && score <= 2.0) }'
}

# Each command of the page's EXAMPLES is one that the program takes.
examples_are_taken()
{
    sed -n 's/^\.Dl dtrun-rendezvous//p' "$tmp/prefix/share/man/man8/dtrun-rendezvous.8" >"$tmp/examples"
    [ "$(wc -l <"$tmp/examples")" -ge 3 ]
    while read -r arguments; do
        echo "$arguments"
        eval "\"\$program\" $arguments --check-config"
    done <"$tmp/examples"
}

# So are those of dtrun and dtrun-launch.
launcher_examples_are_taken()
{
    sed -n 's/^\.Dl \(dtrun[a-z-]*\) /\1 --print-config /p' "$tmp/prefix/share/man/man1"/*.1 >"$tmp/examples"
    [ "$(wc -l <"$tmp/examples")" -ge 7 ]
    while read -r command; do
        echo "$command"
        eval "(cd '$tmp' && '$tmp/prefix/bin/'$command)"
    done <"$tmp/examples"
}

torchrun_is_dtrun()
{
    [ "$("$tmp/prefix/bin/torchrun" --version)" = "$("$tmp/prefix/bin/dtrun" --version)" ]
}

echo 1..12
check 'it builds in a folder of its own' meson setup "$tmp/build" "$top" --prefix="$tmp/prefix" --sysconfdir=etc -Dtests=false \
    -Dtorchrun_symlink=true
check 'and installs into a prefix' meson install -C "$tmp/build"
check 'and into a DESTDIR' env DESTDIR="$tmp/dest" meson install -C "$tmp/build" --no-rebuild
program=$tmp/prefix/bin/dtrun-rendezvous
units=$tmp/prefix/lib/systemd/system
check 'the program runs' "$program" --version
check 'the shipped configuration is good' "$program" --config "$tmp/prefix/etc/dtrun/rendezvous.conf" --check-config
check 'the examples of the manual are taken' examples_are_taken
check 'and those of the launchers' launcher_examples_are_taken
check 'torchrun is dtrun where that was asked for' torchrun_is_dtrun
check 'DESTDIR holds the same tree' test -x "$tmp/dest$program"
check 'completions are there' test -s "$tmp/prefix/share/bash-completion/completions/dtrun-rendezvous" \
    -a -s "$tmp/prefix/share/zsh/site-functions/_dtrun-rendezvous" \
    -a -s "$tmp/prefix/share/fish/vendor_completions.d/dtrun-rendezvous.fish"
if command -v systemd-analyze >/dev/null; then
    check 'systemd finds no fault with the units' units_are_silent
    check 'the service is hardened to 2.0 or better' units_are_hardened
else
    skip 'systemd finds no fault with the units' 'systemd-analyze is missing (package systemd)'
    skip 'the service is hardened to 2.0 or better' 'systemd-analyze is missing (package systemd)'
fi
exit $failed
