#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clang-tidy on one file, silent unless it finds something, with the static analyzer. test.sh checks all at once.
report=$(clang-tidy --quiet -p build/dev "$1" 2>&1) && exit 0
printf '%s\n' "$report" | grep -v ' warnings.* generated\.$' >&2
exit 1
