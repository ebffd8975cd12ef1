#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Debian roots, made by debootstrap from the system's own apt mirror: build/roots/<suite> has a PyTorch
# other than the system's, to measure against; build/roots/<suite>.bare has nothing, to see that the two commands
# work there. Sourced after packages.sh; the caller has set -eu and $top, the top of the source tree. A
# root appears by rename when it is whole; one that was interrupted is continued where it stopped. Programs run in
# it by chroot inside a mount and a pid namespace of their own, so that no mount and no process outlives them.

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

# root_bootstrap SUITE FOLDER
root_bootstrap()
{
    mirror=$(root_mirror)
    debootstrap --variant=minbase "$1" "$2" ${mirror:+"$mirror"}
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
        root_bootstrap "$suite" "$part" 9>&-
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

bare_home=/home/somebody
bare_tree="$bare_home/a clone of dtrun"

# bare_make SUITE: the bare root, with the user somebody, unless it is there. Runs as root.
bare_make()
{
    bare=$roots/$1.bare
    [ ! -d "$bare" ] || return 0
    mkdir -p "$roots"
    rm -rf "$bare.part"
    root_bootstrap "$1" "$bare.part"
    cp -L /etc/resolv.conf "$bare.part/etc/resolv.conf"
    root_names "$bare.part"
    chroot "$bare.part" env PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive \
        sh -euc 'apt-get -q -y --no-install-recommends install sudo
                 useradd --create-home somebody
                 echo "somebody ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/somebody'
    mv "$bare.part" "$bare"
}

# bare_copy SUITE: the tracked files of this tree, as they are now, in that root; unchanged ones keep their times, so that
# what was built from them is not built again.
bare_copy()
{
    tree=$roots/$1.bare$bare_tree
    mkdir -p "$tree"
    (cd "$top" && git -c safe.directory="$top" ls-files -z | tar --null --files-from=- -cf -) |
        tar -C "$tree" -xf - --no-same-owner
    chroot "$roots/$1.bare" chown -R --no-dereference somebody: "$bare_home"
}

# bare_run SUITE USER [NAME=VALUE...] COMMAND...: in the copy. The root is bound onto itself, so that what makes mounts
# of its own in there, as ip does for network namespaces, finds a mount at /.
bare_run()
{
    bare=$roots/$1.bare user=$2
    shift 2
    # shellcheck disable=SC2016 # expanded by the inner shell
    unshare --mount --propagation private --pid --fork --kill-child sh -euc '
        bare=$1 user=$2 tree=$3
        shift 3
        mount --bind "$bare" "$bare"
        cd "$bare"
        mount --rbind /dev dev
        [ "$user" = root ] || mount -t tmpfs tmpfs dev/pts
        mount --rbind /sys sys
        mount -t proc proc proc
        mount -t tmpfs tmpfs run
        mount -t tmpfs tmpfs tmp
        exec chroot . setpriv --reuid="$user" --regid="$user" --init-groups env -i -C "$tree" \
            HOME="$(awk -F: -v u="$user" "\$1 == u { print \$6 }" etc/passwd)" \
            PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"' \
        sh "$bare" "$user" "$bare_tree" "$@"
}
