"""A small model under FSDP2 on the CPU, with a process group that does nothing: what the recorder reads is real."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore

VOCABULARY = 32

# FSDP2 of 2.6 asks the CPU for what only device streams have.
for _name in ("record_event", "wait_event", "wait_stream", "synchronize"):
    if not hasattr(torch.cpu.Stream, _name):
        setattr(torch.cpu.Stream, _name, lambda self, *args: None)
if not hasattr(torch.cpu, "Event"):

    class _Event:
        def record(self, stream=None):
            pass

        def wait(self, stream=None):
            pass

    torch.cpu.Event = _Event


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.first = nn.Linear(dim, 2 * dim)
        self.second = nn.Linear(2 * dim, dim)

    def forward(self, x):
        return x + self.second(torch.relu(self.first(x)))


class Model(nn.Module):
    def __init__(self, dim=8, layers=3):
        super().__init__()
        self.tok = nn.Embedding(VOCABULARY, dim)
        self.layers = nn.ModuleList([Block(dim) for _ in range(layers)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.tok(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def start(world_size=4, rank=0):
    if not dist.is_initialized():
        dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world_size)


def stop():
    if dist.is_initialized():
        dist.destroy_process_group()


def plain_mesh(world_size=4):
    return init_device_mesh("cpu", (world_size,))


def shard(model, mesh=None, root=True, dtype=torch.bfloat16, **options):
    """Every block a unit, then the root."""
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)
    mesh = mesh or plain_mesh()
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy, **options)
    if root:
        fully_shard(model, mesh=mesh, mp_policy=policy)
    return model


def train_step(model, optimizer, shape=(2, 5), microbatches=1):
    optimizer.zero_grad()
    for k in range(microbatches):
        if microbatches > 1:
            model.set_requires_gradient_sync(k == microbatches - 1)
        model(torch.randint(0, VOCABULARY, shape)).float().sum().backward()
    optimizer.step()
