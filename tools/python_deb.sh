#!/bin/sh
# python_deb.sh - build the Debian package python3-pare: the modules; the library is in the package pare.
#
# usage: tools/python_deb.sh FOLDER      writes FOLDER/python3-pare_VERSION_all.deb
set -eu
folder=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
version=$(cat VERSION)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

site=$root/usr/lib/python3/dist-packages
mkdir -p "$site" "$root/DEBIAN" "$root/usr/share/doc/python3-pare"
(cd python && find pare -name '*.py' -o -name py.typed) | while read -r file; do
    install -D -m 644 "python/$file" "$site/$file"
done
install -m 644 LICENSE "$root/usr/share/doc/python3-pare/copyright"
chmod 755 "$root"
cat >"$root/DEBIAN/control" <<END
Package: python3-pare
Version: $version
Architecture: all
Section: python
Priority: optional
Maintainer: Pare contributors <pare@packages.invalid>
Depends: python3 (>= 3.9), python3-numpy, pare (= $version)
Suggests: python3-torch, python3-onnx
Description: make trained neural networks smaller and faster (Python)
 Loads, runs, trains, prunes and quantizes ONNX models with libpare, with
 pruners and quantizers as Python classes and the names of NNI.
END
# Compiled modules: made on installation, removed with the package.
printf '#!/bin/sh\nset -e\n[ "$1" != configure ] || py3compile -p python3-pare\n' >"$root/DEBIAN/postinst"
printf '#!/bin/sh\nset -e\npy3clean -p python3-pare\n' >"$root/DEBIAN/prerm"
chmod 755 "$root/DEBIAN/postinst" "$root/DEBIAN/prerm"
dpkg-deb --root-owner-group --build "$root" "$folder/python3-pare_${version}_all.deb" >/dev/null
