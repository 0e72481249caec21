#!/bin/sh
# plugins.sh - build and use pruners and a quantizer outside the tree, with the installed package.
#
# usage: plugins.sh BUILD_FOLDER SOURCE_FOLDER
# Valid plugins are those of examples/plugin.  Invalid ones must be rejected with one message and exit
# code 1, and nothing may be written.
set -eu

build=$1
examples=$2/examples/plugin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

fail() {
    echo "$*" >&2
    [ ! -f log ] || cat log >&2
    exit 1
}

cmake --install "$build" --prefix "$prefix" >"$work/install.log"
lib=$(dirname "$(find "$prefix" -name libpare.so)")
export PKG_CONFIG_PATH=$lib/pkgconfig LC_ALL=C OMP_WAIT_POLICY=passive
pare=$prefix/bin/pare
mkdir "$work/plugin" "$work/bad"
cp "$examples"/*.c "$examples/Makefile" "$work/plugin"
cd "$work/plugin"
env -u MAKEFLAGS -u MAKELEVEL make CFLAGS='-O1 -Wall -Wextra -Wpedantic -Werror' >make.log

# ---- valid plugins ----

"$pare" new lenet --input 1,8,8 --seed 1 -o m.onnx >/dev/null
"$pare" train m.onnx --data digits --epochs 4 --optimizer adam --lr 2e-3 --threads 1 --seed 1 --quiet \
    -o t.onnx >/dev/null
digits="--data digits --optimizer adam --lr 1e-3 --threads 1 --seed 1"

# layers SPARSITY NAME...: the table in the log must have exactly these layers
layers() {
    sparsity=$1
    shift
    for name; do
        grep -Eq "^$name +[A-Za-z0-9]+ +\(.*\) +[0-9.]+% +$sparsity%" log || fail "$name is not at $sparsity %"
    done
    [ "$(grep -c '^[a-z0-9]* .*(.*) .*%.*%' log)" = $# ] || fail "other layers than $*"
}

"$pare" prune t.onnx --plugin ./one_shot.so --pruner one_shot --sparsity 0.5 -o one_shot.onnx >log
layers 50.0 conv1 conv2 fc1 fc2
"$pare" prune one_shot.onnx --plugin ./one_shot.so --pruner one_shot --sparsity 0.3 -o again.onnx >log
layers 30.0 conv1 conv2 fc1 fc2
echo "ok: one_shot, also of a model with zeros"

"$pare" prune t.onnx --plugin ./least_active.so --pruner least_active $digits \
    --config '[{"sparsity": 0.3, "op_types": ["Conv2d"]}]' --masks active.npz -o active.onnx >log
layers 30.0 conv1 conv2
[ -s active.npz ] || fail "no masks"
echo "ok: least_active"

"$pare" help --plugin ./stepwise.so stepwise >log
grep -q '^  steps  *int ' log || fail "the help lacks the setting 'steps'"
"$pare" list --plugin ./stepwise.so pruners >log
grep -q '^stepwise ' log || fail "the list lacks the pruner 'stepwise'"
echo "ok: help and list of a plugin"

"$pare" prune t.onnx --plugin stepwise.so --pruner stepwise --set steps=3 --sparsity 0.8 $digits \
    -o stepwise.onnx >log
layers 80.0 conv1 conv2 fc1 fc2
[ "$(grep -c ^epoch log)" = 3 ] || fail "not 3 epochs"
echo "ok: stepwise"

# 8 bits lose almost no accuracy.
clip='[{"quant_types": ["weight", "input"], "quant_bits": 8, "op_types": ["Conv2d", "Linear"]},
       {"quant_types": ["output"], "quant_bits": 8, "op_types": ["ReLU"]}]'
"$pare" quantize t.onnx --plugin ./clip_quantizer.so --quantizer clip --config "$clip" $digits \
    --epochs 2 -o clip.onnx >log
[ "$("$pare" eval clip.onnx --data digits --json | sed -n 's/.*"top1": *0*\.\([0-9][0-9]\).*/\1/p')" -ge 90 ] ||
    fail "clip lost its accuracy"
echo "ok: clip_quantizer"

