#!/bin/sh
# doc_rejects.sh - check that check_document.sh rejects wrong documents: doc_rejects.sh BUILD
set -eu
build=$1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0

# rejects TEXT: check_document.sh must reject the document on stdin with a message that contains TEXT
rejects() {
    cat >"$tmp/doc.md"
    if ./check_document.sh "$build" "$tmp/doc.md" >"$tmp/log" 2>&1; then
        echo "not rejected: $1"
        failed=1
    elif ! grep -qF -e "$1" "$tmp/log"; then
        echo "rejected, but without '$1' in the message:"
        cat "$tmp/log"
        failed=1
    fi
}
# accepts: check_document.sh must accept the document on stdin
accepts() {
    cat >"$tmp/doc.md"
    ./check_document.sh "$build" "$tmp/doc.md" >"$tmp/log" 2>&1 || { cat "$tmp/log"; failed=1; }
}

accepts <<'END'
See `src/op/activation/relu.c` and `pare_model_load()`.

```sh
pare new mlp --input 1,8,8 -o m.onnx
```

```sh slow
pare train m.onnx --data digits --epochs 500 -o t.onnx
pare new lenet --input 1,28,28 -o l.onnx
pare train l.onnx --data fashion-mnist --epochs 500 -o f.onnx
```

```make
make test
```

```text
make nothing of it
```

In `examples/read_digits.c`:

```c
#define SHOWN 6
```
END
rejects "doc.md:3: a command in this block fails" <<'END'
# A command that broke

```sh
pare inspect "$SOURCE/tests/models/tiny_cnn.onnx"
pare inspect "$SOURCE/tests/models/tiny_cnn.onnx" --no-such-option
```
END
rejects "unknown option '--epoch'" <<'END'
```sh slow
pare new mlp --input 1,8,8 -o m.onnx
pare train m.onnx --data digits --epoch 500 -o t.onnx
```
END
rejects "this is not in examples/read_digits.c" <<'END'
In `examples/read_digits.c`:

```c
#define SHOWN 7
```
END
rejects "no file is named before this block" <<'END'
```c
int x;
```
END
rejects 'a block marked ""' <<'END'
```
pare nonsense
```
END
rejects "an indented command is not run" <<'END'
Run

    pare nonsense
END
rejects "is not a target" <<'END'
```make
make sense
```
END
rejects "there is no src/op/nowhere.c" <<'END'
See `src/op/nowhere.c`.
END
rejects "there is no src/op/nowhere.c" <<'END'
See `op/nowhere.c`.
END
rejects "there is no pare_model_lode" <<'END'
Call `pare_model_lode()`.
END
rejects "this block has no end" <<'END'
```text
END
if command -v python3 >/dev/null; then
    rejects "SyntaxError" <<'END'
```python
import
```
END
fi
exit $failed
