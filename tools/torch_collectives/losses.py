"""Loss curves of train.py beside each other: losses.py A.json B.json [PERTURBED.json].

Ends with 1 where A and B differ. More than two ranks add in another order by NCCL than by foreshard, and what is rounded
otherwise grows from step to step. PERTURBED is A's training with every parameter an ulp up or down at the start: with it, A and B
may be as far apart as three times the root mean square of A's distance from it."""

import json
import math
import sys

TIMES = 3


def losses(path):
    with open(path) as file:
        return json.load(file)[0]["losses"]


def apart(one, other):
    """Root mean square over the steps, and the furthest."""
    distances = [a - b for a, b in zip(one, other, strict=True)]
    return math.sqrt(sum(d * d for d in distances) / len(distances)), max(map(abs, distances))


def main(one, other, perturbed=None):
    for step in sorted({*range(0, len(one), max(1, len(one) // 8)), len(one) - 1}):
        print(f"step {step + 1:4}: {one[step]:.6f} {other[step]:.6f}")
    differing = [step + 1 for step in range(len(one)) if one[step] != other[step]]
    if not differing:
        print(f"the losses of all {len(one)} steps have the same bits")
        return True
    mean, furthest = apart(one, other)
    print(f"the losses of {len(differing)} steps differ, first step {differing[0]}: "
          f"root mean square {mean:.2e}, at most {furthest:.2e}")  # fmt: skip
    if perturbed is None:
        return False
    limit, furthest = apart(one, perturbed)
    print(f"every parameter an ulp away: root mean square {limit:.2e}, at most {furthest:.2e}")
    return mean <= TIMES * limit


if __name__ == "__main__":
    sys.exit(not main(*map(losses, sys.argv[1:])))
