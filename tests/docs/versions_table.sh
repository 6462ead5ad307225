#!/usr/bin/env bash
# Holds that docs/versions.md ends with the table of rules that the program prints.
#
#   versions_table.sh PROGRAM REPOSITORY [--update]      --update writes it into the page
set -euo pipefail
export LC_ALL=C.UTF-8

[ -x "$1" ] || { echo "skipped: $1 is not built"; exit 77; }
page=$2/docs/versions.md
printed=$("$1" rules --markdown)
if [ "${3:-}" = --update ]; then
  above=$(sed '/^| rule /,$d' "$page")
  printf '%s\n\n%s\n' "$above" "$printed" >"$page"
fi
diff <(sed -n '/^| rule /,$p' "$page") <(printf '%s\n' "$printed") && exit 0
echo "docs/versions.md is not what \`foreshard rules --markdown\` prints: tests/docs/versions_table.sh … --update"
exit 1
