#!/bin/sh
# run.sh - run one multi-process test: run.sh SCRIPT PROGRAM...
#
# The script runs in an empty folder where the programs can be called by their names, and `mpi N
# COMMAND...` runs N processes of a command.  It fails if a command fails unexpectedly.
set -eu
script=$(realpath "$1")
shift

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/bin" "$tmp/in"
for program; do ln -s "$(realpath "$program")" "$tmp/bin/$(basename "$program")"; done
ln -s "$(dirname "$script")/../../examples" "$tmp/in/examples"
ln -s "$(dirname "$script")/../models" "$tmp/in/models"

# In containers: as root, more processes than cores, no copying from each other's memory.
cat >"$tmp/bin/mpi" <<'EOF'
#!/bin/sh
n=$1
shift
exec mpirun -q --oversubscribe --bind-to none -n "$n" "$@"
EOF
chmod +x "$tmp/bin/mpi"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_btl=self,vader OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_plm_rsh_agent=false
export ASAN_OPTIONS=detect_leaks=0 # MPI never frees everything
export OMP_WAIT_POLICY=passive LC_ALL=C TMPDIR="$tmp"
cd "$tmp/in"
PATH="$tmp/bin:$PATH" sh -eu "$script"
