"""A plain FSDP2 loop: every block a unit, the rest the root's. `python -m foreshard.record` records `command`."""

import common
import torch
import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


def main():
    parsed = common.options()
    device = common.start()
    with torch.device("meta"):
        model = common.Llama()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.layers:
        fully_shard(layer, mp_policy=policy, reshard_after_forward=parsed.reshard)
    fully_shard(model, mp_policy=policy)
    common.materialise(model, device)
    common.set_prefetch(model.layers, parsed.prefetch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    recording = lambda: common.foreshard.record(parsed.recording, model, optimizer)  # noqa: E731
    with common.session(parsed, recording) as steps:
        for _ in range(common.STEPS):
            optimizer.zero_grad()
            tokens = common.batch(device)
            common.loss_of(model(tokens), tokens).backward()
            optimizer.step()
            if steps is not None:
                steps.step()
    dist.barrier()
    dist.destroy_process_group()


main()
