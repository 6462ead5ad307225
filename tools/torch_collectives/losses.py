"""Two loss curves of train.py beside each other: losses.py A.json B.json. Ends with 1 where they are not the same."""

import json
import sys


def losses(path):
    with open(path) as file:
        return json.load(file)[0]["losses"]


one, other = losses(sys.argv[1]), losses(sys.argv[2])
for step in sorted({*range(0, len(one), max(1, len(one) // 8)), len(one) - 1}):
    print(f"step {step + 1:4}: {one[step]:.6f} {other[step]:.6f}")
differing = [step + 1 for step in range(len(one)) if one[step] != other[step]]
if differing:
    furthest = max(abs(a - b) for a, b in zip(one, other, strict=True))
    print(f"the losses of {len(differing)} steps differ, first step {differing[0]}, at most by {furthest:.2e}")
else:
    print(f"the losses of all {len(one)} steps have the same bits")
sys.exit(bool(differing) or len(one) != len(other))
