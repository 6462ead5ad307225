#!/usr/bin/env bash
# What can be checked of the pages without running anything: every relative link leads to a file and its anchor to a
# heading, what the sources cite exists, README.md stays short, prose is wrapped at 120 columns, and the folder graph in
# docs/architecture.md is that of the CMake files.
#
#   check_pages.sh REPOSITORY
set -euo pipefail
export LC_ALL=C.UTF-8
cd "$1"
failed=0
fault() {
  echo "$*"
  failed=$((failed + 1))
}

# anchors PAGE: the anchors of its headings, as GitHub makes them.
anchors() {
  sed -n 's/^#\{1,6\} //p' "$1" | sed -E 's/\[([^]]*)\]\([^)]*\)/\1/g; s/[`*]//g' | tr '[:upper:]' '[:lower:]' |
    sed -E 's/[^[:alnum:]_ -]//g; s/ /-/g'
}

# links PAGE: the targets of its links, outside of code.
links() {
  awk '/^ *```/ { code = !code; next } !code' "$1" | sed 's/`[^`]*`//g' | grep -oE '\]\([^)]+\)' |
    sed 's/^](//; s/)$//' || true
}

pages=$(git ls-files '*.md' 2>/dev/null || true)
[ -n "$pages" ] || pages=$(find . -name '*.md' -not -path './build/*' -not -path '*/node_modules/*' | sed 's|^\./||')
count=0
for page in $pages; do
  folder=$(dirname "$page")
  while read -r link; do
    case $link in '' | http://* | https://* | mailto:*) continue ;; esac
    count=$((count + 1))
    target=${link%%#*}
    anchor=
    case $link in *#*) anchor=${link#*#} ;; esac
    [ -n "$target" ] && file=$folder/$target || file=$page
    if [ ! -e "$file" ]; then
      fault "$page: the link $link leads nowhere"
    elif [ -n "$anchor" ] && ! anchors "$file" | grep -qxF -- "$anchor"; then
      fault "$page: $link: there is no such heading"
    fi
  done < <(links "$page")

  # Prose at 120 columns. Tables, fences and generated parts may be wider: they cannot be broken.
  case $page in docs/trace_schema.md) continue ;; esac
  number=0 code=0 generated=0
  while IFS= read -r line; do
    number=$((number + 1))
    case $line in
      *accuracy:begin*) generated=1 ;;
      *accuracy:end*) generated=0 ;;
    esac
    [[ $line =~ ^\ *\`\`\` ]] && code=$((1 - code))
    ((code || generated)) && continue
    [[ $line == '|'* || $line == '!['* ]] && continue
    ((${#line} <= 120)) || fault "$page:$number: ${#line} columns; wrap prose at 120"
  done <"$page"
done

# What the pages (the notes apart, which are of their date) name of the tree: `core/step`, `dev`'s scripts, files.
for page in README.md CONTRIBUTING.md docs/*.md; do
  for path in $(grep -oE '`(core|sim|gpu|traces|accuracy|viz|cli|tests|tools|cmake)/[a-z0-9_/]+(\.[a-z]+)?`' "$page" |
    tr -d '`' | sort -u); do
    case $path in tests/*.*) ;; tests/*) continue ;; esac
    [ -e "$path" ] || fault "$page names $path, which does not exist"
  done
done

words=$(wc -w <README.md)
((words <= 700)) || fault "README.md has $words words; 700 are its limit"

# What comments and messages cite: pages (with a heading, on the same line), and numbered sections of the notes.
sources=(core sim gpu traces accuracy viz cli tests tools cmake)
while read -r page heading; do
  if [ ! -e "$page" ]; then
    fault "the sources cite $page, which does not exist"
  elif [ -n "$heading" ] && ! grep -q "^#\+ $heading" "$page"; then
    fault "the sources cite $page, \"$heading\": there is no such heading"
  fi
done < <(grep -rhoE 'docs/[a-z_/]+\.md(, "[^"]+")?' --include='*.[ch]pp' --include='*.cu' --include='*.py' \
  --include='*.ts' --include=CMakeLists.txt --exclude-dir=node_modules "${sources[@]}" |
  sort -u | sed 's/, "/ /; s/"$//')
for note in fsdp2_semantics caching_allocator time_model; do
  for section in $(grep -rhoiE "${note//_/ } [0-9]+(\.[0-9]+)?" --include='*.[ch]pp' "${sources[@]}" |
    grep -oE '[0-9.]+$' | sort -u); do
    grep -qE "^#+ ${section/./\\.}[. ]" "docs/notes/$note.md" ||
      fault "the sources cite ${note//_/ } $section: docs/notes/$note.md has no such section"
  done
done

# The tour leaves no folder out.
for folder in core/*/ sim/*/ gpu/*/ traces/*/ accuracy/ viz/*/ cli/*/; do
  grep -qF "\`${folder%/}\`" docs/architecture.md || fault "docs/architecture.md does not name ${folder%/}"
done
graph=$(tests/docs/folder_graph.sh .)
written=$(awk '/<!-- folders:begin -->/ { on = 1; next } /<!-- folders:end -->/ { on = 0 } on && !/^```/' \
  docs/architecture.md)
[ "$graph" = "$written" ] ||
  fault "docs/architecture.md: its folder graph is not that of the CMake files; tests/docs/folder_graph.sh . --update"

echo "$count links; README.md has $words words; $failed faults"
[ "$failed" = 0 ]
