# SPDX-License-Identifier: Apache-2.0
"""Arguments of the functions: checked, and brought into the form that operators take. No check waits for a device."""
from __future__ import annotations

import math
import numbers

import torch

LOGITS = (torch.float32, torch.bfloat16, torch.float16)
IDS = (torch.int32, torch.int64)
INT32_MAX = 2**31 - 1
FLOAT32_MAX = torch.finfo(torch.float32).max


class Call:
    """One call of a function, whose messages begin with its name. All tensors are on the device of the first one."""

    def __init__(self, function: str, first: object, name: str):
        self.function, self.first = function, name
        if not isinstance(first, torch.Tensor):
            raise TypeError(f"hunch.{function}: {name} must be a tensor, it is {type(first).__name__}")
        self.device = first.device

    def wrong(self, name: str, what: str) -> ValueError:
        return ValueError(f"hunch.{self.function}: {name} {what}")

    def mistyped(self, name: str, what: str) -> TypeError:
        return TypeError(f"hunch.{self.function}: {name} {what}")

    def tensor(self, t: object, name: str, dtypes: tuple[torch.dtype, ...],
               shape: tuple[int | str, ...]) -> torch.Tensor:
        """A tensor of one of the types. A size that is a letter stands for any."""
        if not isinstance(t, torch.Tensor):
            raise self.mistyped(name, f"must be a tensor, it is {type(t).__name__}")
        if t.dtype not in dtypes:
            raise self.mistyped(name, f"must be {' or '.join(str(d) for d in dtypes)}, it is {t.dtype}")
        if t.dim() != len(shape) or any(isinstance(n, int) and n != m for n, m in zip(shape, t.shape)):
            raise self.wrong(name, f"must have the shape [{', '.join(map(str, shape))}], it has {list(t.shape)}")
        if t.device != self.device:
            raise self.wrong(name, f"is on {t.device}, but {self.first} is on {self.device}")
        return t

    def ids(self, t: object, name: str, shape: tuple[int | str, ...]) -> torch.Tensor:
        return self.tensor(t, name, IDS, shape).contiguous()

    def rows(self, t: object, name: str, dtypes: tuple[torch.dtype, ...],
             shape: tuple[int | str, ...]) -> torch.Tensor:
        """Rows at one distance, as [rows, last size]: in place where they lie so, else a copy."""
        t = self.tensor(t, name, dtypes, shape)
        if t.shape[-1] == 0:
            raise self.wrong(name, f"must have rows of one element or more, it has the shape {list(t.shape)}")
        flat = t.reshape(-1, t.shape[-1])
        apart = flat.shape[0] <= 1 or flat.stride(0) >= flat.shape[1]
        return flat if apart and (flat.shape[1] == 1 or flat.stride(1) == 1) else flat.contiguous()

    def whole(self, x: object, name: str, least: int) -> int:
        """A whole number that is not below the least."""
        if isinstance(x, bool) or not isinstance(x, (numbers.Integral, torch.SymInt)):
            raise self.mistyped(name, f"must be a whole number, it is {type(x).__name__}")
        if x < least:
            raise self.wrong(name, f"must be {least} or more, it is {x}")
        return x

    def by_row(self, x: object, name: str, dtype: torch.dtype, batch: int, off: float | None = None):
        """A number for every sequence, or a tensor of one for each, as [batch]; None for the number that is `off`."""
        if isinstance(x, torch.Tensor):
            whole = not dtype.is_floating_point
            if x.is_complex() or x.dtype == torch.bool or (whole and x.is_floating_point()):
                raise self.mistyped(name, f"must hold {'integers' if whole else 'numbers'}, it is {x.dtype}")
            x = self.tensor(x, name, (x.dtype,), () if x.dim() == 0 else (batch,))
            x = x.long().clamp(-INT32_MAX, INT32_MAX) if whole else x
            return x.to(dtype).expand(batch).contiguous()
        if isinstance(x, bool) or not isinstance(x, (int, float) if dtype.is_floating_point else int):
            raise self.mistyped(name, f"must be a number or a tensor, it is {type(x).__name__}")
        if x == off:
            return None
        if dtype.is_floating_point:
            # A number that float32 has not is infinite there, for the status to say so; a NaN stays one.
            x = (math.inf if x > 0 else -math.inf) if abs(x) > FLOAT32_MAX else float(x)
        else:
            x = max(-INT32_MAX, min(x, INT32_MAX))
        return torch.full((batch,), x, dtype=dtype, device=self.device)

    def lengths(self, lengths: object, batch: int) -> torch.Tensor:
        """Lengths of texts as int32 [batch]; 0 for those that no text has, which operators say of their sequences."""
        lengths = self.tensor(lengths, "lengths", IDS, (batch,))
        return torch.where((lengths >= 1) & (lengths <= INT32_MAX), lengths, 0).to(torch.int32)

    def keys(self, seeds: object, lengths: object, batch: int) -> tuple[torch.Tensor, torch.Tensor]:
        """What names the random words of each sequence."""
        return self.tensor(seeds, "seeds", IDS, (batch,)).to(torch.int64).contiguous(), self.lengths(lengths, batch)

    def sampling(self, temperature, top_k, top_p, min_p, lengths: torch.Tensor):
        """The parameters as [batch], or None for a stage that is off. lengths: as `lengths` gives them."""
        batch = lengths.shape[0]
        temperature = self.by_row(temperature, "temperature", torch.float32, batch)
        # Verification knows positions and no lengths: where there is none it is to find a parameter that is none.
        return (torch.where(lengths > 0, temperature, torch.nan),
                self.by_row(0 if top_k is None else top_k, "top_k", torch.int32, batch, off=0),
                self.by_row(top_p, "top_p", torch.float32, batch, off=1),
                self.by_row(min_p, "min_p", torch.float32, batch, off=0))
