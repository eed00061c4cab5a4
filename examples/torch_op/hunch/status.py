# SPDX-License-Identifier: Apache-2.0
"""What became of each sequence of a call."""
from __future__ import annotations

import torch

#: Names of the values of a `status` tensor.
STATUS = ("ok", "invalid_logits", "empty_support", "invalid_draft", "invalid_token", "invalid_parameter", "cache_full")


class StatusError(RuntimeError):
    """Sequences of a batch have no result. `rows` are their places in the batch, `names` what each of them has."""

    def __init__(self, rows: list[int], names: list[str]):
        self.rows, self.names = rows, names
        shown = ", ".join(f"{row}: {name}" for row, name in list(zip(rows, names))[:8])
        super().__init__(f"{len(rows)} sequences failed ({shown}{', ...' if len(rows) > 8 else ''})")


def raise_for_status(status: torch.Tensor) -> None:
    """Raises StatusError if an element of a `status` [B] is not 0. Waits for the device: one copy of B bytes."""
    values = status.tolist()
    rows = [row for row, value in enumerate(values) if value != 0]
    if rows:
        raise StatusError(rows, [STATUS[values[row]] for row in rows])

