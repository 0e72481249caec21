# Help of an operator, in any case; an unknown one gives the closest name.
pare help op Relu
echo
pare help op reshape
pare help op Rellu
