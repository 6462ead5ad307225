#!/usr/bin/env bash
# A tour without a GPU: imports real recordings, plans other settings, holds each prediction against what
# PyTorch measured there, and draws pictures. Called by `./dev demo` with the program's path.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
FORESHARD=${1:-build/release/foreshard}
OUT=${2:-build/demo}
SAMPLES=traces/samples
mkdir -p "$OUT"

# field JSON KEY: a number of a result's top level.
field() { awk -F': ' -v key="  \"$2\"" '$1 == key { sub(/,$/, "", $2); print $2; exit }' "$1"; }
# measured RUN COLUMN: from the samples' table; empty where nothing was measured.
measured() { awk -F, -v run="$1" -v column="$2" '$1 == run { print $column }' "$SAMPLES/measured.csv"; }

import() {
  "$FORESHARD" import --snapshot "$SAMPLES/$1.pickle.xz" --trace "$SAMPLES/$1.trace.json.xz" \
    --about "$SAMPLES/$1.about.json" -o "$OUT/$1.db" --force --json --quiet >"$OUT/$1.import.json"
}

heading() {
  printf '\n%s\n' "$1"
  printf '  %-44s %9s %9s %7s  %s\n' 'setting' 'step ms' 'measured' 'error' 'peaks predicted / measured, MiB: requested allocated active reserved'
}

# row SOURCE PLAN MEASURED_RUN TITLE choices...
row() {
  local source=$1 plan=$2 run=$3 title=$4
  shift 4
  "$FORESHARD" plan "$OUT/$source.db" "$@" --name "$title" -o "$OUT/$plan.db" --force --json 2>"$OUT/$plan.log" >"$OUT/$plan.json"
  local step real peaks='' key column=3 predicted was
  step=$(field "$OUT/$plan.json" step_ms)
  real=$(measured "$run" 2)
  for key in requested allocated active reserved; do
    predicted=$(field "$OUT/$plan.json" "peak_${key}_bytes")
    was=$(measured "$run" $column)
    column=$((column + 1))
    if [ -z "$was" ]; then
      peaks+=$(awk -v p="$predicted" 'BEGIN { printf "%12.1f", p / 1048576 }')
    elif [ "$predicted" = "$was" ]; then
      peaks+=$(awk -v p="$predicted" 'BEGIN { printf "%12.1f =", p / 1048576 }')
    else
      peaks+=$(awk -v p="$predicted" -v w="$was" 'BEGIN { printf "%12.1f/%.1f (%+.1f%%)", p / 1048576, w / 1048576, 100 * (p / w - 1) }')
    fi
  done
  awk -v title="$title" -v step="$step" -v real="$real" -v peaks="$peaks" 'BEGIN {
    if (real == "") printf "  %-44s %9.2f %9s %7s %s\n", title, step, "-", "-", peaks
    else printf "  %-44s %9.2f %9.2f %+6.1f%% %s\n", title, step, real, 100 * (step / real - 1), peaks }'
}

echo "Importing two real recordings (4 x H200, PyTorch 2.11) ..."
import mlp_implicit
import l1b_implicit
import mlp_record1

echo
echo "Each line is planned from one recording at default settings; '=' is exact to the byte."
heading '4 x MLP(10240), fp32 (the model of pytorch#147168), from mlp_implicit:'
row mlp_implicit plan_mlp_implicit mlp_implicit 'default'
row mlp_implicit plan_mlp_fwd2 mlp_fwd2 'forward and backward prefetch of 2' --forward-prefetch 2 --backward-prefetch 2
row mlp_implicit plan_mlp_noreshard mlp_noreshard 'reshard_after_forward=False' --reshard-after-forward false

heading 'Over-allocation by record_stream, and its three remedies:'
ASYNC=(--unshard-async --forward-prefetch 1 --backward-prefetch 1)
row mlp_implicit plan_mlp_record1 mlp_record1 'async unshard, gathers marked record_stream' "${ASYNC[@]}" --release record-stream
row mlp_implicit plan_mlp_async1 mlp_async1 '1. stash instead of record_stream' "${ASYNC[@]}" --release stash
row mlp_implicit plan_mlp_percoll - '2. per collective: only reduce-scatters marked' "${ASYNC[@]}" --release all-gather=stash,reduce-scatter=record-stream
row mlp_implicit plan_mlp_compute - '3. gather buffers on the compute stream' --forward-prefetch 1 --backward-prefetch 1 --gather-alloc compute

heading 'Llama, 16 layers, bf16 with fp32 reduce, from l1b_implicit:'
row l1b_implicit plan_l1b_fwd2bwd2 l1b_fwd2bwd2 'forward and backward prefetch of 2' --forward-prefetch 2 --backward-prefetch 2
row l1b_implicit plan_l1b_noreshard l1b_noreshard 'reshard_after_forward=False' --reshard-after-forward false
row l1b_implicit plan_l1b_ce l1b_symm_ce 'copy-engine all-gather, symmetric memory' --all-gather copy-engine
row l1b_implicit plan_l1b_accum2 l1b_accum2 'accumulate 2 microbatches' --accumulate 2
row l1b_implicit plan_l1b_perunit2 l1b_perunit2 'two blocks a unit' --units-per-group 2
row l1b_implicit plan_l1b_hsdp2 l1b_hsdp2 'HSDP 2 x 2' --replicate 2
row l1b_implicit plan_l1b_ac l1b_ac 'checkpoint every block' --checkpoint blocks

echo
echo "Pictures:"
for picture in mlp_record1 plan_mlp_record1 plan_mlp_async1 plan_l1b_ce; do
  "$FORESHARD" view "$OUT/$picture.db" -o "$OUT/$picture.svg" --force --quiet
  echo "  $OUT/$picture.svg"
done
echo
echo "Compare any two: $FORESHARD compare $OUT/plan_mlp_record1.db $OUT/plan_mlp_async1.db"
