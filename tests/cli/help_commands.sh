# Every command prints its help: one screen by 'pare help COMMAND' and by --help, all options by
# 'pare help COMMAND --all' and by --help-all.
for c in inspect run bench new train eval list help; do
    pare help $c || exit
    [ "$(pare $c --help)" = "$(pare help $c)" ] || echo "$c --help differs"
    [ "$(pare $c --help-all)" = "$(pare help $c --all)" ] || echo "$c --help-all differs"
    echo
done
for c in $(pare list commands | awk 'NR > 1 { print $1 }'); do
    lines=$(pare help $c | wc -l)
    [ $lines -le 26 ] || echo "the short help of $c has $lines lines"
    pare help $c --all | awk -v c=$c 'length($0) > 80 { print c ": " $0 }'
done
pare help train --all
