# collectives.sh - collective operations of 1, 2, 3 and 5 processes.
for n in 1 2 3 5; do
    mpi $n collectives $n
done
