#!/usr/bin/env python3
"""Times a training step of GPT-2 under torch.compile, to be set beside ours: `gpu.sh` runs it where PyTorch is installed.

The step is the one that `compile --config examples/configs/gpt2_124m.json --optimizer adam` traces: tied embedding, mean cross-entropy, Adam, parameters
and moments in f32; with bf16 the products are under autocast. Prints one JSON object: seconds of every step, their median, the last loss.

    pip install torch
    scripts/gpu_torch.py --precision bf16
"""
import argparse
import contextlib
import json
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--precision", choices=["f32", "tf32", "bf16"], default="f32")
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--warmup", type=int, default=3)
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--hidden", type=int, default=768)
parser.add_argument("--heads", type=int, default=12)
parser.add_argument("--vocabulary", type=int, default=50257)
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--sequence", type=int, default=1024)
args = parser.parse_args()

L, H, A, V, B, S = args.layers, args.hidden, args.heads, args.vocabulary, args.batch, args.sequence
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.set_float32_matmul_precision("highest" if args.precision == "f32" else "high")
torch.manual_seed(1)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(H), nn.LayerNorm(H)
        self.qkv, self.proj = nn.Linear(H, 3 * H), nn.Linear(H, H)
        self.fc, self.out = nn.Linear(H, 4 * H), nn.Linear(4 * H, H)

    def forward(self, x):
        q, k, v = (u.view(B, S, A, H // A).transpose(1, 2) for u in self.qkv(self.ln1(x)).split(H, -1))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(B, S, H))
        return x + self.out(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(V, H), nn.Embedding(S, H)
        self.h, self.lnf = nn.ModuleList(Layer() for _ in range(L)), nn.LayerNorm(H)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight
        for layer in self.h:
            x = layer(x)
        logits = F.linear(self.lnf(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, V).float(), targets.reshape(-1))


model = Gpt().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=device == "cuda")
compiled = torch.compile(model)
text = torch.randint(0, V, (B, S + 1), device=device)
tokens, targets = text[:, :-1].contiguous(), text[:, 1:].contiguous()
narrow = torch.autocast(device, torch.bfloat16) if args.precision == "bf16" else contextlib.nullcontext()
seconds, loss = [], None
for n in range(args.warmup + args.steps):
    begun = time.perf_counter()
    optimizer.zero_grad(set_to_none=True)
    with narrow:
        loss = compiled(tokens, targets)
    loss.backward()
    optimizer.step()
    loss = loss.item()  # Waits for forward and backward; the update is waited for below.
    if device == "cuda":
        torch.cuda.synchronize()
    if n >= args.warmup:
        seconds.append(time.perf_counter() - begun)

print(json.dumps({
    "framework": "torch", "version": torch.__version__, "device": torch.cuda.get_device_name() if device == "cuda" else "cpu", "precision": args.precision,
    "batch": B, "sequence": S, "median": statistics.median(seconds), "seconds": seconds, "loss": loss,
}))
