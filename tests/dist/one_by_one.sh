# one_by_one.sh - images of different sizes run one by one: 1, 2 and 3 processes train, prune and calibrate alike.
mkdir -p images/a images/b
i=0
for png in \
    iVBORw0KGgoAAAANSUhEUgAAAAQAAAAFCAIAAADtz9qMAAAATElEQVR4nAFBAL7/AWq3AONuF+IzTloSSQLKKAZdRXf02mdt5QIA3+QVCSvfGWv0h7BQAtDw77bR3y5eJus3+gFJIQRkFD/Q2E+oiSCIdxx84kwgVgAAAABJRU5ErkJggg== \
    iVBORw0KGgoAAAANSUhEUgAAAAYAAAAECAIAAAAiZtkUAAAAV0lEQVR4nAFMALP/ARppsU+j10B3aOxjM47nQgcf8wG/ueHgBnelJRWyxTEnSdR2dsoA5pIAnVOG4VvnngTtsP4rIu2xABDAwOu1HwUGBz7biYzWH0eV91enJDg7s5vLAAAAAElFTkSuQmCC \
    iVBORw0KGgoAAAANSUhEUgAAAAQAAAAFCAIAAADtz9qMAAAATElEQVR4nAFBAL7/AI8EzDvNYty+jSIPHgALGzm1jgMS9pAzQL0AMZT31z19ntMnBBF8Amn9WSVW4+7rgz//4gQGpG8UDQ4hELi6M7JWxBqSTAHeWAAAAABJRU5ErkJggg== \
    iVBORw0KGgoAAAANSUhEUgAAAAUAAAAHCAIAAABPxRC5AAAAe0lEQVR4nAFwAI//AbvE5zI/VLDut/D4sdaS9wCM7Opk9SwgIoAF8dIDLFQBIc5XzsaJ6FKVtOXT8s27AJduzVDjky7InA1rreoA+QFg+JpzmgZ1Ax+SK/MCkvkCEmnOk77+JWPtWKyl7447Ajbj2HM2LiTC2JIlH4wxelZ+OZgvFnDhAAAAAElFTkSuQmCC; do
    i=$((i + 1))
    if [ $((i % 2)) = 0 ]; then dir=images/a; else dir=images/b; fi
    echo $png | base64 -d >$dir/$i.png
done
opts="--data images --epochs 3 --optimizer sgd --schedule constant --threads 1 --seed 3 --valid none -q"

# compare NAME COMMAND...: run the command on 1, 2 and 3 processes
compare() {
    name=$1
    shift
    for n in 1 2 3; do
        mpi $n pare "$@" $opts --checkpoint $name$n.safetensors -o $name$n.onnx >log 2>&1 || { cat log; exit 1; }
        echo "$name, $n: $(compare_tensors ${name}1.safetensors $name$n.safetensors 1e-6)"
        compare_tensors ${name}1.safetensors $name$n.safetensors 1e-6 >log
    done
}
model=models/any_size.onnx
compare sgd train $model
compare taylor prune $model --pruner taylor --sparsity 0.4 --training-steps 4
for n in 1 3; do
    mpi $n pare quantize $model --preset int8 --data images --threads 1 -q -o int8-$n.onnx >log 2>&1 || { cat log; exit 1; }
    mpi $n pare eval $model --data images --threads 1 | grep -E '^(items|loss|top-1)' >eval-$n
done
cmp int8-1.onnx int8-3.onnx
diff eval-1 eval-3
