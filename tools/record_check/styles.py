"""Training scripts in the styles that people write, recorded as they are:

    torchrun --nproc-per-node 4 -m foreshard.record --out OUT/STYLE.rec tools/record_check/styles.py STYLE

A Llama of 1.2e9 parameters, bfloat16 with float32 reductions unless the style says otherwise. PyTorch 2.11."""

import argparse
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "torch_collectives"))
import llama  # noqa: E402

STEPS = 18  # 4 recorded, 10 timed, and some over
BATCH, SEQ = 2, 2048
SIZE = llama.SIZES["1b"]
MIXED = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)


class Data(torch.utils.data.Dataset):
    """Random sequences; `lengths`: of each sample in turn."""

    def __init__(self, count, lengths=(SEQ,)):
        self.count, self.lengths = count, lengths

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return torch.randint(0, SIZE["vocab"], (self.lengths[index // BATCH % len(self.lengths)],))


def tables(device):
    head = SIZE["dim"] // SIZE["heads"]
    angle = torch.outer(torch.arange(SEQ).float(), 1.0 / (500000.0 ** (torch.arange(0, head, 2).float() / head)))
    return angle.cos().to(device), angle.sin().to(device)


def build(device, policy=MIXED, reshard=True, mesh=None, wrap=lambda layer: None, offload=None):
    with torch.device("meta"):
        model = llama.Llama(SIZE)
    more = {"offload_policy": offload} if offload else {}
    for layer in model.layers:
        wrap(layer)
        fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard, **more)
    fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard, **more)
    model.to_empty(device="cpu" if offload else device)
    torch.manual_seed(0)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.02)
    return model


def loss_of(model, tokens, cos_sin):
    length = tokens.shape[1]
    logits = model(tokens, *(table[:length] for table in cos_sin))
    return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())


def random_tokens(device):
    return torch.randint(0, SIZE["vocab"], (BATCH, SEQ), device=device)


def function_step(device):
    """A step() whose loss is gone once it returns; gradients clipped, a schedule, loss.item() in every step."""
    model, cos_sin = build(device), tables(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=STEPS)

    def step():
        loss = loss_of(model, random_tokens(device), cos_sin)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item(), norm.full_tensor().item()

    for _ in range(STEPS):
        step()


def evaluates(device):
    """A validation forward under no_grad behind every second step."""
    model, cos_sin = build(device), tables(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    for i in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, random_tokens(device), cos_sin)
        loss.backward()
        optimizer.step()
        if i % 2 == 1:
            model.eval()
            with torch.no_grad():
                loss_of(model, random_tokens(device), cos_sin)
            model.train()


def accumulates(device):
    """Two microbatches, the first without reduction; blocks checkpointed; two groups of parameters."""

    def wrap(layer):
        forward = layer.forward
        layer.forward = lambda *inputs: checkpoint(forward, *inputs, use_reentrant=False)

    model, cos_sin = build(device, wrap=wrap), tables(device)
    decays = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decays, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], lr=1e-5
    )
    for _ in range(STEPS):
        for microbatch in range(2):
            model.set_requires_gradient_sync(microbatch == 1)
            (loss_of(model, random_tokens(device), cos_sin) / 2).backward()
        optimizer.step()
        optimizer.zero_grad()


def offloads(device):
    """CPUOffloadPolicy, and a barrier a step."""
    model, cos_sin = build(device, offload=CPUOffloadPolicy()), tables(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, foreach=True)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, random_tokens(device), cos_sin).backward()
        optimizer.step()
        dist.barrier()


def loads(device):
    """A DataLoader with workers, pinned memory and sequences of three lengths."""
    model, cos_sin = build(device), tables(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    loader = torch.utils.data.DataLoader(
        Data(STEPS * BATCH, (2048, 1024, 1536)), batch_size=BATCH, num_workers=2, pin_memory=True
    )
    for batch in loader:
        tokens = batch.to(device, non_blocking=True)
        loss = loss_of(model, tokens, cos_sin)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def averages(device):
    """An exponential average of the shards behind every step, and parameters that are bfloat16 themselves."""
    model, cos_sin = build(device, policy=MixedPrecisionPolicy(reduce_dtype=torch.float32)), tables(device)
    model.to(torch.bfloat16)
    shards = [p.to_local() for p in model.parameters()]
    average = [shard.detach().clone().float() for shard in shards]
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, random_tokens(device), cos_sin).backward()
        optimizer.step()
        with torch.no_grad():
            for kept, shard in zip(average, shards, strict=True):
                kept.lerp_(shard.float(), 0.01)


