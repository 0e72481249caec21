# The same seed gives the same bytes, also when killed during an epoch and resumed.
. "$(dirname "$0")/same_bytes.inc"
pare new lenet --input 1,8,8 -o m.onnx
same_bytes --data digits --limit 600 --epochs 6 --optimizer adam --threads 1 --seed 3 --pad 1 -q
