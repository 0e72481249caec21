# Times differ from run to run; what is there does not.
pare bench --repeat 5 --threads 1 models/add.onnx models/tiny_cnn.onnx |
    sed -E 's/[0-9.]+ (us|ms|s)\b/T/g; s/[0-9.]+[KMG]? +T/R T/; s/[0-9.]+x$/Nx/; s/ +/ /g; s/used .* at/used M at/'
pare bench --repeat 3 --json -v models/add.onnx | grep -c seconds
