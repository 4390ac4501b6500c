"""A stand-in for CUDA that runs copies as late as CUDA may."""

import torch


class Stream:

    def __init__(self, name):
        self.name = name
        self.tasks = []  # Not run yet, in order.
        self.waits = 0  # Calls of Event.synchronize.


class Event:
    """Follows the first `count` tasks that a stream ran since its creation."""

    def __init__(self, stream, tasks):
        self.stream, self.tasks = stream, tasks

    def query(self):
        return not any(task in self.stream.tasks for task in self.tasks)

    def synchronize(self):
        self.stream.waits += 1
        while not self.query():
            self.stream.tasks.pop(0)()


class LateCopies:
    """A `Backend` without a device. What the current stream computes is complete at
    once; its copies run at once, too, because later work of the stream reads them.
    Copies of other streams run when something waits for them."""

    def __init__(self):
        self.current = Stream('current')
        self.streams = []  # Results of new_stream.
        self.orders = []  # Names of the streams in calls of order.

    def new_stream(self, device):
        self.streams.append(Stream('new'))
        return self.streams[-1]

    def current_stream(self, device):
        return self.current

    def copy(self, stream, to, source):
        if stream is self.current:
            to.copy_(source)
            return Event(stream, [])
        # CUDA reads the source late, but its memory is not reused before.
        stream.tasks.append(lambda: to.copy_(source))
        return Event(stream, list(stream.tasks))

    def order(self, stream, after):
        self.orders.append((stream.name, after.name))

    def library_stream(self, address, device):
        return Stream(address)
