#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# hardened.sh [--fortified] FILE...: whether programs and libraries were built so that a mistake with memory ends them: position
# independent, nothing executable on the stack, all functions bound before main() and their table read-only, a guard on
# the stack, and, where the build optimises, the checks of _FORTIFY_SOURCE. Speaks TAP.
set -eu
fortified=
if [ "$1" = --fortified ]; then
    fortified=yes
    shift
fi

number=0 failed=0
# check WHAT FILE PATTERN READELF-OPTION: a line of what readelf says has PATTERN.
check()
{
    number=$((number + 1))
    if LC_ALL=C readelf -W "$4" "$2" | grep -Eq "$3"; then
        echo "ok $number - ${2##*/}: $1"
    else
        echo "# readelf $4 $2 shows no \"$3\""
        echo "not ok $number - ${2##*/}: $1"
        failed=1
    fi
}

for file; do
    check 'anywhere in memory' "$file" 'Type: +DYN' -h
    check 'no code on the stack' "$file" 'GNU_STACK.* RW +0x' -l
    check 'a table of functions that cannot be changed' "$file" 'GNU_RELRO' -l
    check 'no function is looked up later' "$file" 'BIND_NOW|FLAGS_1.*NOW' -d
    check 'a guard on the stack' "$file" '__stack_chk_fail' --dyn-syms
    [ -z "$fortified" ] || check 'checked copies' "$file" '__[a-z]+_chk' --dyn-syms
done
echo "1..$number"
exit $failed
