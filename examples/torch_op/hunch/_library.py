# SPDX-License-Identifier: Apache-2.0
"""Loads the library that registers torch.ops.hunch, if it was built for the torch that runs."""
import os
from pathlib import Path

import torch


def minor(version):
    return tuple(version.split(".")[:2])


def load():
    """Loads the library beside this file, or the one that HUNCH_TORCH_LIBRARY names, which is not checked.

    The interface between torch's libraries changes with each of its minor versions: a library that was built for
    another one crashes where it does not fail, so it is refused.
    """
    other = os.environ.get("HUNCH_TORCH_LIBRARY")
    if other is not None:
        torch.ops.load_library(other)
        return
    library = Path(__file__).with_name("libhunch_torch.so")
    try:
        from . import _built
    except ImportError:
        raise ImportError(f"{library.parent} is the source of the package hunch, not an installation of it: run "
                          "pip install on the directory above, and Python in another directory") from None
    again = "build it again: pip install --force-reinstall --no-deps on the directory that it came from"
    if minor(_built.TORCH) != minor(torch.__version__):
        raise ImportError(f"hunch-torch was built against torch {_built.TORCH}, and this is torch {torch.__version__}; "
                          + again)
    cuda = (torch.version.cuda or "none").split(".")[0]
    if _built.CUDA and _built.CUDA != cuda:
        raise ImportError(f"hunch-torch was built for CUDA {_built.CUDA}, and this torch is for CUDA {cuda}; {again}")
    torch.ops.load_library(library)
