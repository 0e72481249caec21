# What processes do together, by 1, 2, 3 and 5 of them.
for n in 1 2 3 5; do
    mpi $n dist_ops $n
done
