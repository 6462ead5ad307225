#!/usr/bin/env bash
# Runs every ```sh block of README.md, CONTRIBUTING.md and docs/*.md, and holds that each option in their text exists,
# so that a command or an option that went fails here. docs/notes is a record of its date and is left out.
#
#   run_blocks.sh PROGRAM REPOSITORY
#
# Each block runs on its own (bash -euo pipefail) in a fresh folder with `foreshard` on PATH and the inputs that the
# pages name: run.db, step.pickle, config.json, … (make_inputs). A block whose line above is
# <!-- not run: REASON --> is counted and passed over, and so is every ```console block: what needs a GPU, PyTorch, a
# network or a build.
set -euo pipefail

[ -x "$1" ] || { echo "skipped: $1 is not built"; exit 77; }
program=$(readlink -f "$1")
repository=$(readlink -f "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin" "$work/inputs"
ln -s "$program" "$work/bin/foreshard"
export PATH=$work/bin:$PATH

# The files that the pages' commands read, under the names that the pages use.
make_inputs() {
  cd "$work/inputs"
  mkdir -p build/release traces
  ln -s "$program" build/release/foreshard
  ln -s "$repository/traces/samples" traces/samples
  ln -s "$repository/traces/samples/mlp_record1.pickle.xz" step.pickle
  ln -s "$repository/traces/samples/mlp_record1.trace.json.xz" step.trace.json
  ln -s "$repository/traces/samples/mlp_record1.about.json" about.json
  mkdir -p rec/rank00000
  cp step.pickle rec/rank00000/snapshot.pickle.xz
  cp step.trace.json rec/rank00000/trace.json.xz
  cp about.json rec/about.json
  cp "$repository/tests/fuzz/corpus/hf_config/qwen3" config.json
  # The first json block of these pages is a whole file.
  first_json "$repository/docs/workload.md" >step.json
  first_json "$repository/docs/machines.md" >our-h100.json
  cp our-h100.json machine.json
  cp "$repository/tests/docs/all_gather_perf.txt" "$repository/tests/docs/reduce_scatter_perf.txt" .

  foreshard import --snapshot step.pickle --trace step.trace.json --about about.json -o run.db
  foreshard plan run.db --release stash -o plan.db
  cp run.db before.db
  cp plan.db after.db
}

first_json() { awk '/^```json$/ { on = 1; next } on && /^```$/ { exit } on' "$1"; }

# blocks PAGE: writes each block to $work/blocks/NUMBER as "KIND LINE REASON" and its text. Fails on an open fence.
blocks() {
  rm -rf "$work/blocks"
  mkdir "$work/blocks"
  awk -v out="$work/blocks/" '
    fence != "" && /^ *```$/ { if (file != "") close(file); fence = file = ""; next }
    fence != "" { if (file != "") print substr($0, indent + 1) >file; next }
    /^ *```/ {
      indent = match($0, /[^ ]/) - 1
      fence = substr($0, indent + 4)
      if (fence == "") fence = "none"
      if (fence == "sh" || fence == "console") {
        file = sprintf("%s%04d", out, ++count)
        reason = ""
        if (above ~ /^ *<!-- not run: .* -->$/) { reason = above; gsub(/^ *<!-- not run: | -->$/, "", reason) }
        kind = fence == "console" ? "console" : reason != "" ? "marked" : "run"
        print kind, NR, reason >file
      }
      next
    }
    { above = $0 }
    END { if (fence != "") { print "a fence is not closed" >"/dev/stderr"; exit 1 } }' "$1"
}

ran=0 failed=0 marked=0 console=0
# run_block FILE PAGE LINE: one block in a fresh copy of the inputs, without the files that it writes itself.
run_block() {
  rm -rf "$work/here"
  cp -a "$work/inputs" "$work/here"
  tail -n +2 "$1" >"$work/block.sh"
  grep -oE -- '(-o|--csv|--progress) [^ ]+' "$work/block.sh" |
    while read -r _ written; do rm -f "$work/here/$written"; done
  if (cd "$work/here" && bash -euo pipefail "$work/block.sh" >"$work/output" 2>&1 </dev/null); then
    return 0
  fi
  printf '%s:%s: this block fails:\n' "$2" "$3"
  sed 's/^/    /' "$work/block.sh"
  tail -n 20 "$work/output" | sed 's/^/  | /'
  return 1
}

(make_inputs) >"$work/output" 2>&1 || {
  echo "the inputs of the pages' commands cannot be made:"
  cat "$work/output"
  exit 1
}
cd "$repository"
for page in README.md CONTRIBUTING.md docs/*.md; do
  blocks "$page" || { echo "$page: cannot be read"; failed=$((failed + 1)); continue; }
  for block in "$work"/blocks/*; do
    [ -e "$block" ] || continue
    read -r kind line _ <"$block"
    case $kind in
      console) console=$((console + 1)) ;;
      marked) marked=$((marked + 1)) ;;
      run)
        ran=$((ran + 1))
        run_block "$block" "$page" "$line" || failed=$((failed + 1))
        ;;
    esac
  done
done
# Options in the text, `--like-this`, are options of some verb; those of other programs are within their command.
# completion and man are not in the overview.
for verb in completion man $(foreshard --help | awk '/^usage/ { on = 1 } on && /^  [a-z]+ / && $1 != "foreshard" { print $1 }'); do
  foreshard "$verb" --help
done | cat - <(foreshard --help) | grep -oE -- '--[a-z][a-z-]*' | sort -u >"$work/options"
for page in README.md CONTRIBUTING.md docs/*.md; do
  for option in $(awk '/^ *```/ { code = !code; next } !code' "$page" | grep -oE '`[^`]*`' |
    grep -vE '^`(torchrun|srun|mpirun|cmake|ctest|gpu_|tests/)' | grep -oE -- '(^`|[ |])--[a-z][a-z-]*' |
    grep -oE -- '--[a-z-]+' | sort -u); do
    grep -qx -- "$option" "$work/options" || { echo "$page: no verb has the option $option"; failed=$((failed + 1)); }
  done
done
echo "$ran shell blocks ran, $failed failed; not run: $marked marked with a reason, $console console"
[ "$failed" = 0 ]
