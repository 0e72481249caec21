pare insect
echo $? >&2
pare wobble
