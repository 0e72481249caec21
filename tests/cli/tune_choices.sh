# The fastest kernels depend on the machine; kernels selected by a file of choices do not.
m=models/tiny_cnn.onnx
pare bench --repeat 1 --threads 1 --choices all.txt $m >/dev/null 2>&1 || exit
head -1 all.txt
grep kernel_shape=3,3 all.txt >list.txt
sed 's/.*	//; s/isa.*/isa/' list.txt
for k in conv_gemm conv_winograd; do
    sed "s/^conv[a-z_]*/$k/" list.txt >$k.txt
    pare bench --repeat 1 --threads 1 --no-tune --choices $k.txt -v $m 2>/dev/null >log
    sed -n 's/.*conv1.* \(conv[a-z_]* \*\) .*/\1/p; s/.* \([0-9]* listed\).*/\1/p' log
    for i in 1 2; do
        pare run --threads 1 --choices $k.txt $m -o $k-$i.npy >/dev/null 2>&1 || exit
    done
    cmp $k-1.npy $k-2.npy && echo the same result twice
done
cmp -s conv_gemm-1.npy conv_winograd-1.npy || echo a different kernel gives different bytes

echo == rules only
pare bench --repeat 1 --threads 1 --no-tune -v --json $m 2>/dev/null | sed -n 's/^ *"\(layers\|timed\)"/\1/p'
ls cache 2>/dev/null

echo == the cache
PARE_CACHE=cache/of/mine pare bench --repeat 1 --threads 1 $m >/dev/null 2>&1
ls cache/of/mine | sed 's/-.*//'
PARE_CACHE=cache/of/mine pare bench --repeat 1 --threads 1 -v --json $m 2>/dev/null |
    sed -n 's/^ *"timed"/timed/p; s/^ *"known": [1-9].*/the others are in the cache/p'

echo == eval
pare new resnet20 --input 1,8,8 --seed 1 -o r.onnx >/dev/null
pare eval r.onnx --data digits --limit 64 --threads 1 --tune --choices r.txt >/dev/null || exit
pare eval r.onnx --data digits --limit 64 --threads 1 --choices r.txt --json | grep -v seconds | grep -v per_second >1
pare eval r.onnx --data digits --limit 64 --threads 1 --choices r.txt --json | grep -v seconds | grep -v per_second >2
cmp 1 2 && grep items 1

echo == errors
pare run --choices none.txt $m >/dev/null
echo conv_onednn for all layers >bad.txt
pare run --choices bad.txt $m >/dev/null
sed 's/^conv[a-z_]*/linear_packed/' list.txt >wrong.txt
pare run --threads 1 --choices wrong.txt $m >/dev/null
true
