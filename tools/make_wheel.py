#!/usr/bin/env python3
"""Packs the installed program and the Python package into one wheel: make_wheel.py PREFIX OUT.

PREFIX is where `cmake --install --component program` has put the program and, where CUDA was found, `--component
collectives` the library of foreshard.collectives; OUT gets foreshard-VERSION-py3-none-manylinux_2_N_ARCHITECTURE.whl. N
is what their symbols ask for, read with readelf: any system with that glibc, or a newer one, runs them (PEP 600). Needs
setuptools and wheel, and nothing of the network; ends with 77 where they are missing.
"""

import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGE = REPOSITORY / "traces/pytorch/recorder"
PARTS = ("bin/foreshard", "lib/foreshard")
LIBRARY = "lib/foreshard-collectives/libforeshard_collectives.so"

# The manylinux tag whose systems have that libstdc++ (auditwheel's policies): GLIBCXX_3.4.N to glibc 2.M.
LIBSTDCXX = {28: 31, 29: 34, 30: 35, 31: 37, 32: 38, 33: 39, 34: 41}
# A program without any versioned symbol is linked statically; the kernel is all it needs. pip's oldest such tag.
STATIC_GLIBC = 17


SYSTEM_PYTHON = "/usr/bin/python3"
MISSING = 77


def need_setuptools() -> None:
    """setuptools 70.1 and later make wheels by themselves. The distribution's Python stands in for one without."""
    if importlib.util.find_spec("setuptools") is not None:
        for module in ("wheel", "setuptools.command.bdist_wheel"):
            if importlib.util.find_spec(module) is not None:
                return
    if sys.executable != SYSTEM_PYTHON and Path(SYSTEM_PYTHON).exists():
        os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, *sys.argv])
    print("setuptools and wheel are missing (Debian's python3-setuptools and python3-wheel)", file=sys.stderr)
    sys.exit(MISSING)


def glibc_of(files: list[Path]) -> int:
    """The M of the lowest glibc 2.M that has everything these files ask for."""
    needed = STATIC_GLIBC
    for file in files:
        versions = subprocess.run(["readelf", "-V", str(file)], capture_output=True, text=True, check=True).stdout
        needed = max([needed, *(int(minor) for minor in re.findall(r"\bGLIBC_2\.(\d+)", versions))])
        newest = max((int(minor) for minor in re.findall(r"\bGLIBCXX_3\.4\.(\d+)", versions)), default=0)
        needed = max([needed, *(glibc for minor, glibc in LIBSTDCXX.items() if minor <= newest)])
        if newest > max(LIBSTDCXX):
            sys.exit(f"{file} asks for GLIBCXX_3.4.{newest}: add the glibc of its systems to LIBSTDCXX")
    return needed


def stage(prefix: Path, folder: Path) -> list[Path]:
    """Puts package, program and library into `folder`. Returns the files that are not Python."""
    built = shutil.ignore_patterns("__pycache__", "program", "*.so")
    shutil.copytree(PACKAGE, folder, dirs_exist_ok=True, ignore=built)
    for file in ("LICENSE", "NOTICE"):
        shutil.copy(REPOSITORY / file, folder)
    shutil.copy(prefix / "share/doc/foreshard/foreshard.spdx.json", folder / "foreshard")
    program = folder / "foreshard/program"
    for part in PARTS:
        source, target = prefix / part, program / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target)
        elif source.exists():
            shutil.copy(source, target)
    files = [file for file in sorted(program.rglob("*")) if file.is_file()]
    if (prefix / LIBRARY).exists():
        files.append(Path(shutil.copy(prefix / LIBRARY, folder / "foreshard/collectives")))
    return files


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    need_setuptools()
    prefix, out = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        files = stage(prefix, Path(folder))
        tag = f"manylinux_2_{glibc_of(files)}_{platform.machine()}"
        Path(folder, "setup.cfg").write_text(f"[bdist_wheel]\nplat_name = {tag}\npython_tag = py3\n")
        os.chdir(folder)
        from setuptools import build_meta

        sys.stdout.flush()
        stdout = os.dup(1)
        os.dup2(2, 1)  # setuptools prints every file
        try:
            wheel = build_meta.build_wheel(str(out))
        finally:
            os.dup2(stdout, 1)
            os.chdir("/")
    print(out / wheel)


if __name__ == "__main__":
    main()
