"""Random numbers that do not depend on which worker computes a micro-batch."""

from __future__ import annotations

import os
import random
import sys

import numpy as np


def prepare_torch(threads: int, deterministic: bool) -> None:
    """Sets what decides bits in PyTorch, if the program has imported it."""
    torch = sys.modules.get('torch')
    if torch is None:
        return
    torch.set_num_threads(threads)
    if deterministic:
        # cuBLAS reads it when the first product is computed.
        os.environ.setdefault('CUBLAS_WORKSPACE_CONFIG', ':4096:8')
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = False


def seed_generators(seed: int) -> None:
    """Seeds `random`, NumPy's global generator and PyTorch's generators."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch = sys.modules.get('torch')
    if torch is not None:
        torch.manual_seed(seed % 2**63)
