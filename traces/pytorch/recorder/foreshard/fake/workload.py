"""A workload file (docs/workload.md), written op by op. Knows nothing of torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

SETUP = 0  # the first program; step k is program k + 1
# Library workspaces are made in the first step only: numbered apart, so that the other tensors of all steps have the
# same numbers.
_FIRST_WORKSPACE = 900_000


class Block:
    """One allocation of a program. `op` is its op in the file and may still be completed."""

    __slots__ = ("bytes", "freed_in", "number", "op", "phase", "program")

    def __init__(self, program: int, size: int, op: list[Any], phase: str) -> None:
        self.program = program
        self.bytes = size
        self.op = op
        self.phase = phase
        self.freed_in: str | None = None  # the phase of its free, where that is in the same program

    @property
    def extra(self) -> dict[str, Any]:
        return self.op[-1]


class WorkloadWriter:
    """Ops in the order in which the host issues them; `begin_step` ends the setup and every step before."""

    def __init__(self) -> None:
        self.programs: list[list[list[Any]]] = [[]]
        self.phase = "setup"
        self._blocks: list[list[Block]] = [[]]
        self._pending_host_ns = 0
        self.process_groups: list[list[Any]] = []  # name, ranks, stride

    @property
    def steps(self) -> int:
        return len(self.programs) - 1

    def begin_step(self) -> None:
        self.programs.append([])
        self._blocks.append([])
        self.phase = "inputs"

    def spend(self, nanoseconds: int) -> None:
        """The host's work before the next op."""
        self._pending_host_ns += nanoseconds

    def alloc(self, size: int, category: str | None = None, /, **extra: Any) -> Block:
        """Without a category it follows from when the block lives (`_category`)."""
        kept = {key: value for key, value in extra.items() if value is not None}
        op = ["alloc", None, size, category, self._host_ns(), kept]
        block = Block(len(self.programs) - 1, size, op, self.phase)
        self.programs[-1].append(op)
        self._blocks[-1].append(block)
        return block

    def free(self, block: Block) -> None:
        program = len(self.programs) - 1
        if block.program == program:
            block.freed_in = self.phase
        self.programs[-1].append(["free", block, self._host_ns(), program - block.program])

    def scratch(self, *sizes: int) -> None:
        """Blocks that a kernel allocates and frees, the last one first."""
        blocks = [self.alloc(size) for size in sizes if size > 0]
        for block in reversed(blocks):
            self.free(block)

    def kernel(self, label: str, kernel_class: str, **extra: Any) -> None:
        self.programs[-1].append(["kernel", kernel_class, 0, self._host_ns(), label, extra])

    def copy(self, label: str, kind: str, size: int) -> None:
        self.programs[-1].append(["copy", kind, size, 0, self._host_ns(), label])

    def collective(self, group: list[Any], kind: str, size: int, label: str) -> None:
        """One that the program issues itself, over `group` (name, ranks, stride), on a stream of the group's own."""
        if group not in self.process_groups:
            self.process_groups.append(group)
        number = self.process_groups.index(group)
        self.programs[-1].append(["collective", number, kind, size, self._host_ns(), label, {"stream": number + 1}])

    def wait_collectives(self) -> None:
        for number in range(len(self.process_groups)):
            self.programs[-1].append(["wait_stream", number + 1, self._host_ns()])

    def synchronize(self) -> None:
        self.programs[-1].append(["synchronize", self._host_ns()])

    def hook(self, name: str, unit: int | None = None) -> None:
        """A place where FSDP2 or the loop acts (docs/workload.md)."""
        self.programs[-1].append(["hook", name, 0 if unit is None else unit, self._host_ns()])
        self.phase = {
            "zero_grad": "inputs",
            "microbatch_begin": "inputs",
            "forward_begin": "forward",
            "backward_begin": "backward",
        }.get(name, self.phase)

    def finish(self, facts: dict[str, Any]) -> dict[str, Any]:
        """The whole file; `facts` are its keys beside the programs."""
        for blocks in self._blocks:
            _number(blocks)
        programs = [list(self._plain(index)) for index in range(len(self.programs))]
        return {
            "format": "foreshard workload",
            "schema": 1,
            **facts,
            "has_timing": True,
            "setup": programs[SETUP],
            "steps": programs[SETUP + 1 :],
        }

    def _host_ns(self) -> int:
        spent, self._pending_host_ns = self._pending_host_ns, 0
        return spent

    def _plain(self, index: int) -> Iterator[list[Any]]:
        """Ops as the file has them; each block of a program before the last has a category by now."""
        of_op = {id(block.op): block for block in self._blocks[index]}
        for op in self.programs[index]:
            if op[0] == "alloc":
                block = of_op[id(op)]
                _, _, size, category, host_ns, extra = op
                yield ["alloc", block.number, size, category or _category(block), host_ns, *([extra] if extra else [])]
            elif op[0] == "free":
                _, block, host_ns, steps_ago = op
                plain = ["free", block.number, host_ns]
                if steps_ago:
                    plain.append({"from_setup": True} if block.program == SETUP else {"steps_ago": steps_ago})
                yield plain
            else:
                yield op


def _number(blocks: list[Block]) -> None:
    """Counted from a program's end: a first step that makes some more at its beginning (caches, tables) gives the
    tensors that the next step frees the same numbers as every other step."""
    workspaces = 0
    others = 0
    for block in reversed(blocks):
        if block.op[3] == "workspaces":
            block.number = _FIRST_WORKSPACE + workspaces
            workspaces += 1
        else:
            block.number = others
            others += 1


def _category(block: Block) -> str:
    """As core/models/tape.cpp has it (Tape::finish)."""
    if block.extra.get("gradient_of") is not None:
        return "gradients"
    if block.phase == "setup":
        return "other"
    if block.phase == "inputs":
        return "inputs"
    return "activations" if block.phase == "forward" and block.freed_in != "forward" else "temporaries"
