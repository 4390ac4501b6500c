"""A small GPT over bytes, trained by Tributary with PyTorch on a text file:

    tributary train text.textproto --worker-command 'python3 text.py'
"""
import numpy as np
import torch
import tributary
from torch import nn


class GPT(nn.Module):
    """Bytes [samples, context] -> logits of the next bytes."""

    def __init__(self, context, width, heads, layers):
        super().__init__()
        self.tokens = nn.Embedding(256, width)
        self.places = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 4 * width, batch_first=True)
            for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, 256, bias=False)
        self.output.weight = self.tokens.weight  # Tied.
        nn.init.normal_(self.tokens.weight, std=0.02)
        self.register_buffer('mask', torch.full((context, context), -torch.inf).triu(1))

    def forward(self, text):
        x = self.tokens(text) + self.places.weight
        for block in self.blocks:
            x = block(x, src_mask=self.mask)
        return self.output(self.norm(x))


def main():
    session = tributary.connect()
    config, context = session.job.config, session.job.config['context']
    text = torch.from_numpy(np.fromfile(config['path'], np.uint8).astype(np.int64))
    # Sample i is the i-th piece of the text; the last ones are for the evaluation.
    pieces = text.unfold(0, context + 1, context)
    network = GPT(context, config['width'], config['heads'], config['layers'])
    model = tributary.DistributedDataParallel(network, session, no_decay='1d')

    def predict(sequences):  # Returns the logits and the targets of all tokens.
        return model(sequences[:, :-1]).flatten(0, 1), sequences[:, 1:].flatten()

    loss_fn = nn.CrossEntropyLoss()
    for step in session:
        for batch in step.micro_batches:
            output, target = predict(pieces[batch.indices])
            # The loss is a mean over tokens.
            batch.backward(loss_fn(output, target), count=len(target))
        for piece in step.evaluation:
            output, target = predict(pieces[piece.indices + session.job.train_samples])
            piece.report(loss_sum=loss_fn(output, target) * len(target),
                         correct=(output.argmax(dim=1) == target).sum(),
                         count=len(target))


if __name__ == '__main__':
    main()
