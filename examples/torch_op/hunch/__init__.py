# SPDX-License-Identifier: Apache-2.0
"""Speculative decoding for engines in Python: exact verification of drafts on torch tensors, and what drafts need.

`torch.ops.hunch` are the operators; the functions here check their arguments and name their results.
"""
from . import _library

_library.load()

from . import _fakes  # noqa: E402,F401  for operators that are there
from .chains import VerifiedChains, verify_chain  # noqa: E402
from .clusters import Layout, Router, Shortlists, select_clusters, shortlist_tokens, spread_logits  # noqa: E402
from .heads import head, shortlist_ranges  # noqa: E402
from .status import STATUS, StatusError, raise_for_status  # noqa: E402
from .trees import DraftTrees, TreeShapes, VerifiedTrees, build_tree, describe_tree, verify_tree  # noqa: E402

__all__ = [
    "STATUS", "DraftTrees", "Layout", "Router", "Shortlists", "StatusError", "TreeShapes", "VerifiedChains",
    "VerifiedTrees", "build_tree", "describe_tree", "head", "raise_for_status", "select_clusters", "shortlist_ranges",
    "shortlist_tokens", "spread_logits", "verify_chain", "verify_tree",
]
