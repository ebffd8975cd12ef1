#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# install.sh: installs into a prefix and into a DESTDIR as a packager would, and looks at what lies there: the program runs, the
# page is found, systemd finds no fault with the units and scores their hardening 2.0 or better. Speaks TAP.
# shellcheck disable=SC2317 # functions are reached through check
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/lib/tap.sh"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# check WHAT COMMAND...: one test; what the command prints is shown when it fails. A function is called as a condition, where
# -e means nothing: what may fail within one says so itself.
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
    [ "$(wc -l <"$tmp/examples")" -ge 3 ] || return 1
    while read -r arguments; do
        echo "$arguments"
        eval "\"\$program\" $arguments --check-config" || return 1
    done <"$tmp/examples"
}

# So are those of dtrun and dtrun-launch, of a script that is there.
launcher_examples_are_taken()
{
    : >"$tmp/train.py"
    sed -n 's/^\.Dl \(dtrun[a-z-]*\) /\1 --print-config /p' "$tmp/prefix/share/man/man1/dtrun.1" \
        "$tmp/prefix/share/man/man1/dtrun-launch.1" >"$tmp/examples"
    [ "$(wc -l <"$tmp/examples")" -ge 7 ] || return 1
    while read -r command; do
        echo "$command"
        eval "(cd '$tmp' && '$tmp/prefix/bin/'$command)" || return 1
    done <"$tmp/examples"
}

# And those of dtrun-ctl: that nobody serves there is all that is wrong with them.
ctl_examples_are_taken()
{
    sed -n 's/^\.Dl dtrun-ctl//p' "$tmp/prefix/share/man/man1/dtrun-ctl.1" >"$tmp/examples"
    [ "$(wc -l <"$tmp/examples")" -ge 3 ] || return 1
    while read -r arguments; do
        echo "$arguments"
        status=0
        eval "'$tmp/prefix/bin/dtrun-ctl' $arguments --endpoint unix:/nonexistent" || status=$?
        [ "$status" -eq 1 ] || return 1
    done <"$tmp/examples"
}

# Those of dtrun-train are carried out, but for a few steps and beside the sources that they are about. Lines that want other
# hosts, or files of somebody's own, stand in the page as blocks.
train_examples_work()
{
    mkdir "$tmp/examples.d"
    cp -r "$top/README.md" "$top/docs" "$top/examples" "$tmp/examples.d"
    sed -n 's/^\.Dl //p' "$tmp/prefix/share/man/man1/dtrun-train.1" >"$tmp/examples"
    [ "$(wc -l <"$tmp/examples")" -ge 2 ] || return 1
    while read -r command; do
        echo "$command"
        (cd "$tmp/examples.d" && PATH=$tmp/prefix/bin:$PATH && eval "$command --set train.steps=2" </dev/null) || return 1
    done <"$tmp/examples"
    test -s "$tmp/examples.d/examples/demo.bin"
}

torchrun_is_dtrun()
{
    [ "$("$tmp/prefix/bin/torchrun" --version)" = "$("$tmp/prefix/bin/dtrun" --version)" ]
}

# Everything of include/dtrun, and nothing that lies elsewhere in the tree.
headers_are_whole()
{
    (cd "$top/worker_runtime/include/dtrun" && ls) >"$tmp/headers"
    (cd "$tmp/prefix/include/dtrun" && ls) | diff "$tmp/headers" - && ! grep -r '#include "' "$tmp/prefix/include/dtrun"
}

# in_root ROOT COMMAND...: with the pkg-config files and libraries that lie below ROOT.
in_root()
{
    pc=$(find "$1" -name libdtrun.pc)
    libs=$(dirname "$(find "$1" -name libdtrun.so)")
    sysroot=$1
    [ "$1" = "$tmp/prefix" ] && sysroot=
    shift
    PKG_CONFIG_SYSROOT_DIR=$sysroot PKG_CONFIG_PATH=$(dirname "$pc") LD_LIBRARY_PATH=$libs "$@"
}

# What examples/train.c says of its making is what a person types.
example_trains()
{
    # shellcheck disable=SC2016 # the shell that runs it expands it
    # shellcheck disable=SC2016 # for the shell of the line
    make=$(sed -n 's/^ \* *cc /${CC:-cc} /p' "$top/examples/train.c")
    echo "$make"
    rm -rf "$tmp/example" && mkdir "$tmp/example" && cp "$top/examples/train.c" "$tmp/example"
    (cd "$tmp/example" && in_root "$1" sh -c "$make" && in_root "$1" ./train &&
        in_root "$1" "$tmp/prefix/bin/dtrun" --nproc-per-node 2 --no-python ./train checkpoints 500)
}

links_from_cxx()
{
    echo '#include <dtrun/dtrun.h>
int main() { struct dt_err err; dt_err_set(&err, DT_E_RUNTIME, "%s", dt_version()); return dt_err_exit_status(&err) - 1; }' \
        >"$tmp/cxx.cc"
    in_root "$tmp/prefix" sh -c "c++ '$tmp/cxx.cc' -o '$tmp/cxx' \$(pkg-config --cflags --libs libdtrun) && '$tmp/cxx'"
}

echo 1..18
check 'it builds in a folder of its own' meson setup "$tmp/build" "$top" --prefix="$tmp/prefix" --sysconfdir=etc -Dtests=false \
    --buildtype=plain -Dtorchrun_symlink=true -Dcuda=disabled
check 'and installs into a prefix' meson install -C "$tmp/build"
check 'and into a DESTDIR' env DESTDIR="$tmp/dest" meson install -C "$tmp/build" --no-rebuild
program=$tmp/prefix/bin/dtrun-rendezvous
units=$tmp/prefix/lib/systemd/system
check 'the program runs' "$program" --version
check 'the shipped configuration is good' "$program" --config "$tmp/prefix/etc/dtrun/rendezvous.conf" --check-config
check 'the examples of the manual are taken' examples_are_taken
check 'and those of the launchers' launcher_examples_are_taken
check 'and those of dtrun-ctl' ctl_examples_are_taken
check 'those of dtrun-train work' train_examples_work
check 'torchrun is dtrun where that was asked for' torchrun_is_dtrun
check 'DESTDIR holds the same tree' test -x "$tmp/dest$program"
check 'completions are there' test -s "$tmp/prefix/share/bash-completion/completions/dtrun-rendezvous" \
    -a -s "$tmp/prefix/share/zsh/site-functions/_dtrun-rendezvous" \
    -a -s "$tmp/prefix/share/fish/vendor_completions.d/dtrun-rendezvous.fish"
check 'so are the headers of libdtrun' headers_are_whole
check 'a program is made with it and trains' example_trains "$tmp/prefix"
check 'and with the one in DESTDIR' example_trains "$tmp/dest"
if command -v c++ >/dev/null; then
    check 'one in C++ links with it' links_from_cxx
else
    tap_skip 'one in C++ links with it' 'c++ is missing (package g++)'
fi
if command -v systemd-analyze >/dev/null; then
    check 'systemd finds no fault with the units' units_are_silent
    check 'the service is hardened to 2.0 or better' units_are_hardened
else
    tap_skip 'systemd finds no fault with the units' 'systemd-analyze is missing (package systemd)'
    tap_skip 'the service is hardened to 2.0 or better' 'systemd-analyze is missing (package systemd)'
fi
exit $failed
