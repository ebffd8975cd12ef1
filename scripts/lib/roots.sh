#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Debian roots to test against a PyTorch other than the system's: build/roots/<suite>, made by
# debootstrap from the system's own apt mirror. Sourced after packages.sh; the caller has set -eu
# and $top, the top of the source tree. A root appears by rename when it is whole; one that was
# interrupted is continued where it stopped. Programs run in it by chroot inside a mount and a pid
# namespace of their own, so that no mount and no process outlives them.

roots=${DTRUN_ROOTS:-$top/build/roots}

# A root has the whole host at this path, so what runs inside reaches the sources and, by
# "chroot /host", starts programs that need the host's libraries.
root_host=/host

# The first Debian archive among the system's apt sources. Empty where the host is no Debian, or
# uses something debootstrap cannot read: debootstrap then takes its own default.
root_mirror()
{
    (. /etc/os-release && [ "$ID" = debian ]) || return 0
    for list in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
        [ -f "$list" ] && printf '%s\n' "$list"
    done | while read -r list; do
        case $list in
        *.sources) sed -n 's/^URIs:[[:space:]]*//p' "$list" ;;
        *.list) sed -n 's/^deb[[:space:]]\{1,\}\(\[[^]]*\][[:space:]]*\)\{0,1\}//p' "$list" ;;
        esac
    done | tr -s ' \t' '\n' | grep -E '^(https?|file)://.*/debian/?$' | head -n 1
}

# root_run SUITE COMMAND...: COMMAND in that root, with the host's network and environment.
root_run()
{
    root=$roots/$1
    shift
    # shellcheck disable=SC2016 # expanded by the inner shell
    as_root "running a program in $root" \
        unshare --mount --propagation private --pid --fork --kill-child sh -euc '
            mount --rbind / "$1$2"
            mount --rbind /dev "$1/dev"
            mount -t proc proc "$1/proc"
            mount -t proc proc "$1$2/proc"
            cd "$1"
            shift 2
            exec chroot . "$@"' sh "$root" "$root_host" "$@"
}

# root_torch SUITE: the version of PyTorch in that root.
root_torch()
{
    root_run "$1" /usr/bin/python3 -c 'import torch; print(torch.__version__)'
}

# root_names ROOT: what a program asks the resolver for: this host by its name, and loopback.
root_names()
{
    name=$(uname -n)
    printf '127.0.0.1 localhost\n::1 localhost\n127.0.0.1 %s\n' "$name" >"$1/etc/hosts"
    printf '%s\n' "$name" >"$1/etc/hostname"
}

# root_packages SUITE: PyTorch, in the unfinished root, as small as it comes.
root_packages()
{
    root_run "$1" env DEBIAN_FRONTEND=noninteractive LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        sh -euc 'dpkg --configure -a
                 apt-get -q update
                 apt-get -q -y --fix-broken --no-install-recommends install python3-torch
                 apt-get clean
                 rm -rf /var/lib/apt/lists/* /usr/share/doc/*'
}

# root_safetensors SUITE: python3-safetensors, where the suite offers it; bookworm does not.
root_safetensors()
{
    # shellcheck disable=SC2016 # expanded by the inner shell
    root_run "$1" env DEBIAN_FRONTEND=noninteractive LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        sh -euc '[ ! -e /usr/lib/python3/dist-packages/safetensors ] || exit 0
                 apt-get -q update
                 case $(apt-cache policy python3-safetensors) in
                 *"Candidate: "[0-9]*)
                     apt-get -q -y --no-install-recommends install python3-safetensors ;;
                 *) echo "python3-safetensors is not offered by this release" ;;
                 esac
                 apt-get clean
                 rm -rf /var/lib/apt/lists/*'
}

# root_make SUITE: makes the root unless it is there. Runs as root.
root_make()
{
    suite=$1
    [ ! -d "$roots/$suite" ] || return 0
    mkdir -p "$roots"
    exec 9>"$roots/.lock"
    flock 9
    [ ! -d "$roots/$suite" ] || return 0

    part=$roots/$suite.part
    if [ ! -e "$part/etc/dtrun-base" ]; then
        rm -rf "$part"
        mirror=$(root_mirror)
        debootstrap --variant=minbase "$suite" "$part" ${mirror:+"$mirror"} 9>&-
        mkdir -p "$part$root_host"
        : >"$part/etc/dtrun-base"
    fi
    root_names "$part"
    root_packages "$suite.part" 9>&-
    if [ "$suite" = trixie ]; then # its PyTorch wants a libuv that it is built without
        for dir in "$part"/etc/python3.*; do
            cp "$top/tests/system/no_libuv/sitecustomize.py" "$dir/sitecustomize.py"
        done
    fi
    mv "$part" "$roots/$suite"
    exec 9>&-
}
