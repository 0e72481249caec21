pare help op Relu
echo
pare help op reshape
pare help op Rellu
