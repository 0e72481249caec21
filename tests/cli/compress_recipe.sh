# A whole recipe: printed output, written files and their contents.
pare new lenet --input 1,8,8 --width 0.5 -o n.onnx
pare train n.onnx --data digits --limit 600 --epochs 6 --batch 32 --optimizer adam --threads 1 \
    --quiet -o m.onnx
cat >recipe.json <<'J'
{
  "model": "m.onnx", "data": "digits", "output": "small.onnx", "seconds": 0, "threads": 1,
  "steps": [
    {"step": "prune", "pruner": "l1", "sparsity": 0.5, "dependency-aware": true},
    {"step": "speedup", "round_to": 4},
    {"step": "distil", "epochs": 2, "limit": 600, "batch": 32, "optimizer": "adam"},
    {"step": "quantize", "preset": "int8", "limit": 64},
    {"step": "evaluate"}
  ]
}
J
pare compress recipe.json --dry-run
ls
# Accuracies depend on the machine's arithmetic and are masked.
pare compress recipe.json 2>log | sed 's/accuracy *[0-9.]*%\(  *[0-9.]*%  *[-+0-9.]*\)\{0,1\}/accuracy A/
    s/, [0-9.]*% zeros//; s/, [0-9.]* [mu]\{0,1\}s$/, T/'
ls
# The model contains its provenance.
pare inspect --json small.onnx | grep -c '"layers"'
for word in pare.version pare.recipe_sha256 pare.input_sha256 '"pruner":"l1"'; do
    grep -ac "$word" small.onnx >/dev/null && echo "$word is in the model"
done
sha=$(sha256sum <m.onnx | cut -d ' ' -f 1)
grep -c "$sha" small.run.json
# A second run gives the same bytes; --resume has nothing to do.
cp small.onnx first.onnx
pare compress recipe.json --quiet >out 2>log && cmp small.onnx first.onnx && echo the same bytes
pare compress recipe.json --resume >again 2>log && cmp out again && echo nothing to do
# A preset is a recipe.
pare compress --preset int8 --data digits m.onnx -o p.onnx --seconds 0 --threads 1 --json >p.json &&
    grep -c '"preset": "int8"' p.json
