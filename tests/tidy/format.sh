#!/usr/bin/env bash
# Fails when a source is not formatted by the repository's .clang-format. Versions of clang-format
# disagree in details, so only the one of Debian 12 (14) decides; others skip (exit 77).
set -u
version=$(clang-format --version 2>/dev/null | sed -n 's/.*version \([0-9]*\).*/\1/p')
if [ "${version:-0}" != 14 ]; then
  echo "skipped: clang-format 14 is not here (found: ${version:-none})"
  exit 77
fi
mapfile -t files < <(find core sim gpu traces accuracy viz cli tests \( -name '*.cpp' -o -name '*.hpp' \) 2>/dev/null | sort)
if printf '%s\0' "${files[@]}" | xargs -0 -n 40 -P "$(nproc)" clang-format --dry-run --Werror; then
  echo "${#files[@]} files are formatted"
else
  echo "not formatted: run ./dev format" >&2
  exit 1
fi
