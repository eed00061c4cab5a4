# SPDX-License-Identifier: Apache-2.0
"""Speculative decoding for engines in Python: exact verification of drafts on torch tensors.

`torch.ops.hunch` are the operators; the functions here check their arguments and name their results.
"""
from . import _library

_library.load()

from . import _fakes  # noqa: E402,F401  they are registered for operators that are there
from .chains import VerifiedChains, verify_chain  # noqa: E402
from .status import STATUS, StatusError, raise_for_status  # noqa: E402

__all__ = ["STATUS", "StatusError", "VerifiedChains", "raise_for_status", "verify_chain"]
