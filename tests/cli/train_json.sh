# pare train --json: the history on stdout, everything else on stderr.
pare new mlp --input 1,8,8 -o m.onnx
pare train m.onnx --data digits --limit 100 --epochs 2 --threads 1 --json 2>lines >log || exit
wc -l <lines
sed 's/: [0-9][0-9.e-]*/: N/; s/: true\|: false/: B/' log
