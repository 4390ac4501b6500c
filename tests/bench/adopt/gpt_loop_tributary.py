"""Trains a small language model on random windows of a text, with a loop over steps."""

import math

import torch
import tributary
from torch import nn
from torch.nn import functional as F

STEPS, BATCH, LENGTH, VOCABULARY = 30, 8, 16, 32


class Block(nn.Module):

    def __init__(self, width, heads):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                 nn.Linear(4 * width, width))

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        y = self.norm1(x)
        x = x + self.attention(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):

    def __init__(self, width=32, heads=2, layers=2):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(LENGTH, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.head = nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        logits = self.head(self.blocks(x))
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def learning_rate(step, peak=0.003, warmup=5):
    if step < warmup:
        return peak * (step + 1) / warmup
    return peak * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (STEPS - warmup)))


def main():
    session = tributary.connect()
    torch.manual_seed(1)
    text = torch.cumsum(torch.randint(0, 3, (4096,)), 0) % VOCABULARY
    accumulated = 4 // session.job.micro_batches

    def get_batch():
        begins = torch.randint(len(text) - LENGTH - 1, (BATCH,))
        x = torch.stack([text[i:i + LENGTH] for i in begins])
        y = torch.stack([text[i + 1:i + 1 + LENGTH] for i in begins])
        return x, y

    model = GPT()
    optimizer = tributary.Optimizer(model, session)
    step = optimizer.next_step
    while step < STEPS:
        for group in optimizer.param_groups:
            group['lr'] = learning_rate(step)
        for _ in range(accumulated):
            x, y = get_batch()
            logits, loss = model(x, y)
            (loss / accumulated).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 10 == 0 and session.is_main:
            print(f'step {step}: loss {loss.item():.4f}')
        step = optimizer.next_step
    if session.is_main:
        torch.save({'model': model.state_dict(), 'step': step}, 'gpt_loop.pt')


if __name__ == '__main__':
    main()
