#!/usr/bin/env python3
"""Steps of GPT-2 in PyTorch, for comparison with benchmark_cuda: the same sizes, bf16 autocast over f32 weights, compiled,
scaled_dot_product_attention, fused AdamW, the gradient's norm clipped to 1, the output layer tied to the embedding, no dropout.

Without PyTorch, or without a GPU, it says so and ends with 0. --device cpu is for a look whether the script works.
"""
import argparse
import statistics
import sys
import time

try:
    import torch
    import torch.nn.functional as functional
    from torch import nn
except ImportError:
    print("PyTorch: not installed here; nothing was measured")
    sys.exit(0)


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(hidden)
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.out = nn.Linear(hidden, hidden)
        self.norm2 = nn.LayerNorm(hidden)
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        samples, positions, hidden = x.shape
        q, k, v = (part.view(samples, positions, self.heads, hidden // self.heads).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).split(hidden, dim=2))
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(samples, positions, hidden))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, layers, hidden, heads, vocabulary, positions):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, hidden)
        self.places = nn.Embedding(positions, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)
        for table in (self.tokens, self.places):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.places.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = functional.linear(self.norm(x), self.tokens.weight)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (("layers", 12), ("hidden", 768), ("heads", 12), ("vocabulary", 50304), ("samples", 16), ("positions", 1024),
                        ("steps", 20)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    given = parser.parse_args()
    if given.device == "cuda" and not torch.cuda.is_available():
        print("PyTorch: sees no GPU; nothing was measured")
        return
    on_gpu = given.device == "cuda"

    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    model = GPT2(given.layers, given.hidden, given.heads, given.vocabulary, given.positions).to(given.device)
    update = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=on_gpu)
    batch = [torch.randint(given.vocabulary, (given.samples, given.positions), device=given.device) for _ in range(2)]
    forward = model if given.eager else torch.compile(model)

    def step():
        with torch.autocast(given.device, dtype=torch.bfloat16):
            loss = forward(*batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        update.step()
        update.zero_grad(set_to_none=True)
        return loss.item()  # as a trainer reads it: the step has ended

    for _ in range(5):
        step()
    times = []
    for _ in range(given.steps):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    seconds = statistics.median(times)
    most = torch.cuda.max_memory_reserved() / 2**20 if on_gpu else 0
    print(f"PyTorch {torch.__version__}{', eager' if given.eager else ', compiled'}: {given.layers} layers of {given.hidden}, "
          f"batch {given.samples} x {given.positions}: step {1e3 * seconds:.2f} ms, "
          f"{given.samples * given.positions / seconds:.0f} tokens/s, {most:.0f} MiB reserved")


main()
