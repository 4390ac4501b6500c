"""The functions of tributary/c_api.h, by ctypes, which releases Python's global
interpreter lock while a function runs."""

from __future__ import annotations

import ctypes
import os
import re
from ctypes import (CFUNCTYPE, POINTER, c_char, c_char_p, c_double, c_float, c_int32, c_int64,
                    c_size_t, c_uint64, c_void_p)

from .errors import CANCELLED, Error, Stopped

API_VERSION = 3
_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), '_native')


class ErrorStruct(ctypes.Structure):
    _fields_ = [('code', c_int32), ('message', c_char * 2044)]


class JobStruct(ctypes.Structure):
    _fields_ = [('name', c_char_p), ('model', c_char_p), ('config', c_char_p),
                ('seed', c_uint64), ('train_samples', c_int64),
                ('evaluation_samples', c_int64), ('fingerprint', c_uint64),
                ('batch', c_int64), ('micro_batches', c_int64), ('spec', c_char_p)]


class ParameterStruct(ctypes.Structure):
    _fields_ = [('name', c_char_p), ('shape', POINTER(c_int64)),
                ('dimensions', c_int32), ('group', c_int32), ('initial', c_void_p),
                ('learning_rate_factor', c_float), ('aliases', POINTER(c_char_p)),
                ('alias_count', c_int32)]


class UntrainedStruct(ctypes.Structure):
    _fields_ = [('name', c_char_p), ('dtype', c_char_p), ('shape', POINTER(c_int64)),
                ('dimensions', c_int32), ('data', c_void_p), ('bytes', c_size_t)]


class FeatureStruct(ctypes.Structure):
    _fields_ = [('name', c_char_p), ('table', c_char_p), ('dim', c_int64),
                ('pooling', c_int32)]


class KeysStruct(ctypes.Structure):
    _fields_ = [('feature', c_int32), ('keys', c_void_p), ('key_count', c_size_t),
                ('ends', c_void_p), ('bags', c_size_t)]


COLLECT_CALLBACK = CFUNCTYPE(None, c_void_p, c_int64)


class MicroBatchStruct(ctypes.Structure):
    _fields_ = [('step', c_int64), ('number', c_int64), ('epoch', c_int64),
                ('indexes', c_void_p), ('samples', c_int64),
                ('random_seed', c_uint64)]


class PieceStruct(ctypes.Structure):
    _fields_ = [('begin', c_int64), ('end', c_int64)]


class StepMetricsStruct(ctypes.Structure):
    _fields_ = [('step', c_int64), ('loss', c_double), ('learning_rate', c_double),
                ('samples', c_int64), ('seconds', c_double)]


class RuleUpdateStruct(ctypes.Structure):
    _fields_ = [('step', c_int64), ('parameters', c_size_t),
                ('weights', POINTER(c_void_p)), ('gradients', POINTER(c_void_p)),
                ('new_weights', POINTER(c_void_p))]


RULE_STATE_CALLBACK = CFUNCTYPE(None, c_void_p, c_void_p, c_size_t, POINTER(ErrorStruct))
RULE_APPLY_CALLBACK = CFUNCTYPE(None, c_void_p, POINTER(RuleUpdateStruct),
                                POINTER(ErrorStruct))


class RuleStruct(ctypes.Structure):
    _fields_ = [('load', RULE_STATE_CALLBACK), ('apply', RULE_APPLY_CALLBACK),
                ('save', RULE_STATE_CALLBACK), ('context', c_void_p)]


WORKER_CALLBACK = CFUNCTYPE(None, c_void_p, c_void_p, POINTER(ErrorStruct))
STEP_CALLBACK = CFUNCTYPE(None, c_void_p, POINTER(StepMetricsStruct))
MESSAGE_CALLBACK = CFUNCTYPE(None, c_void_p, c_char_p)


class RunOptionsStruct(ctypes.Structure):
    _fields_ = [('file', c_char_p), ('text', c_char_p), ('set', POINTER(c_char_p)),
                ('set_count', c_size_t), ('output_directory', c_char_p),
                ('resume', c_int32), ('overwrite', c_int32), ('servers', c_int32),
                ('workers', c_int32), ('threads', c_int32),
                ('devices', POINTER(c_char_p)), ('device_count', c_size_t),
                ('worker', WORKER_CALLBACK), ('on_step', STEP_CALLBACK),
                ('on_message', MESSAGE_CALLBACK), ('context', c_void_p)]


