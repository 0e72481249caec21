#!/bin/sh
# deb.sh - install a package on a fresh Debian 12 and run it there: deb.sh PACKAGE [ROOT]
#
# Needs root and a network.  ROOT is an existing Debian root; without it, debootstrap creates one, which
# is removed at the end.  A program is also built there with pkg-config.
set -eu
package=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
root=${2:-}
own=
if [ -z "$root" ]; then
    own=$(mktemp -d)
    trap 'rm -rf "$own"' EXIT
    root=$own/debian
    debootstrap --variant=minbase bookworm "$root" >"$own/log" 2>&1 || { tail "$own/log"; exit 1; }
fi
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive HOME=/root "$@"; }

dpkg-deb --info "$package"
contents=$(dpkg-deb --contents "$package")
for file in usr/bin/pare usr/include/pare/pare.h usr/share/man/man1/pare.1 \
    usr/share/man/man1/pare-prune.1 usr/share/bash-completion/completions/pare \
    usr/share/zsh/vendor-completions/_pare usr/share/doc/pare/copyright; do
    echo "$contents" | grep -q " \./$file\$" || { echo "the package has no $file"; exit 1; }
done
cp "$package" "$root/tmp/pare.deb"
cp "$here/consumer.c" "$root/tmp/consumer.c"
inside apt-get update -qq
inside apt-get install -qq -y --no-install-recommends /tmp/pare.deb >"$root/tmp/log" 2>&1 ||
    { tail -n 30 "$root/tmp/log"; exit 1; }

# Only dependencies of the package are installed now: no compiler, no Python.
inside pare --version
inside sh -euc 'cd /tmp
    pare new lenet --input 1,8,8 --seed 1 -o m.onnx
    pare train m.onnx --data digits --epochs 2 --optimizer adam --lr 2e-3 --threads 2 -q -o t.onnx
    pare prune t.onnx --pruner l1 --sparsity 0.5 --speedup -q -o s.onnx
    pare quantize s.onnx --preset int8 --data digits -q -o q.onnx
    pare eval q.onnx --data digits --threads 2'
! inside ldd /usr/bin/pare | grep "not found"

inside apt-get install -qq -y --no-install-recommends gcc libc6-dev pkg-config >"$root/tmp/log" 2>&1
printed=$(inside sh -euc 'cd /tmp && cc consumer.c $(pkg-config --cflags --libs pare) -o consumer && ./consumer')
echo "a program built with it prints $printed"
[ "$(inside pare --version)" = "pare $printed" ]

inside apt-get purge -qq -y pare >"$root/tmp/log" 2>&1
[ ! -e "$root/usr/bin/pare" ] && [ ! -e "$root/usr/include/pare" ]
echo "ok: installed, used and removed"
