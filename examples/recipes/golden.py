# SPDX-License-Identifier: Apache-2.0
"""Writes golden.safetensors: what `transformers` computes for the shipped models, and model.py for the heads
that read the target's states, for parity tests of an engine.

    python golden.py

One window of held-out tokens per domain; the layout of the file is in README.md.
"""

import sentencepiece
import torch
from safetensors.torch import save_file

import checkpoint
from llama.model import residual
from shipped import HELDOUT, MODELS, TOKENIZER, VOCABULARY
from text.corpus import SEPARATOR

POSITIONS = 264   # of each window; over the domains more than 2,048
SAMPLED_IDS = 32  # whose logits are stored at every position


def windows():
    """Every other window starts at a document's start (with <s>), the others inside one (without)."""
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(TOKENIZER))
    rows = []
    for i, path in enumerate(sorted(HELDOUT.glob("*.txt"))):
        documents = (tokenizer.encode(d, add_bos=True) for d in path.read_text("utf-8").split(SEPARATOR))
        document = next(d for d in documents if len(d) >= 2 * POSITIONS)
        start = POSITIONS // 2 if i % 2 else 0
        rows.append(document[start:start + POSITIONS])
    return torch.tensor(rows)


def kept(name, logits, sampled):
    best = logits.max(-1)
    return {f"{name}.argmax": best.indices.int(), f"{name}.argmax_logit": best.values.contiguous(),
            f"{name}.logsumexp": logits.logsumexp(-1), f"{name}.logits": logits[..., sampled].contiguous()}


def main():
    ids = windows()
    sampled = torch.randperm(VOCABULARY, generator=torch.Generator().manual_seed(0))[:SAMPLED_IDS].sort().values
    tensors = {"ids": ids.int(), "sampled_ids": sampled.int()}
    for name in ("target", "draft"):
        reference, own = checkpoint.reference(MODELS / name), checkpoint.load(MODELS / name, TOKENIZER)
        logits = torch.cat([reference(row[None]).logits for row in ids])
        difference = max((own(row[None]) - theirs).abs().max().item() for row, theirs in zip(ids, logits))
        assert difference < 1e-3, f"{name}: model.py and transformers differ by {difference}"
        print(f"{name}: {ids.numel()} positions, largest difference of model.py {difference:.2e}")
        tensors |= kept(name, logits, sampled)
    target = checkpoint.load(MODELS / "target", TOKENIZER)
    eagle = checkpoint.load_eagle(MODELS / "eagle", MODELS / "target")
    embedding = target.model.embed_tokens
    states = [eagle(embedding(row[None]), target.model(row[None])) for row in ids]
    tensors |= kept("eagle", torch.cat(states) @ embedding.weight.T, sampled)
    medusa = checkpoint.load_medusa(MODELS / "medusa", MODELS / "target")
    heads = torch.cat([medusa(target.model(row[None])) for row in ids])
    for j, states in enumerate(heads.unbind(-2)):
        tensors |= kept(f"medusa.{j}", states @ embedding.weight.T, sampled)
    streams = checkpoint.load_streams(MODELS / "streams", MODELS / "target")
    first, places = streams.first_layer(target.model), torch.arange(POSITIONS)
    drafted = torch.cat([streams(target.model, residual(target.model, row[None], first), places) for row in ids])
    drafted = streams.conditioned(drafted, embedding(ids.roll(-1, dims=-1)))
    for j, states in enumerate(drafted.unbind(-2)):
        tensors |= kept(f"streams.{j}", states @ embedding.weight.T, sampled)
    early = checkpoint.load_exit(MODELS / "exit", MODELS / "target")
    states = [early(residual(target.model, row[None], early.config.exit_layer)) for row in ids]
    tensors |= kept("exit", torch.cat(states) @ embedding.weight.T, sampled)
    save_file(tensors, MODELS / "golden.safetensors")


if __name__ == "__main__":
    with torch.inference_mode():
        main()
