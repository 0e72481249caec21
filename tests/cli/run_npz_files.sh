# Inputs, outputs and expected outputs as .npz and .npy files.
pare run models/add.onnx --input models/add_in.npz
pare run models/add.onnx --input models/add_in.npz --output sum.npy
pare run models/add.onnx --input models/add_in.npz --check sum.npy | tail -1
pare run models/add.onnx --input models/add_in.npz --output sum.npz >/dev/null
pare run models/add.onnx --input models/add_in.npz --check sum.npz --reference | tail -1
ls
