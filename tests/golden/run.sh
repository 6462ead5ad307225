#!/usr/bin/env bash
# run.sh [--update-golden] [CASE|FOLDER...]: runs golden cases (README.md) and compares what they print; all of them
# where none is named. --update-golden writes what they print into the cases instead.
# Environment: FORESHARD, JSON_AT: the two programs; default: those of build/release.
set -uo pipefail

golden=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
root=$(dirname "$(dirname "$golden")")
foreshard=$(readlink -m "${FORESHARD:-$root/build/release/foreshard}")
json_at=$(readlink -m "${JSON_AT:-$root/build/release/tests/golden/json_at}")
for program in "$foreshard" "$json_at"; do
  [ -x "$program" ] || { echo "run.sh: $program is not there: build it, or set FORESHARD and JSON_AT" >&2; exit 2; }
done
update=false
if [ "${1:-}" = --update-golden ]; then update=true; shift; fi
[ $# -gt 0 ] || set -- "$golden"

work=$(mktemp -d "${TMPDIR:-/tmp}/foreshard-golden-XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
ln -s "$foreshard" "$work/bin/foreshard"
ln -s "$json_at" "$work/bin/json_at"
PATH=$work/bin:$PATH
export PATH LC_ALL=C.UTF-8 NO_COLOR=1

# marked MARK FILE: the lines of FILE behind MARK. A fingerprint changes with every profile: its digits are not compared.
marked() { awk -v mark="$1 " '{ line = mark $0; gsub(/xxh3:[0-9a-f]+/, "xxh3:...", line); sub(/ +$/, "", line); print line }' "$2"; }

# answer COMMAND: its standard output ("> "); where it fails, also its standard error and its exit status ("! ").
answer() {
  local status=0
  timeout 120 bash -o pipefail -c "$1" >"$work/out" 2>"$work/err" </dev/null || status=$?
  [ "$status" != 141 ] || status=0  # SIGPIPE: head had enough before the program had written all
  marked '>' "$work/out"
  [ $status = 0 ] || { marked '!' "$work/err"; echo "! exit $status"; }
}

# play CASE: the case as it reads with what its commands print now. Indented lines go on with the command above.
play() {
  local line command=
  while IFS= read -r line || [ -n "$line" ]; do
    case $line in
      '>'* | '!'*) continue ;;
      ' '*) command+=$'\n'$line ;;
      *)
        [ -z "$command" ] || answer "$command"
        command=
        case $line in '$ '*) command=${line#'$ '} ;; esac
        ;;
    esac
    printf '%s\n' "$line"
  done <"$1"
  [ -z "$command" ] || answer "$command"
}

ran=0 failed=0 changed=0
while IFS= read -r file; do
  ran=$((ran + 1))
  mkdir "$work/case"
  ln -s "$golden/inputs" "$work/case/inputs"
  ln -s "$root/traces/samples" "$work/case/samples"
  ln -s "$root/tests/reference/allocator" "$work/case/recordings"
  (cd "$work/case" && play "$file") >"$work/now"
  rm -rf "$work/case"
  cmp -s "$file" "$work/now" && continue
  if $update; then
    cp "$work/now" "$file"
    changed=$((changed + 1))
  else
    failed=$((failed + 1))
    name=${file#"$root/"}
    printf '\n%s: prints something else; what it shows:\n' "$name"
    grep '^#' "$file"
    diff -u --label "$name (expected)" --label "$name (now)" "$file" "$work/now"
  fi
done < <(find "$@" -name '*.test' -type f -exec readlink -f {} + | sort)

[ $ran -gt 0 ] || { echo "run.sh: no case (*.test) in $*" >&2; exit 2; }
if $update; then
  echo "$ran cases, $changed rewritten: read the difference, and say why in the commit"
elif [ $failed -gt 0 ]; then
  printf '\n%s of %s cases failed; where the new output is right: tests/golden/run.sh --update-golden\n' $failed $ran
  exit 1
else
  echo "$ran cases passed"
fi
