# bf16 products: the error is printed; auto says which precision it chose and why.
pare new resnet20 --input 3,32,32 --seed 1 -o net.onnx
pare run net.onnx --precision bf16 --threads 1 | sed -n 's/outputs .*/outputs E/p'
pare run net.onnx --precision bf16 --json | grep -c bf16_error
pare run net.onnx --precision auto | grep -c '^precision'
pare run net.onnx --precision f32 | grep -c '^precision'
pare bench net.onnx --precision bf16 --repeat 2 | grep -c '^precision bf16'
pare run net.onnx --precision half
