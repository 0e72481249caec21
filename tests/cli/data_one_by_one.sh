# Images of different sizes for a model that takes any size, and a model whose input has no axis for a batch: items run one by one.
mkdir -p images more/a more/b
i=0
for png in \
    iVBORw0KGgoAAAANSUhEUgAAAAQAAAAFCAIAAADtz9qMAAAATElEQVR4nAFBAL7/AWq3AONuF+IzTloSSQLKKAZdRXf02mdt5QIA3+QVCSvfGWv0h7BQAtDw77bR3y5eJus3+gFJIQRkFD/Q2E+oiSCIdxx84kwgVgAAAABJRU5ErkJggg== \
    iVBORw0KGgoAAAANSUhEUgAAAAYAAAAECAIAAAAiZtkUAAAAV0lEQVR4nAFMALP/ARppsU+j10B3aOxjM47nQgcf8wG/ueHgBnelJRWyxTEnSdR2dsoA5pIAnVOG4VvnngTtsP4rIu2xABDAwOu1HwUGBz7biYzWH0eV91enJDg7s5vLAAAAAElFTkSuQmCC \
    iVBORw0KGgoAAAANSUhEUgAAAAQAAAAFCAIAAADtz9qMAAAATElEQVR4nAFBAL7/AI8EzDvNYty+jSIPHgALGzm1jgMS9pAzQL0AMZT31z19ntMnBBF8Amn9WSVW4+7rgz//4gQGpG8UDQ4hELi6M7JWxBqSTAHeWAAAAABJRU5ErkJggg== \
    iVBORw0KGgoAAAANSUhEUgAAAAUAAAAHCAIAAABPxRC5AAAAe0lEQVR4nAFwAI//AbvE5zI/VLDut/D4sdaS9wCM7Opk9SwgIoAF8dIDLFQBIc5XzsaJ6FKVtOXT8s27AJduzVDjky7InA1rreoA+QFg+JpzmgZ1Ax+SK/MCkvkCEmnOk77+JWPtWKyl7447Ajbj2HM2LiTC2JIlH4wxelZ+OZgvFnDhAAAAAElFTkSuQmCC; do
    i=$((i + 1))
    echo $png | base64 -d >images/$i.png
    [ $((i % 2)) = 0 ] && cp images/$i.png more/a || cp images/$i.png more/b
done
pare quantize models/any_size.onnx --preset int8 --data images --threads 1 -o q.onnx 2>&1 | sed 's/ *[0-9.]* dB.*//; /outputs on/d; /^ *input/d'
pare eval q.onnx --data images --against models/any_size.onnx --threads 1 | sed 's/[0-9.]* dB/N dB/; /cosine/d; /^largest/d'
pare eval models/any_size.onnx --data more --threads 1 | sed '/^time/d'
pare train models/any_size.onnx --data more --epochs 2 --threads 1 -o t.onnx | sed 's/loss.*//'
pare train models/any_size.onnx --data images --teacher models/any_size.onnx --epochs 1 --threads 1 -q -o d.onnx 2>/dev/null && ls d.onnx
pare prune models/any_size.onnx --pruner l1 --sparsity 0.5 --data more --speedup --threads 1 -o p.onnx 2>/dev/null | grep '^verified'
cat >recipe.json <<'J'
{"model": "models/any_size.onnx", "steps": [{"step": "prune", "pruner": "l1", "sparsity": 0.5, "dependency-aware": true},
    {"step": "speedup"}, {"step": "distil", "epochs": 5, "optimizer": "adam", "schedule": "cosine"},
    {"step": "quantize", "preset": "int8"}]}
J
pare compress recipe.json --data images --threads 1 --seconds 0 -q -o c.onnx 2>&1 | grep '^parameters\|^MACs'
pare compress recipe.json --data images --threads 1 --dry-run -o d.onnx 2>/dev/null | head -4
pare bench models/any_size.onnx --data images --repeat 2 --threads 1 --no-tune 2>/dev/null | sed -n 's/.*thread, \(.*\) inputs;/\1/p'
# No axis for a batch.
pare quantize models/detector.onnx --preset int8 --data images --threads 1 -o dq.onnx 2>&1 | sed 's/ *[0-9.]* dB.*//; /outputs on/d; /^ *input/d'
pare eval models/detector.onnx --data images --against models/detector.onnx --threads 1 2>/dev/null
# Half of the channels removed: other pixels have a score above 0.
pare prune models/detector.onnx --pruner l1 --sparsity 0.5 -q -o dp.onnx >/dev/null
pare eval dp.onnx --data images --against models/detector.onnx --threads 1 2>/dev/null | sed 's/: [0-9]*, not [0-9]*/: N, not N/; s/[0-9.-]* dB/N dB/; /cosine/d; /^largest/d'
pare compress models/detector.onnx --preset int8 --data images --threads 1 --seconds 0 -o dc.onnx 2>/dev/null | grep -E '^(other|signal|same)' | sed 's/[0-9.]* dB/N dB/'
pare eval models/detector.onnx --data more
pare train models/detector.onnx --data images --teacher models/detector.onnx
pare quantize models/detector.onnx --preset int8
