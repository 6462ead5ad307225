"""A causal language model of Hugging Face transformers from its config.json, each decoder block a unit, the rest the
root's: what `foreshard plan CONFIG` plans, recorded (docs/models_hf.md).

    torchrun --nproc-per-node 4 tools/record_check/hf_model.py --config CONFIG --out OUT --setting recorded

--setting as in the other scripts of this folder: the recording goes to OUT/NAME.rec, what a plain run measures to
OUT/NAME.SETTING.json, with NAME the configuration's file name. PyTorch 2.11, transformers 5.
"""

import argparse
from pathlib import Path

import common
import torch
import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, required=True, help="config.json of the model")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--seq", type=int, default=2048)
    return common.options(parser, lambda parsed: parsed.config.stem)


def build(path):
    """Parameters on the meta device, buffers (rotary frequencies) as the model computes them."""
    from accelerate import init_empty_weights
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(path)
    with init_empty_weights(include_buffers=False):
        model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    model.config.use_cache = False
    return model.train(), config.vocab_size


def materialise(model, device, fill=common.materialise):
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    fill(model, device)
    for name, buffer in model.named_buffers():
        buffer.copy_(buffers[name])


def train(model, vocabulary, parsed, device, optimizer, steps):
    for _ in range(common.STEPS):
        optimizer.zero_grad()
        tokens = torch.randint(0, vocabulary, (parsed.batch, parsed.seq), device=device)
        model(input_ids=tokens, labels=tokens, use_cache=False).loss.backward()
        optimizer.step()
        if steps is not None:
            steps.step()


def main():
    parsed = options()
    device = common.start()
    model, vocabulary = build(parsed.config)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    blocks = model.transformer.h if hasattr(model, "transformer") else model.model.layers
    for block in blocks:
        fully_shard(block, mp_policy=policy, reshard_after_forward=parsed.reshard)
    fully_shard(model, mp_policy=policy)
    materialise(model, device)
    common.set_prefetch(blocks, parsed.prefetch)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-5)
    recording = lambda: common.foreshard.record(parsed.recording, model, optimizer)  # noqa: E731
    with common.session(parsed, recording) as steps:
        train(model, vocabulary, parsed, device, optimizer, steps)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
