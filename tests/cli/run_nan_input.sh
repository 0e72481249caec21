# Inputs that are not finite are used, with a warning.
pare new mlp --input 1,1,1 -o m.onnx >/dev/null
header="{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1), }"
printf '\223NUMPY\1\0v\0%-117s\n' "$header" >x.npy
printf '\0\0\300\177' >>x.npy
pare run m.onnx --input x.npy -o y.npz >/dev/null
