"""A worker with PyTorch. model.external.config: `mistake`, what goes wrong."""

import sys

import torch
import tributary
from torch import nn


def groups_of(mistake, network):
    weight = network[0].weight
    return {'group option': [{'params': weight, 'lr': 0.1}],
            'group decay': [{'params': weight, 'weight_decay': 0.5}],
            'group factor': [{'params': weight, 'learning_rate_factor': 0}],
            'tiny factor': [{'params': weight, 'learning_rate_factor': 1e-60}],
            'large factor': [{'params': weight, 'learning_rate_factor': 2000}],
            'group twice': [{'params': weight}, {'params': network.parameters()}],
            'group stranger': [{'params': nn.Linear(2, 2).weight}]}.get(mistake, ())


def change(network, mistake):
    if mistake == 'changed':
        network[3] = nn.Linear(4, 2)
    if mistake == 'frozen later':
        network[3].requires_grad_(False)
    if mistake.startswith('loaded'):
        network.load_state_dict({name: tensor * 2 for name, tensor
                                 in network.state_dict().items()})
    if mistake == 'data':
        network[3].weight.data = network[3].weight.data * 2
    if mistake == 'statistics':
        network[1].running_mean.data = network[1].running_mean.data * 2
    if mistake == 'double':
        network.double()


def main():
    session = tributary.connect()
    mistake = session.job.config['mistake']
    network = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(),
                            nn.Linear(4, 2))
    if mistake == 'dtype':
        network[3].to(torch.complex64)
    if mistake == 'momentum':
        network[1].momentum = None
    if mistake == 'frozen':
        network.requires_grad_(False)
    if mistake == 'parameters':
        tributary.DistributedDataParallel(network.parameters(), session)
    model = tributary.DistributedDataParallel(
        network, session, parameter_groups=groups_of(mistake, network))
    if mistake == 'wrapped twice':
        tributary.DistributedDataParallel(network, session)
    if mistake == 'loaded early':
        change(network, mistake)
    if mistake == 'other hook':
        sys.excepthook = lambda kind, error, trace: print(
            f'error: a hook has seen {error}', file=sys.stderr)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    loss_fn = nn.CrossEntropyLoss(reduction='none' if mistake == 'shape' else 'mean')
    for step in session:
        if step.number == 2:
            change(network, mistake)
            if mistake == 'left':
                break
            if mistake == 'exit':
                sys.exit(3)
        for batch in step.micro_batches:
            x = torch.from_numpy(batch.indices).float()[:, None] * torch.ones(3)
            if mistake == 'double':
                x = x.to(network[0].weight.dtype)
            y = torch.from_numpy(batch.indices % 2)
            if mistake == 'scaler':
                # As scaler.scale does, which needs a GPU.
                scaler = torch.cuda.amp.GradScaler()
                scaler._scale = torch.full((), 65536.0)
                batch.backward(loss_fn(model(x), y) * scaler._scale)
            if batch.step < 2:
                batch.backward(loss_fn(model(x), y).mean())
                continue
            loss = loss_fn(model(x), y)
            if mistake == 'forgotten':
                continue
            if mistake == 'plain backward':
                loss.backward()
                continue
            if mistake == 'optimizer':
                loss.backward()
                optimizer.step()
                loss = loss_fn(model(x), y)
            if mistake == 'count below 0':
                batch.backward(loss, count=-1)
            if mistake == 'no tensor':
                batch.backward(loss.item())
            if mistake == 'detached':
                loss = loss.detach()
            if mistake == 'not called':
                batch.number, model._worker._loaded_item = 0, None
            if mistake == 'nan':
                loss = loss * float('nan')
            if mistake in ('exception', 'other hook'):
                raise RuntimeError('a mistake of the program')
            if mistake == 'count':
                batch.backward(loss, count=100)
                continue
            batch.backward(loss)
            if mistake == 'twice':
                batch.backward(loss)


if __name__ == '__main__':
    main()
