"""A worker's part in a job, with NumPy arrays."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import math
import os
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, Optional, Sequence

import numpy as np

from . import _features, _in_process, _native, _process, _random, _sampling
from .errors import FAILED_PRECONDITION, Error
from .items import EvaluationPiece, MicroBatch, Spans

if TYPE_CHECKING:
    import torch.utils.data

    from .loading import EpochLoader

_GROUPS = {'decay': 1, 'no_decay': 2, 'statistics': 3}

# Where `tributary train`, torchrun, Slurm and Open MPI say which worker of its machine
# a process is.
_LOCAL_RANKS = ('TRIBUTARY_LOCAL_RANK', 'LOCAL_RANK', 'SLURM_LOCALID',
                'OMPI_COMM_WORLD_LOCAL_RANK')

# One of these tells a worker where its servers are.
_LAUNCHERS = ('TRIBUTARY_COORDINATOR', 'MASTER_ADDR', 'SLURM_PROCID',
              'OMPI_COMM_WORLD_RANK')


@dataclass(frozen=True)
class Job:
    """The facts of a job that a program needs.

    Attributes:
        name: name of the job file.
        model: `model.external.name` of the job; empty if its model is built in.
        config: `model.external.config` of the job.
        seed: the number from which all random numbers follow.
        train_samples, evaluation_samples: samples of `data.external`.
        fingerprint: `data.external.fingerprint`, a number for the data.
        batch: samples in the batch of a step.
        micro_batches: parts into which a batch is divided.
        spec: the job as a dict, without default values: the fields of the job file.
    """
    name: str
    model: str
    config: dict[str, Any]
    seed: int
    train_samples: int
    evaluation_samples: int
    fingerprint: int
    batch: int
    micro_batches: int
    spec: dict[str, Any] = field(default_factory=dict)

    @property
    def steps_per_epoch(self) -> int:
        """Number of steps of an epoch, the last of which may have a smaller batch."""
        return (self.train_samples - 1) // self.batch + 1

    @property
    def steps(self) -> int:
        """Number of steps of the job, unless it stops early."""
        if 'steps' in self.spec:
            return int(self.spec['steps'])
        return max(1, math.ceil(float(self.spec['epochs']) * self.steps_per_epoch))

    @property
    def evaluates(self) -> bool:
        """Whether the job evaluates its model."""
        return self.evaluation_samples > 0 and \
            not self.spec.get('evaluation', {}).get('disabled', False)

    def indices(self, step: int, micro_batch: int) -> np.ndarray:
        """Returns the numbers of the samples of any micro-batch, int64, as in
        `MicroBatch.indices`; none if the last batch of an epoch is too short."""
        return _sampling.indices(self.seed, self.train_samples, self.batch,
                                 self.micro_batches, step, micro_batch)

    def random_seed(self, step: int, micro_batch: int) -> int:
        """Returns `MicroBatch.seed` of any micro-batch."""
        return _sampling.random_seed(self.seed, step, micro_batch)

    def _has_samples(self, step: int, micro_batch: int) -> bool:
        _, begin, end = _sampling.places(self.train_samples, self.batch,
                                         self.micro_batches, step, micro_batch)
        return begin < end


@dataclass(frozen=True)
class Parameter:
    """A parameter of the model.

    Attributes:
        name: a name that no other parameter has.
        initial: the initial values, float32, in the parameter's shape. Every worker
            must have the same, so derive them from `Session.job.seed`.
        group: 'decay'; 'no_decay', for no weight decay; or 'statistics', for running
            statistics: in place of a gradient, give the sum over the samples of
            (weight - observed value), of which servers subtract a tenth of the mean.
        learning_rate_factor: the factor by which the job's learning rate is multiplied
            for this parameter, above 0 and at most 1000; 1 for 'statistics'.
        aliases: further names of the parameter, for tied weights. The final model
            contains the parameter under each name.
    """
    name: str
    initial: np.ndarray
    group: str = 'decay'
    learning_rate_factor: float = 1.0
    aliases: tuple[str, ...] = ()


# What the last `connect` of this process has returned.
_process_session: Optional['Session'] = None


class Step:
    """Micro-batches of one training step, or pieces of evaluations.

    Iterate over both; one of them is empty. A step may be only a part of the job's
    step, because other workers compute the rest, and may be repeated if a server is
    lost.

    Attributes:
        number: the number of the training step, from 0; -1 for an evaluation.
    """

    def __init__(self, session: 'Session', handle: int):
        self._session, self._handle = session, handle
        self.number: int = session._library.step_number(handle)

    @property
    def micro_batches(self) -> Iterator[MicroBatch]:
        """The micro-batches that this worker computes, one after another."""
        session, info = self._session, _native.MicroBatchStruct()
        while session._current(self):
            handle = session._library.step_next_micro_batch(self._handle,
                                                            ctypes.byref(info))
            if not handle:
                break
            batch = MicroBatch(session, self, handle, info)
            session._begin(batch)
            with session._random_numbers_of(batch):
                try:
                    yield batch
                finally:
                    session._end_copies()
            session._end(batch)

    @property
    def evaluation(self) -> Iterator[EvaluationPiece]:
        """The pieces of the evaluation data that this worker computes."""
        session, info = self._session, _native.PieceStruct()
        while session._current(self):
            handle = session._library.step_next_piece(self._handle, ctypes.byref(info))
            if not handle:
                break
            piece = EvaluationPiece(session, self, handle, info)
            session._begin(piece)
            yield piece
            session._end(piece)


class Session:
    """A worker's connection to a job; create it with `connect`.

    Iterating yields steps until the job has ended:

        for step in session:
            for batch in step.micro_batches:
                ...
            for piece in step.evaluation:
                ...

    The loop ends with `Error` if this worker or the job has failed, and with
    `Stopped` if it was stopped. Use one thread. A session that is closed early, for
    example by an exception, leaves the job; other workers take over.

    Attributes:
        job: the facts of the job.
        parameters: the parameters, in the order in which they were declared.
        features: the features of the job's tables by name, each a `Feature`.
    """

    def __init__(self, coordinator: Optional[str],
                 thread: Optional[_in_process.WorkerThread] = None):
        self._library = _native.library()
        self._thread = thread  # Of a job in this process.
        self._lock = threading.Lock()  # Keeps close and stop apart.
        self._process = os.getpid()
        self._step: Optional[Step] = None
        self._item = None
        self._model = self._spans = self._loop = None
        self._give_turn = None  # Lets the rule of the program run; see Turn.
        self._on_gpu = False
        self._rank, self._world_size = 0, 1  # Once it is closed.
        self._ended = False  # By end_job.
        self._launched = False  # By `launch`, so that `connect` returns it again.
        self.parameters: list[Parameter] = []
        self._handle: Optional[int] = None
        self._handle = self._connect(coordinator) if thread is None else thread.handle
        self.job = self._read_job()
        self.features = _features.read(self._library, self._handle)
        # What a program should do that ends before the job.
        self._remedy = ('iterate over the session until the loop ends, or leave the job '
                        'with session.close()')
        if thread is None:
            atexit.register(self.close)

    def _connect(self, coordinator: Optional[str]) -> int:
        handle, error = ctypes.c_void_p(), _native.ErrorStruct()
        address = coordinator.encode() if coordinator else None
        first: dict[str, str] = {}

        def connect() -> None:
            self._library.worker_connect(address, ctypes.byref(handle),
                                         ctypes.byref(error))
            if first.setdefault('is', 'connection') == 'interrupt' and handle:
                self._library.worker_free(handle)

        try:
            # On another thread, because Ctrl-C can end only waits of Python itself.
            connecting = threading.Thread(target=connect, daemon=True)
            connecting.start()
            connecting.join()
        except BaseException:
            # The job must not wait for a worker without a session.
            if first.setdefault('is', 'interrupt') == 'connection' and handle:
                self._library.worker_free(handle)
            raise
        if error.code:
            raise _native.error_of(error)
        return handle.value

    def _read_job(self) -> Job:
        job = _native.JobStruct()
        self._library.worker_get_job(self._handle, ctypes.byref(job))
        return Job(job.name.decode(), job.model.decode(), json.loads(job.config or '{}'),
                   job.seed, job.train_samples, job.evaluation_samples, job.fingerprint,
                   job.batch, job.micro_batches, json.loads(job.spec or '{}'))

    @property
    def rank(self) -> int:
        """Number of this worker, from 0. It keeps its rank as long as it takes part, and
        another worker may get the rank of a lost worker."""
        return self._library.worker_rank(self._open()) if self._handle else self._rank

    @property
    def local_rank(self) -> int:
        """Number of this worker among those on its machine, from 0, to choose a GPU:

            model.to(f'cuda:{session.local_rank % torch.cuda.device_count()}')

        It is that of `tributary train`, torchrun, Slurm or Open MPI; 0 if the program was
        started in another way.
        """
        if self._thread is not None:
            return self.rank
        name = next(filter(os.environ.get, _LOCAL_RANKS), None)
        if name is None:
            return 0
        if not os.environ[name].isdecimal():
            raise Error(f'the variable {name} is {os.environ[name]!r}, expected a whole '
                        'number from 0; correct or unset it')
        return int(os.environ[name])

    @property
    def world_size(self) -> int:
        """Number of workers with which the job has begun; others may have joined or
        left. Nothing that decides weights should depend on it."""
        return self._library.worker_workers(self._open()) if self._handle \
            else self._world_size

    @property
    def is_main(self) -> bool:
        """Whether this is the worker with rank 0, which prints and writes files."""
        return self.rank == 0

    def loader(self, loader: 'torch.utils.data.DataLoader', *,
               keys: Optional[Callable[[Any], Mapping[str, Any]]] = None
               ) -> 'EpochLoader':
        """Makes a `DataLoader` of an existing loop read the samples that the job assigns
        to this worker; see `EpochLoader`. Use it with `tributary.Optimizer`."""
        from .loading import EpochLoader
        return EpochLoader(loader, self, keys)

    def use_gpu(self, gpu: int) -> None:
        """Places weights and gradients in the memory of the GPU with this number (in
        CUDA's order).

        Call it before `declare`, if the program computes on that GPU;
        `DistributedDataParallel` does. `weights` and `gradients` are then objects over
        the GPU's memory: make an array of one with `torch.as_tensor(x,
        device=f'cuda:{gpu}')` or, on that GPU, `cupy.asarray(x)`. The worker's own work
        on this memory runs on the CUDA stream `MicroBatch.gpu_stream`; in PyTorch, it is
        `torch.cuda.ExternalStream(batch.gpu_stream, gpu)`. Your stream must wait for it
        before it reads the weights of a micro-batch. It must wait for your stream
        before you call `ready` or `finish`, and before you continue with another
        item, even if the micro-batch was given up. Before you call `report`, wait
        until all weights have been read, and before you close the session, for all your
        work on weights and gradients. Do not write to weights. Functions of this package
        may make the GPU the thread's current device.

        Raises `Error` if the package was built without CUDA, or the GPU cannot be
        used; the worker then logs a warning.
        """
        self._on_gpu = False
        error = _native.ErrorStruct()
        if self._library.worker_use_gpu(self._open(), gpu, ctypes.byref(error)):
            raise _native.error_of(error)
        self._on_gpu = True

    def pin_for_gpu(self, gpu: int) -> None:
        """Pins the memory of weights and gradients, so that copies to and from the GPU
        with this number (in CUDA's order) do not involve the CPU.

        Call it before `declare`, if the program copies `weights` and `gradients` to and
        from a GPU itself. Wait for a copy before
        you call `ready`, `finish` or `report`, and before you continue with another
        item, even if the micro-batch was given up. Child processes, such as those of a
        DataLoader, have no access to `weights` and `gradients` then. If memory cannot
        be pinned, the worker logs a warning, and copies are slower. Raises `Error` if
        CUDA's driver finds no such GPU.
        """
        error = _native.ErrorStruct()
        if self._library.worker_pin_for_gpu(self._open(), gpu, ctypes.byref(error)):
            raise _native.error_of(error)

    def declare(self, parameters: Sequence[Parameter]) -> None:
        """Declares the model's parameters, in the order in which forward uses them.

        Call it once, before the loop; `DistributedDataParallel` does. Raises `Error`,
        naming the parameter, for a wrong declaration, and if another worker of the
        job has declared something else.
        """
        structs = (_native.ParameterStruct * len(parameters))()
        keep = []
        for struct, parameter in zip(structs, parameters):
            initial = np.asarray(parameter.initial)
            if initial.dtype != np.float32:
                raise Error(f'parameter {parameter.name} has dtype {initial.dtype}, '
                            'expected float32')
            if parameter.group not in _GROUPS:
                raise Error(f'parameter {parameter.name} has group '
                            f'{parameter.group!r}, expected one of {list(_GROUPS)}')
            # The library would read 0 as 1.
            if not ctypes.c_float(parameter.learning_rate_factor).value > 0:
                raise Error(f'parameter {parameter.name} has learning_rate_factor '
                            f'{parameter.learning_rate_factor}, expected a number above '
                            '0; leave out parameters that are not trained')
            # Not ascontiguousarray, which makes a scalar a vector.
            values = np.require(initial, requirements='C')
            shape = (ctypes.c_int64 * max(1, values.ndim))(*(values.shape or (1,)))
            keep.append((values, shape))
            struct.name = parameter.name.encode()
            struct.shape, struct.dimensions = shape, len(shape)
            struct.group = _GROUPS[parameter.group]
            struct.initial = values.ctypes.data
            struct.learning_rate_factor = parameter.learning_rate_factor
            aliases = [alias.encode() for alias in parameter.aliases]
            struct.aliases = (ctypes.c_char_p * len(aliases))(*aliases)
            struct.alias_count = len(aliases)
        error = _native.ErrorStruct()
        if self._library.worker_declare(self._open(), structs, len(structs),
                                        ctypes.byref(error)):
            raise _native.error_of(error)
        self.parameters = list(parameters)
        self._spans = Spans([np.shape(parameter.initial) for parameter in parameters],
                            self._on_gpu)

    def __iter__(self) -> Iterator[Step]:
        if not self.parameters:
            raise Error('no parameters are declared: create a '
                        'DistributedDataParallel, or call session.declare')
        if self._thread is not None and self._thread.generators is not None:
            self._thread.generators.leave()
        while not self._ended:
            handle = self._library.worker_next_step(self._open())
            if not handle:
                break
            self._step = Step(self, handle)
            yield self._step
            self._step = None
        if self._ended:
            return
        error = _native.ErrorStruct()
        self._library.worker_status(self._open(), ctypes.byref(error))
        if not error.code and self._model is not None:
            self._model.load_last_weights()
        self.close()
        if error.code:
            raise _native.error_of(error)

    def end_job(self) -> None:
        """Ends the job, for all workers, with the current weights, for example because
        the model no longer improves.

        Call it between two calls of `Optimizer.step`, or in a loop over
        `micro_batches` before `backward`. Returns when the job has ended; loops over
        the session then end, and the module has the last weights. If the job has ended
        before, it does nothing.

        The first worker that calls it decides for all, so the programs should decide
        alike: from the step, the weights and evaluations of all samples, but not from
        the losses of their own samples or the time.

        Raises `Error` in an all-reduce, which also runs the rule of a program, and in
        consistency modes other than 'synchronous', and `Stopped` if a server was lost
        meanwhile: the worker then has to start again, as `tributary train` does.
        """
        if self._handle is None:
            return
        self._check_ending()
        loop, error = self._loop, _native.ErrorStruct()
        if loop is not None:
            if loop._batch is None:
                return
            loop._batch = None
            loop._batches.close()  # Leaves the micro-batch.
        self._library.worker_end_job(self._open(), ctypes.byref(error))
        self._ended = True
        if not error.code and self._model is not None:
            self._model.load_last_weights()
        self.close()
        if error.code:
            raise _native.error_of(error)

    def _check_ending(self) -> None:
        exchange = self.job.spec.get('exchange', {})
        server = exchange.get('parameter_server', {})
        kinds = [*(['all_reduce'] if 'all_reduce' in exchange else []),
                 *server.get('consistency', {})]
        if any(kind != 'synchronous' for kind in kinds):
            # Not INVALID_ARGUMENT, with which the other workers would continue.
            raise Error(f'end_job: a program cannot end a job with {kinds[0]} early: let '
                        'it evaluate, and set stop_when of the job',
                        FAILED_PRECONDITION)

    def announce(self, step: int, number: int,
                 keys: Mapping[str, _features.Keys]) -> None:
        """Requests the rows of keys that the program will probably look up, so that they
        arrive before `EmbeddingBag` or `MicroBatch.look_up` needs them.

        Announce the keys of a micro-batch of this step or of one of the next two, all at
        once. An announcement does not change results. `keys` of `MicroBatchDataset` does
        it for a loop with a `DataLoader`.

        Args:
            step, number: the micro-batch, as in `MicroBatch`.
            keys: the keys of features, by their names: integers of any shape.
        """
        arrays = {name: _features.as_keys(of_name, name) for name, of_name in keys.items()}
        structs = (_native.KeysStruct * len(arrays))(
            *(_features.struct_of(_features.named(self.features, name), array)
              for name, array in arrays.items()))
        self._library.worker_announce(self._open(), step, number, structs, len(structs))

    def stop(self) -> None:
        """Makes this worker leave the job soon: the loop ends with `Stopped`. Any
        thread may call it."""
        with self._lock:
            if self._handle is not None:
                self._library.worker_stop(self._handle)

    def close(self) -> None:
        """Leaves the job. Waits until the connections are closed."""
        # A forked process has a copy of the session and of its lock, but not its threads.
        forked = os.getpid() != self._process
        with contextlib.nullcontext() if forked else self._lock:
            if self._handle is None:
                return
            self._rank, self._world_size = self.rank, self.world_size
            handle, self._handle = self._handle, None
            if forked:
                return
            if self._give_turn is not None:
                # In this order, so that the rule's error is not that of the worker.
                self._library.worker_stop(handle)
                self._give_turn()
            try:
                self._end_copies()
            finally:
                if self._thread is None:
                    self._library.worker_free(handle)

    def __enter__(self) -> 'Session':
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _is_open(self) -> bool:
        return self._handle is not None and os.getpid() == self._process

    def _open(self) -> int:
        if self._handle is None:
            raise Error('the session is closed')
        return self._handle

    def _current(self, step: Step) -> bool:
        """Returns whether `step` may continue; raises for a step of the past."""
        if self._ended:
            return False
        self._open()
        if step is not self._step:
            raise Error(f'step {step.number} has ended: iterate over its micro-batches '
                        'inside the loop over the session')
        return True

    @contextlib.contextmanager
    def _random_numbers_of(self, batch: MicroBatch) -> Iterator[None]:
        """Makes the random numbers that `batch` draws follow from its seed."""
        if self._thread is None or self._thread.generators is None:
            _random.seed_generators(batch.seed)
            yield
            return
        # Workers wait for the weights at the same time.
        batch._open('weights')
        with self._thread.generators.micro_batch(batch.seed):
            yield

    def _seed_generators(self, seed: int) -> None:
        """Seeds the generators with that of the current micro-batch, again."""
        if self._thread is None or self._thread.generators is None:
            _random.seed_generators(seed)
        else:
            self._thread.generators.reseed(seed)

    def _begin(self, item) -> None:
        self._item = item

    def _end(self, item) -> None:
        self._item = None
        if not self._ended:
            item._check_ended()

    def _end_copies(self) -> None:
        """Waits for copies of the model, after which the library may reuse memory."""
        if self._model is not None:
            self._model.end_copies()


def connect(coordinator: Optional[str] = None, *, threads: int = 1,
            deterministic: bool = True) -> Session:
    """Joins a job as a worker, and returns when its servers have sent the job.

    `tributary train JOB --worker-command 'python3 worker.py'` starts the program for
    each worker. With torchrun, Slurm or Open MPI, start it like `tributary worker`.
    In the worker function of `tributary.train(..., in_process=True)`, returns the
    session of the function's thread.

    Seeds the generators of `random`, NumPy and PyTorch with the job's seed, so
    that a module that is created afterwards has the same initial values in every
    worker. Each micro-batch seeds them again (see `MicroBatch.seed`). An exception
    that ends the program is reported as this worker's error; SIGTERM makes the loop
    end with `Stopped`. Freed memory stays with the process, unless variables of the
    environment (MALLOC_...) set malloc up.

    Args:
        coordinator: address of server 0 as HOST:PORT; default: from the environment.
        threads: number of threads with which PyTorch computes, if the program has
            imported it before. All workers should use the same number, because it
            affects the bits of some operations. `--threads` of `tributary train`,
            which divides the machine's cores by default, does not change it.
        deterministic: whether PyTorch uses only deterministic algorithms.

    Raises:
        Error: if the program was not started as a worker, or no server answers
            within a minute.
    """
    global _process_session
    thread = _in_process.current_worker()
    launched = _process_session if thread is None else thread.session
    if launched is not None and launched._launched and launched._is_open():
        return launched
    if thread is not None:
        return _connect_thread(thread, threads, deterministic)
    if coordinator is None and not any(os.environ.get(name) for name in _LAUNCHERS):
        raise Error('this program was not started as a worker of a job: start it with '
                    "`tributary train JOB --worker-command 'python3 PROGRAM'`, pass it "
                    'to `tributary.train(..., in_process=True)` as a function, or pass '
                    'coordinator="HOST:PORT" to connect')
    # First: a program that starts late may learn here that the job is done.
    _process.report_uncaught_errors()
    session = _process_session = Session(coordinator)
    _process.report_early_end(session._is_open, lambda: session._remedy)
    _process.stop_on_signals(session.stop)
    _process.keep_freed_memory()
    _random.prepare_torch(threads, deterministic)
    _random.seed_generators(session.job.seed)
    return session


def _connect_thread(thread: _in_process.WorkerThread, threads: int,
                    deterministic: bool) -> Session:
    if thread.session is not None:
        raise Error('the worker function has called tributary.connect() twice')
    # Until the loop begins, so that all modules have the same initial values.
    if thread.generators is not None:
        thread.generators.enter()
    thread.session = Session(None, thread)
    _random.prepare_torch(threads, deterministic)
    _random.seed_generators(thread.session.job.seed)
    return thread.session
