#!/usr/bin/env bash
# Eight tasks of a launcher that is not foreshard's sweep, tune and forecast a part each, and plan trials: together they
# answer as one process does, and write the same stores; a part that is lost is named, and run again alone. Skipped (77)
# where the launcher is not installed, or Slurm cannot be started.
#
#   parts_under_launcher.sh mpirun|srun|sbatch FORESHARD
set -euo pipefail
launcher=$1
foreshard=$(readlink -f "$2")
launch=$(dirname "$(readlink -f "$0")")/../gpu/launch
command -v "$launcher" >/dev/null || { echo "skipped: $launcher is not installed"; exit 77; }
folder=$(mktemp -d)
stop_slurm() { :; }
trap 'stop_slurm; rm -rf "$folder"' EXIT
unset "${!OMPI_@}" "${!PMI@}" "${!SLURM_@}" RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
mkdir "$folder/work"
cd "$folder/work"

case $launcher in
  mpirun)
    mpirun --version | grep -q "Open MPI" || { echo "skipped: mpirun is not Open MPI's"; exit 77; }
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    start=(mpirun --oversubscribe -np 8) ;;
  srun | sbatch)
    # shellcheck source=../gpu/launch/slurm.sh
    . "$launch/slurm.sh"
    start_slurm "$folder" 1 8 || exit 77
    start=(srun -n 8) ;;
esac

# eight_tasks COMMAND...
eight_tasks() {
  if [ "$launcher" = sbatch ]; then
    printf '#!/bin/sh\nexec %s\n' "${*@Q}" >job.sh
    sbatch --quiet --wait --array=10-17 --output "$folder/array-%a" job.sh || { cat "$folder"/array-*; return 1; }
  else
    "${start[@]}" "$@" >/dev/null
  fi
}

# in_parts NAME VERB...: the verb as one process, and as eight tasks whose parts a ninth reads.
in_parts() {
  local name=$1
  shift
  "$foreshard" "$@" --json -o "$name-whole.db" --quiet >"$name-whole.json"
  eight_tasks "$foreshard" "$@" --json --quiet --part auto --parts "$name-parts"
  merged "$name" "$@"
  rm -r "$name"-parts/part-3-of-8*  # a task that was lost
  if "$foreshard" "$@" --json --quiet --parts "$name-parts" >/dev/null 2>"$name-lost"; then return 1; fi
  grep -q -- '--part 3/8' "$name-lost"
  "$foreshard" "$@" --json --quiet --part 3/8 --parts "$name-parts" >/dev/null
  merged "$name" "$@"
  echo "$name: the same in one process and in eight tasks"
}

# merged NAME VERB...: what all parts together answer and write is what one process did.
merged() {
  local name=$1
  shift
  "$foreshard" "$@" --json -o "$name-merged.db" --force --quiet --parts "$name-parts" >"$name-merged.json"
  cmp "$name-merged.json" "$name-whole.json"
  cmp "$name-merged.db" "$name-whole.db"
}

in_parts sweep sweep mlp --jobs 1 --layers 2 --dim 1024 --gpus 4 --optimizer adam,sgd --forward-prefetch implicit,1..8
in_parts tune tune mlp --jobs 1 --gpus 4 --batch 8
in_parts forecast forecast llama-tiny --jobs 1 --gpus 2 --batch 1 --lengths 64:3,128:1 --steps 40 --seeds 8 \
  --no-remedies
in_parts trials plan llama-tiny --gpus 2 --batch 1 --jitter kernels=normal:2% --trials 16
