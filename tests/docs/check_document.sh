#!/bin/sh
# check_document.sh - check a document: run its commands, compare its code with files: check_document.sh BUILD DOCUMENT [PYTHON]
#
# The mark of a code block decides what is done with it:
#     sh         all sh blocks are one script, run in an empty folder where `pare` is the command;
#                each command must succeed.  $SOURCE is the source tree; pkg-config finds Pare.
#     sh slow    the same, on a small part of the data: training ends after one epoch of a few images, and data
#                sets that are not installed are replaced by random ones
#     make       lines `make TARGET ...`: the target must exist
#     c          the line before the block names a file of the tree in `quotes`, which must contain
#                the block verbatim
#     python     compiled, and run after the sh blocks if PYTHON is given
#     text       not checked
# A block without a mark is an error, as is a command that is only indented.  Files of the tree and
# functions of the library that a document names in `quotes` must exist.
# `mpirun -n N` starts N processes, oversubscribed if necessary, or only one without MPI.
# Exit code 77: skipped, because a build with sanitizers cannot be linked with.
set -eu
build=$(realpath "$1")
doc=$(realpath "$2")
python=${3:-}
root=$(realpath "$(dirname "$0")/../..")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
name=$(basename "$doc")

# ---- the blocks ----

awk -v out="$tmp" -v root="$root" '
function complain(line, what) {
    printf "%s:%d: %s\n", FILENAME, line, what
    bad = 1
}
function slurp(path,    text, line) {
    text = "\n"
    while ((getline line <path) > 0)
        text = text line "\n"
    close(path)
    return text
}
function finish(    file) {
    if (lang == "c" && named == "")
        complain(start, "no file is named before this block")
    else if (lang == "c" && !index(slurp(root "/" named), block))
        complain(start, "this is not in " named)
    file = lang == "sh" || lang == "sh slow" ? "script" : lang
    if (lang == "sh" || lang == "sh slow")
        printf "LINE=%d\nPATH=$%s\n%s\n", start, lang == "sh" ? "FULL" : "SMALL",
            substr(block, 2) >(out "/script")
    else if (lang == "make" || lang == "python")
        printf "%s", substr(block, 2) >(out "/" lang)
}
/^```/ && !inside {
    lang = substr($0, 4)
    start = FNR
    block = "\n"
    inside = 1
    if (lang !~ /^(sh|sh slow|make|c|python|text)$/)
        complain(FNR, "a block marked \"" lang "\": expected sh, make, c, python or text")
    next
}
/^```$/ && inside { inside = 0; finish(); next }
inside { block = block $0 "\n"; next }
/^    (\$ |sudo )?(pare|build\/pare|make|cmake|apt-get|cc|python3?|npm) / {
    complain(FNR, "an indented command is not run: put it in a block")
}
/^$/ { next }
{
    named = ""
    if (match($0, /`[A-Za-z0-9_\/.-]+\.[ch]`/))
        named = substr($0, RSTART + 1, RLENGTH - 2)
    line = $0
    while (match(line, /`[^`]+`/)) {
        print FNR " " substr(line, RSTART + 1, RLENGTH - 2) >(out "/quotes")
        line = substr(line, RSTART + RLENGTH)
    }
}
END {
    if (inside)
        complain(start, "this block has no end")
    exit bad
}' "$doc"

# ---- names ----

failed=0
if [ -f "$tmp/quotes" ]; then
    cat "$root"/include/pare/*.h "$root"/src/*/*.[ch] "$root"/src/*/*/*.[ch] >"$tmp/headers"
    while read -r line what; do
        case $what in
        *'*'* | *' '* | *'<'* | */x | */x.* | *_x.* | */NAME.* | pare_noun*) ;; # a placeholder
        src/* | docs/* | tests/* | tools/* | examples/* | include/* | bench/* | cmake/*)
            [ -e "$root/${what%%:*}" ] || { echo "$name:$line: there is no $what"; failed=1; }
            ;;
        [a-z]*/*.[ch]) # relative to src/, or to the folder of the document
            [ -e "$root/src/$what" ] || [ -e "$(dirname "$doc")/$what" ] ||
                { echo "$name:$line: there is no src/$what"; failed=1; }
            ;;
        pare_*) # a function, perhaps with its arguments; or a struct, with a member
            word=$(echo "$what" | sed 's/[^A-Za-z0-9_].*//')
            grep -qw "$word" "$tmp/headers" || { echo "$name:$line: there is no $word"; failed=1; }
            ;;
        esac
    done <"$tmp/quotes"
fi

if [ -f "$tmp/make" ]; then
    sed -n 's/^\([a-z][a-z0-9-]*\):.*/\1/p' "$root/Makefile" >"$tmp/targets"
    while read -r word target rest; do
        [ -n "$word" ] || continue
        if [ "$word" != make ] || ! grep -qxF "$target" "$tmp/targets"; then
            echo "$name: '$word $target' is not a target of the Makefile"
            failed=1
        fi
    done <"$tmp/make"
fi
[ $failed = 0 ] || exit 1

# ---- commands ----

# Random data sets in the right shapes.
big() { printf "\\$(printf %03o $(($1 / 256)))\\$(printf %03o $(($1 % 256)))"; }
idx() { # idx FOLDER PREFIX ITEMS
    { printf '\0\0\010\003\0\0'; big "$3"; printf '\0\0\0\034\0\0\0\034'
      head -c $((784 * $3)) "$build/pare"; } >"$1/$2-images-idx3-ubyte"
    { printf '\0\0\010\001\0\0'; big "$3"; i=0
      while [ $i -lt "$3" ]; do printf "\\$(printf %03o $((i % 10)))"; i=$((i + 1)); done
    } >"$1/$2-labels-idx1-ubyte"
}
cifar() { # cifar FILE ITEMS
    i=0
    while [ $i -lt "$2" ]; do
        printf "\\$(printf %03o $((i % 10)))"
        head -c 3072 "$build/pare"
        i=$((i + 1))
    done >"$1"
}

mkdir "$tmp/bin" "$tmp/small" "$tmp/in" "$tmp/sets" "$tmp/sets/idx" "$tmp/sets/cifar"
ln -s "$build/pare" "$tmp/bin/pare"
ln -s "$root/tests/docs/small_data.sh" "$tmp/small/pare"
cat >"$tmp/bin/mpirun" <<END
#!/bin/sh
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_plm_rsh_agent=false
export ASAN_OPTIONS=detect_leaks=0 # MPI leaks
if [ -n "$(command -v mpirun)" ] && ldd "$build/pare" | grep -q libmpi; then
    exec "$(command -v mpirun)" -q --oversubscribe --bind-to none "\$@"
fi
shift 2
exec "\$@"
END
chmod +x "$tmp/bin/mpirun"
cat >"$tmp/bin/pare.pc" <<END
Name: pare
Description: Pare as it was built
Version: $(cat "$root/VERSION")
Cflags: -I$root/include
Libs: -L$build -lpare
END
if [ -f "$tmp/script" ]; then
    if [ -n "${PARE_SANITIZED:-}" ] && grep -qE '^ *(cc|make|cmake) |pkg-config' "$tmp/script"; then
        echo "$name: skipped: it compiles, which a build with sanitizers does not support"
        exit 77
    fi
    if grep -q SMALL "$tmp/script"; then
        idx "$tmp/sets/idx" train 256
        idx "$tmp/sets/idx" t10k 64
        cifar "$tmp/sets/cifar/data_batch_1.bin" 128
        cifar "$tmp/sets/cifar/test_batch.bin" 64
    fi
    { echo "trap 'code=\$?; [ \$code = 0 ] || echo \"$name:\$LINE: a command in this block fails\"' EXIT"
      cat "$tmp/script"; } >"$tmp/whole"
    if ! (cd "$tmp/in" && env -u MAKEFLAGS -u MAKELEVEL FULL="$tmp/bin:$PATH" \
        SMALL="$tmp/small:$tmp/bin:$PATH" SETS="$tmp/sets" SOURCE="$root" LC_ALL=C NO_COLOR=1 \
        PARE_CACHE= OMP_NUM_THREADS=1 PKG_CONFIG_PATH="$tmp/bin" LD_LIBRARY_PATH="$build" \
        sh -eu "$tmp/whole" </dev/null >"$tmp/log" 2>&1); then
        tail -n 40 "$tmp/log"
        exit 1
    fi
fi
if [ -f "$tmp/python" ]; then
    if [ -n "$python" ]; then
        (cd "$tmp/in" && "$python" "$tmp/python")
    elif command -v python3 >/dev/null; then
        python3 -c 'import sys; compile(open(sys.argv[1]).read(), sys.argv[1], "exec")' "$tmp/python"
    fi
fi
echo "$name: ok"