# If all outputs of the last layer exceed the limit, its gradients are 0 and training changes no weight;
# without the quantizer's backward() it would.
last='[{"quant_types": ["output"], "quant_bits": 8, "op_names": ["fc2"]}]'
for how in "0 1" "0 2" "1e6 1"; do
    "$pare" quantize t.onnx --plugin ./clip_quantizer.so --quantizer clip --set limit=${how% *} \
        --config "$last" --data digits --optimizer sgd --lr 0.1 --threads 1 --seed 1 \
        --epochs ${how#* } --model-out "clip $how.npz" -o "clip $how.onnx" >log
done
cmp "clip 0 1.npz" "clip 0 2.npz" || fail "gradients are not 0"
! cmp -s "clip 0 1.npz" "clip 1e6 1.npz" || fail "all gradients are 0"
echo "ok: clip_quantizer's backward"

# Two plugins at a time.
"$pare" prune t.onnx --plugin ./one_shot.so --plugin ./stepwise.so --pruner one_shot --sparsity 0.5 \
    -o both.onnx >log
cmp one_shot.onnx both.onnx
echo "ok: two at a time"

# A config_list without a sparsity: nothing is removed or written.
code=0
"$pare" prune t.onnx --plugin ./one_shot.so --pruner one_shot --config '[{"op_types": ["default"]}]' \
    -o none.onnx >log 2>&1 || code=$?
[ $code = 1 ] && grep -q "no weights were removed" log && [ ! -e none.onnx ] || fail "no sparsity"
echo "ok: no sparsity"

# ---- invalid plugins ----

cd "$work/bad"
cp ../plugin/t.onnx .

# plugin NAME FIELDS [INIT [FUNCTION]]: a pruner with these fields; INIT is the body of pare_plugin_init
plugin() {
    cat >"$1.c" <<END
#include <pare/plugin.h>
int no_such_function(void);
int calc_mask(struct pare_compression *r, struct pare_layer *l, struct pare_err *err);
int calc_mask(struct pare_compression *r, struct pare_layer *l, struct pare_err *err)
{
    return r && l && err ? PARE_NOT_YET : 0;
}
#define SIZE .size = sizeof(struct pare_algorithm)
#define PRUNER(...) .pruner = &(const struct pare_pruner){ .size = sizeof(struct pare_pruner), __VA_ARGS__ }
const struct pare_algorithm mine = { $2 };
int ${4:-pare_plugin_init}(struct pare_registry *g, struct pare_err *err)
{
    ${3:-return pare_add_pruner(g, &mine, err);}
}
END
    cc -std=c11 -w $(pkg-config --cflags pare) -fPIC -shared "$1.c" -o "$1.so" || fail "$1.c"
}

# rejected PLUGIN TEXT: pare must fail with one line that contains TEXT
rejected() {
    code=0
    ls >../before
    "$pare" prune t.onnx --plugin "./$1" --pruner mine --sparsity 0.5 >../printed 2>../log || code=$?
    ls >../after
    [ $code = 1 ] || fail "$1: exit code $code"
    [ "$(wc -l <../log)" = 1 ] && [ ! -s ../printed ] || fail "$1: not one message: $(cat ../log)"
    grep -qF -- "$2" ../log || fail "$1: expected '$2', found: $(cat ../log)"
    cmp ../before ../after || fail "$1: something was written"
    sed 's/^pare: /ok: /' ../log
}

good='.abi = PARE_ABI, .name = "mine", SIZE, PRUNER(.calc_mask = calc_mask)'
plugin abi '.abi = PARE_ABI + 1, .name = "mine", SIZE, PRUNER(.calc_mask = calc_mask)'
plugin symbol "$good" '' my_init
plugin taken '.abi = PARE_ABI, .name = "level", SIZE, PRUNER(.calc_mask = calc_mask)'
plugin unnamed '.abi = PARE_ABI, SIZE, PRUNER(.calc_mask = calc_mask)'
plugin idle '.abi = PARE_ABI, .name = "mine", SIZE'
plugin refuses "$good" 'return pare_fail(err, PARE_ECONFIG, "not today");'
plugin silent "$good" 'return 7;'
plugin nothing "$good" 'return 0;'
plugin missing "$good" 'return no_such_function();'
plugin twice "$good" 'return pare_add_pruner(g, &mine, err) || pare_add_pruner(g, &mine, err);'
plugin large '.abi = PARE_ABI, .name = "mine", .size = 4096'
plugin unsized '.abi = PARE_ABI, .name = "mine", SIZE, .pruner = &(const struct pare_pruner){ .calc_mask = calc_mask }'
plugin other '.abi = PARE_ABI, .name = "other", SIZE, PRUNER(.calc_mask = calc_mask)'
echo "not a shared object" >text.so
: >empty.so
head -c 3000 abi.so >cut.so
head -c 30 abi.so >short.so

rejected abi.so "abi.so: a pruner was built for interface 3 of plugins, this is 2: build it again"
rejected symbol.so "symbol.so: is not a plugin of Pare, it has no function pare_plugin_init"
rejected taken.so "taken.so: a pruner 'level' exists already"
rejected unnamed.so "unnamed.so: a pruner has no usable name"
rejected idle.so "idle.so: pruner 'mine' has neither calc_mask nor score"
rejected refuses.so "refuses.so: not today"
rejected silent.so "silent.so: the plugin refuses to start and does not say why"
rejected nothing.so "nothing.so: the plugin adds nothing"
rejected missing.so "missing.so: undefined symbol: no_such_function"
rejected twice.so "twice.so: a pruner 'mine' exists already"
rejected large.so "large.so: a descriptor has size 4096, struct pare_algorithm has "
rejected unsized.so "unsized.so: a descriptor has size 0, struct pare_pruner has "
rejected other.so "no pruner 'mine'"
rejected text.so "text.so: is not a shared object"
rejected empty.so "empty.so: is not a shared object"
rejected cut.so "cut.so: the end of the shared object is missing"
rejected short.so "short.so: the end of the shared object is missing"
rejected nowhere.so "nowhere.so: cannot open: No such file or directory"
rejected . "not a regular file"
