# Every command prints its help, by 'pare help COMMAND' and by --help.
for c in inspect run bench new train eval list help; do
    pare help $c || exit
    pare $c --help | cmp - /dev/stdin <<EOF || echo "$c --help differs"
$(pare help $c)
EOF
    echo
done
