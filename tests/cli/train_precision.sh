# bf16 products in training: it learns, and a checkpoint of another precision is rejected.
pare new lenet --input 1,8,8 --classes 10 --seed 1 -o net.onnx
pare train net.onnx --data digits --epochs 1 --threads 1 --precision bf16 --checkpoint c.safetensors -o out.onnx >log && echo trained
pare eval out.onnx --data digits --precision bf16 --json | grep -c top1
pare train net.onnx --data digits --epochs 2 --threads 1 --checkpoint c.safetensors --resume -o out2.onnx
