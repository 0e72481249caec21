# budget.sh - compress --budget with a table of times, and verify: the same result from 1 and 2 processes.
pare new lenet --input 1,8,8 --seed 1 -o n.onnx
pare train n.onnx --data digits --epochs 2 --threads 1 --seed 1 -q -o m.onnx
pare bench m.onnx --table times.jsonl --threads 1 --seconds 2 >log 2>&1
for n in 1 2; do
    mpi $n pare compress m.onnx --data digits --budget latency=0.6 --table times.jsonl --threads 1 -q -o s.onnx >out$n 2>&1 ||
        { cat out$n; exit 1; }
    cp s.onnx s$n.onnx
    mpi $n pare verify s.onnx --against m.onnx --data digits --threads 1 >verify$n 2>&1 || { cat verify$n; exit 1; }
done
cmp s1.onnx s2.onnx
diff out1 out2
diff verify1 verify2
# A missed budget has its exit code under mpirun, too.
code=0
mpi 2 pare compress m.onnx --data digits --budget macs=0.0001 --table times.jsonl --threads 1 -q -o t.onnx >log 2>&1 || code=$?
[ $code = 3 ] || { echo "exit code $code"; cat log; exit 1; }
test -s t.onnx
