# calibrate.sh - 3 and 4 processes calibrate exactly the same ranges and histograms as one.
pare new lenet --input 1,8,8 -o m.onnx
pare train m.onnx --data digits --limit 400 --epochs 2 --optimizer adam --threads 1 --valid none -q -o t.onnx
for observer in minmax moving_average percentile mse entropy; do
    for n in 1 3 4; do
        mpi $n pare quantize t.onnx --preset int8 --observer $observer --data digits --batch 30 \
            --threads 1 --calibration-steps 4 --calibration $n.json -o q$n.onnx -q >log 2>&1 ||
            { cat log; exit 1; }
    done
    cmp 1.json 3.json
    cmp 1.json 4.json
    cmp q1.onnx q4.onnx
    echo "$observer: the same"
done
