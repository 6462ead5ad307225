#!/usr/bin/env bash
# Records four kinds of training with the recorder and measures each at other settings: what predictions from the
# recordings are held against. For each script a folder SCRIPT.rec, and SCRIPT.SETTING.json with peaks and times.
#
#   tools/record_check/run.sh OUT [GPUS] [SCRIPT...]
#
# SCRIPT: loop titan_loop accelerate_loop trainer_lora; default all. A run takes some fifteen seconds, a script a
# minute; what fails is named and the next one runs. Environment: PYTHON (default python3), SETTINGS (default: all),
# LIMIT (seconds a run, default 90).
set -u
OUT=${1:?folder for results} GPUS=${2:-2}
shift $(($# < 2 ? $# : 2))
SCRIPTS=${*:-loop titan_loop accelerate_loop trainer_lora}
SETTINGS=${SETTINGS:-recorded plain noreshard prefetch2}
PYTHON=${PYTHON:-python3}
HERE=$(readlink -f "$(dirname "${BASH_SOURCE[0]}")")
mkdir -p "$OUT"
export PYTHONPATH=$HERE/../../traces/pytorch/recorder${PYTHONPATH:+:$PYTHONPATH}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-8}
failed=0
for script in $SCRIPTS; do
  for setting in $SETTINGS; do
    log=$OUT/$script.$setting.log
    program=("$HERE/$script.py")
    # The plain loop is recorded from outside.
    if [ "$script.$setting" = loop.recorded ]; then
      setting=command
      program=(-m foreshard.record -o "$OUT/loop.rec" "$HERE/loop.py")
    fi
    start=$SECONDS
    if timeout "${LIMIT:-90}" "$PYTHON" -m torch.distributed.run --standalone --nproc-per-node "$GPUS" \
      "${program[@]}" --out "$OUT" --setting "$setting" >"$log" 2>&1; then
      echo "$script $setting: $((SECONDS - start)) s"
    else
      echo "$script $setting: failed after $((SECONDS - start)) s"
      tail -n 15 "$log"
      failed=$((failed + 1))
    fi
  done
  "$PYTHON" "$HERE/summary.py" "$OUT" "$script"
done
exit $((failed > 0))
