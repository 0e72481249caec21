# A mistyped command gives the closest name.
pare insect
echo $? >&2
pare wobble
