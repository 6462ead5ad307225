#!/usr/bin/env bash
# run.sh FORESHARD MAKE_PAGES SCRATCH: makes the pages, then looks at them (page_test.mjs).
set -euo pipefail
. tests/browser/npm_packages.sh
CHROMIUM=${FORESHARD_CHROMIUM:-$(command -v chromium || command -v chromium-browser || true)}
[ -n "$CHROMIUM" ] || skip "chromium is not installed"
npm_packages 20
FORESHARD=$1 MAKE_PAGES=$2 OUT=$3
rm -rf "$OUT/pages" "$OUT/screenshots"
mkdir -p "$OUT/pages" "$OUT/screenshots"

"$MAKE_PAGES" million "$OUT/pages/million.html"
"$MAKE_PAGES" hostile "$OUT/pages/hostile.html"
# import NAME FOLDER: a recording into a store, with its trace where it has one.
import() {
  local trace=()
  [ -f "$2/$1.trace.json.xz" ] && trace=(--trace "$2/$1.trace.json.xz")
  "$FORESHARD" import --snapshot "$2/$1.pickle.xz" "${trace[@]}" --about "$2/$1.about.json" -o "$OUT/pages/$1.db" \
    --force --quiet --json >"$OUT/pages/$1.import.json"
}
import l1b_implicit traces/samples
import mlp_record1 traces/samples
"$FORESHARD" plan "$OUT/pages/l1b_implicit.db" --forward-prefetch 2 --name "l1b, prefetch of 2" -o "$OUT/pages/plan.db" --force \
  --json --quiet >"$OUT/pages/plan.json"
echo '{"schema": 2, "name": "elsewhere", "extends": "h200"}' >"$OUT/pages/elsewhere.json"
"$FORESHARD" plan "$OUT/pages/l1b_implicit.db" --machine "$OUT/pages/elsewhere.json" --name "on another machine" \
  -o "$OUT/pages/elsewhere.db" --force --quiet >/dev/null
"$FORESHARD" plan "$OUT/pages/l1b_implicit.db" --slow-gpu 2=1.3 -o "$OUT/pages/ranks.db" --force --quiet >/dev/null
"$FORESHARD" view "$OUT/pages/ranks.db" -o "$OUT/pages/ranks.html" --no-remedies --force --quiet
RUNS="l1b_implicit mlp_record1 plan elsewhere"
if [ -n "${FORESHARD_TRUTH:-}" ]; then
  import mlp8_stacks "$FORESHARD_TRUTH/runs"
  RUNS="$RUNS mlp8_stacks"
  mkdir -p "$OUT/pages/slow" && cp "$FORESHARD_TRUTH"/runs/w8_l1b_slow.* "$OUT/pages/slow"
  "$FORESHARD" import "$OUT/pages/slow" --rank all -o "$OUT/pages/slow.db" --force --quiet >/dev/null
  "$FORESHARD" view "$OUT/pages/slow.db" -o "$OUT/pages/slow.html" --no-remedies --force --quiet
else
  echo "FORESHARD_TRUTH is not set: without the page of mlp8_stacks"
fi
for run in $RUNS; do
  "$FORESHARD" view "$OUT/pages/$run.db" -o "$OUT/pages/$run.html" --force --quiet
  "$FORESHARD" explain "$OUT/pages/$run.db" --json --quiet >"$OUT/pages/$run.explain.json"
  "$FORESHARD" query "$OUT/pages/$run.db" \
    "SELECT step, peak_requested, peak_allocated, peak_active, peak_reserved FROM step WHERE recording <> 'trace' ORDER BY step" \
    --csv >"$OUT/pages/$run.sql.csv"
done
"$FORESHARD" compare "$OUT/pages/l1b_implicit.db" "$OUT/pages/plan.db" -o "$OUT/pages/compare.html" --force --json --quiet \
  >"$OUT/pages/compare.json"
"$FORESHARD" sweep mlp --layers 4 --dim 4096 --gpus 4 --machine a100-40 --batch 1,4 --forward-prefetch implicit,1 \
  --progress "$OUT/pages/sweep.jsonl" -o "$OUT/pages/best.db" --force --json --quiet >"$OUT/pages/sweep.json"
"$FORESHARD" tune llama-1b --gpus 4 --param-dtype bfloat16 --batch 1 --seq 512 --points 60 -o "$OUT/pages/tuned.db" \
  --front "$OUT/pages/front" --force --quiet >/dev/null
"$FORESHARD" view "$OUT/pages/tuned.db" -o "$OUT/pages/tuned.html" --no-remedies --force --quiet
export FORESHARD
exec node tests/browser/page_test.mjs "$CHROMIUM" "$OUT" $RUNS
