# Statistics of batch normalizations are re-estimated: alone, after pruning, as a step of a recipe.
# Accuracies depend on the machine's arithmetic: a share of what was lost must return.
pare new resnet20 --input 1,8,8 --seed 1 -o n.onnx || exit
pare train n.onnx --data digits --epochs 4 --batch 32 --threads 1 --seed 1 --quiet -o t.onnx || exit
accuracy() { sed -n "s/^$1 *accuracy \([0-9]*\).*/\1/p" log; }
pare prune t.onnx --pruner l1 --sparsity 0.2 --data digits --threads 1 --seed 1 --no-repair --speedup \
    --no-bench -o p.onnx >log 2>&1 || exit
[ "$(accuracy recalibrated:)" -gt $(($(accuracy 'with masks:') + 5)) ] && echo pruned model: better
grep -c carries log
pare prune t.onnx --pruner l1 --sparsity 0.2 --data digits --threads 1 --seed 1 --recalibrate 0 \
    --no-repair --dependency-aware -o m.onnx >log 2>&1
grep -c recalibrated log
pare train m.onnx --data digits --bn-only --threads 1 --seed 1 -o r.onnx >log 2>&1 || exit
[ "$(accuracy recalibrated:)" -gt $(($(accuracy before:) + 5)) ] && echo masked model: better
tail -n 1 log
pare train m.onnx --data digits --bn-only --recalibrate 3 --json --threads 1 -o r3.onnx | grep batches
# Fine-tuning keeps scale and shift of removed channels 0.
pare train m.onnx --data digits --keep-zeros --epochs 1 --threads 1 --quiet -o k.onnx || exit
pare speedup k.onnx --no-bench -o x.onnx | grep -c carries
cat >recipe.json <<'J'
{ "model": "t.onnx", "data": "digits", "output": "s.onnx", "seconds": 0, "threads": 1,
  "steps": [ {"step": "prune", "pruner": "l1", "sparsity": 0.2, "dependency-aware": true, "repair": false,
              "recalibrate": 0},
             {"step": "recalibrate", "recalibrate": 5}, {"step": "speedup"} ] }
J
pare compress recipe.json --quiet >log 2>&1 &&
    grep -q '"recalibrate"' s.run.json && echo recipe: done
pare new lenet --input 1,8,8 -o l.onnx
pare train l.onnx --data digits --bn-only -o x.onnx