_FUNCTIONS = {
    'c_api_version': (c_int32, []),
    'version': (c_char_p, []),
    'worker_connect': (c_int32, [c_char_p, POINTER(c_void_p), POINTER(ErrorStruct)]),
    'worker_free': (None, [c_void_p]),
    'worker_get_job': (None, [c_void_p, POINTER(JobStruct)]),
    'worker_use_gpu': (c_int32, [c_void_p, c_int32, POINTER(ErrorStruct)]),
    'worker_pin_for_gpu': (c_int32, [c_void_p, c_int32, POINTER(ErrorStruct)]),
    'worker_set_rule': (c_int32, [c_void_p, POINTER(RuleStruct), POINTER(ErrorStruct)]),
    'worker_declare': (c_int32, [c_void_p, POINTER(ParameterStruct), c_size_t,
                                 POINTER(ErrorStruct)]),
    'worker_rank': (c_int32, [c_void_p]),
    'worker_workers': (c_int32, [c_void_p]),
    'worker_keep_last_weights': (None, [c_void_p]),
    'worker_last_weights': (c_int32, [c_void_p, POINTER(c_void_p)]),
    'worker_set_untrained': (None, [c_void_p, COLLECT_CALLBACK, c_void_p]),
    'worker_add_untrained': (None, [c_void_p, POINTER(UntrainedStruct)]),
    'worker_end_job': (c_int32, [c_void_p, POINTER(ErrorStruct)]),
    'worker_features': (c_size_t, [c_void_p, c_size_t, POINTER(FeatureStruct)]),
    'key_of': (c_uint64, [c_char_p, c_char_p, c_size_t]),
    'worker_announce': (None, [c_void_p, c_int64, c_int32, POINTER(KeysStruct),
                               c_size_t]),
    'worker_next_step': (c_void_p, [c_void_p]),
    'worker_status': (c_int32, [c_void_p, POINTER(ErrorStruct)]),
    'worker_stop': (None, [c_void_p]),
    'step_number': (c_int64, [c_void_p]),
    'step_next_micro_batch': (c_void_p, [c_void_p, POINTER(MicroBatchStruct)]),
    'step_next_piece': (c_void_p, [c_void_p, POINTER(PieceStruct)]),
    'micro_batch_spans': (c_int32, [c_void_p, POINTER(c_void_p), POINTER(c_void_p)]),
    'micro_batch_gpu_stream': (c_void_p, [c_void_p]),
    'micro_batch_look_up': (c_int32, [c_void_p, POINTER(KeysStruct), c_void_p,
                                      POINTER(c_int32)]),
    'micro_batch_add_gradient': (None, [c_void_p, c_int32, c_void_p, c_size_t]),
    'micro_batch_set_sample_count': (None, [c_void_p, c_int64]),
    'micro_batch_set_learning_rate': (None, [c_void_p, c_double]),
    'micro_batch_ready': (None, [c_void_p, c_int32]),
    'micro_batch_finish': (None, [c_void_p, c_double]),
    'micro_batch_finish_without_loss': (None, [c_void_p]),
    'piece_weights': (None, [c_void_p, POINTER(c_void_p)]),
    'piece_look_up': (None, [c_void_p, POINTER(KeysStruct), c_void_p]),
    'piece_add_metric': (None, [c_void_p, c_char_p, c_double, c_double]),
    'piece_report': (None, [c_void_p, c_double, c_int64, c_int64]),
    'run_create': (c_void_p, [POINTER(RunOptionsStruct)]),
    'run_train': (c_int32, [c_void_p, POINTER(ErrorStruct)]),
    'run_stop': (None, [c_void_p]),
    'run_free': (None, [c_void_p]),
}


class Library:
    """libtributary_c.so; each attribute is a function without its prefix."""

    def __init__(self) -> None:
        path = os.path.join(_FOLDER, 'libtributary_c.so')
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            raise Error(f'cannot load the native library: {error}; run `pip install '
                        './python` in a clone, or install the wheel that `./tributary '
                        'wheel` builds on a system like this one') from error
        for name, (result, arguments) in _FUNCTIONS.items():
            try:
                function = getattr(library, 'tributary_' + name)
            except AttributeError as error:
                raise Error(f'{path} has no function tributary_{name}: install it and '
                            'this package from one wheel') from error
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)
        version = self.c_api_version()
        if version != API_VERSION:
            raise Error(f'{path} has version {version} of the C interface, this '
                        f'package needs {API_VERSION}: install both from one wheel')


_library = None


def library() -> Library:
    """Returns the library, which is loaded by the first call."""
    global _library
    if _library is None:
        _library = Library()
    return _library


def program() -> str:
    """Returns the path of the program `tributary`."""
    return os.path.join(_FOLDER, 'tributary')


# What messages of the library call what this package calls otherwise.
_CPLUSPLUS_NAMES = {
    'Ready or Add': 'ready', 'Ready': 'ready', 'Finish': 'finish', 'Report': 'report',
    'SetSampleCount': 'set_sample_count', 'Declare': 'declare',
    'LookUp': 'look_up', 'AddGradient': 'add_gradient',
    'NextStep was called': 'the session was iterated', 'EndJob': 'end_job',
    'UseGpu': 'use_gpu',
    'PinForGpu': 'pin_for_gpu', 'step->evaluation_pieces()': 'step.evaluation',
    'step->micro_batches()': 'step.micro_batches'}
_CPLUSPLUS_NAME = re.compile('|'.join(
    r'(?<![\w"])' + re.escape(name) + r'(?!["\w])' for name in _CPLUSPLUS_NAMES))


def in_python(message: str) -> str:
    """Returns a message of the library with the names of this package."""
    return _CPLUSPLUS_NAME.sub(lambda found: _CPLUSPLUS_NAMES[found[0]], message)


def error_of(error: ErrorStruct) -> Error:
    message = in_python(error.message.decode(errors='replace'))
    if error.code == CANCELLED:
        return Stopped(message)
    return Error(message, error.code)


def view(address: int, shape: tuple[int, ...], writable: bool):
    """Returns a NumPy array over float32 memory of the library."""
    import numpy as np
    size = int(np.prod(shape, dtype=np.int64))
    array = np.frombuffer((c_float * size).from_address(address), np.float32)
    array = array.reshape(shape)
    array.flags.writeable = writable
    return array


class GpuArray:
    """Float32 memory of a GPU. PyTorch, CuPy and other libraries make arrays of it that
    share the memory, for example with `torch.as_tensor`."""

    def __init__(self, address: int, shape: tuple[int, ...]):
        self.shape = shape
        self.__cuda_array_interface__ = {'shape': shape, 'typestr': '<f4',
                                         'data': (address, False), 'version': 3}
