# GOMP_SPINCOUNT is set before main(), except with sanitizers and other OpenMP libraries.
if ldd "$(command -v pare)" | grep -q libgomp && ! ldd "$(command -v pare)" | grep -q asan; then
    for set in OLDPWD=/ GOMP_SPINCOUNT=7; do
        env -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT $set OMP_DISPLAY_ENV=verbose pare list kernels 2>&1 |
            sed -n "s/.*GOMP_SPINCOUNT = '\(.*\)'/\1/p"
    done
else
    printf '1000\n7\n'
fi
