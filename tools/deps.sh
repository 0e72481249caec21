#!/bin/sh
# deps.sh - install missing dependencies of a part of the project.
#
# usage: tools/deps.sh [build|test|python|interop|lint|fuzz|deb|root|container|arm64]...      (default: build)
#
# As root on Debian it calls apt-get; as another user it prints the command to run and fails.
# On other systems it prints the names of the Debian packages and leaves the check to CMake.
set -eu

cd "$(dirname "$0")/.."
build_folder=${BUILD:-build}
ort=onnxruntime-node@1.30.0

want=""
node=no
for part in "${@:-build}"; do
    case $part in
    build)
        want="$want gcc libc6-dev make cmake ninja-build pkg-config libdnnl-dev libprotobuf-c-dev
              protobuf-c-compiler libonnx-dev libjansson-dev zlib1g-dev libpng-dev
              libjpeg62-turbo-dev libopenmpi-dev libjs-chart.js"
        ;;
    test) want="$want g++ libcmocka-dev libonnx-testdata openmpi-bin" ;;
    python) want="$want python3 python3-numpy python3-torch python3-onnx mypy" ;;
    interop)
        # libopenblas0-openmp: without it PyTorch multiplies matrices with the reference BLAS.
        want="$want python3 python3-numpy python3-torch python3-torchvision python3-onnx
              libopenblas0-openmp dataset-fashion-mnist chromium"
        node=yes
        ;;
    lint) want="$want clang libomp-dev clang-format clang-tidy cppcheck" ;;
    fuzz) want="$want clang libomp-dev libclang-rt-14-dev libonnx-testdata" ;;
    deb) want="$want dpkg-dev file" ;;
    root) want="$want debootstrap" ;;
    container) want="$want buildah git" ;;
    arm64) want="$want gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static mmdebstrap" ;;
    *)
        echo "deps.sh: '$part' is unknown; expected build, test, python, interop, lint, fuzz, deb, root, container or arm64" >&2
        exit 2
        ;;
    esac
done

# Commands that may be installed in another way than by their Debian package.
present() {
    case $1 in
    gcc) command -v cc && command -v gcc ;;
    g++ | make | cmake | clang | clang-format | clang-tidy | cppcheck) command -v "$1" ;;
    pkg-config) command -v pkg-config ;;
    ninja-build) command -v ninja ;;
    nodejs) command -v node ;;
    npm) command -v npm ;;
    *) return 1 ;;
    esac >/dev/null 2>&1
}

if [ $node = yes ]; then
    want="$want nodejs npm"
fi
if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "deps.sh: this is not Debian; install the equivalents of:" $want >&2
    exit 0
fi

installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $want 2>/dev/null |
    sed -n 's/^installed //p' || true)
missing=""
for package in $want; do
    if ! echo "$installed" | grep -qxF "$package" && ! present "$package"; then
        missing="$missing $package"
    fi
done
if [ -n "$missing" ]; then
    if [ "$(id -u)" != 0 ]; then
        echo "deps.sh: packages are missing; run this, then try again:" >&2
        echo "    sudo apt-get install --no-install-recommends$missing" >&2
        exit 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    echo "installing$missing"
    apt-get update -qq || echo "deps.sh: using the existing package lists" >&2
    apt-get install -qq -y --no-install-recommends $missing >/dev/null
fi

# ONNX Runtime comes inside its npm package; its install script only fetches GPU files.
if [ $node = yes ] && [ ! -d "$build_folder/node/node_modules/onnxruntime-node" ]; then
    echo "installing $ort"
    mkdir -p "$build_folder/node"
    npm install --ignore-scripts --no-audit --no-fund --silent --prefix "$build_folder/node" "$ort"
fi
