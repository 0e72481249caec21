#!/bin/sh
# emulated.sh - write a script that runs PROGRAM.arm64 under qemu-user: emulated.sh PROGRAM ROOT
#
# ROOT has the arm64 libraries (arm64_root.sh).
set -eu
program=$(realpath "$1.arm64")
printf '#!/bin/sh\nexec qemu-aarch64-static -L "%s" "%s" "$@"\n' "$2" "$program" >"$1"
chmod +x "$1"
