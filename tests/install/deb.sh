#!/bin/sh
# deb.sh - install packages on a fresh Debian 12 and run them there: deb.sh PACKAGE MPI_PACKAGE PYTHON_PACKAGE [ROOT]
#
# Needs root and a network.  ROOT is an existing Debian root; without it, debootstrap creates one, which
# is removed at the end.  A program is also built there with pkg-config, and the Python lines of README run there.
set -eu
package=$(realpath "$1")
mpi=$(realpath "$2")
here=$(realpath "$(dirname "$0")")
python=$(realpath "$3")
root=${4:-}
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
check_contents() {
    contents=$(dpkg-deb --contents "$1")
    for file in usr/bin/pare usr/include/pare/pare.h usr/share/man/man1/pare.1 \
        usr/share/man/man1/pare-prune.1 usr/share/bash-completion/completions/pare \
        usr/share/zsh/vendor-completions/_pare usr/share/doc/pare/copyright usr/share/doc/pare/docs/tutorial.md \
        usr/share/doc/pare/examples/read_digits.c; do
        echo "$contents" | grep -q " \./$file\$" || { echo "$1 has no $file"; exit 1; }
    done
}
check_contents "$package"
check_contents "$mpi"
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

# The Python package, with the dependencies that it declares; then the lines of README.
cp "$python" "$root/tmp/python3-pare.deb"
sed -n '/^```python$/,/^```$/p' "$here/../../README.md" | grep -v '^```' >"$root/tmp/quickstart.py"
[ "$(grep -c . "$root/tmp/quickstart.py")" -ge 8 ]
inside apt-get install -qq -y --no-install-recommends /tmp/python3-pare.deb >"$root/tmp/log" 2>&1 ||
    { tail -n 30 "$root/tmp/log"; exit 1; }
inside sh -euc 'mkdir /tmp/quickstart && cd /tmp/quickstart && python3 ../quickstart.py && pare eval small.onnx --data digits
    python3 -m pare --version && python3 -c "import pare; print(pare.__file__)"'
inside apt-get purge -qq -y python3-pare >"$root/tmp/log" 2>&1
[ ! -e "$root/usr/lib/python3/dist-packages/pare" ]
echo "ok: the Python package"

# The package with MPI replaces it.
cp "$mpi" "$root/tmp/pare-mpi.deb"
inside apt-get install -qq -y --no-install-recommends /tmp/pare-mpi.deb openmpi-bin >"$root/tmp/log" 2>&1 ||
    { tail -n 30 "$root/tmp/log"; exit 1; }
! inside dpkg-query -W -f '${db:Status-Status}' pare 2>/dev/null | grep -qx installed
inside sh -euc 'cd /tmp
    mpirun --allow-run-as-root --oversubscribe -n 2 pare train m.onnx --data digits --epochs 1 --threads 1 -q -o two.onnx
    pare eval two.onnx --data digits'
inside apt-get purge -qq -y pare-mpi >"$root/tmp/log" 2>&1
[ ! -e "$root/usr/bin/pare" ]
echo "ok: the package with MPI"
inside apt-get install -qq -y --no-install-recommends /tmp/pare.deb >"$root/tmp/log" 2>&1

inside apt-get purge -qq -y pare >"$root/tmp/log" 2>&1
[ ! -e "$root/usr/bin/pare" ] && [ ! -e "$root/usr/include/pare" ]
echo "ok: installed, used and removed"
