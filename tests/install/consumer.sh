#!/bin/sh
# consumer.sh - install into an empty folder, then build and run programs against it.
#
# usage: consumer.sh BUILD_FOLDER SOURCE_FOLDER
# With pkg-config (shared and static), with find_package (shared and static), and the public
# headers as C++.  Each program must print the version that VERSION states.
set -eu

build=$1
here=$2/tests/install
version=$(cat "$2/VERSION")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

check() {
    printed=$(LD_LIBRARY_PATH=$lib "$1")
    if [ "$printed" != "$version" ]; then
        echo "$1 printed '$printed', not '$version'" >&2
        exit 1
    fi
    echo "ok: $2"
}

cmake --install "$build" --prefix "$prefix" >"$work/install.log"
lib=$(dirname "$(find "$prefix" -name libpare.so)")
export PKG_CONFIG_PATH=$lib/pkgconfig

flags=$(pkg-config --cflags --libs pare)
cc -std=c11 -Wall -Wextra -Werror "$here/consumer.c" -o "$work/dynamic" $flags
check "$work/dynamic" "pkg-config"
[ "$(env -u LD_LIBRARY_PATH "$work/dynamic")" = "$version" ] || { echo "the library is not found" >&2; exit 1; }
[ -s "$prefix/share/doc/pare/docs/tutorial.md" ] && [ -s "$prefix/share/doc/pare/examples/plugin/clip_quantizer.c" ]
echo "ok: no LD_LIBRARY_PATH; documents and examples"

flags=$(pkg-config --cflags --libs --static pare | sed "s|-lpare|$lib/libpare.a|")
cc -std=c11 "$here/consumer.c" -o "$work/fixed" $flags
check "$work/fixed" "pkg-config --static"

for header in "$prefix"/include/pare/*.h; do
    echo "#include <pare/$(basename "$header")>" >"$work/header.cc"
    echo "#include <pare/$(basename "$header")>" >>"$work/header.cc"
    c++ -std=c++11 -Wall -Wextra -Wpedantic -Werror $(pkg-config --cflags pare) \
        -fsyntax-only "$work/header.cc"
done
c++ -std=c++11 -Wall -Wextra -Werror -x c++ "$here/consumer.c" -x none -o "$work/cxx" \
    $(pkg-config --cflags --libs pare)
check "$work/cxx" "C++"
for example in compress_memory read_scales; do
    c++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -x c++ "$2/examples/$example.c" -x none \
        -o "$work/$example" $(pkg-config --cflags --libs pare)
done
cp "$2/data/digits/test-images-idx3-ubyte.gz" "$work/x.gz"
cp "$2/data/digits/test-labels-idx1-ubyte.gz" "$work/y.gz"
gzip -d "$work/x.gz" "$work/y.gz"
LD_LIBRARY_PATH=$lib "$work/compress_memory" "$2/data/digits/digits.onnx" "$work/x" "$work/y" \
    "$work/small.onnx" >/dev/null
LD_LIBRARY_PATH=$lib "$work/read_scales" "$work/small.onnx" conv1 | grep -q 'zero point'
echo "ok: examples as C++"

cmake -S "$here" -B "$work/package" -DCMAKE_PREFIX_PATH="$prefix" >"$work/package.log"
cmake --build "$work/package" >>"$work/package.log"
check "$work/package/with_shared" "find_package, pare::shared"
check "$work/package/with_static" "find_package, pare::static"
if ldd "$lib/libpare.so" | grep -q libmpi; then
    for program in "$work/fixed" "$work/package/with_static"; do
        ldd "$program" | grep -q libmpi || { echo "$program is not linked with MPI" >&2; exit 1; }
    done
    echo "ok: static, with MPI"
fi

if [ -x "$prefix/bin/pare" ]; then
    "$prefix/bin/pare" --version | grep -qF "$version"
    echo "ok: pare --version"
    for file in man/man1/pare.1 man/man1/pare-prune.1 bash-completion/completions/pare; do
        [ -s "$prefix/share/$file" ] || { echo "there is no share/$file" >&2; exit 1; }
    done
    find "$prefix/share/zsh" -name _pare | grep -q . || { echo "there is no completion for zsh" >&2; exit 1; }
    echo "ok: manual pages, completion"
fi
