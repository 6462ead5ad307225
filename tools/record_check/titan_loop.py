"""A loop shaped like torchtitan's (torchtitan/distributed/fsdp.py): embedding, blocks and the list [norm, output] are
units, the root is empty, gradients are not divided."""

import common
import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard


def main():
    parsed = common.options()
    device = common.start()
    with torch.device("meta"):
        model = common.Llama()
    policy = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False
    )
    fully_shard(model.tok_embeddings, mp_policy=policy, reshard_after_forward=parsed.reshard)
    for layer in model.layers:
        fully_shard(layer, mp_policy=policy, reshard_after_forward=parsed.reshard)
    fully_shard([model.norm, model.output], mp_policy=policy, reshard_after_forward=False)
    fully_shard(model, mp_policy=policy)
    for module in model.modules():
        if isinstance(module, FSDPModule) and hasattr(module, "set_gradient_divide_factor"):
            module.set_gradient_divide_factor(1.0)
    common.materialise(model, device)
    common.set_prefetch(model.layers, parsed.prefetch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    recording = lambda: common.foreshard.record(parsed.recording, model, optimizer)  # noqa: E731
    with common.session(parsed, recording) as steps:
        for _ in range(common.STEPS):
            optimizer.zero_grad()
            tokens = common.batch(device)
            common.loss_of(model(tokens), tokens).backward()
            optimizer.step()
            steps.step()
    dist.barrier()
    dist.destroy_process_group()


main()
