"""The Llama of the checks, as Hugging Face's and Meta's have it, sharded with FSDP2 block by block."""

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

SIZES = {
    "tiny": {"dim": 1024, "heads": 16, "kv_heads": 4, "ffn": 2816, "layers": 8, "vocab": 32000},
    "1b": {"dim": 2048, "heads": 32, "kv_heads": 8, "ffn": 8192, "layers": 16, "vocab": 128256},
    "3b": {"dim": 3072, "heads": 24, "kv_heads": 8, "ffn": 8192, "layers": 28, "vocab": 128256},
    "8b": {"dim": 4096, "heads": 32, "kv_heads": 8, "ffn": 14336, "layers": 32, "vocab": 128256},
}


def rotate(x, cos, sin):
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).type_as(x)


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        dim, self.head = size["dim"], size["dim"] // size["heads"]
        self.attn_norm = nn.RMSNorm(dim)
        self.wq = nn.Linear(dim, size["heads"] * self.head, bias=False)
        self.wk = nn.Linear(dim, size["kv_heads"] * self.head, bias=False)
        self.wv = nn.Linear(dim, size["kv_heads"] * self.head, bias=False)
        self.wo = nn.Linear(size["heads"] * self.head, dim, bias=False)
        self.ffn_norm = nn.RMSNorm(dim)
        self.w1 = nn.Linear(dim, size["ffn"], bias=False)
        self.w3 = nn.Linear(dim, size["ffn"], bias=False)
        self.w2 = nn.Linear(size["ffn"], dim, bias=False)

    def forward(self, x, cos, sin):
        b, s, _ = x.shape
        h = self.attn_norm(x)
        q, k, v = (w(h).view(b, s, -1, self.head).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.wo(o.transpose(1, 2).reshape(b, s, -1))
        h = self.ffn_norm(x)
        return x + self.w2(F.silu(self.w1(h)) * self.w3(h))


class Llama(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        self.tok = nn.Embedding(size["vocab"], size["dim"])
        self.layers = nn.ModuleList([Block(size) for _ in range(size["layers"])])
        self.norm = nn.RMSNorm(size["dim"])
        self.head = nn.Linear(size["dim"], size["vocab"], bias=False)

    def forward(self, tokens, cos, sin):
        x = self.tok(tokens)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.head(self.norm(x))


def sharded(name, device, *, reshard, compiled):
    """The Llama of this name: float32 parameters, bfloat16 compute, float32 reduction, weights from seed 0."""
    with torch.device("meta"):
        model = Llama(SIZES[name])
    if compiled:
        for layer in model.layers:
            layer.compile(dynamic=False)
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
    fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
    model.to_empty(device=device)
    torch.manual_seed(0)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.02)
    return model, mesh


LEARNT = 256  # of the vocabulary's tokens, those that batches have: few enough to be learnt in 200 steps


class Batches:
    """Lines of tokens that count up, and the loss of predicting the next one."""

    def __init__(self, size, batch, seq, device, seed):
        self.shape, self.device = (batch, seq), device
        self.generator = torch.Generator(device).manual_seed(seed)
        head = size["dim"] // size["heads"]
        frequency = 1.0 / (500000.0 ** (torch.arange(0, head, 2, device=device).float() / head))
        angle = torch.outer(torch.arange(seq, device=device).float(), frequency)
        self.cos, self.sin = angle.cos(), angle.sin()

    def next(self):
        """Each line counts up from a random token by a random step."""
        first = torch.randint(0, LEARNT, (self.shape[0], 1), device=self.device, generator=self.generator)
        step = torch.randint(1, 8, (self.shape[0], 1), device=self.device, generator=self.generator)
        return (first + step * torch.arange(self.shape[1], device=self.device)) % LEARNT

    def loss(self, model, tokens):
        logits = model(tokens, self.cos, self.sin)
        return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())
