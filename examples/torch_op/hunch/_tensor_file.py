# SPDX-License-Identifier: Apache-2.0
"""Small safetensors files of float32 and int32, as the library's tools write them."""
from __future__ import annotations

import json
import os
import struct

import torch

TYPES = {"F32": torch.float32, "I32": torch.int32}


def said(error: Exception) -> str:
    """What an error means for who reads it: a KeyError says a name and nothing else."""
    return f"it has no {error}" if isinstance(error, KeyError) else str(error)


def read(path: str | os.PathLike, wanted: str) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """The tensors of a file, and its words about them.

    Raises ValueError naming the file if it is no such file, or its words say that it is something else than `wanted`.
    """
    with open(path, "rb") as file:
        data = file.read()
    try:
        (size,) = struct.unpack_from("<Q", data)
        header = json.loads(data[8:8 + size])
        about = header.pop("__metadata__", {})
        tensors = {}
        for name, entry in header.items():
            begin, end = (8 + size + offset for offset in entry["data_offsets"])
            if not 8 + size <= begin <= end <= len(data):
                raise ValueError(f"'{name}' does not lie inside the file")
            flat = torch.frombuffer(bytearray(data[begin:end]), dtype=TYPES[entry["dtype"]]) if end > begin else (
                torch.empty(0, dtype=TYPES[entry["dtype"]]))
            tensors[name] = flat.reshape(entry["shape"])
    except (struct.error, KeyError, TypeError, AttributeError, RuntimeError, ValueError) as error:
        raise ValueError(f"{path}: not a file that the library's tools write: {error}") from error
    if about.get("format") != wanted:
        raise ValueError(f"{path}: is {about.get('format', 'of no format')}, not {wanted}")
    return tensors, about
