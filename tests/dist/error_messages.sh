# error_messages.sh - an error in one process, or in all, ends the job with a single message.
pare new mlp --input 1,8,8 -o m.onnx >/dev/null
opts="--data digits --limit 64 --batch 8 --threads 1 -q"

# expect TEXT: the job must fail with exactly one message of pare, which contains TEXT
expect() {
    [ "$code" != 0 ] && [ "$(grep -c '^pare: ' log)" = 1 ] && grep "^pare: .*$1" log && return
    echo "exit code $code, expected a failure with one message that contains '$1':"
    cat log
    exit 1
}

code=0; mpi 3 pare train m.onnx $opts --optimizer sdg -o a.onnx >log 2>&1 || code=$?
expect "sdg"
code=0; mpi 3 pare train none.onnx $opts -o a.onnx >log 2>&1 || code=$?
expect "none.onnx: cannot be opened"
code=0; mpi 16 pare train m.onnx $opts -o a.onnx >log 2>&1 || code=$?
expect "too few to share"

# A damaged image that only one process reads.
mkdir -p set/a set/b
png="\211\120\116\107\015\012\032\012\000\000\000\015\111\110\104\122\000\000\000\001\000"
png="$png\000\000\001\010\000\000\000\000\072\176\233\125\000\000\000\012\111\104\101\124\170"
png="$png\234\143\150\000\000\000\202\000\201\167\315\162\266\000\000\000\000\111\105\116\104"
png="$png\256\102\140\202"
for i in 0 1 2 3; do
    for c in a b; do printf "$png" >set/$c/$i.png; done
done
printf "$png" | head -c 50 >set/b/3.png
pare new mlp --input 3,1,1 --classes 2 -o one.onnx >/dev/null
code=0; mpi 4 pare train one.onnx --data set --batch 8 --threads 1 --valid none -q -o a.onnx \
    >log 2>&1 || code=$?
expect "set/b/3.png"

# A full disk: only the first process writes.  MPI's own files must stay below the limit.
mpi 2 pare train m.onnx $opts --epochs 1 --checkpoint k.safetensors -o a.onnx >log 2>&1
cp k.safetensors before
code=0
OMPI_MCA_btl=self,tcp OMPI_MCA_osc=pt2pt mpi 2 sh -c "trap '' XFSZ; ulimit -f 20
    exec pare train m.onnx $opts --epochs 3 --checkpoint k.safetensors --resume -o b.onnx" \
    >log 2>&1 || code=$?
expect "k.safetensors"
cmp k.safetensors before

# Masks that differ between processes stop the job, with the name of the layer.
code=0; mpi 2 pare prune m.onnx $opts --plugin "$(which unmerged_count.so)" --pruner unmerged_count \
    --sparsity 0.5 -o a.onnx >log 2>&1 || code=$?
expect "the mask of layer 'fc1' is not the same in all 2 processes"
