"""Architectures of Hugging Face transformers that no generator of foreshard knows, trained and recorded: what plans from
recordings are held against.

    torchrun --nproc-per-node 2 tools/record_check/architectures.py --model vit --out OUT --setting recorded

--setting as in the other scripts of this folder: the recording goes to OUT/NAME.rec, what a run measures to
OUT/NAME.SETTING.json. Each block of the model's lists is a unit, the rest the root's. PyTorch 2.11, transformers 5.
"""

import argparse

import common
import torch
import torch.distributed as dist
from foreshard.fake.blocks import blocks_of
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

# Of a decoder: width, feed-forward width, layers, heads, key heads.
DECODER = {
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 12,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "vocab_size": 32768,
}
# name: (model_type, class of the auto model, configuration, its batch, samples)
MODELS = {
    "gemma3": ("gemma3_text", "CausalLM", DECODER | {"head_dim": 128, "sliding_window": 512}, "tokens", 2),
    "phi3": ("phi3", "CausalLM", DECODER | {"pad_token_id": 0}, "tokens", 4),
    "olmo2": ("olmo2", "CausalLM", DECODER, "tokens", 4),
    "llama_tied": ("llama", "CausalLM", DECODER | {"tie_word_embeddings": True}, "tokens", 4),
    "gpt_neox": ("gpt_neox", "CausalLM", DECODER, "tokens", 2),
    "gpt_oss": (
        "gpt_oss",
        "CausalLM",
        DECODER | {"num_hidden_layers": 4, "intermediate_size": 2048, "num_local_experts": 16, "head_dim": 64},
        "tokens",
        1,
    ),
    "bert": ("bert", "MaskedLM", {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16,
                                  "intermediate_size": 4096, "max_position_embeddings": 2048}, "tokens", 4),  # fmt: skip
    "t5": ("t5", "Seq2SeqLM", {"d_model": 1024, "d_ff": 4096, "num_layers": 12, "num_heads": 16, "d_kv": 64,
                               "decoder_start_token_id": 0, "pad_token_id": 0}, "short", 4),  # fmt: skip
    "vit": ("vit", "ImageClassification", {"hidden_size": 1280, "num_hidden_layers": 32, "num_attention_heads": 16,
                                           "intermediate_size": 5120}, "image", 32),  # fmt: skip
    "convnext": ("convnextv2", "ImageClassification", {"depths": [3, 3, 27, 3],
                                                       "hidden_sizes": [352, 704, 1408, 2816]}, "image", 16),  # fmt: skip
    "whisper": ("whisper", "SpeechSeq2Seq", {"d_model": 1280, "encoder_layers": 16, "decoder_layers": 16,
                                             "encoder_attention_heads": 20, "decoder_attention_heads": 20,
                                             "encoder_ffn_dim": 5120, "decoder_ffn_dim": 5120}, "sound", 4),  # fmt: skip
    "mamba": ("mamba", "CausalLM", {"hidden_size": 1024, "num_hidden_layers": 4, "vocab_size": 32768}, "short", 1),
}
LENGTH, SHORT = 1024, 256


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, required=True)
    return common.options(parser, lambda parsed: parsed.model)


def build(name):
    """Parameters on the meta device, buffers as the model computes them."""
    import transformers
    from accelerate import init_empty_weights

    kind, head, config, _, _ = MODELS[name]
    with init_empty_weights(include_buffers=False):
        made = transformers.AutoConfig.for_model(kind, **config)
        model = getattr(transformers, f"AutoModelFor{head}").from_config(made)
    model.config.use_cache = False
    return model.train()


def batch(name, model, device):
    _, _, _, kind, samples = MODELS[name]
    if kind == "image":
        return {"pixel_values": torch.randn(samples, 3, 224, 224, device=device),
                "labels": torch.randint(0, 2, (samples,), device=device)}  # fmt: skip
    length = {"tokens": LENGTH, "short": SHORT, "sound": SHORT}[kind]
    tokens = torch.randint(1, model.config.vocab_size, (samples, length), device=device)
    if kind == "sound":
        return {"input_features": torch.randn(samples, 80, 3000, device=device), "labels": tokens}
    return {"input_ids": tokens, "labels": tokens}


def materialise(model, device):
    """Whole and before fully_shard, so that weights that are tied stay so."""
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    common.materialise(model, device)
    for name, buffer in model.named_buffers():
        buffer.copy_(buffers[name])
    model.tie_weights()


def main():
    parsed = options()
    device = common.start()
    model = build(parsed.model)
    materialise(model, device)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    blocks = list(blocks_of(model))
    for block in blocks:
        fully_shard(block, mp_policy=policy, reshard_after_forward=parsed.reshard)
    fully_shard(model, mp_policy=policy)
    common.set_prefetch(blocks, parsed.prefetch)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-5)
    recording = lambda: common.foreshard.record(parsed.recording, model, optimizer)  # noqa: E731
    with common.session(parsed, recording) as steps:
        for _ in range(common.STEPS):
            optimizer.zero_grad()
            model(**batch(parsed.model, model, device)).loss.backward()
            optimizer.step()
            if steps is not None:
                steps.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
