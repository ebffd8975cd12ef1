# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the scripts that measure have in common. They set $usage and the variables of their options first.

# refuse SENTENCE: a bad command line, or something that is not built
refuse() {
    echo "${0##*/}: $1" >&2
    exit 2
}

# read_options "--build --rounds" "--no-torch" ARG...: --rounds N sets $rounds, --no-torch sets $no_torch to yes
read_options() {
    local valued=" $1 " flags=" $2 " name
    shift 2
    while [ $# -gt 0 ]; do
        name=${1#--} name=${name//-/_}
        if [ "$1" = --help ]; then
            echo "${usage:?}" && exit 0
        elif [[ $1 == --* && $valued == *" $1 "* ]]; then
            [ $# -gt 1 ] || refuse "$1 needs a value."
            printf -v "$name" %s "$2"
            shift
        elif [[ $1 == --* && $flags == *" $1 "* ]]; then
            printf -v "$name" yes
        else
            refuse "$1 is no option; --help lists them."
        fi
        shift
    done
}

# check_number --rounds DIGITS: that $rounds is a number from 1 with so many digits at most
check_number() {
    local name=${1#--} most value
    value=${!name}
    printf -v most '%*s' "$2" ''
    [[ $value =~ ^[1-9][0-9]*$ && ${#value} -le $2 ]] ||
        refuse "$1: \"$value\" is not a number from 1 to ${most// /9}."
}

# read_training_options ARG...: the options of a script that trains beside PyTorch, and their defaults: $build, $rounds, $steps, and
# $torch, which is empty where ours is measured alone. Behind $top; it has their $usage.
# shellcheck disable=SC2034 # whoever sources this reads them
read_training_options() {
    build=${top:?}/build rounds=3 steps=20 torch=yes no_torch=
    usage="Usage: ${0##*/} [--build DIR] [--rounds N] [--steps N] [--no-torch]
  --build DIR   where the project is built (build), best as a release
  --rounds N    rounds of each measurement (3)
  --steps N     steps of each run (20)
  --no-torch    ours alone"
    read_options "--build --rounds --steps" "--no-torch" "$@"
    [ -z "$no_torch" ] || torch=
    check_number --rounds 2
    check_number --steps 4
}

# make_tokens VOCABULARY: 200000 of them by chance, always the same, as numbers of 16 bits
make_tokens() {
    python3 - "$1" <<'END'
import random, struct, sys
random.seed(1)
sys.stdout.buffer.write(struct.pack("<200000H", *(random.randrange(int(sys.argv[1])) for _ in range(200000))))
END
}

# find_build PROGRAM...: makes $build absolute, in which these programs are
find_build() {
    local program
    build=$(cd "$build" && pwd) || exit 1
    for program; do
        [ -x "$build/$program" ] || refuse "no $build/$program; build first or say --build DIR."
    done
}

# say_machine CORES: on what, and when, this is measured
say_machine() {
    echo "machine  $(awk -F': ' '/model name/ { print $2; exit }' /proc/cpuinfo), $1 cores, Linux $(uname -r), load $(cut -d ' ' -f 1 /proc/loadavg)"
    echo "date     $(date -u '+%Y-%m-%d %H:%M:%S') UTC"
}

# find_torch: that the trixie root is there, which has PyTorch 2.6. Behind scripts/lib/packages.sh and roots.sh. $blas is what to
# preload for it: without that its arithmetic takes twenty times as long, and of OpenBLAS's builds this one shares its threads.
find_torch() {
    blas=/usr/lib/$(uname -m)-linux-gnu/openblas-openmp/libopenblas.so.0
    [ -d "${roots:?}/trixie" ] ||
        refuse "no root with PyTorch 2.6: scripts/make-root trixie makes it; --no-torch measures ours alone."
    [ -e "$roots/trixie$blas" ] ||
        root_run trixie env DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin \
            sh -euc 'apt-get -q update && apt-get -q -y --no-install-recommends install libopenblas0-openmp' >&2
}
