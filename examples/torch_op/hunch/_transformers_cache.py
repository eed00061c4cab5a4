# SPDX-License-Identifier: Apache-2.0
"""Models of transformers that read rows of tokens and forget what was refused, through caches of their public API.

There are two readers, which have the same methods; `reader` of `_transformers_readers` chooses:

| | cache | reads |
|---|---|---|
| `RowReader` | a `RowCache`, in which every sequence has a length of its own | chains and trees of any batch |
| `CropReader` | the model's own, cropped | chains of one sequence, also of sliding windows |

A sequence is its tokens without padding: they lie in the cache from place 0 on, and their positions count from 0.
"""
from __future__ import annotations

import inspect
import weakref

import torch
from transformers import DynamicCache
from transformers.cache_utils import Cache, CacheLayerMixin


class Places:
    """Where the tokens of a pass go: sequence b's to `begins[b]` and on. All layers of a cache read one of these."""

    def __init__(self, begins: list[int], width: int, device):
        self.begins, self.width = begins, width
        self.first, self.end = min(begins), max(begins) + width
        self.uniform = self.first + width == self.end
        if not self.uniform:
            self.columns = torch.tensor(begins, device=device)[:, None] + torch.arange(width, device=device)
            self.rows = torch.arange(len(begins), device=device)[:, None]


