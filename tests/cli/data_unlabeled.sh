# Images without labels, of another size than the model's input: calibration, distillation, compression and comparison.
mkdir images
i=0
for png in \
    iVBORw0KGgoAAAANSUhEUgAAAAQAAAADCAIAAAA7ljmRAAAAMklEQVR42gEnANj/A/7jIfmBrMkJB6UQjgC6lVDyzBfrB/Wj5iMEF9lb3xhfCOqzztsbgy8TXRCq8bUAAAAASUVORK5CYII= \
    iVBORw0KGgoAAAANSUhEUgAAAAQAAAADCAIAAAA7ljmRAAAAMklEQVR42gEnANj/A58u0/8wBlC6DePwSQAjbO1EMlDj0sk5yUAEKNnTHPep7dEI8g6KZVwS8hMAoSUAAAAASUVORK5CYII= \
    iVBORw0KGgoAAAANSUhEUgAAAAQAAAADCAIAAAA7ljmRAAAAMElEQVR42mNIZPwkYijDy2ZiOO0Oo67100kZ2/Yb/XN++55FKjZFcBrTK6l9wn2ZABA2DwDmbIyJAAAAAElFTkSuQmCC \
    iVBORw0KGgoAAAANSUhEUgAAAAQAAAADCAIAAAA7ljmRAAAAMElEQVR42mNcXnpV8bzzh1vcJfWaDLrcN+W488WLuRpFfzJndTy+JBDK/MtV4tsMADcCD9q73EGKAAAAAElFTkSuQmCC; do
    i=$((i + 1))
    echo $png | base64 -d >images/$i.png
done
pare new lenet --input 1,8,8 --seed 1 -o fresh.onnx
pare train fresh.onnx --data digits --epochs 4 --optimizer adam --threads 1 -q -o m.onnx
pare quantize m.onnx --preset int8 --data images --threads 1 -o q.onnx 2>&1 | grep -v dB
pare eval q.onnx --data images --against m.onnx --threads 1 2>/dev/null | sed 's/[0-9.]* dB/N dB/; s/0\.9[0-9]*$/0.9/; /^largest/d'
pare eval m.onnx --data images --against m.onnx --threads 1 2>/dev/null | sed -n '/noise/p;/^cosine/p'
pare eval m.onnx --data images 2>&1
pare train m.onnx --data images 2>&1
pare train m.onnx --data images --teacher m.onnx --epochs 2 --threads 1 -o t.onnx 2>/dev/null | sed 's/loss.*//'
cat >recipe.json <<'J'
{"model": "m.onnx", "steps": [{"step": "prune", "pruner": "l1", "sparsity": 0.5, "dependency-aware": true},
    {"step": "speedup"}, {"step": "distil", "epochs": 5, "optimizer": "adam", "schedule": "cosine"},
    {"step": "quantize", "preset": "int8"}]}
J
pare compress recipe.json --data images --threads 1 --seconds 0 -o c.onnx 2>&1 | sed 's/[0-9.]* dB/N dB/; s/, [0-9.]* [mu]*s$//; s/  loss.*//; s/0\.[0-9]*$/0.N/; s/[0-9.]*%$/N%/'
cat >r.json <<J
{"model": "m.onnx", "data": "images", "resize": [8, 8], "norm": "mnist", "seconds": 0, "threads": 1,
 "steps": [{"step": "quantize", "preset": "int8"}]}
J
pare compress r.json -o r.onnx -q >/dev/null && grep -c '"snr_db"' r.run.json
pare compress r.json --resize 9,9 -o r.onnx 2>&1
sed 's/"norm": "mnist"/"nrom": "mnist"/' r.json >bad.json
pare compress bad.json 2>&1
