#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Installing what a script needs, on Debian and Ubuntu, as root or with sudo. Sourced.

# as_root WHAT COMMAND...: runs COMMAND as root, or says that WHAT needs it.
as_root()
{
    what=$1
    shift
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        echo "$what needs root: run it as root, or install sudo." >&2
        return 1
    fi
}

# missing_packages NAME...: those that are not installed.
missing_packages()
{
    for package; do
        dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
            printf ' %s' "$package"
    done
}

# Tests start servers of their own. One that is installed for them, as sshd is, does not begin to serve this machine: not
# now, and not when it starts again. Whoever wants that says: systemctl unmask ssh.
keep_quiet()
{
    for package; do
        [ "$package" != openssh-server ] || [ ! -d /run/systemd/system ] ||
            as_root 'masking the service ssh' systemctl mask --quiet ssh.service ssh.socket
    done
}

# A program for sh, whose arguments are packages. policy-rc.d is what their scripts ask whether they may start a service.
# shellcheck disable=SC2016 # that shell's own variables
install_quietly='
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        trap "rm -f $policy" EXIT
        printf "#!/bin/sh\nexit 101\n" >"$policy"
        chmod 755 "$policy"
    fi
    apt-get -q -y --no-install-recommends install "$@"'

# install_packages NAME...: does nothing, and asks for nothing, when all are there.
install_packages()
{
    command -v apt-get >/dev/null || {
        echo "this script installs with apt-get, which is missing here: install by hand:$*" >&2
        return 1
    }
    absent=$(missing_packages "$@")
    [ -n "$absent" ] || return 0
    as_root "installing$absent" apt-get -q update
    # shellcheck disable=SC2086 # lists of words
    keep_quiet $absent
    # shellcheck disable=SC2086
    as_root "installing$absent" env DEBIAN_FRONTEND=noninteractive sh -euc "$install_quietly" sh $absent
}

# install_if_offered NAME...: the same for what not every release has.
install_if_offered()
{
    absent=$(missing_packages "$@")
    [ -n "$absent" ] || return 0
    as_root "installing$absent" apt-get -q update
    for package in $absent; do
        if apt-cache policy "$package" | grep -q 'Candidate: [0-9]'; then
            install_packages "$package"
        else
            echo "$package is not offered by this release; what needs it is skipped" >&2
        fi
    done
}

# Lists for those who source this.
# shellcheck disable=SC2034
build_packages="gcc libc6-dev meson ninja-build pkg-config libuv1-dev libcjson-dev libxxhash-dev libhwloc-dev \
    libdw-dev libmicrohttpd-dev libpcre2-dev libsodium-dev libcurl4-openssl-dev libssl-dev"
# What dtrun-train opens when it runs: matrix products, and connections between hosts. libucx-dev is for building dt_ucx.so.
# shellcheck disable=SC2034
runtime_packages="libopenblas0-pthread libucx-dev"
# python3-swift is a store of objects that speaks S3, python3-botocore Amazon's client for it. python3-prometheus-client
# reads metrics as Prometheus does. ssh and its server start agents on hosts. zsh and fish complete what people type.
# shellcheck disable=SC2034
test_packages="libpython3-dev mandoc systemd iproute2 nftables python3-swift python3-botocore openssl curl \
    python3-prometheus-client openssh-client openssh-server binutils python3-pip python3-venv \
    python3-yaml rpm zsh fish"
# What Debian packages are made and judged with. systemd says where units belong.
# shellcheck disable=SC2034
package_packages="build-essential dpkg-dev debhelper lintian systemd"
