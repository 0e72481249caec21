# 'pare help NAME' explains what 'pare list' prints, and some words.
for name in adam cosine mse digits lenet latency int8 l1 conv 'zero point'; do
    echo "$ pare help $name"
    pare help "$name"
    echo
done
pare help preset int8
pare help network lenett 2>&1
pare help pruner l3 2>&1
pare help lentency 2>&1
pare help nonsense 2>&1
pare list presets
pare list networks --json | head -4
pare list nonsense 2>&1
pare help --plugin nowhere.so l1 2>&1
pare list 2>&1
