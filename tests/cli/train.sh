# Training on digits reaches 97 % in seconds.  Times are masked.
no_times='s/  *[0-9.]* [mu]*s$//; s/^time .*/time/'
pare new mlp --input 1,8,8 --seed 1 -o m.onnx
pare train m.onnx --data digits --epochs 12 --optimizer adam --schedule onecycle --lr 1e-2 --batch 32 \
    --threads 1 --seed 1 -o t.onnx >log || exit
sed 1,11d log | sed -n 's/.*valid [0-9.]*  \(9[789]\)\..*/accuracy: \1 % or more/p; $p' |
    sed 's/: 9[789] %/: 97 %/'
pare eval t.onnx --data digits --threads 1 >log || exit
sed -n 's/^items.*/&/p; s/^top-1  9[789].*/top-1 is 97 % or more/p; s/^time .*/time/p' log
pare eval t.onnx --data digits --threads 1 --per-class | sed -n '/^class/p;$p' | cut -c1-14
pare eval t.onnx --data digits --threads 1 --json --per-class | grep -c '"right"'
