"""fake_models.py OUT [NAME...]: fake recordings of ten architectures of transformers, on a machine without GPUs.

Each NAME (default: all) is recorded in a process of its own and becomes OUT/NAME.workload.json, with OUT/NAME.log; a
line for each, and OUT/models.json, say which worked and why the others did not. Needs PyTorch 2.6 or later and
transformers 4.50 or later. With FORESHARD set to the program, each workload is planned too. Environment: WORLD (ranks,
default 8), LIMIT (seconds a model, default 300). Configurations are small, but llama-8b's, which is the real one, and
those of two models that were recorded on GPUs (hf_qwen3, hf_gpt2), which need accelerate too.
"""

import json
import os
import subprocess
import sys
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "traces/pytorch/recorder"))

# Of a decoder: width, feed-forward width, layers, heads, key heads.
SMALL = {
    "hidden_size": 512,
    "intermediate_size": 1536,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 8192,
}
# name: (model_type, class of the auto model, configuration, how its batch is made)
MODELS = {
    "llama": ("llama", "CausalLM", SMALL, "tokens"),
    "llama-8b": (
        "llama",
        "CausalLM",
        {
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "vocab_size": 128256,
        },
        "tokens",
    ),
    "qwen3": ("qwen3", "CausalLM", SMALL | {"head_dim": 64}, "tokens"),
    "mistral": ("mistral", "CausalLM", SMALL | {"sliding_window": None}, "tokens"),
    "gemma": ("gemma", "CausalLM", SMALL | {"head_dim": 64}, "tokens"),
    "gpt2": ("gpt2", "CausalLM", {"n_embd": 512, "n_layer": 4, "n_head": 8, "vocab_size": 8192}, "tokens"),
    "opt": (
        "opt",
        "CausalLM",
        {
            "hidden_size": 512,
            "ffn_dim": 2048,
            "num_hidden_layers": 4,
            "num_attention_heads": 8,
            "vocab_size": 8192,
            "word_embed_proj_dim": 512,
        },
        "tokens",
    ),
    "gpt_neox": (
        "gpt_neox",
        "CausalLM",
        {
            "hidden_size": 512,
            "intermediate_size": 2048,
            "num_hidden_layers": 4,
            "num_attention_heads": 8,
            "vocab_size": 8192,
        },
        "tokens",
    ),
    "mixtral": (
        "mixtral",
        "CausalLM",
        SMALL | {"num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": None},
        "tokens",
    ),
    "t5": (
        "t5",
        "Seq2SeqLM",
        {
            "d_model": 512,
            "d_ff": 1536,
            "num_layers": 4,
            "num_heads": 8,
            "d_kv": 64,
            "vocab_size": 8192,
            "decoder_start_token_id": 0,
            "pad_token_id": 0,
        },
        "tokens",
    ),
    "llava": (
        "llava",
        "ImageTextToText",
        {
            "text_config": {"model_type": "llama", **SMALL},
            "vision_config": {
                "model_type": "clip_vision_model",
                "hidden_size": 256,
                "intermediate_size": 1024,
                "num_hidden_layers": 4,
                "num_attention_heads": 4,
                "image_size": 112,
                "patch_size": 14,
            },
            "image_token_index": 8000,
            "image_token_id": 8000,
        },
        "image",
    ),
}
BATCH, LENGTH = 2, 512
# Two that were recorded on GPUs, trained as there: 4 ranks, 2 × 1024 tokens, the root's resharding given. Their plans
# with --root-reshard-explicit are to be held against those recordings' peaks.
REFERENCES = {
    "hf_qwen3": {
        "model_type": "qwen3",
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151936,
        "tie_word_embeddings": False,
    },
    "hf_gpt2": {
        "model_type": "gpt2",
        "n_embd": 1600,
        "n_layer": 48,
        "n_head": 25,
        "n_positions": 1024,
        "vocab_size": 50257,
        "tie_word_embeddings": False,
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
    },
}


def build(name):
    """On meta tensors: nothing has to be initialised."""
    import torch
    import transformers

    kind, head, config, _ = MODELS[name]
    made = transformers.AutoConfig.for_model(kind, **config)
    auto = getattr(transformers, f"AutoModelFor{head}")
    options = {"attn_implementation": "sdpa"}
    if kind == "mixtral" and int(transformers.__version__.split(".")[0]) >= 5:
        options["experts_implementation"] = "grouped_mm"  # without sizes that depend on the routing
    with torch.device("meta"):
        model = auto.from_config(made, **options)
    model.config.use_cache = False
    return model.train()


