# quantize_smooth.sh - scaled inputs of linear layers (--smooth, --awq): what is printed, outputs stay close, errors.
pare new mlp --input 1,8,8 --seed 1 -o new.onnx
pare train new.onnx --data digits --epochs 2 --threads 1 --seed 1 --quiet -o m.onnx >/dev/null
pare quantize m.onnx --preset int8 --smooth --data digits --threads 1 -o s.onnx | sed -n '/smoothed/p; s/^\(rounding gptq\):.*/\1/p'
pare quantize m.onnx --preset int8 --smooth --rounding nearest --data digits --threads 1 -o n.onnx | grep -c 'rounding gptq' || true
pare eval s.onnx --data digits --threads 1 --against m.onnx | awk '/^cosine/ { print ($2 > 0.999 ? "close" : $2) }'
pare quantize m.onnx --preset int8 --data digits --threads 1 -o r.onnx | grep -c smoothed || true
pare quantize m.onnx --preset w4 --smooth -o b.onnx || echo "exit code $?"
pare quantize m.onnx --quantizer lsq --smooth --epochs 1 --data digits --config '[{"quant_types": ["weight"]}]' -o b.onnx ||
    echo "exit code $?"
pare quantize m.onnx --preset w4 --awq --data digits --threads 1 -o a.onnx | grep -c smoothed
pare eval a.onnx --data digits --threads 1 --against m.onnx | awk '/^cosine/ { print ($2 > 0.99 ? "close" : $2) }'
pare quantize m.onnx --preset w4 --awq --smooth --data digits -o b.onnx || echo "exit code $?"
pare quantize m.onnx --preset w4 --awq -o b.onnx || echo "exit code $?"
