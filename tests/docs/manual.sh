#!/bin/bash
# manual.sh - check that manual pages and completion cover all commands and options: manual.sh PARE FOLDER
#
# FOLDER has man/ and completion/.  Commands and options are those that `pare help` prints.  bash
# runs the completion; mandoc, groff and zsh check the files if they are installed.
set -eu
pare=$(realpath "$1")
folder=$(realpath "$2")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0

complain() { echo "$*"; failed=1; }

# completes WORD...: what bash would offer for the last of them
completes() {
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    _pare
    printf '%s\n' "${COMPREPLY[@]}"
}

commands=$("$pare" list commands --json | sed -n 's/.*"name": "\(.*\)",/\1/p')
[ "$(echo "$commands" | wc -l)" -ge 12 ] || complain "there are no commands"
bash -n "$folder/completion/pare"
. "$folder/completion/pare"
for command in $commands; do
    page=$folder/man/pare-$command.1
    grep -q "^\.B $command\$" "$folder/man/pare.1" || complain "pare.1 has no $command"
    completes pare "" | grep -qx "$command" || complain "bash does not complete $command"
    grep -q "^    $command)\$" "$folder/completion/_pare" || complain "zsh has no $command"
    sed -n "/^    $command)\$/,/^        ;;\$/p" "$folder/completion/_pare" >"$tmp/zsh"
    completes pare "$command" - >"$tmp/bash"
    "$pare" help "$command" | sed -nE 's/^ +(-., )?--(\[no-\])?([a-z0-9-]+).*/\3/p' |
        sort -u >"$tmp/options"
    [ -s "$tmp/options" ] || complain "$command has no options at all"
    while read -r option; do
        plain=${option//-/\\\\-}
        grep -qE "\\\\-\\\\-(\[no\\\\-\])?$plain\\\\fR" "$page" || complain "$page: no --$option"
        grep -qx -e "--$option" "$tmp/bash" || complain "bash: no --$option of $command"
        [ "$option" = help ] || grep -qE -e "'\*?--$option(=|\[)" "$tmp/zsh" ||
            complain "zsh: no --$option of $command"
    done <"$tmp/options"
done

# Values: of choices, of tables, of the first argument; --option=value, too.
is() {
    want=$1
    shift
    got=$(completes "$@" | tr '\n' ' ')
    [ "$got" = "$want " ] || complain "bash: $* gives '$got', expected '$want'"
}
is "sensitivity" pare analyze s
is "quantizers" pare list q
is "lottery_ticket" pare prune m.onnx --pruner lo
is "lottery_ticket" pare prune m.onnx --pruner = lo
is "qoperator" pare quantize m.onnx --format qo
is "vit-tiny" pare new vi
is "adamw" pare train --optimizer adamw

for page in "$folder"/man/*.1; do
    if command -v mandoc >/dev/null; then
        # No date: the same sources give the same page.
        mandoc -Tlint -W warning "$page" | grep -v 'missing date' && failed=1
    fi
    if command -v groff >/dev/null; then
        groff -man -Tascii -ww -z "$page" 2>"$tmp/groff" || failed=1
        [ ! -s "$tmp/groff" ] || { cat "$tmp/groff"; failed=1; }
    fi
done
if command -v zsh >/dev/null; then
    zsh -n "$folder/completion/_pare" || failed=1
    zsh -f -c "fpath=($folder/completion \$fpath); autoload -Uz compinit
        compinit -u -d $tmp/dump; [ \"\$_comps[pare]\" = _pare ] && autoload +X _pare" ||
        complain "zsh does not know what completes pare"
fi
exit $failed
