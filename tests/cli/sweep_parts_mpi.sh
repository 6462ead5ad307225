#!/usr/bin/env bash
# Eight tasks of Open MPI sweep a part each, and forecast a seed each; together they answer as one process does, and
# write the same stores. Skipped (77) where there is no mpirun.
#
#   sweep_parts_mpi.sh FORESHARD
set -euo pipefail
command -v mpirun >/dev/null || { echo "no mpirun"; exit 77; }
foreshard=$(readlink -f "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# in_parts NAME VERB...: the verb as one process, and as eight tasks whose parts a ninth reads.
in_parts() {
  local name=$1
  shift
  "$foreshard" "$@" --json -o "$name-whole.db" --quiet >"$name-whole.json"
  mpirun --oversubscribe -np 8 "$foreshard" "$@" --json --jobs 1 --quiet --part auto --parts "$name-parts" >/dev/null
  "$foreshard" "$@" --json -o "$name-merged.db" --quiet --parts "$name-parts" >"$name-merged.json"
  cmp "$name-merged.json" "$name-whole.json"
  cmp "$name-merged.db" "$name-whole.db"
}
in_parts sweep sweep mlp --layers 2 --dim 1024 --gpus 4 --optimizer adam,sgd --forward-prefetch implicit,1..8
in_parts forecast forecast llama-tiny --gpus 2 --batch 1 --lengths 64:3,128:1 --steps 40 --seeds 8 --no-remedies
