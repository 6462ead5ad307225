#!/usr/bin/env bash
# Four ranks of the test worker (worker.cpp) under a launcher that is not foreshard's: they meet, and whatever goes wrong
# in one of them, the others name it within ten seconds, end by themselves with the exit code of docs/launch.md, and
# leave nothing. Skipped (77) where the launcher is not installed, or Slurm cannot be started.
#
#   under_launcher.sh mpirun|srun|srun_nodes|torchrun WORKER
set -euo pipefail
launcher=$1
worker=$2
here=$(dirname "$(readlink -f "$0")")
command -v "${launcher%_nodes}" >/dev/null || { echo "skipped: ${launcher%_nodes} is not installed"; exit 77; }

folder=$(mktemp -d)
stop_slurm() { :; }
trap 'stop_slurm; rm -rf "$folder"' EXIT
cp "$worker" "$folder/worker"  # a path of its own, to find what is left of it
export XDG_RUNTIME_DIR=$folder
unset "${!FORESHARD_@}" "${!OMPI_@}" "${!PMI@}" "${!SLURM_@}" RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE

# shellcheck source=free_port.sh
. "$here/free_port.sh"

case $launcher in
  mpirun)
    mpirun --version | grep -q "Open MPI" || { echo "skipped: mpirun is not Open MPI's"; exit 77; }
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    start=(mpirun --oversubscribe -n 4) ;;
  srun)
    # shellcheck source=slurm.sh
    . "$here/slurm.sh"
    start_slurm "$folder" 1 || exit 77
    start=(srun --overcommit -n 4) ;;
  srun_nodes)  # two nodes that have no name in any network, on one host
    # shellcheck source=slurm.sh
    . "$here/slurm.sh"
    start_slurm "$folder" 2 || exit 77
    export FORESHARD_ADDRESS=127.0.0.1 FORESHARD_SECRET=$RANDOM-a-secret-of-two-nodes
    start=(srun --kill-on-bad-exit --nodes 2 --ntasks-per-node 2) ;;
  torchrun)  # as it is by default since PyTorch 2.4: it looks after its ranks every 0.1 s
    start=(torchrun --nproc_per_node 4 --monitor_interval 0.1 --no_python) ;;
esac

# run FAULT VICTIM: what the launcher and the ranks say is in $folder/output; the launcher's status.
run() {
  local port words=()
  port=$(free_port)
  if [ "$launcher" = torchrun ]; then words=(--master_port "$port"); else export FORESHARD_PORT=$port; fi
  timeout -k 5 40 "${start[@]}" "${words[@]}" "$folder/worker" "$@" join=4000 silence=2000 grace=2000 progress=2000 \
    >"$folder/output" 2>&1
}

# left: whether workers are; they are ended then.
left() {
  local process found=1
  for process in /proc/[0-9]*; do
    [ "$(readlink "$process/exe" 2>/dev/null)" = "$folder/worker" ] || continue
    kill -KILL "${process#/proc/}" || true
    found=0
  done
  return $found
}

said() { grep -c "$1" "$folder/output" || true; }

bad=0
wrong() {
  echo "$launcher, fault $1: $2"
  sed 's/^/  /' "$folder/output"
  bad=1
}

# expect FAULT VICTIM CODE TEXT: whoever ends by itself ends with CODE, the others say TEXT: three ranks, but one
# under Open MPI 4.1, which kills the rest within 0.1 s when the first of them ends.
others=3
[ "$launcher" != mpirun ] || others=1
expect() {
  local begin=$SECONDS status=0 ended
  run "$1" "$2" || status=$?
  ended=$(said "STATUS $3\$")
  [ $((SECONDS - begin)) -lt $((10 + good)) ] || wrong "$1" "$((SECONDS - begin)) s, $good s without a fault"
  [ $status != 0 ] || wrong "$1" "the launcher's status is 0"
  [ "$ended" -ge $others ] || wrong "$1" "$ended ranks end with $3"
  [ "$ended" = "$(said STATUS)" ] || wrong "$1" "not all ranks end with $3"
  [ "$(said "ERROR .*$4")" -ge $others ] || wrong "$1" "the others do not say: $4"
  ! left || wrong "$1" "processes are left"
}

good=$SECONDS
run none 0 || wrong none "status $?"
good=$((SECONDS - good))  # seconds; torchrun takes some itself
[ "$(said FINISHED)" = 4 ] || wrong none "not all ranks finished"
expect kill 2 14 "rank 2 died: its connection closed; its last operation: step 5, the middle"
expect kill 0 14 "rank 0 died, or its rendezvous was cut; its last operation: step 5, the middle"
expect exit 2 14 "rank 2 died: its connection closed; its last operation: step 5, the middle"
expect memory 1 10 "rank 1 failed: no room for 1 GiB"
expect hang 2 15 "rank 2 hangs: no new operation for 2"
expect settings 3 4 "rank 3 was started with other settings: --seq is '512' there and '4096' at rank 0"
expect secret 3 16 "rank 3 did not come to the rendezvous .*it does not know the run's secret"
expect early 2 16 "rank 2 did not come to the rendezvous .*(3 of 4 ranks came)"
case $launcher in mpirun | srun_nodes) expect stop 1 15 "rank 1 has not been heard of for 2" ;; esac
if [ "$launcher" = srun_nodes ]; then
  unset FORESHARD_SECRET
  expect none 0 2 "the ranks are on several hosts and have no secret"
fi
exit $bad
