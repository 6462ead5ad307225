#!/usr/bin/env bash
# Prints which folder may include which, from DEPENDS in the CMake files, which tests/tidy holds equal to the includes.
#
#   folder_graph.sh REPOSITORY [--update]      --update writes it into docs/architecture.md
set -euo pipefail
export LC_ALL=C.UTF-8
cd "$1"

# depends FOLDER: what its foreshard_library() DEPENDS on, in one line.
depends() {
  awk '/^foreshard_library\(/ { on = 1 }
       on { line = $0; sub(/#.*/, "", line); sub(/foreshard_library\(/, "", line); ended = sub(/\).*/, "", line)
            count = split(line, word, " ")
            for (i = 1; i <= count; ++i)
              if (word[i] ~ /^(SOURCES|DEPENDS|LIBRARIES)$/) key = word[i]
              else if (key == "DEPENDS") printf "%s%s", out++ ? " " : "", word[i]
            if (ended) exit }' "$1/CMakeLists.txt"
}

# line FOLDER: the folder and what it may include, wrapped at 120 columns.
line() {
  printf '%s %s\n' "$1" "$(depends "$1")" | awk '{
    text = sprintf("%-22s", $1)
    for (i = 2; i <= NF; ++i) {
      if (length(text) + 1 + length($i) > 120) { print text; text = sprintf("%-22s", "") }
      text = text " " $i
    }
    sub(/ +$/, "", text)
    print text }'
}

graph() {
  local room folder
  for room in core sim gpu traces accuracy viz cli; do
    for folder in $(sed -n 's/^ *add_subdirectory(\([a-z_]*\)).*/\1/p' "$room/CMakeLists.txt"); do
      if grep -q '^foreshard_library(' "$room/$folder/CMakeLists.txt"; then line "$room/$folder"; fi
    done
    if grep -q '^foreshard_library(' "$room/CMakeLists.txt"; then line "$room"; fi
  done
}

if [ "${2:-}" = --update ]; then
  text=$(mktemp)
  { echo '```text'; graph; echo '```'; } >"$text"
  awk -v text="$text" '/<!-- folders:begin -->/ { print; while ((getline line < text) > 0) print line; skip = 1; next }
       /<!-- folders:end -->/ { skip = 0 } !skip' docs/architecture.md >"$text.md"
  cp "$text.md" docs/architecture.md
  rm -f "$text" "$text.md"
else
  graph
fi
