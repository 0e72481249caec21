#!/bin/sh
# check_layers.sh - check that a folder of src/ includes only headers of folders before it, and that
# each third-party library is used only in its folder, and that commands do not see the members of a
# compression.  The order is that of `set(folders ...)` in CMakeLists.txt.
set -eu
cd "$(dirname "$0")/.."

order=$(sed -n 's/^set(folders \(.*\))$/\1/p' CMakeLists.txt)
find src -name '*.[ch]' | sort | xargs awk -v order="$order cli" '
BEGIN {
    n = split(order, list, " ")
    for (i = 1; i <= n; i++) {
        sub(/\/.*/, "", list[i])                # a subfolder belongs to its folder
        if (!(list[i] in rank))
            rank[list[i]] = i
    }
}

function complain(what) {
    printf "%s:%d: %s\n", FILENAME, FNR, what
    bad = 1
}

# "src/op" + "../base/arena.h" -> "src/base/arena.h"
function join(dir, path) {
    while (path ~ /^\.\.\//) {
        path = substr(path, 4)
        if (!sub(/\/[^\/]*$/, "", dir))
            dir = ""
    }
    return dir == "" ? path : dir "/" path
}

function foreign(pattern, home, name) {
    if ($2 ~ pattern && FILENAME !~ home)
        complain(name " is used outside " home)
}

/^[ \t]*#[ \t]*include/ {
    sub(/#[ \t]*include[ \t]*/, "#include ")
    foreign("dnnl", "^src/backend/onednn/", "oneDNN")
    foreign("protobuf-c|pb-c\\.h", "^src/onnx/", "protobuf")
    foreign("jansson", "^src/(base|io|cli)/", "Jansson")
    foreign("zlib\\.h", "^src/(io|data)/", "zlib")
    foreign("[<\"]png\\.h|jpeglib", "^src/data/", "libpng or libjpeg")
    foreign("[<\"]mpi\\.h", "^src/dist/dist_mpi\\.c$", "MPI")
    foreign("pthread", "^src/(data/|base/team|cli/resource_limits)", "pthread")
    if ($2 !~ /^"/ || $2 ~ /pb-c\.h/)
        next
    split(FILENAME, own, "/")
    dir = FILENAME
    sub(/\/[^\/]*$/, "", dir)
    path = $2
    gsub(/"/, "", path)
    path = join(dir, path)
    included[FILENAME] = included[FILENAME] " " path
    split(path, part, "/")
    if (!(own[2] in rank))
        complain("the folder " own[2] " is not in the list of CMakeLists.txt")
    else if (part[1] != "src" || !(part[2] in rank))
        complain("\"" path "\" is not in a folder of the list")
    else if (rank[part[2]] > rank[own[2]])
        complain(own[2] " comes before " part[2] " and must not include \"" path "\"")
}

# The state of a compression: `file` includes it, directly or not.
function reaches(file,    list, n, i) {
    if (file ~ /^src\/(compress\/compression|prune\/prune_state|quant\/quant_state)\.h$/)
        return 1
    if (file in seen)
        return 0
    seen[file] = 1
    n = split(included[file], list, " ")
    for (i = 1; i <= n; i++)
        if (reaches(list[i]))
            return 1
    return 0
}

END {
    for (file in included)
        if (file ~ /^src\/cli\//) {
            delete seen
            if (reaches(file)) {
                print file ": includes the state of a compression; use the functions of <pare/session.h>"
                bad = 1
            }
        }
    exit bad
}
'
