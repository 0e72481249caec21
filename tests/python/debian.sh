#!/bin/sh
# debian.sh - run the tests of the Python package on other releases of Debian, with their Python and numpy: debian.sh BUILD
#
# Needs root and a network.  BUILD/debian has the roots and a library without oneDNN and MPI, built with the headers and
# the C library of Debian 11, so that it runs on 11 (Python 3.9), 12 (3.11) and 13 (3.13).  Tests that need PyTorch skip.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$1/debian"
build=$(cd "$1/debian" && pwd)
libraries=libprotobuf-c1,libjansson4,zlib1g,libjpeg62-turbo,libgomp1

# root RELEASE PACKAGES: made once.
root() {
    [ ! -e "$build/$1/complete" ] || return 0
    rm -rf "${build:?}/$1"
    echo "unpacking Debian $1 into $build/$1"
    mmdebstrap --quiet --variant=minbase --include="python3,python3-numpy,$libraries,$2" "$1" "$build/$1" \
        >"$build/$1.log" 2>&1 || { tail "$build/$1.log" >&2; exit 1; }
    touch "$build/$1/complete"
}
root bullseye libpng16-16,libc6-dev,libprotobuf-c-dev,libjansson-dev,zlib1g-dev,libpng-dev,libjpeg62-turbo-dev
root bookworm libpng16-16
root trixie libpng16-16t64

old=$build/bullseye
export PKG_CONFIG_SYSROOT_DIR="$old" PKG_CONFIG_LIBDIR="$old/usr/lib/x86_64-linux-gnu/pkgconfig:$old/usr/share/pkgconfig"
cmake -S "$here" -B "$build/library" -DCMAKE_SYSROOT="$old" -DPARE_TESTS=OFF -DPARE_ONEDNN=OFF -DPARE_MPI=OFF \
    -DPROTOC_C="$(command -v protoc-c)" -DONNX_PROTO_DIR=/usr/include/onnx >"$build/cmake.log" 2>&1 ||
    { tail "$build/cmake.log" >&2; exit 1; }
cmake --build "$build/library" -j "${JOBS:-$(nproc)}" --target pare_shared

failed=0
for release in bullseye bookworm trixie; do
    tree=$build/$release/opt/pare
    rm -rf "$tree"
    mkdir -p "$tree/build" "$tree/tests"
    cp -r "$here/python" "$here/include" "$here/data" "$here/docs" "$here/tools" "$here/README.md" "$here/VERSION" "$tree"
    cp -r "$here/tests/python" "$here/tests/golden" "$tree/tests"
    cp -L "$build/library/libpare.so" "$tree/build"
    echo "$release: $(chroot "$build/$release" python3 -c 'import sys, numpy
print("Python %d.%d.%d, numpy %s" % (sys.version_info[:3] + (numpy.__version__,)))')"
    for script in "$tree"/tests/python/test_*.py; do
        name=${script##*/}
        chroot "$build/$release" env -i PATH=/usr/bin:/bin LC_ALL=C.UTF-8 OMP_WAIT_POLICY=passive \
            PYTHONDONTWRITEBYTECODE=1 PARE_BUILD=/opt/pare/build sh -c \
            "cd /opt/pare/tests/python && python3 $name" >"$build/log" 2>&1 || { tail -n 40 "$build/log"; failed=1; }
        printf '  %-24s %s\n' "$name" "$(grep -E '^Ran ' "$build/log" | sed 's/ in .*//') $(tail -n 1 "$build/log")"
    done
done
exit $failed
