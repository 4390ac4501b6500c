"""A loop over a DataLoader, and how it ends. Variables: END_AFTER, the number of epochs
after which the program ends the job; FAILS, the kind of the exception of its
evaluation; KILLS, a folder with the pipes "reached", "stopped" and "waits": two workers
wait until the job has ended when this server is killed."""

import os
import signal
import threading

import torch
import tributary
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def signal_server(number):
    launcher = os.getppid()
    with open(f'/proc/{launcher}/task/{launcher}/children', encoding='utf-8') as file:
        children = file.read().split()
    server, = (int(child) for child in children if is_server(child))
    os.kill(server, number)


def is_server(process):
    with open(f'/proc/{process}/cmdline', encoding='utf-8') as file:
        return '\0server\0' in file.read()


def open_pipe(name, mode):
    """Waits until the other worker opens the other end."""
    open(os.path.join(os.environ['KILLS'], name), mode, encoding='utf-8').close()


def kill_when_both_wait():
    open_pipe('waits', 'r')
    os.rename(os.environ['KILLS'], os.environ['KILLS'] + ' done')
    signal_server(signal.SIGKILL)


def prepare_kill(rank):
    """The server, which is stopped, cannot end the job before it is killed."""
    if rank == 0:
        open_pipe('reached', 'r')
        signal_server(signal.SIGSTOP)
        threading.Thread(target=kill_when_both_wait).start()
        open_pipe('stopped', 'w')
    else:
        open_pipe('reached', 'w')
        open_pipe('stopped', 'r')
        threading.Thread(target=open_pipe, args=('waits', 'w')).start()


def main():
    session = tributary.connect()
    network = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    network[2].bias.requires_grad_(False)
    x = torch.arange(64.).reshape(32, 2).sin()
    y = x.sum(dim=1, keepdim=True)

    def evaluate(piece):
        if os.environ.get('FAILS'):
            raise {'usage': tributary.Error, 'crash': RuntimeError}[os.environ['FAILS']](
                'no metric')
        error = (network(x[piece.indices]) - y[piece.indices]).square().sum()
        piece.report(loss_sum=error)

    optimizer = tributary.Optimizer(network, session, evaluate=evaluate)
    loader = session.loader(DataLoader(TensorDataset(x, y), batch_size=2, shuffle=True))
    for epoch in range(4):
        for a, b in loader:
            optimizer.zero_grad()
            (network(a) - b).square().mean().backward()
            optimizer.step()
        if epoch + 1 == int(os.environ.get('END_AFTER', 0)):
            if os.path.exists(os.environ.get('KILLS', '')):
                prepare_kill(session.rank)
            session.end_job()
    assert optimizer.done
    print('the module has', network[0].weight.flatten().tolist())


if __name__ == '__main__':
    main()
