#!/usr/bin/env bash
# The wheel that ./dev wheel makes: packed from the program that is built, installed offline into a fresh environment,
# used there as program and as package.
#
#   wheel_test.sh REPOSITORY BUILD OUT
set -euo pipefail
repository=$1 build=$2 out=$3
skip() {
  echo "skipped: $*"
  exit 77
}
python3 -c 'import venv, pip' 2>/dev/null || skip "python3 has no venv or no pip (python3-venv, python3-pip)"

rm -rf "$out"
for component in program collectives; do # the second where CUDA was found
  cmake --install "$build" --component $component --prefix "$out/program" --strip >/dev/null
done
python3 "$repository/tools/make_wheel.py" "$out/program" "$out/wheel" 2>"$out/log" || {
  [ $? = 77 ] && skip "$(tail -n 1 "$out/log")"
  cat "$out/log"
  exit 1
}

python3 -m venv --without-pip "$out/environment" # pip comes from outside: half a second instead of four
python3 -m pip --python "$out/environment/bin/python" install --quiet --no-index --no-deps --no-compile \
  --disable-pip-version-check --find-links "$out/wheel" foreshard
rm -rf "$out/program"
cd "$out"
export PATH=$out/environment/bin:$PATH PYTHONDONTWRITEBYTECODE=1
version=$(foreshard --version | awk 'NR == 1 { print $2 }')
packed=$(python -c 'import foreshard; print(foreshard.__version__)')
[ "$version" = "$packed" ] || {
  echo "the program is $version, the package $packed"
  exit 1
}
[ "$(command -v foreshard)" = "$out/environment/bin/foreshard" ]
python -m foreshard plan mlp --gpus 4 --quiet -o run.db >/dev/null
python -c 'import foreshard; print(foreshard.open("run.db").execute("SELECT kind FROM run").fetchone()["kind"])'
for file in NOTICE foreshard.spdx.json; do
  [ -n "$(find environment -name "$file")" ] || { echo "the wheel has no $file"; exit 1; }
done
[ ! -e "$build/gpu/torch_collectives/libforeshard_collectives.so" ] || python -c '
from foreshard.collectives import library
print(library.load().path)'
ls wheel
