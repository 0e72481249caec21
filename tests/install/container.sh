#!/bin/sh
# container.sh - build the image of Containerfile and run the command in it: container.sh [FOLDER]
#
# Needs root, a network, debootstrap and buildah.  FOLDER (default: the current one) is the source; its uncommitted
# changes do not count.  The base image is a Debian 12 of debootstrap, so that no registry of images is asked.
set -eu
source=$(realpath "${1:-.}")
folder=$(mktemp -d)
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot XDG_DATA_HOME="$folder/data"
store="--root $folder/storage --runroot $folder/run"
# shellcheck disable=SC2086 # options are words
buildah() { command buildah $store "$@"; }
trap 'buildah rm --all >/dev/null 2>&1; rm -rf "$folder"' EXIT

debootstrap --variant=minbase bookworm "$folder/debian" >"$folder/log" 2>&1 || { tail "$folder/log"; exit 1; }
base=$(buildah from scratch)
buildah add -q "$base" "$folder/debian" / >/dev/null
buildah commit -q "$base" docker.io/library/debian:bookworm-slim >/dev/null
rm -rf "$folder/debian"

git clone -q "$source" "$folder/source"
buildah bud --pull-never -t pare -f "$folder/source/Containerfile" "$folder/source" >"$folder/log" 2>&1 ||
    { tail -n 30 "$folder/log"; exit 1; }

mkdir -m 777 "$folder/work"
pare=$(buildah from --pull-never localhost/pare)
buildah run -v "$folder/work:/work" "$pare" -- sh -euc '
    [ "$(id -un)" = pare ]
    pare new lenet --input 1,8,8 --seed 1 -o m.onnx
    pare train m.onnx --data digits --epochs 2 --threads 2 -q -o t.onnx
    pare quantize t.onnx --preset int8 --data digits -q -o q.onnx
    pare eval q.onnx --data digits --threads 2
    ! command -v gcc'
[ -s "$folder/work/q.onnx" ]
echo "ok: the image builds, and its command trains and quantizes"
