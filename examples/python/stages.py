"""The layers that one process of a group computes: a stage of a pipeline (GPipe)."""
import torch
from torch import distributed, nn

PIECES = 4  # Parts of a micro-batch, which several processes compute at the same time.


class Stage:
    def __init__(self, network, sample):
        self.rank, processes = distributed.get_rank(), distributed.get_world_size()
        cuts = [len(network) * i // processes for i in range(processes + 1)]
        parts = [network[begin:end] for begin, end in zip(cuts, cuts[1:])]
        self.owners = [i for i, part in enumerate(parts) for _ in part.parameters()]
        self.layers, self.last = parts[self.rank], processes - 1
        self.shape = network[:cuts[self.rank]](sample).shape[1:]

    def compute(self, x, y, train, weights=(), gradients=()):
        """Returns the sum of the losses and the number of correct answers. Process 0 has
        the weights of all layers, and memory for their gradients."""
        torch.set_grad_enabled(train)
        self.layers.zero_grad()
        self.pass_weights(weights)
        sums, passed = torch.zeros(2, dtype=torch.float64), []
        for x, y in zip(x.chunk(PIECES), y.chunk(PIECES)):
            if self.rank > 0:
                x = torch.empty(len(x), *self.shape, requires_grad=train)
                distributed.recv(x.detach(), self.rank - 1)
            output = self.layers(x)
            if self.rank < self.last:
                distributed.send(output.detach(), self.rank + 1)
            else:
                sums[1] += (output.argmax(dim=1) == y).sum()
                output = nn.functional.cross_entropy(output, y, reduction='sum')
                sums[0] += output.item()
            passed.append((x, output))
        for x, output in passed if train else ():
            gradient = torch.empty_like(output) if self.rank < self.last else None
            if self.rank < self.last:
                distributed.recv(gradient, self.rank + 1)
            output.backward(gradient)
            if self.rank > 0:
                distributed.send(x.grad, self.rank - 1)
        if train:
            self.pass_gradients(gradients)
        distributed.broadcast(sums, self.last)
        return sums

    def pass_weights(self, weights):
        own = iter(self.layers.parameters())
        for owner, values in zip(self.owners, map(torch.tensor, weights)):
            next(own).data.copy_(values) if owner == 0 else distributed.send(values, owner)
        for parameter in own:  # In the other processes.
            distributed.recv(parameter.data, 0)

    def pass_gradients(self, gradients):
        own = iter([parameter.grad for parameter in self.layers.parameters()])
        for owner, memory in zip(self.owners, map(torch.from_numpy, gradients)):
            memory.copy_(next(own)) if owner == 0 else distributed.recv(memory, owner)
        for gradient in own:
            distributed.send(gradient, 0)
