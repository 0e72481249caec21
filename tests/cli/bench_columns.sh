# Times vary between runs; the columns do not.
pare bench --repeat 5 --threads 1 models/add.onnx models/tiny_cnn.onnx | grep -v '^latency is unreliable' |
    awk '/onnx/ { print $1, $2, NF; next } { sub(/process: .*/, "process: M"); gsub(/  +/, "  "); print }'
pare bench --repeat 3 --json -v models/add.onnx | grep -c seconds
pare bench --repeat 3 -v models/add.onnx | grep -v '^latency is unreliable' | awk '/kernel/ { on = 1 } on { print $1, $2, $3, NF }'
