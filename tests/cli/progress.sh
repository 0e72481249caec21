# On a terminal: progress of work that takes more than a second, colors unless NO_COLOR is set; and a
# note about latencies that were measured on a busy machine.
pare new resnet18-cifar --input 1,32,32 -o m.onnx >/dev/null
run="pare eval m.onnx --data digits --resize 32,32 --batch 1 --threads 1 --split train --limit 600"
script -qec "$run" /dev/null </dev/null | tr '\r' '\n' >screen
grep -ac 'evaluate [0-9]*/600  [0-9.]*/s  0:[0-9]* left' screen | awk '{ print ($1 > 1) ? "progress" : "no progress" }'
sed -n 's/.*\(items  600\)/\1/p' screen
script -qec "pare bench m.onnx --threads 1 --seconds 2 --no-tune" /dev/null </dev/null | tr '\r' '\n' >screen
grep -ac 'measure run [0-9]*/[0-9]*  [0-9.]*K*/s  0:[0-9]* left' screen | awk '{ print ($1 > 1) ? "progress" : "no progress" }'
escape=$(printf '\033')
NO_COLOR= script -qec "pare eval nowhere.onnx --data digits" /dev/null </dev/null | sed "s/$escape/ESC/g; s/\r//"
NO_COLOR=1 script -qec "pare eval nowhere.onnx --data digits" /dev/null </dev/null | sed "s/$escape/ESC/g; s/\r//"
for i in $(seq $((4 * $(nproc)))); do
    (while :; do :; done) &
    busy="${busy:-} $!"
done
pare bench --threads 1 --seconds 1 models/tiny_cnn.onnx 2>/dev/null | sed -n 's/for [0-9]*%/for N%/p'
kill $busy
pare bench --threads 1 --repeat 3 --json models/tiny_cnn.onnx 2>/dev/null | grep -c '"cpu_share"'
pare new lenet --input 1,8,8 -o l.onnx >/dev/null
pare prune l.onnx --sparsity 0.5 --speedup -q -o s.onnx | sed -n 's/[0-9.]* [mun]*s/T/g; /^latency:/,/^  T/p' | sed 's/of [0-9]* alt/of N alt/'
