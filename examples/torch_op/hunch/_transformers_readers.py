# SPDX-License-Identifier: Apache-2.0
"""Which reader is right for a model of transformers, and what models are asked to find out."""
from __future__ import annotations

import weakref

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from ._transformers_cache import CropReader, Reader, RowReader, Tree, arguments_of, cache_name_of

_answers = weakref.WeakKeyDictionary()  # of each model, by question and attention


def other_layers(model) -> list[str]:
    """Types of the layers of the model's cache that are not plain rows of keys and values."""
    layers = DynamicCache(config=model.config).layers
    return sorted({type(layer).__name__ for layer in layers if type(layer) is not DynamicLayer})


def why_not_rows(model) -> str | None:
    """Why a `RowReader` would not be right for the model, or None."""
    other = other_layers(model)
    if other:
        return f"its cache has layers of type {', '.join(other)}"
    if "local" in (getattr(model.config, "attention_layers", None) or ()):  # of GPT-Neo
        return "its attention makes windows of its own, which a mask does not reach"
    return None if _answer(honours_tree_masks, model) else (
        f"its forward does not honour masks of four dimensions (its attention is {_attention_of(model)!r}; 'sdpa' and "
        "'eager' do)")


def why_not_padded(model) -> str | None:
    """Why the text of a padded prompt would not be that of `model.generate`, or None. A `Reader` leaves padding out."""
    if "position_ids" in arguments_of(model) or _answer(passes_over_padding, model):
        return None
    return f"padding counts in the positions of {type(model).__name__}, whose forward takes no position_ids"


def _attention_of(model):
    return getattr(model.config, "_attn_implementation", None)


def _answer(question, model):
    """Asks a model once for each attention that it has had."""
    key = question, _attention_of(model)
    answers = _answers.setdefault(model, {})
    if key not in answers:
        answers[key] = question(model)
    return answers[key]


def honours_tree_masks(model) -> bool:
    """Asks the model: of the siblings 1 and 2 after token 0, the second must get the logits of the text 0, 2."""
    device = model.device

    def last(*passes):
        reader = RowReader(model, 1, 4)
        for tokens, tree in passes:
            logits = reader.read(torch.tensor([tokens], device=device), 1, tree=tree)
        return logits.float()

    siblings = Tree([1], torch.eye(2, dtype=torch.bool, device=device), torch.zeros(2, dtype=torch.long, device=device))
    try:
        text, chain, tree = last(([0, 2], None)), last(([0, 1, 2], None)), last(([0], None), ([1, 2], siblings))
    except (RuntimeError, ValueError, TypeError, AttributeError, IndexError):
        return False
    return bool((tree - text).abs().max() <= 0.1 * (chain - text).abs().max())


def passes_over_padding(model) -> bool:
    """Asks the model: padding that the mask hides must leave the logits of a text as they are, where another token in
    the text changes them."""
    def last(tokens, padding=0):
        ids = torch.tensor([[0] * padding + tokens], device=model.device)
        mask = torch.tensor([[0] * padding + [1] * len(tokens)], device=model.device)
        return model(input_ids=ids, attention_mask=mask, use_cache=False).logits[0, -1].float()

    try:
        text, padded, other = last([0, 2]), last([0, 2], padding=5), last([1, 2])
    except (RuntimeError, ValueError, TypeError, AttributeError, IndexError):
        return False
    return bool((padded - text).abs().max() <= 0.02 * (other - text).abs().max())


def reader(model, batch: int, capacity: int, *, trees: bool) -> Reader:
    """A reader of `batch` sequences of up to `capacity` tokens, or NotImplementedError that says what is missing."""
    cache_name_of(model)
    if batch == 1 and not trees and other_layers(model):
        return CropReader(model)
    if batch > 1 or trees:
        reason = why_not_rows(model)
        if reason is not None:
            what = "draft trees need" if trees else "a batch of more than one needs"
            raise NotImplementedError(
                f"hunch.transformers: {what} rows that see different tokens, and {type(model).__name__} cannot: "
                f"{reason}; chains of one sequence are possible")
    return RowReader(model, batch, capacity)