class RowLayer(CacheLayerMixin):
    """Keys and values [B, heads, capacity, d] of one layer, written where `cache.places` says.

    A pass copies its own rows and no others, and nothing is copied to forget them.
    """

    is_croppable = True
    is_sliding = False

    def __init__(self, cache: "RowCache"):
        super().__init__()
        self.cache = cache

    def lazy_initialization(self, key_states, value_states):
        self.device = key_states.device
        self.keys, self.values = (self._room(t, self.cache.capacity) for t in (key_states, value_states))
        self.is_initialized = True

    @staticmethod
    def _room(like, capacity):
        # What a mask hides is multiplied by 0, so it must be finite.
        return like.new_zeros((*like.shape[:2], capacity, like.shape[-1]))

    def _grow(self, end):
        capacity = max(end, self.keys.shape[2] * 3 // 2)
        for name in ("keys", "values"):
            old = getattr(self, name)
            new = self._room(old, capacity)
            new[:, :, : old.shape[2]] = old
            setattr(self, name, new)

    def update(self, key_states, value_states, *args, **kwargs):
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        at = self.cache.places
        if at.end > self.keys.shape[2]:
            self._grow(at.end)
        if at.uniform:
            self.keys[:, :, at.first : at.end] = key_states
            self.values[:, :, at.first : at.end] = value_states
        else:
            self.keys[at.rows, :, at.columns] = key_states.transpose(1, 2)
            self.values[at.rows, :, at.columns] = value_states.transpose(1, 2)
        return self.keys[:, :, : at.end], self.values[:, :, : at.end]

    def move(self, row: int, source: torch.Tensor, to: int):
        """Rows `source` of a sequence go to the places from `to` on."""
        for t in (self.keys, self.values):
            t[row, :, to : to + len(source)] = t[row][:, source]

    def get_mask_sizes(self, query_length):
        return self.cache.places.end, 0

    def get_seq_length(self):
        return self.cache.places.first

    def get_max_length(self):
        return -1


class RowCache(Cache):
    """A cache of `RowLayer`s. `places` is set before each pass."""

    def __init__(self, batch: int, capacity: int, device):
        self.capacity = capacity
        self.places = Places([0] * batch, 0, device)
        this = weakref.proxy(self)  # a circle of references would hold the memory until the next collection
        super().__init__(layer_class_to_replicate=lambda: RowLayer(this))


def arguments_of(model):
    """Names of the arguments that the model's forward declares."""
    return inspect.signature(model.forward).parameters.keys()


def cache_name_of(model) -> str:
    """The argument of the model's forward that is its cache; NotImplementedError if there is none."""
    for name in ("cache", "past_key_values"):
        if name in arguments_of(model):
            return name
    raise NotImplementedError(f"hunch.transformers: the forward of {type(model).__name__} takes no cache, so it would "
                              "read drafts without the text before them")


class Reader:
    """What both readers have in common. `lengths`: the tokens of each sequence that the cache holds."""

    def __init__(self, model, batch: int):
        self.model, self.lengths = model, [0] * batch
        names = arguments_of(model)
        self.cache_name, self.was_read = cache_name_of(model), False
        self.takes_positions = "position_ids" in names
        self.takes_logits_to_keep = "logits_to_keep" in names
        self.device = model.device

    def _logits(self, tokens, keep, **inputs):
        """The last `keep` rows of logits [B, keep, V]."""
        if self.takes_logits_to_keep:
            inputs["logits_to_keep"] = keep
        inputs[self.cache_name] = self.cache
        try:
            out = self.model(input_ids=tokens, use_cache=True, **inputs)
        except ValueError as error:  # models that have caches of a class of their own say so by one
            if self.was_read:
                raise
            raise NotImplementedError(
                f"hunch.transformers: {type(self.model).__name__} does not read with the cache "
                f"{type(self.cache).__name__}: {error}") from error
        if not self.was_read:
            self._look_at_cache()
            self.was_read = True
        return out.logits[:, -keep:]

    def _look_at_cache(self):
        """Refuses a model whose first pass has put nothing into the cache."""
        # Layers without the attribute are recurrent, and layers that nothing has asked for are not there.
        if not any(getattr(layer, "is_initialized", True) for layer in self.cache.layers):
            raise NotImplementedError(
                f"hunch.transformers: the forward of {type(self.model).__name__} leaves its cache empty, so it would "
                "read drafts without the text before them")

    def keep(self, lengths: list[int]):
        """Forgets what lies behind the first lengths[b] tokens of each sequence."""
        raise NotImplementedError


class RowReader(Reader):
    """Sequences of their own lengths, and trees. With all lengths equal the model makes its mask itself."""

    def __init__(self, model, batch: int, capacity: int):
        super().__init__(model, batch)
        self.cache = RowCache(batch, capacity, self.device)

    def read(self, tokens: torch.Tensor, keep: int, *, tree: "Tree | None" = None, last_position: int | None = None):
        """Appends tokens [B, q] to every sequence, and returns the last `keep` rows of logits.

        With a tree, the tokens are nodes of it, see `Tree`. No position exceeds `last_position`: tokens there are
        those of sequences that have ended, or behind their last one.
        """
        batch, width = tokens.shape
        at = self.cache.places = Places(self.lengths, width, self.device)
        if tree is None:
            below, offset = None, torch.arange(width, device=self.device)
            base = self.lengths
        else:
            below, offset = tree.below, tree.depths
            base = tree.base
        first = torch.tensor(base if not at.uniform else base[:1], device=self.device)[:, None]
        positions = first + offset
        if last_position is not None:
            positions = positions.clamp(max=last_position)
        inputs = {"position_ids": positions.expand(batch, -1)} if self.takes_positions else {}
        if not at.uniform or tree is not None:
            if below is None:
                below = torch.ones(width, width, dtype=torch.bool, device=self.device).tril()
            inputs["attention_mask"] = self._mask(first, below, at.end)
        logits = self._logits(tokens, keep, **inputs)
        self.lengths = [b + width for b in self.lengths]
        return logits

    def _mask(self, first, below, end):
        """[B, 1, q, end]: a row sees what lies before its sequence's `first`, and from there on what `below` says."""
        behind = torch.arange(end, device=self.device) - first  # [B, end]
        nodes = below.shape[1]
        inside = below[:, behind.clamp(0, nodes - 1)].transpose(0, 1) & (behind < nodes)[:, None]
        seen = (inside | (behind < 0)[:, None])[:, None]
        dtype = self.model.dtype  # numbers that are added, which every attention takes that takes any mask
        return torch.zeros(seen.shape, dtype=dtype, device=self.device).masked_fill_(~seen, torch.finfo(dtype).min)

    def keep(self, lengths):
        self.lengths = list(lengths)

    def keep_paths(self, base: list[int], paths: list[list[int]]):
        """Keeps, behind base[b] tokens of each sequence, the nodes paths[b] that lie there, in this order."""
        for row, (begin, path) in enumerate(zip(base, paths)):
            if path != list(range(len(path))):
                source = torch.tensor([begin + node for node in path], device=self.device)
                for layer in self.cache.layers:
                    layer.move(row, source, begin)
        self.keep([begin + len(path) for begin, path in zip(base, paths)])


class Tree:
    """Rows of a pass that are nodes of a tree. base: [B] the tokens before node 0; below: bool [q, nodes so far]
    which nodes a row sees, itself among them; depths: [q] of the rows, counted from node 0."""

    def __init__(self, base: list[int], below: torch.Tensor, depths: torch.Tensor):
        self.base, self.below, self.depths = base, below, depths


class CropReader(Reader):
    """One sequence in the model's own cache, which forgets by `crop`."""

    def __init__(self, model):
        super().__init__(model, 1)
        self.cache = DynamicCache(config=model.config)
        self.cache.activate_past_recording()  # a window keeps what left it until it is told to forget

    def read(self, tokens, keep, *, tree=None, last_position=None):
        begin, width = self.lengths[0], tokens.shape[1]
        inputs = {}
        if self.takes_positions:
            inputs["position_ids"] = torch.arange(begin, begin + width, device=self.device)[None]
        logits = self._logits(tokens, keep, **inputs)
        self.lengths = [begin + width]
        return logits

    def _look_at_cache(self):
        super()._look_at_cache()
        # Recurrent layers know only after their first pass whether they can go back.
        if not self.cache.is_croppable:
            raise NotImplementedError(
                f"hunch.transformers: the cache of {type(self.model).__name__} cannot be cropped, so drafts that are "
                "refused cannot be forgotten")

    def keep(self, lengths):
        self.cache.crop(lengths[0] - self.lengths[0])
        self.lengths = list(lengths)
