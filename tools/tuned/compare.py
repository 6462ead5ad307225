"""What `foreshard tune` promises held against PyTorch: settings as asked for, the best uniform ones and the tuned ones.

compare.py OUT [--gpus 4] [--machine h200] [--foreshard build/release/foreshard] [CASE...]

Each case is planned, its printed lines of Python are trained with train.py, and a table says for each setting what was
predicted and measured: the step, how much less it is than as asked for, and reserved memory. Files: OUT/CASE.SETTING.py
(lines), .json (measured), .log; OUT/CASE.json is what tune answered. Half a minute a setting."""

import argparse
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
CONFIGS = {  # of transformers
    "qwen3-1.7b": {
        "model_type": "qwen3", "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 28,
        "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
    },
    "qwen3-8b": {
        "model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
    },
    "mistral-7b": {
        "model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32768, "sliding_window": None,
    },
}  # fmt: skip
CASES = {  # source, model of train.py where that has its own, batch, seq, further options of tune
    "llama-1b": ("llama-1b", "1b", 2, 2048, []),
    "llama-3b": ("llama-3b", "3b", 2, 2048, []),
    "llama-8b": ("llama-8b", "8b", 1, 2048, ["--memory-limit", "75GiB"]),
    "qwen3-1.7b": ("qwen3-1.7b", None, 2, 2048, []),
    "qwen3-1.7b-4": ("qwen3-1.7b", None, 4, 2048, []),
    "qwen3-8b": ("qwen3-8b", None, 2, 2048, []),
    "mistral-7b": ("mistral-7b", None, 2, 2048, []),
    "llama-1b-512": ("llama-1b", "1b", 1, 512, []),
}
SETTINGS = {"as asked for": "start", "best uniform": "uniform", "tuned": "best"}


def tuned(foreshard, arguments):
    ran = subprocess.run([foreshard, "tune", *arguments, "--json", "--quiet"], capture_output=True, text=True)
    if ran.returncode:
        sys.exit(f"{shlex.join(ran.args)}: {ran.stderr}")
    return json.loads(ran.stdout)


def train(out, name, lines, model, batch, seq, gpus):
    """`lines`: tune's `pytorch`. What train.py measured, or None where it failed; then its log says why."""
    (out / f"{name}.py").write_text("\n".join(lines["lines"]) + "\n")
    result = out / f"{name}.json"
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(gpus),
        str(HERE / "train.py"), "--model", model, "--batch", str(batch), "--seq", str(seq),
        "--lines", str(out / f"{name}.py"), "--out", str(result),
    ]  # fmt: skip
    environment = {"CUDA_DEVICE_MAX_CONNECTIONS": "32", "OMP_NUM_THREADS": "8", **os.environ}
    environment |= dict(variable.split("=", 1) for variable in lines["environment"])
    with open(out / f"{name}.log", "w") as log:
        ended = subprocess.run(["timeout", "-k", "3", "150", *command], stdout=log, stderr=log, env=environment)
    return json.loads(result.read_text()) if ended.returncode == 0 and result.exists() else None


def compare(out, case, foreshard, gpus, machine):
    source, model, batch, seq, more = CASES[case]
    if source in CONFIGS:
        config = CONFIGS[source]
        source = model = str(out / f"{case}.config.json")
        Path(source).write_text(json.dumps(config))
    arguments = [source, "--gpus", str(gpus), "--batch", str(batch), "--seq", str(seq), *more]
    arguments += ["--machine", machine, "--param-dtype", "bfloat16", "--reduce-dtype", "float32"]
    answer = tuned(foreshard, arguments)
    (out / f"{case}.json").write_text(json.dumps(answer))
    first = None
    for title, key in SETTINGS.items():
        planned = answer[key]
        changes = shlex.split(planned["changes"])
        lines = (answer if key == "best" else tuned(foreshard, [*arguments, *changes, "--points", "1"]))["pytorch"]
        got = train(out, f"{case}.{key}", lines, model, batch, seq, gpus)
        row = f"{case:14} {title:12} {planned['step_ms']:8.2f}"
        if got is None:
            print(f"{row}  failed: {case}.{key}.log", flush=True)
            continue
        first = first or (planned["step_ms"], got["step_ms"])
        less = [100 * (1 - b / a) for a, b in zip(first, (planned["step_ms"], got["step_ms"]), strict=True)]
        print(f"{row} {got['step_ms']:8.2f} {100 * (planned['step_ms'] / got['step_ms'] - 1):+6.1f}"
              f"   {less[0]:5.1f} {less[1]:5.1f} {planned['peak_reserved_bytes']:13}"
              f" {got['peak_reserved_bytes'] - planned['peak_reserved_bytes']:+12}"
              f"   {planned['changes']}", flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES) + "; default: all")
    parser.add_argument("--gpus", type=int, default=4)
    parser.add_argument("--machine", default="h200", help="profile, as of plan")
    parser.add_argument("--foreshard", default=str(HERE.parents[1] / "build/release/foreshard"))
    options = parser.parse_intermixed_args()
    unknown = set(options.cases) - set(CASES)
    if unknown:
        parser.error(f"unknown case {sorted(unknown)[0]}: one of {', '.join(CASES)}")
    options.out.mkdir(parents=True, exist_ok=True)
    print(f"{'':14} {'':12} {'step in ms':24}   less, in %   reserved, in bytes\n{'':14} {'':12}"
          f"  planned measured  off %  plan  meas.       planned     measured", flush=True)  # fmt: skip
    for case in options.cases or CASES:
        compare(options.out, case, options.foreshard, options.gpus, options.machine)


if __name__ == "__main__":
    main()
