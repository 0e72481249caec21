# shared_analysis.sh - analyses and data sets shared by several processes give the results of one.
pare new lenet --input 1,8,8 -o m.onnx
pare train m.onnx --data digits --limit 400 --epochs 1 --optimizer adam --threads 1 --valid none -q -o t.onnx

for n in 1 3; do
    mpi $n pare eval t.onnx --data digits --threads 1 --json | grep -v seconds | grep -v per_second >eval$n
    mpi $n pare analyze sensitivity t.onnx --data digits --limit 100 --threads 1 --sparsities 0.3,0.6 \
        --csv sense$n.csv -q >sense$n
    mpi $n pare analyze quantization t.onnx --data digits --threads 1 --csv noise$n.csv >noise$n
done
for what in eval sense noise sense.csv noise.csv; do
    cmp $(echo $what | sed 's/\./1./; t; s/$/1/') $(echo $what | sed 's/\./3./; t; s/$/3/')
done
[ "$(mpi 3 pare --version | wc -l)" = 1 ]
[ "$(mpi 3 pare inspect t.onnx | grep -c conv1)" = "$(pare inspect t.onnx | grep -c conv1)" ]