def batch(name, model):
    import torch

    tokens = torch.randint(0, 8000, (BATCH, LENGTH), device="cuda")
    inputs = {"input_ids": tokens, "labels": tokens}
    if MODELS[name][3] == "image":
        vision = model.config.vision_config
        size = vision.image_size
        inputs["pixel_values"] = torch.randn((BATCH, 3, size, size), device="cuda", dtype=torch.bfloat16)
        patches = (size // vision.patch_size) ** 2
        # Real on the CPU first: where images go has to be known.
        ids = torch.randint(0, 7999, (BATCH, LENGTH))
        ids[:, :patches] = model.config.image_token_id
        inputs["input_ids"] = inputs["labels"] = ids.to("cuda")
    return inputs


def record(name, out):
    import foreshard
    import torch
    from foreshard.fake import shard_blocks
    from torch.distributed.fsdp import MixedPrecisionPolicy

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    path = Path(out) / f"{name}.workload.json"
    with foreshard.record_fake(path, world_size=int(os.environ.get("WORLD", "8"))) as fake:
        model = shard_blocks(build(name), policy)
        model.to_empty(device="cuda")
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
        while not fake.done:
            optimizer.zero_grad()
            model(**batch(name, model), use_cache=False).loss.backward()
            optimizer.step()
    step = fake.workload["steps"][-1]
    units = len(fake.workload["units"])
    return f"{units} units, {len(step)} ops a step"


def reference_model(config):
    """A causal model whose forward gives its loss: parameters on "meta", buffers on the CPU, as accelerate makes it."""
    import torch
    import transformers
    from accelerate import init_empty_weights

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            made = transformers.AutoConfig.for_model(**config)
            with init_empty_weights(include_buffers=False):
                self.lm = transformers.AutoModelForCausalLM.from_config(made, attn_implementation="sdpa")
            self.lm.config.use_cache = False

        def forward(self, tokens):
            return self.lm(input_ids=tokens, labels=tokens, use_cache=False).loss

    return Model()


def record_reference(name, out):
    import foreshard
    import torch
    from foreshard.fake import shard_blocks
    from torch.distributed.fsdp import MixedPrecisionPolicy

    config = REFERENCES[name]
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    with foreshard.record_fake(Path(out) / f"{name}.workload.json", world_size=4) as fake:
        torch.distributed.barrier()
        model = shard_blocks(reference_model(config), policy, reshard_after_forward=True)
        buffers = {key: buffer.detach().clone() for key, buffer in model.named_buffers()}
        model.to_empty(device="cuda")
        for key, buffer in model.named_buffers():
            buffer.copy_(buffers[key])
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.02)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-5)

        def step():
            optimizer.zero_grad()
            x = (torch.randint(0, config["vocab_size"], (2, 1024), device="cuda"),)
            loss = model(*x)
            loss.backward()
            optimizer.step()
            return loss

        while not fake.done:
            step()
    return f"{len(fake.workload['units'])} units, {len(fake.workload['steps'][-1])} ops a step"


def planned(path):
    """Peak and time of a plan, where FORESHARD names the program."""
    program = os.environ.get("FORESHARD")
    if not program:
        return ""
    command = [program, "plan", path, "--machine", "h200", "--quiet", "--root-reshard-explicit"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return f"plan failed: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else done.returncode}"
    lines = [line.split() for line in done.stdout.splitlines()]
    kept = [" ".join(words) for words in lines if words[:1] == ["peak"] or words[:2] == ["step", "time"]]
    return ", ".join(kept)


def one(name, out):
    """In a child: the last line says how it went."""
    try:
        print("ok:", record_reference(name, out) if name in REFERENCES else record(name, out))
        return 0
    except Exception as error:
        traceback.print_exc()
        print("failed:", f"{type(error).__name__}: {error}".splitlines()[0][:300])
        return 1


def main():
    out = sys.argv[1]
    Path(out).mkdir(parents=True, exist_ok=True)
    if sys.argv[2:3] == ["--one"]:
        sys.exit(one(sys.argv[3], out))
    rows = []
    for name in sys.argv[2:] or [*MODELS, *REFERENCES]:
        begin = time.time()
        path = Path(out) / f"{name}.workload.json"
        path.unlink(missing_ok=True)
        try:
            done = subprocess.run(
                [sys.executable, "-W", "ignore", __file__, out, "--one", name],
                capture_output=True,
                text=True,
                timeout=float(os.environ.get("LIMIT", "300")),
            )
            Path(out, f"{name}.log").write_text(done.stdout + done.stderr)
            last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else f"failed: exit {done.returncode}"
        except subprocess.TimeoutExpired:
            last = "failed: over the time limit"
        if path.exists():
            last += "; " + planned(str(path)) if os.environ.get("FORESHARD") else ""
        rows.append((name, f"{time.time() - begin:.0f} s", last))
        print(f"{rows[-1][0]:10} {rows[-1][1]:>6}  {rows[-1][2]}", flush=True)
    worked = sum(last.startswith("ok") for _, _, last in rows)
    table = [dict(zip(("name", "time", "result"), row)) for row in rows]
    Path(out, "models.json").write_text(json.dumps(table, indent=1))
    print(f"{worked} of {len(rows)} recorded")
    sys.exit(worked < len(rows))


main()
