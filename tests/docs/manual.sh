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

# completes WORD...: the completions that bash offers for the last word
completes() {
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    _pare
    printf '%s\n' "${COMPREPLY[@]}"
}

commands=$("$pare" list commands --json | sed -n 's/.*"name": "\(.*\)",/\1/p')
[ "$(echo "$commands" | wc -l)" -ge 12 ] || complain "too few commands"
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

# completes_to WANT WORD...: values of choices, of registries and of the first argument, also of --option=value
completes_to() {
    want=$1
    shift
    got=$(completes "$@" | tr '\n' ' ')
    [ "$got" = "$want " ] || complain "bash: $* gives '$got', expected '$want'"
}
completes_to "sensitivity" pare analyze s
completes_to "quantizers" pare list q
completes_to "lottery_ticket" pare prune m.onnx --pruner lo
completes_to "lottery_ticket" pare prune m.onnx --pruner = lo
completes_to "qoperator" pare quantize m.onnx --format qo
completes_to "vit-tiny" pare new vi
completes_to "adamw" pare train --optimizer adamw

for page in "$folder"/man/*.1; do
    if command -v mandoc >/dev/null; then
        # Pages have no date, so that the same sources give the same pages.
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
        complain "zsh has no completion for pare"
fi
exit $failed
