#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# TAP for tests that are shell scripts. Sourced. The script prints its own plan first and ends with "exit $failed".

# shellcheck disable=SC2034 # "failed" is for the script that sources this
number=0 failed=0

# tap_ok WHAT
tap_ok()
{
    number=$((number + 1))
    echo "ok $number - $1"
}

# tap_skip WHAT WHY
tap_skip()
{
    tap_ok "$1 # SKIP $2"
}

# tap_not_ok WHAT: standard input is why. Some runners, meson 1.0 among them, show nothing of a TAP program's stdout, so the
# reason goes to stderr, too, unless both are the same file.
tap_not_ok()
{
    number=$((number + 1))
    # shellcheck disable=SC2034
    failed=1
    why=$(sed 's/^/# /')
    printf '%s\nnot ok %d - %s\n' "$why" "$number" "$1"
    # shellcheck disable=SC3013 # dash, bash and busybox know -ef
    [ /dev/stdout -ef /dev/stderr ] || printf '%s:\n%s\n' "$1" "$why" >&2
}
