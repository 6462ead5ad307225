#!/usr/bin/env bash
# What docs/torch_collectives.md says was measured, in one run of some ten minutes on two or four GPUs of 140 GB: a line and a
# log a case, and NAME.json of trainings.
#
#   tools/torch_collectives/run.sh OUT [GPUS] [CASE...]
#
# CASE: correct killed trainer losses step; default all. Environment: PYTHON (default python3), STEPS (settings of
# train.py for `step`, between commas), FORESHARD_COLLECTIVES_LIBRARY (libforeshard_collectives.so), FORESHARD_PACKAGE
# (the folder that holds the package `foreshard`; default: this repository's).
set -u
OUT=${1:?folder for results} GPUS=${2:-2}
shift $(($# < 2 ? $# : 2))
CASES=${*:-correct killed trainer losses step}
PYTHON=${PYTHON:-python3}
mkdir -p "$OUT"
OUT=$(readlink -f "$OUT")
cd "$(dirname "${BASH_SOURCE[0]}")" || exit
export PYTHONPATH=${FORESHARD_PACKAGE:-$PWD/../../traces/pytorch/recorder}${PYTHONPATH:+:$PYTHONPATH}
# Streams that share a hardware queue wait for each other: for all collectives alike.
export CUDA_DEVICE_MAX_CONNECTIONS=32 PYTHONUNBUFFERED=1 OMP_NUM_THREADS=${OMP_NUM_THREADS:-8}
failed=0

# try SECONDS NAME COMMAND…: one line, and what the case printed last.
try() {
  local seconds=$1 name=$2 begin=$SECONDS rc
  shift 2
  timeout -k 3 "$seconds" "$@" >"$OUT/$name.log" 2>&1
  rc=$?
  echo "== $name: $([ $rc = 0 ] && echo ok || echo "FAILED $rc") after $((SECONDS - begin)) s"
  grep -v -e Warning -e '^W[0-9]' -e 'super()' -e _warn_once "$OUT/$name.log" |
    tail -n "$([ $rc = 0 ] && echo 8 || echo 20)" | cut -c1-300
  failed=$((failed + (rc != 0)))
}
ranks() { "$PYTHON" -m torch.distributed.run --standalone --nproc-per-node "$GPUS" "$@"; }
export -f ranks
export PYTHON GPUS
train() {
  local seconds=$1 name=$2
  shift 2
  try "$seconds" "$name" bash -c 'ranks train.py "$@"' _ --out "$OUT/$name.json" "$@"
}

for case in $CASES; do
  case $case in
    correct)
      try 90 bits bash -c 'ranks bits.py'
      try 90 fsdp bash -c 'ranks fsdp.py'
      ;;
    killed)
      for how in issuing waiting replaying differing stopped; do
        try 60 "killed_$how" "$PYTHON" killed.py $how "$GPUS"
      done
      ;;
    trainer)
      for by in nccl foreshard; do try 90 "trainer_$by" bash -c 'ranks trainer.py "$@"' _ $by; done
      ;;
    losses)
      curve() {
        train 120 "losses_$1" --model 1b --seq 512 --lr 1e-4 --deterministic --warmup 0 --timed 200 --by "${@:2}"
      }
      curve nccl nccl
      curve foreshard foreshard
      beside=()
      if [ "$GPUS" -gt 2 ]; then
        curve perturbed nccl --perturb
        beside=("$OUT/losses_perturbed.json")
      fi
      try 20 losses "$PYTHON" losses.py "$OUT/losses_nccl.json" "$OUT/losses_foreshard.json" "${beside[@]}"
      ;;
    step)
      IFS=, read -ra settings <<<"${STEPS:-foreshard --graph,symmetric --graph,nccl --graph,foreshard,symmetric,nccl}"
      for setting in "${settings[@]}"; do
        name=step_${setting// --/_}
        # shellcheck disable=SC2086
        train 110 "$name" --by $setting --model 8b --seq 512 4096 --compile --no-reshard ${TRACE:+--trace "$OUT/$name"}
      done
      ;;
    *)
      echo "unknown case '$case'" >&2
      exit 2
      ;;
  esac
done
exit $((failed > 0))
