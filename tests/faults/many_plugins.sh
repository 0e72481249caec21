#!/bin/sh
# many_plugins.sh - load a hundred plugins at once.
#
# usage: many_plugins.sh PARE SHIM [all|some]      (PARE_INCLUDE: the folder of pare/plugin.h)
. "$(dirname "$0")/fault_functions.sh"
cat >plugin.c <<'C'
#include <pare/plugin.h>
static int score(struct pare_compression *r, struct pare_layer *l, float *s, struct pare_err *err)
{
    (void)r, (void)err;
    pare_units_sum(pare_layer_units(l), pare_layer_weight(l), 1, s);
    return 0;
}
static const struct pare_algorithm pruner = { .abi = PARE_ABI, .size = sizeof(struct pare_algorithm), .name = "number_000", .doc = "One of many.", .pruner = &(const struct pare_pruner){ .size = sizeof(struct pare_pruner), .score = score } };
PARE_API int pare_plugin_init(struct pare_registry *g, struct pare_err *err)
{
    return pare_add_pruner(g, &pruner, err);
}
C
cc -shared -fPIC -I"$PARE_INCLUDE" plugin.c -o p000.so || exit 1
"$pare" new mlp --input 1,4,4 -o m.onnx >out
options="--plugin ./p000.so"
for i in $(seq -w 1 99); do
    sed "s/number_000/number_0$i/" p000.so >p0$i.so
    options="$options --plugin ./p0$i.so"
done
"$pare" prune m.onnx $options --pruner number_000 --sparsity 0.5 -o a.onnx >out 2>err || wrong "$(cat err)"
"$pare" prune m.onnx $options --pruner number_099 --sparsity 0.5 -o b.onnx >out 2>err || wrong "$(cat err)"
cmp a.onnx b.onnx || wrong "the same algorithm gives a different model"
# The same plugin twice is accepted or reported by one message.
"$pare" prune m.onnx $options --plugin ./p000.so --pruner number_000 --sparsity 0.5 -o c.onnx >out 2>err
code=$?
[ $code = 0 ] || one_message || wrong "$(cat err)"
echo "100 plugins loaded"
exit $((bad > 0))
