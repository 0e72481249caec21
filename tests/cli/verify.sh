# Accuracy that a model lost, its bound, and its certificate; exit code 3 if a limit is missed.
numbers() { sed 's/[0-9a-f]\{12\}\.\.\./HASH/g; s/-\{0,1\}\b[0-9][0-9]*\.[0-9][0-9]*/N/g'; }
try() { echo "--- verify $*"; pare verify "$@" --threads 1 2>&1 | numbers; }
code() { pare verify "$@" --threads 1 >/dev/null 2>&1; echo "exit code $?"; }
pare new lenet --input 1,8,8 --seed 1 -o m.onnx >/dev/null
pare train m.onnx --data digits --epochs 4 --threads 1 -q -o t.onnx
pare prune t.onnx --pruner l1 --sparsity 0.9 --no-repair -q -o small.onnx 2>/dev/null
pare quantize t.onnx --preset int8 --data digits --threads 1 -q -o int8.onnx
# no certificate yet
try int8.onnx --data digits
try int8.onnx --data digits --against t.onnx | grep -v "worst\|only\|items"
try t.onnx --data digits --against t.onnx
code int8.onnx --data digits --against t.onnx
# limits
try small.onnx --data digits --against t.onnx --max-drop 1 | tail -1
code small.onnx --data digits --against t.onnx --max-drop 1
code small.onnx --data digits --against t.onnx --max-drop 1 -o no.onnx; ls no.onnx 2>/dev/null
code small.onnx --data digits --against t.onnx --max-drop 100
code small.onnx --data digits --against t.onnx --class-drop 5
code t.onnx --data digits --against t.onnx --class-drop 0
code t.onnx --data digits --against t.onnx --class-drop 0 --confidence 0
code t.onnx --data digits --against t.onnx --max-drop 0 --confidence 0
try small.onnx --data digits --against t.onnx --max-drop 1 --quick | grep "^items\|allowed"
code small.onnx --data digits --against t.onnx --max-drop 1 --quick
code t.onnx --data digits --against t.onnx --max-drop 40 --quick
try t.onnx --data digits --quick
try t.onnx --data digits --against t.onnx --max-drop 5 --confidence 0.95
try t.onnx --data digits -o x.onnx
try int8.onnx --data digits --against t.onnx --class-drop 3 --quick --max-drop 3
# a certificate, and the same counts for every batch size
try int8.onnx --data digits --against t.onnx -o cert.onnx | head -2
try cert.onnx --data digits --against t.onnx | sed -n 2p
try cert.onnx --data digits --against t.onnx --batch 7 | sed -n 2p
try cert.onnx --data digits | sed -n 2p
code cert.onnx --data digits --max-drop 90
pare verify cert.onnx --data digits --threads 1 --json | grep certified
pare eval int8.onnx --data digits --threads 1 | grep top-1 >a; pare eval cert.onnx --data digits --threads 1 | grep top-1 | cmp - a
# certifying again replaces the certificate
pare verify cert.onnx --data digits --against t.onnx --threads 1 -o again.onnx >/dev/null && cmp cert.onnx again.onnx && echo same
# other data, another original, changed weights, a changed certificate
try cert.onnx --data digits --limit 100
try cert.onnx --data digits --split train
try cert.onnx --data digits --against m.onnx
# another original: weights changed in a file of another name than the model's
pare export t.onnx --external -q -o outside.onnx && cp outside.onnx original.onnx
pare verify int8.onnx --data digits --against original.onnx --threads 1 -o outer.onnx >/dev/null
try outer.onnx --data digits --against original.onnx | sed -n 2p
printf '\001' | dd of=outside.onnx.data bs=1 seek=40 conv=notrunc 2>/dev/null
try outer.onnx --data digits --against original.onnx
LC_ALL=C sed 's/conv1/conv9/g' cert.onnx >changed.onnx
try changed.onnx --data digits
LC_ALL=C sed 's/"items": 360/"items": 999/' cert.onnx >changed.onnx
try changed.onnx --data digits
LC_ALL=C sed 's/"bound": 0.0/"bound": 0.1/' cert.onnx >changed.onnx
try changed.onnx --data digits
LC_ALL=C sed 's/"confidence": 0/"confidence": 7/' cert.onnx >changed.onnx
try changed.onnx --data digits
LC_ALL=C sed 's/"data_sha256": "../"data_sha256": "xy/' cert.onnx >changed.onnx
try changed.onnx --data digits
LC_ALL=C sed 's/{"format"/{{format"/' cert.onnx >changed.onnx
try changed.onnx --data digits
LC_ALL=C sed 's/pare certificate 1/pare certificate 2/' cert.onnx >changed.onnx
try changed.onnx --data digits
code changed.onnx --data digits
# hostile certificates: a field of metadata_props at the end of the file
props() { # LENGTH: key and value of LENGTH brackets
    value=$(printf "%${1}s" | tr ' ' '[')
    n=$(($1 + 18 + 3)) # key and its header; header of the value
    { cat int8.onnx; printf '\162'; varint $n; printf '\012\020pare.certificate\022'; varint $1; printf %s "$value"; } >changed.onnx
}
varint() { printf "\\$(printf %03o $(($1 % 128 + 128)))\\$(printf %03o $(($1 / 128)))"; }
props 200
try changed.onnx --data digits
props 9000
try changed.onnx --data digits
# without labels
mkdir images
echo iVBORw0KGgoAAAANSUhEUgAAAAQAAAADCAIAAAA7ljmRAAAAMklEQVR42gEnANj/A/7jIfmBrMkJB6UQjgC6lVDyzBfrB/Wj5iMEF9lb3xhfCOqzztsbgy8TXRCq8bUAAAAASUVORK5CYII= |
    base64 -d >images/1.png
try t.onnx --data images --against t.onnx | grep -v resized
try int8.onnx --data images --against t.onnx | grep -c "KL divergence\|dB\|same top-1"
try int8.onnx --data images --against t.onnx -o x.onnx | tail -1
pare verify t.onnx --data images --against t.onnx --threads 1 --json 2>/dev/null | grep "kl\|same"
try cert.onnx --data images | tail -1
ls x.onnx 2>/dev/null
true
