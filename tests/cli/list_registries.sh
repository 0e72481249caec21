# Commands, kernels, operators, pruners and quantizers, as text and as JSON.
pare list commands
pare list commands --json
pare list kernels | tail -2
pare list ops | grep -E '^(operator|Conv|Identity|Relu) '
pare list ops --json | grep -A14 '"type": "Relu"' | head -5
pare list pruners
pare list quantizers
