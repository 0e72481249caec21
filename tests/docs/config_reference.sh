#!/bin/sh
# config_reference.sh - check that docs/config.md is up to date: config_reference.sh PARE DOCUMENT
set -eu
"$1" help --reference | diff -u "$2" - && exit 0
echo "$2 differs from 'pare help --reference'; run 'make docs'"
exit 1
