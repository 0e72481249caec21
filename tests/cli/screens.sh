# What a person sees in terminals of 60, 80 and 200 columns, through a pseudo-terminal.
export TERM=xterm NO_COLOR=1
screen() {
    columns=$1
    shift
    echo "---- $columns columns: $*"
    script -qec "stty cols $columns; $*" /dev/null </dev/null | sed 's/.*\r\x1b\[K//; s/\r$//; s/ [0-9.]* [mu]*s$/ TIME/; /^latency/d' >screen
    awk -v n=$columns '{ gsub(/…/, "."); if (length($0) > n && !/^  pare /) print "TOO WIDE: " $0 }' screen
    cat screen
}
pare new resnet20 --input 3,32,32 -o a-network-with-a-long-name.onnx >/dev/null
pare new lenet --input 1,8,8 -o m.onnx >/dev/null
for n in 60 80 200; do
    screen $n "pare inspect a-network-with-a-long-name.onnx"
    screen $n pare inspect --groups m.onnx
    screen $n pare list pruners
    screen $n pare list presets
    screen $n pare help prune
    screen $n pare help pruner l1
    screen $n pare analyze count m.onnx
    screen $n pare prune m.onnx --sparsity 0.5 --speedup --no-bench -o small.onnx
    screen $n pare train m.onnx --data digits --epochs 2 --threads 1 -o t.onnx
    screen $n pare quantize m.onnx --preset int8-weights -o q.onnx
done
for n in 60 80; do
    screen $n pare inspect q.onnx
    screen $n pare list
    # Only the width is compared: these have latencies, or floats of training.
    screen $n pare prune m.onnx --pruner taylor --sparsity 0.5 --data digits --threads 1 -o p.onnx | grep '^----\|^TOO'
    screen $n pare speedup m.onnx -o s.onnx | grep '^----\|^TOO'
    screen $n pare bench m.onnx --threads 1 --repeat 3 --no-tune | grep '^----\|^TOO'
done
NO_COLOR=
echo "---- colors"
script -qec "pare list presets" /dev/null </dev/null | head -1 | cat -v
