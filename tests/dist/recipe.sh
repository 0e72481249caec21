# recipe.sh - a recipe on several processes: the same masks, nearly the same weights; an error ends all
# of them with one message; an interrupted recipe resumes on another number of processes.
pare new lenet --input 1,8,8 -o n.onnx
pare train n.onnx --data digits --limit 600 --epochs 4 --batch 32 --optimizer adam --threads 1 -q -o m.onnx
short='"limit": 320, "batch": 8, "optimizer": "sgd", "schedule": "constant"'
cat >recipe.json <<J
{"model": "m.onnx", "data": "digits", "seconds": 0, "threads": 1, "keep_steps": true, "steps": [
  {"step": "prune", "pruner": "taylor", "sparsity": 0.4, "training-steps": 10, $short},
  {"step": "finetune", "epochs": 1, $short},
  {"step": "speedup"},
  {"step": "distil", "epochs": 1, $short},
  {"step": "sensitivity", "sparsities": [0.5], "limit": 40},
  {"step": "prune", "pruner": "level", "sparsity": 0.5},
  {"step": "quantize", "quantizer": "qat", "preset": "int8", "epochs": 1, $short, "model-out": "rounded.safetensors"},
  {"step": "evaluate"},
  {"step": "export", "input-shape": [1, 1, 8, 8]}]}
J

# state MODEL: write the weights of the model to a file and print its name
state() {
    pare export "$1" -o x.onnx --state x.safetensors -q
    echo x.safetensors
}

for n in 1 2 3; do
    timeout 300 mpi $n pare compress recipe.json -o c$n.onnx -q >log 2>&1 || { cat log; exit 1; }
    grep -q "\"processes\": $n" c$n.run.json
    for step in 01-prune 02-finetune 03-speedup 04-distil 06-prune; do
        mv $(state c1.steps/$step.onnx) a.safetensors
        mv $(state c$n.steps/$step.onnx) b.safetensors
        compare_tensors a.safetensors b.safetensors 2e-6 zeros >log || { echo "$n, $step:"; cat log; exit 1; }
        echo "$n, $step: $(cat log)"
    done
    # Weights that differ in the last bit may be rounded to neighboring integers.
    mv rounded.safetensors q$n.safetensors
    compare_tensors q1.safetensors q$n.safetensors 0.02
done
# Only one process wrote files, and no message was printed twice.
[ "$(ls c1.steps)" = "$(ls c3.steps)" ]
[ "$(timeout 60 mpi 3 pare compress recipe.json -o c3.onnx --resume | grep -c '^accuracy')" = 1 ]
[ "$(timeout 60 mpi 2 pare compress recipe.json -o d.onnx --dry-run | grep -c '^m.onnx\|^input\|finetune')" = \
  "$(pare compress recipe.json -o d.onnx --dry-run | grep -c '^m.onnx\|^input\|finetune')" ]

# fails TEXT N COMMAND...: N processes must fail within a minute, with one message that contains TEXT
fails() {
    what=$1 code=0
    shift
    timeout 60 mpi "$@" >log 2>&1 || code=$?
    if [ $code = 0 ] || [ $code = 124 ] || [ "$(grep -c '^pare: ' log)" != 1 ] ||
        ! grep "^pare: .*$what" log; then
        echo "exit code $code, expected a failure with one message that contains '$what':"
        cat log
        exit 1
    fi
}

fails "none.json" 2 pare compress none.json
sed 's/"level"/"levle"/' recipe.json >bad.json
fails "bad.json: step 6 (prune): .*levle" 3 pare compress bad.json -o bad.onnx
sed 's/"level", "sparsity": 0.5/"level", "sparsity": 1e-9/' recipe.json >bad.json
fails "bad.json: step 6 (prune): no weights were removed" 3 pare compress bad.json -o bad.onnx -q
[ -s bad.run.json ] && [ ! -e bad.onnx ]
# an error in a step that only the first process runs: the output of the step is its input
cat >bad.json <<J
{"model": "m.onnx", "data": "digits", "seconds": 0, "threads": 1, "output": "bad.onnx", "steps": [
  {"step": "prune", "pruner": "level", "sparsity": 0.5},
  {"step": "export", "output": "bad.steps/01-prune.onnx"}]}
J
fails "step 2 (export): bad.steps/01-prune.onnx: would overwrite an input" 2 pare compress bad.json -q
# an error in one process: an image that only one of them reads
mkdir -p set/a set/b
png="\211\120\116\107\015\012\032\012\000\000\000\015\111\110\104\122\000\000\000\001\000"
png="$png\000\000\001\010\000\000\000\000\072\176\233\125\000\000\000\012\111\104\101\124\170"
png="$png\234\143\150\000\000\000\202\000\201\167\315\162\266\000\000\000\000\111\105\116\104"
png="$png\256\102\140\202"
for i in 0 1 2 3; do
    for c in a b; do printf "$png" >set/$c/$i.png; done
done
cp -r set whole
printf "$png" | head -c 50 >set/b/3.png
pare new mlp --input 3,1,1 --classes 2 -o one.onnx >/dev/null
cat >bad.json <<J
{"model": "one.onnx", "data": "set", "valid": "whole", "seconds": 0, "threads": 1, "steps": [
  {"step": "prune", "pruner": "level", "sparsity": 0.5},
  {"step": "finetune", "epochs": 1, "batch": 8}]}
J
fails "set/b/3.png" 4 pare compress bad.json -o bad.onnx -q

# A process is killed in the middle of a training: the job ends, and two processes resume it.
sed 's/"finetune", "epochs": 1/"finetune", "epochs": 12, "checkpoint-steps": 5/' recipe.json >long.json
pare compress long.json -o whole.onnx -q >log 2>&1
mpi 3 pare compress long.json -o k.onnx -q >log 2>&1 &
job=$!
victim=
while [ -z "$victim" ]; do
    sleep 0.05
    victim=$(pgrep -f "pare compress long.json -o k.onnx" -P "$(pgrep -P $job mpirun || echo $job)" | sed -n 2p)
done
while ! ls k.steps/02-finetune-*.checkpoint.safetensors >/dev/null 2>&1; do sleep 0.01; done
kill -9 "$victim"
start=$(date +%s)
if wait $job; then echo "the job succeeded"; exit 1; fi
[ $(($(date +%s) - start)) -le 30 ]
[ ! -e k.onnx ] && [ -s k.run.json ] && [ -s k.steps/01-prune.onnx ]
timeout 600 mpi 2 pare compress long.json -o k.onnx --resume -q >log 2>&1 || { cat log; exit 1; }
for step in 01-prune 02-finetune 04-distil; do
    mv $(state whole.steps/$step.onnx) a.safetensors
    mv $(state k.steps/$step.onnx) b.safetensors
    echo "resumed, $step: $(compare_tensors a.safetensors b.safetensors 1e-4 zeros)"
    compare_tensors a.safetensors b.safetensors 1e-4 zeros >log
done
