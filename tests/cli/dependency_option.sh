# --speedup masks coupled layers together unless --no-dependency-aware is given.
pare new resnet20 --input 3,16,16 -o m.onnx >/dev/null
left() {
    echo "$*: $(pare prune m.onnx --pruner l1 --sparsity 0.5 "$@" --speedup --no-bench --quiet -o s.onnx | sed -n 's/^parameters .* //p') left"
}
left
left --dependency-aware
left --no-dependency-aware
left --dependency-aware=false
