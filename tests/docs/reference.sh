#!/bin/sh
# reference.sh - check that docs/config.md is up to date: reference.sh PARE DOCUMENT
set -eu
"$1" help --reference | diff -u "$2" - && exit 0
echo "$2 differs from 'pare help --reference'; run 'make docs'"
exit 1
