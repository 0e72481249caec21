# The same seed gives the same random inputs, another seed gives different ones.
pare run models/tiny_cnn.onnx --seed 1 --batch 2 --threads 1 >one
pare run models/tiny_cnn.onnx --seed 1 --batch 2 --threads 1 >again
pare run models/tiny_cnn.onnx --seed 2 --batch 2 --threads 1 >two
cmp one again && ! cmp -s one two && echo reproducible
