"""Uses tables wrongly; the variable MISTAKE says how. The job is that of embedding_test."""

import os

import torch
import tributary
from torch import nn

session = tributary.connect()
mistake = os.environ['MISTAKE']
if mistake == 'feature':
    tributary.EmbeddingBag(session, 'films')
if mistake == 'mode':
    tributary.EmbeddingBag(session, 'tags', mode='mean')
if mistake == 'pooling':
    tributary.Embedding(session, 'watched')
if mistake == 'bag':
    tributary.EmbeddingBag(session, 'shown')
tags = tributary.EmbeddingBag(session, 'tags', mode='sum')
watched = tributary.EmbeddingBag(session, 'watched')
model = tributary.DistributedDataParallel(nn.Linear(1, 1), session)
if mistake == 'outside':
    tags(torch.tensor([[1]]))
for step in session:
    for batch in step.micro_batches:
        if mistake == 'type':
            tags(torch.tensor([[1.0]]))
        watched(torch.tensor([1, 2]), torch.tensor([1]))
