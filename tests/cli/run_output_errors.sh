# An output of unknown format, or in a missing folder.
pare run models/add.onnx --output sum.txt
echo $? >&2
pare run models/add.onnx --output nowhere/sum.npz >/dev/null 2>err
echo $?
sed 's/[0-9]*[.]tmp/N.tmp/' err
ls
