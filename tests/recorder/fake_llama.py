"""The plain Llama of docs/models.md and the reference runs, as core/models/llama.cpp writes its program."""

import torch
from torch import nn
from torch.nn import functional as F

import fused_rms_norm

fused_rms_norm.install()


def rope(x, cos, sin):
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).type_as(x)


class Block(nn.Module):
    def __init__(self, dim, heads, kv_heads, ffn):
        super().__init__()
        self.head_dim = dim // heads
        self.attn_norm = nn.RMSNorm(dim)
        self.wq = nn.Linear(dim, heads * self.head_dim, bias=False)
        self.wk = nn.Linear(dim, kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(dim, kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(heads * self.head_dim, dim, bias=False)
        self.ffn_norm = nn.RMSNorm(dim)
        self.w1 = nn.Linear(dim, ffn, bias=False)
        self.w3 = nn.Linear(dim, ffn, bias=False)
        self.w2 = nn.Linear(ffn, dim, bias=False)

    def forward(self, x, cos, sin):
        b, s, _ = x.shape
        h = self.attn_norm(x)
        q = self.wq(h).view(b, s, -1, self.head_dim).transpose(1, 2)
        k = self.wk(h).view(b, s, -1, self.head_dim).transpose(1, 2)
        v = self.wv(h).view(b, s, -1, self.head_dim).transpose(1, 2)
        q, k = rope(q, cos, sin), rope(k, cos, sin)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.wo(o.transpose(1, 2).reshape(b, s, -1))
        h = self.ffn_norm(x)
        return x + self.w2(F.silu(self.w1(h)) * self.w3(h))


class Llama(nn.Module):
    def __init__(self, dim=1024, heads=16, kv_heads=4, ffn=2816, layers=8, vocab=32000):
        super().__init__()
        self.head_dim = dim // heads
        self.vocab = vocab
        self.tok = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList([Block(dim, heads, kv_heads, ffn) for _ in range(layers)])
        self.norm = nn.RMSNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, tokens, cos, sin):
        x = self.tok(tokens)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.head(self.norm(x))


def rotary_tables(model, length):
    """cos and sin, and what the reference script keeps by its names."""
    frequencies = 1.0 / (500000.0 ** (torch.arange(0, model.head_dim, 2, device="cuda").float() / model.head_dim))
    angles = torch.outer(torch.arange(length, device="cuda").float(), frequencies)
    return (angles.cos(), angles.sin()), (frequencies, angles)


def loss_of(logits):
    rows = logits.flatten(0, 1).float()
    return F.cross_entropy(rows, torch.zeros(rows.shape[0], dtype=torch.long, device="cuda"))


def train_step(model, optimizer, tables, batch, length):
    """Returns the loss, as the reference runs' step does."""
    optimizer.zero_grad()
    tokens = torch.randint(0, model.vocab, (batch, length), device="cuda")
    loss = loss_of(model(tokens, *tables))  # the logits have no name: they go before the backward pass
    loss.backward()
    optimizer.step()
    return loss
