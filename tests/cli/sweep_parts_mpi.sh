#!/usr/bin/env bash
# Eight tasks of Open MPI sweep a part each; together they answer as one does. Skipped (77) where there is no mpirun.
#
#   sweep_parts_mpi.sh FORESHARD
set -euo pipefail
command -v mpirun >/dev/null || { echo "no mpirun"; exit 77; }
foreshard=$(readlink -f "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
sweep=("$foreshard" sweep mlp --layers 2 --dim 1024 --gpus 4 --optimizer adam,sgd --forward-prefetch implicit,1..8 --json)
"${sweep[@]}" >whole.json
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpirun --oversubscribe -np 8 "${sweep[@]}" --jobs 1 --part auto --parts parts >/dev/null
"${sweep[@]}" --parts parts | cmp - whole.json
