#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# lint.sh PAGE: what mandoc finds, style included. Whether this machine's index knows the pages that ours refers to is left
# out: that says something about the machine.
set -eu
found=$(mandoc -Tlint -Wall "$1" 2>&1 | grep -v -e 'mandoc.db' -e 'referenced manual not found' || true)
[ -z "$found" ] || {
    echo "$found"
    exit 1
}
