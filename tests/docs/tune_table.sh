#!/usr/bin/env bash
# Holds docs/tune.md's table of searches against what the program answers. The rows' names and commands are the page's.
#
#   tune_table.sh PROGRAM JSON_AT REPOSITORY models      rows of models that took less than kDear processor seconds
#   tune_table.sh PROGRAM JSON_AT REPOSITORY rest        the others: recordings are of $FORESHARD_TRUTH
#   tune_table.sh PROGRAM JSON_AT REPOSITORY --update    writes all of them into the page, from one thread each
#
# The last column, processor seconds, is of the machine that wrote it: it is not compared.
set -euo pipefail
export LC_ALL=C.UTF-8

kDear=10
kModel=(--param-dtype bfloat16 --reduce-dtype float32 --batch 1)

program=$1 json_at=$2 repository=$3 rows=$4
[ -x "$program" ] && [ -x "$json_at" ] || { echo "skipped: $program or $json_at is not built"; exit 77; }
[ "$rows" = models ] || [ -n "${FORESHARD_TRUTH:-}" ] ||
  { echo "skipped: FORESHARD_TRUTH does not name the folder of the reference runs"; exit 77; }
page=$repository/docs/tune.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ "$rows" = --update ] && threads=(--jobs 1) || threads=()

table() { sed -n '/^| source | as asked for/,/^$/p' "$page" | grep '^|'; }
without_seconds() { sed 's/| [^|]* |$/|/'; }

# arguments LINE: what follows `tune` in a line of the page's list, a recording imported, and a model's own file found.
arguments() {
  local given name
  given=$(sed -E 's/^- `foreshard tune ([^`]*)`.*/\1/' <<<"$1")
  name=$(sed -nE 's/.*, of [^`]*`([^`]*)`$/\1/p' <<<"$1")
  case $given in
    run.db*)
      local run=$FORESHARD_TRUTH/runs/$name
      "$program" import --snapshot "$run.pickle.xz" --trace "$run.trace.json.xz" --about "$run.about.json" \
        -o "$work/$name.db" -q >/dev/null
      echo "$work/$name.db${given#run.db}"
      ;;
    config.json*)
      cp "$repository/$name" "$work/config.json"
      echo "$work/$given ${kModel[*]}"
      ;;
    *) echo "$given ${kModel[*]}" ;;
  esac
}

# row TITLE LINE: a row of the table as its command answers now.
row() {
  local command seconds
  read -ra command <<<"$(arguments "$2")"
  command=("$program" tune "${command[@]}" "${threads[@]}" --json -q)
  TIMEFORMAT=%U
  { time "${command[@]}" >"$work/answer" 2>"$work/errors"; } 2>"$work/seconds" || { cat "$work/errors" >&2; exit 1; }
  seconds=$(cat "$work/seconds")
  "$json_at" .start.step_ms .uniform.step_ms .depth.step_ms .best.step_ms .bound_ms .gain.percent .gain.within_percent \
    .searched.points <"$work/answer" |
    awk -v title="$1" -v seconds="$seconds" '{ at[$1] = $2 }
      END {
        best = at[".best.step_ms"]
        printf "| %s | %.2f | %.2f | %.2f | %.2f | %.2f ", title, at[".start.step_ms"], at[".uniform.step_ms"],
          at[".depth.step_ms"], best, at[".bound_ms"]
        printf "| %.1f %% ±%.1f | %.1f %% | %d | %.1f |\n", at[".gain.percent"], at[".gain.within_percent"],
          100 * (1 - best / at[".uniform.step_ms"]), at[".searched.points"], seconds
      }'
}

table >"$work/table"
tail -n +3 "$work/table" >"$work/rows"
grep '^- `foreshard tune ' "$page" >"$work/commands"
[ "$(wc -l <"$work/rows")" = "$(wc -l <"$work/commands")" ] || { echo "docs/tune.md: not a command a row"; exit 1; }
head -2 "$work/table" >"$work/now"
head -2 "$work/table" >"$work/expected"
while IFS= read -r was && IFS= read -r command <&3; do
  kind=models
  awk -F'|' -v dear=$kDear '{ exit $(NF - 1) < dear }' <<<"$was" && kind=rest
  [[ $command == *'`foreshard tune run.db'* ]] && kind=rest
  [ "$rows" = "$kind" ] || [ "$rows" = --update ] || continue
  row "$(awk -F' *[|] *' '{ print $2 }' <<<"$was")" "$command" >>"$work/now"
  printf '%s\n' "$was" >>"$work/expected"
done <"$work/rows" 3<"$work/commands"
if [ "$rows" = --update ]; then
  awk -v rows="$work/now" '/^\| source \| as asked for/ { while ((getline row <rows) > 0) print row; inside = 1 }
    inside && /^\|/ { next } { inside = 0; print }' "$page" >"$work/page"
  cat "$work/page" >"$page"
  exit
fi
[ "$(wc -l <"$work/now")" -gt 2 ] || { echo "docs/tune.md: no row of $rows"; exit 1; }
diff <(without_seconds <"$work/expected") <(without_seconds <"$work/now") && exit
echo "docs/tune.md's table is not what its commands answer: FORESHARD_TRUTH=… tests/docs/tune_table.sh … --update"
exit 1
