# SPDX-License-Identifier: Apache-2.0
"""The shipped models as models of transformers, and prompts from text that they were not trained on."""
import sys
from pathlib import Path

import sentencepiece
import torch

# The tests are run in a copy of their directory, see build.sh.
root = next(p for p in Path(__file__).resolve().parents if (p / "examples" / "recipes").is_dir())
sys.path.append(str(root / "examples" / "recipes"))
import checkpoint  # noqa: E402
from shipped import HELDOUT, MODELS, TOKENIZER  # noqa: E402
from text.corpus import SEPARATOR  # noqa: E402


def pair(attention="sdpa", dtype=torch.float32):
    """Target and draft."""
    models = [checkpoint.reference(MODELS / name) for name in ("target", "draft")]
    for m in models:
        m.set_attn_implementation(attention)
        m.to(dtype)
        m.generation_config.eos_token_id = None  # texts go on, so that runs have one length
        m.generation_config.pad_token_id = 0
    return models


def prompts(documents: int, tokens: int):
    """The first `tokens` tokens of so many documents of each held-out text, as lists by domain."""
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(TOKENIZER))
    found = {}
    for path in sorted(HELDOUT.glob("*.txt")):
        encoded = (tokenizer.encode(d, add_bos=True) for d in path.read_text("utf-8").split(SEPARATOR))
        found[path.stem] = [d[:tokens] for d, _ in zip((d for d in encoded if len(d) >= tokens), range(documents))]
    return found


def padded(texts):
    """Texts of several lengths as input_ids and attention_mask, padded on the left."""
    width = max(map(len, texts))
    ids = torch.tensor([[0] * (width - len(t)) + t for t in texts])
    mask = torch.tensor([[0] * (width - len(t)) + [1] * len(t) for t in texts])
    return ids, mask
