# Layers selected by a config_list, from a file and from the command line, as documented by NNI.
pare new lenet --input 1,8,8 --seed 1 -o m.onnx >/dev/null
table() { sed -n 's/^\([a-z0-9]*\)  *[A-Z][A-Za-z0-9]*  *(.*)  *\([0-9.]*%\)  *\([0-9.]*%\) .*/\1 \2 \3/p'; }
prune() { pare prune m.onnx --config "$1" -o out.onnx | table; }
echo "--- one entry"
prune '[{"sparsity": 0.7, "op_types": ["Conv2d", "Linear"]}]'
echo "--- a file: all layers, two at another sparsity, one excluded"
cat >list.json <<'END'
[
    {
        "sparsity": 0.8,
        "op_types": ["default"]
    },
    {
        "sparsity": 0.6,
        "op_names": ["conv1", "conv2"]
    },
    {
        "exclude": true,
        "op_names": ["fc2"]
    }
]
END
prune list.json
echo "--- an excluded layer included again, and exclude: false"
prune '[{"sparsity": 0.5, "op_types": ["default"]}, {"exclude": true, "op_types": ["Gemm"]},
        {"sparsity": 0.9, "op_names": ["fc1"]}, {"exclude": false, "sparsity": 0.2, "op_names": ["re:.*2"]}]'
