# A full disk: an error, exit code 1, and the previous checkpoint is unchanged.
pare new mlp --input 1,8,8 -o m.onnx >/dev/null
pare train m.onnx --data digits --limit 64 --epochs 1 --threads 1 --quiet --checkpoint k.safetensors \
    -o a.onnx
cp k.safetensors before
(trap '' XFSZ; ulimit -f 20
 pare train m.onnx --data digits --limit 64 --epochs 3 --threads 1 --quiet \
    --checkpoint k.safetensors --resume -o b.onnx)
echo exit code $?
cmp k.safetensors before && ls
