#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# fresh.sh FOLDER COMMAND...   runs a command that finds no such folder
rm -rf "$1"
shift
exec "$@"
