"""Writes golden.safetensors: what `transformers` computes for the shipped models, and model.py for the heads
that read the target's states, for parity tests of an engine.

    python golden.py

One window of held-out tokens per domain; the layout of the file is in README.md.
"""
from pathlib import Path

import sentencepiece
import torch
from safetensors.torch import save_file

import checkpoint
from corpus import SEPARATOR
from drafted import shifted
from model import residual

HERE = Path(__file__).parent
TOKENIZER = HERE / "target" / "tokenizer.model"
POSITIONS = 264   # of each window; over the domains more than 2,048
SAMPLED_IDS = 48  # whose logits are stored at every position


def windows():
    """Every other window starts at a document's start (with <s>), the others inside one (without)."""
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(TOKENIZER))
    rows = []
    for i, path in enumerate(sorted((HERE / "heldout").glob("*.txt"))):
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
    sampled = torch.randperm(32000, generator=torch.Generator().manual_seed(0))[:SAMPLED_IDS].sort().values
    tensors = {"ids": ids.int(), "sampled_ids": sampled.int()}
    for name in ("target", "draft"):
        reference, own = checkpoint.reference(HERE / name), checkpoint.load(HERE / name, TOKENIZER)
        logits = torch.cat([reference(row[None]).logits for row in ids])
        difference = max((own(row[None]) - theirs).abs().max().item() for row, theirs in zip(ids, logits))
        assert difference < 1e-3, f"{name}: model.py and transformers differ by {difference}"
        print(f"{name}: {ids.numel()} positions, largest difference of model.py {difference:.2e}")
        tensors |= kept(name, logits, sampled)
    target = checkpoint.load(HERE / "target", TOKENIZER)
    eagle = checkpoint.load_eagle(HERE / "eagle", HERE / "target")
    embedding = target.model.embed_tokens
    states = [eagle(embedding(row[None]), shifted(target.model(row[None]))) for row in ids]
    tensors |= kept("eagle", torch.cat(states) @ embedding.weight.T, sampled)
    medusa = checkpoint.load_medusa(HERE / "medusa", HERE / "target")
    heads = torch.cat([medusa(target.model(row[None])) for row in ids])
    for j, states in enumerate(heads.unbind(-2)):
        tensors |= kept(f"medusa.{j}", states @ embedding.weight.T, sampled)
    streams = checkpoint.load_streams(HERE / "streams", HERE / "target")
    first, places = streams.first_layer(target.model), torch.arange(POSITIONS)
    beside = torch.cat([streams(target.model, residual(target.model, row[None], first), places) for row in ids])
    beside = streams.told(beside, embedding(ids.roll(-1, dims=-1)))
    for j, states in enumerate(beside.unbind(-2)):
        tensors |= kept(f"streams.{j}", states @ embedding.weight.T, sampled)
    early = checkpoint.load_exit(HERE / "exit", HERE / "target")
    states = [early(residual(target.model, row[None], early.config.exit_layer)) for row in ids]
    tensors |= kept("exit", torch.cat(states) @ embedding.weight.T, sampled)
    save_file(tensors, HERE / "golden.safetensors")


if __name__ == "__main__":
    with torch.inference_mode():
        main()
