#!/bin/sh
# emulated.sh - write a script that runs PROGRAM.arm64 under qemu-user: emulated.sh PROGRAM ROOT
#
# ROOT has the arm64 libraries (arm64_root.sh).
set -eu
cat >"$1" <<EOF
#!/bin/sh
exec qemu-aarch64-static -L "$2" "$(realpath "$1").arm64" "\$@"
EOF
chmod +x "$1"