def distills(device):
    """A frozen teacher, sharded as the student is, and a loss of both outputs."""
    teacher, model, cos_sin = build(device), build(device, reshard=False), tables(device)
    teacher.requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    for _ in range(STEPS):
        optimizer.zero_grad()
        tokens = random_tokens(device)
        with torch.no_grad():
            wanted = teacher(tokens, *cos_sin)
        loss = F.mse_loss(model(tokens, *cos_sin).float(), wanted.float())
        loss.backward()
        optimizer.step()


def hybrid(device):
    """HSDP on a 2 x N/2 mesh, the loss all-reduced for the log."""
    mesh = init_device_mesh("cuda", (2, dist.get_world_size() // 2), mesh_dim_names=("replicate", "shard"))
    model, cos_sin = build(device, mesh=mesh), tables(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, random_tokens(device), cos_sin)
        loss.backward()
        optimizer.step()
        logged = loss.detach().clone()
        dist.all_reduce(logged, dist.ReduceOp.AVG)


def autocasts(device):
    """float32 shards gathered as float32, torch.autocast instead of a policy, a GradScaler as for float16."""
    model, cos_sin = build(device, policy=MixedPrecisionPolicy()), tables(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = loss_of(model, random_tokens(device), cos_sin)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def compiles(device):
    """Blocks compiled after fully_shard, one graph for all; fused AdamW, parameters kept after forward."""
    model, cos_sin = build(device, reshard=False), tables(device)
    for layer in model.layers:
        layer.compile()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    for _ in range(STEPS):
        loss = loss_of(model, random_tokens(device), cos_sin)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def wraps_halves(device):
    """Attention's and the feed-forward's weights are units of their own inside each block; embedding and head too."""
    with torch.device("meta"):
        model = llama.Llama(SIZE)
    fully_shard(model.tok, mp_policy=MIXED)
    for layer in model.layers:
        for linear in (layer.wq, layer.wk, layer.wv, layer.wo):
            fully_shard(linear, mp_policy=MIXED)
        fully_shard([layer.w1, layer.w3, layer.w2], mp_policy=MIXED)
        fully_shard(layer, mp_policy=MIXED)
    fully_shard([model.norm, model.head], mp_policy=MIXED)
    fully_shard(model, mp_policy=MIXED)
    model.to_empty(device=device)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.02)
    cos_sin = tables(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, random_tokens(device), cos_sin).backward()
        optimizer.step()


def trains_some(device):
    """All but the last four blocks frozen, their optimizer over what is trained; activations of others not kept."""
    model, cos_sin = build(device), tables(device)
    model.requires_grad_(False)
    for layer in model.layers[-4:]:
        layer.requires_grad_(True)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-5)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, random_tokens(device), cos_sin).backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()


def saves_on_cpu(device):
    """Activations that are kept go to the CPU (torch.autograd.graph.save_on_cpu)."""
    model, cos_sin = build(device), tables(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    for _ in range(STEPS):
        optimizer.zero_grad()
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            loss = loss_of(model, random_tokens(device), cos_sin)
        loss.backward()
        optimizer.step()


def two_optimizers(device):
    """One of the matrices, one of the rest, both with a schedule."""
    model, cos_sin = build(device), tables(device)
    matrices = [p for name, p in model.named_parameters() if p.ndim > 1 and "layers" in name]
    rest = [p for name, p in model.named_parameters() if p.ndim <= 1 or "layers" not in name]
    optimizers = [torch.optim.SGD(matrices, lr=1e-3, momentum=0.9), torch.optim.AdamW(rest, lr=1e-5)]
    for _ in range(STEPS):
        loss = loss_of(model, random_tokens(device), cos_sin)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        for optimizer in optimizers:
            optimizer.zero_grad()


def prefetches(device):
    """Explicit prefetch in both directions, one microbatch of two synchronised by set_is_last_backward."""
    model, cos_sin = build(device), tables(device)
    layers = list(model.layers)
    for i, layer in enumerate(layers):
        layer.set_modules_to_forward_prefetch(layers[i + 1 : i + 3])
        layer.set_modules_to_backward_prefetch(layers[max(0, i - 2) : i][::-1])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    for _ in range(STEPS):
        optimizer.zero_grad()
        for microbatch in range(2):
            last = microbatch == 1
            model.set_is_last_backward(last)
            model.set_requires_gradient_sync(last)
            (loss_of(model, random_tokens(device), cos_sin) / 2).backward()
        optimizer.step()


STYLES = (
    function_step, evaluates, accumulates, offloads, loads, averages, distills, hybrid,
    autocasts, compiles, wraps_halves, trains_some, saves_on_cpu, two_optimizers, prefetches,
)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    styles = {style.__name__.replace("_", "-"): style for style in STYLES}
    parser.add_argument("style", choices=styles)
    style = styles[parser.parse_args().style]
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("cpu:gloo,cuda:nccl", device_id=device)
    style(device)
    torch.cuda.synchronize()
    dist.barrier()
    dist.destroy_process_group()


main()
