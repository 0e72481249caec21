# Training with a list of kernels, one per pass of a layer: the same bytes, also when killed and
# resumed.
. "$(dirname "$0")/same_bytes.inc"
pare new resnet20 --input 1,8,8 --seed 1 -o m.onnx >/dev/null
opts="--data digits --limit 300 --epochs 6 --threads 1 --seed 3 -q"
pare train m.onnx $opts --epochs 1 --tune --choices all.txt -o t.onnx || exit
sed -n 's/^conv.* gradients .*, //p' all.txt | sort -u

echo == mixed
same="kernel_shape=3,3.*strides=1,1.* gradients yes"
sed "/$same.*, data$/s/^[a-z_]*/conv_winograd_train/; /$same/!b; /, data$/!s/^[a-z_]*/conv_train/" all.txt >mix.txt
sed -n "s/^\([a-z_]*\).*$same.*, /\1 /p" mix.txt | sort -u
same_bytes $opts --choices mix.txt

echo == a list of the older format without passes
grep "$same.*, forward$" mix.txt | sed 's/, forward$//' >old.txt
grep "$same" mix.txt | sed 's/^[a-z_]*/conv_train/' >one.txt
for f in old one; do
    pare train m.onnx --data digits --limit 100 --threads 1 --seed 3 -q --choices $f.txt -o $f.onnx
done
cmp old.onnx one.onnx && echo a line for all ways

echo == mistakes
sed "/$same.*, weights$/s/^[a-z_]*/linear_train/" mix.txt >wrong.txt
pare train m.onnx --data digits --limit 100 --threads 1 --choices wrong.txt -q -o w.onnx
true
