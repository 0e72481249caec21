# Inputs by name, by position, and random.
pare run models/add.onnx --input b=models/add_b.npy --input models/add_correct/input_0.pb
pare run models/add.onnx --input a=models/add_b.npy
