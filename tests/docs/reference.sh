#!/bin/sh
# reference.sh - docs/config.md is what the tables say: reference.sh PARE DOCUMENT
set -eu
"$1" help --reference | diff -u "$2" - && exit 0
echo "$2 is not what 'pare help --reference' prints; 'make docs' writes it anew"
exit 1
