# lib.sh - shared functions of the fault tests, which are called with the command, the shim and "all" or "some".
set -u
pare=$(realpath "$1")
shim=$(realpath "$2")
how_many=${3:-some}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
export PARE_CACHE= LC_ALL=C OMP_WAIT_POLICY=passive ASAN_OPTIONS="verify_asan_link_order=0:${ASAN_OPTIONS:-}"
bad=0

wrong() {
    echo "WRONG: $*"
    bad=$((bad + 1))
    [ $bad -lt 20 ] || exit 1
}

# The sentence: one line, the last; before it there may be notes about the input.
one_sentence() {
    [ "$(grep -c '^pare: ..*' err)" = 1 ] && tail -1 err | grep -q '^pare: ' &&
        ! grep -q 'Sanitizer\|runtime error' err
}
