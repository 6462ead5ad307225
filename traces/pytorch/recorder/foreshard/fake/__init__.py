"""Fake recordings: workload files from a training script, without a GPU (docs/record.md, "Without a GPU")."""

from .blocks import blocks_of, shard_blocks
from .session import FakeRecording, Finished

__all__ = ["FakeRecording", "Finished", "blocks_of", "shard_blocks"]
