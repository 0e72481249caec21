# Threads that wait give up soon: GNU OpenMP says what it was told before main().  Sanitizers and other
# libraries are left alone.
if ldd "$(command -v pare)" | grep -q libgomp && ! ldd "$(command -v pare)" | grep -q asan; then
    for set in OLDPWD=/ GOMP_SPINCOUNT=7; do
        env -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT $set OMP_DISPLAY_ENV=verbose pare list kernels 2>&1 |
            sed -n "s/.*GOMP_SPINCOUNT = '\(.*\)'/\1/p"
    done
else
    printf '10000\n7\n'
fi
