"""A loop of accelerate with FSDP2, configured by the variables that `accelerate launch` sets, with its adapter."""

import os
from contextlib import ExitStack

import common
import torch


def configure(parsed, block):
    """accelerate's FullyShardedDataParallelPlugin reads these."""
    os.environ |= {
        "ACCELERATE_USE_FSDP": "true",
        "ACCELERATE_MIXED_PRECISION": "bf16",
        "FSDP_VERSION": "2",
        "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
        "FSDP_TRANSFORMER_CLS_TO_WRAP": block,
        "FSDP_RESHARD_AFTER_FORWARD": str(parsed.reshard).lower(),
        "FSDP_CPU_RAM_EFFICIENT_LOADING": "false",
        "FSDP_STATE_DICT_TYPE": "SHARDED_STATE_DICT",
    }


def main():
    parsed = common.options()
    configure(parsed, "Block")
    from accelerate import Accelerator
    from foreshard import adapters

    accelerator = Accelerator()
    torch.manual_seed(0)
    with accelerator.device:
        model = common.Llama()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    model, optimizer = accelerator.prepare(model, optimizer)
    common.set_prefetch(model.layers, parsed.prefetch)
    with ExitStack() as stack:
        if parsed.setting == "recorded":
            stack.enter_context(adapters.accelerate(accelerator, parsed.recording))
        steps = stack.enter_context(common.Measured(parsed)) if parsed.setting != "recorded" else None
        for _ in range(common.STEPS):
            optimizer.zero_grad()
            tokens = common.batch(accelerator.device)
            accelerator.backward(common.loss_of(model(tokens), tokens))
            optimizer.step()
            if steps is not None:
                steps.step()
    accelerator.wait_for_everyone()
    accelerator.end_training()


if __name__ == "__main__":
    main()
