# keep_training_mode.sh - compress --keep-training-mode on several processes: all of them keep it, so the
# loss is that of one process, and not that of inference mode.
cp examples/../tests/models/exporter_habits.onnx m.onnx
cat >recipe.json <<J
{"model": "m.onnx", "data": "digits", "seconds": 0, "threads": 1, "steps": [{"step": "evaluate", "batch": 36}]}
J

# loss N OPTION...: of the recipe with N processes
loss() {
    n=$1
    shift
    rm -rf c.*
    timeout 60 mpi $n pare compress recipe.json -o c.onnx -q "$@" >log 2>&1 || { cat log >&2; exit 1; }
    sed -n 's/.*"loss": \([0-9.]*\).*/\1/p' c.run.json | tail -n 1
}

kept=$(loss 1 --keep-training-mode)
[ "$kept" != "$(loss 1)" ]
for n in 2 3; do
    got=$(loss $n --keep-training-mode)
    awk -v a="$kept" -v b="$got" 'BEGIN { exit !(a > 0 && (a - b) / a < 1e-6 && (b - a) / a < 1e-6) }' ||
        { echo "the loss with $n processes is $got, expected $kept"; exit 1; }
done
