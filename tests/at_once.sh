#!/usr/bin/env bash
# at_once.sh PROGRAM JOBS: each test case of a Catch2 program in a process of its own, JOBS of them at once: for cases
# that wait for clocks and processes more than they compute. Prints what those that fail, or are skipped, print.
set -uo pipefail
program=$1 jobs=$2
names=$("$program" --list-test-names-only)  # its status is their number
[ -n "$names" ] || { echo "at_once.sh: $program lists no test"; exit 1; }

one() {
  local out status
  out=$("$1" "$(sed 's/[][\\,*"~]/\\&/g' <<<"$2")" 2>&1)
  status=$?
  if [ $status -eq 77 ]; then
    printf '%s\n%s: skipped\n' "$out" "$2"
    return 0
  fi
  # A filter that finds nothing succeeds.
  if [ $status -ne 0 ] || ! grep -q '^All tests passed' <<<"$out"; then
    printf '%s\n%s: failed\n' "$out" "$2"
    return 1
  fi
}
export -f one
tr '\n' '\0' <<<"$names" | xargs -0 -P "$jobs" -I NAME bash -c 'one "$0" "$1"' "$program" NAME
