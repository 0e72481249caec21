#!/bin/sh
# nni_names.sh - check that every name of NNI's documentation has a table row: nni_names.sh DOCUMENT
#
# nni_names.txt lists the classes, methods, keys and examples, one per line.  Each must be in the left
# cell of a table row whose right cell is not empty.
set -eu
awk -F' *[|] *' '
FILENAME ~ /txt$/ { name[++n] = $0; next }
/^\|/ && NF >= 4 && $3 != "" && $2 !~ /^-+$/ { left = left "\n" $2 }
END {
    for (i = 1; i <= n; i++)
        if (!index(left, name[i])) {
            print FILENAME ": no row has " name[i]
            bad = 1
        }
    exit bad || n < 80
}' nni_names.txt "$1"
