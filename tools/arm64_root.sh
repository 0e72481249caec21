#!/bin/sh
# arm64_root.sh - unpack Debian 12's arm64 libraries that Pare is built with: arm64_root.sh FOLDER
#
# Nothing of it is run or installed on this machine.
set -eu
[ ! -e "$1/complete" ] || exit 0
rm -rf "$1"
mkdir -p "$(dirname "$1")"
echo "unpacking the arm64 libraries of Debian into $1"
mmdebstrap --quiet --variant=extract --architectures=arm64 --include=libc6-dev,libgomp1,libprotobuf-c-dev \
    --include=libjansson-dev,zlib1g-dev,libpng-dev,libjpeg62-turbo-dev,libcmocka-dev,libgcc-12-dev \
    bookworm "$1" >"$1.log" 2>&1 || { tail "$1.log" >&2; exit 1; }
# The emulator looks for every path here first: only libraries may be found.
for f in "$1"/*; do
    case ${f##*/} in lib* | usr) ;; *) rm -rf "$f" ;; esac
done
touch "$1/complete"
