#!/bin/bash
# static_root.sh - run README's quickstart with the static command in a root that has no other file.
#
# usage: static_root.sh BUILD_FOLDER SOURCE_FOLDER
# The command is BUILD_FOLDER/static/pare, built by `make static`.  Exit code 77, which ctest reports
# as skipped: it is missing, or chroot is not permitted.  With qemu-x86_64 installed, some commands
# also run on a CPU of 2008, without AVX.
set -euo pipefail
pare=$1/static/pare
readme=$2/README.md
[ -x "$pare" ] || { echo "skipped: $pare is missing; 'make static' builds it"; exit 77; }
if readelf -l "$pare" | grep -q INTERP; then
    echo "$pare needs a dynamic linker" >&2
    exit 1
fi

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
cp "$pare" "$root/pare"
enter=
for how in "chroot" "unshare --map-root-user --root"; do
    if $how "$root" /pare --version >/dev/null 2>&1; then
        enter=$how
        break
    fi
done
[ -n "$enter" ] || { echo "skipped: neither chroot nor unshare is permitted here"; exit 77; }

# The commands of README's quickstart, without comments.
mapfile -t lines < <(sed -n '/^## Quickstart/,/^## Documents/p' "$readme" | sed -n '/^```sh/,/^```$/p' |
    sed -n 's/ *#.*//; /^pare /p')
[ ${#lines[@]} -ge 12 ] || { echo "$readme has only ${#lines[@]} commands" >&2; exit 1; }
for line in "${lines[@]}"; do
    read -ra words <<<"$line"
    (cd "$root" && env -i PATH="$PATH" $enter "$root" /pare "${words[@]:1}") >"$root.log" 2>&1 || {
        echo "failed: $line" >&2
        cat "$root.log" >&2
        rm -f "$root.log"
        exit 1
    }
    echo "ok: $line"
done
rm -f "$root.log"
for file in int8.onnx y.npz fast.onnx report.html; do
    [ -s "$root/$file" ] || { echo "no $file was written" >&2; exit 1; }
done

message=$("$pare" prune "$root/model.onnx" --plugin ./x.so --pruner x --sparsity 0.5 2>&1) && exit 1
echo "$message" | grep -q "linked statically and cannot load plugins" || { echo "$message" >&2; exit 1; }
echo "ok: plugins are refused"

old=$(command -v qemu-x86_64-static || command -v qemu-x86_64 || true)
if [ -z "$old" ]; then
    echo "not checked: a CPU without AVX (qemu-user-static is not installed)"
    exit 0
fi
cd "$root"
for args in "eval tuned.onnx --data digits --limit 64" "eval int8.onnx --data digits --limit 64" \
    "prune model.onnx --pruner l1 --sparsity 0.5 --speedup -q -o old.onnx" \
    "train small.onnx --data digits --limit 64 --epochs 1 -q -o old_trained.onnx"; do
    "$old" -cpu Nehalem "$root/pare" $args >"$root/log" 2>&1 || { echo "failed on Nehalem: $args" >&2; cat "$root/log" >&2; exit 1; }
    echo "ok without AVX: pare $args"
done
# The same input gives the same output, up to rounding.
"$root/pare" run tuned.onnx --output new.npz >/dev/null
"$old" -cpu Nehalem "$root/pare" run tuned.onnx --check new.npz >/dev/null
echo "ok without AVX: the same outputs"
