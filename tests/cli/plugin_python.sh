# A plugin in Python: the program names the module that loads it.
pare new lenet --input 1,8,8 --seed 1 -o m.onnx >/dev/null
pare prune m.onnx --plugin my.py --pruner mine --sparsity 0.5 -o o.onnx 2>&1
echo "exit code $?"
pare list --plugin my.py pruners 2>&1
echo "exit code $?"
