# fault_functions.sh - shared functions of the fault tests, whose arguments are PARE SHIM [all|some].
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

# err has exactly one error message, in its last line; notes about the input may precede it.
one_message() {
    [ "$(grep -c '^pare: ..*' err)" = 1 ] && tail -1 err | grep -q '^pare: ' &&
        ! grep -q 'Sanitizer\|runtime error' err
}
