# Pruning with data: accuracy before and after, pruners that train, reproducible bytes.
pare new mlp --input 1,8,8 --seed 1 -o m.onnx >/dev/null
pare train m.onnx --data digits --epochs 6 --threads 1 --seed 1 -q -o t.onnx
pare prune t.onnx --sparsity 0.8 --data digits --epochs 5 --lr 3e-3 --threads 1 --seed 1 \
    -o p.onnx -q --json >p.json
grep -c '"asked": 0.8' p.json
python3 - <<'PY' 2>/dev/null || echo "python3 is not installed"
import json
r = json.load(open("p.json"))
print("before at least 95 %:", r["before"]["accuracy"] >= 0.95)
print("masks lower the accuracy:", r["masked"]["accuracy"] < r["before"]["accuracy"])
print("training restores the accuracy:", r["after"]["accuracy"] >= 0.95)
print("epochs:", len(r["history"]))
PY
for pruner in taylor apoz mean_rank agp linear lottery_ticket admm movement; do
    case $pruner in
    agp | linear) more="--total-iteration 3" ;;
    lottery_ticket) more="--prune-iterations 2" ;;
    admm) more="--iterations 2 --training-epochs 1" ;;
    movement) more="--warm-up-step 5 --cool-down-beginning-step 60 --epochs 6" ;;
    *) more="--training-steps 5" ;;
    esac
    for out in a b; do
        pare prune t.onnx --pruner $pruner --sparsity 0.5 --data digits --epochs 2 \
            --threads 1 --seed 1 $more -q -o $out.onnx 2>/dev/null || exit 1
    done
    cmp a.onnx b.onnx && echo "$pruner: the same bytes twice"
    pare eval a.onnx --data digits --json | grep -q '"top1": 0.[89]' && echo "$pruner: at least 80 %"
done
ls
# A pruner that trains by itself says so; without --epochs nothing is fine-tuned.
for more in "" "--epochs 1"; do
    pare prune t.onnx --pruner taylor --training-steps 5 --sparsity 0.1 --data digits --threads 1 $more -o a.onnx 2>&1 |
        grep -o '^taylor trains.*\|^after [a-z]*:\|^repaired:'
done
