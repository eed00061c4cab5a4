# SPDX-License-Identifier: Apache-2.0
"""Measures the masked-diffusion model on the held-out text, prints the table and writes masked.json.

    python -m masked.evaluate [--model DIR] [--share 0.25]

What is measured is a bound on the bits per byte that its block-wise text costs: with B positions in a block, m of them
masks, m uniform in 1 ... B, and their places random,

    -log p(block | text before) <= E[ B / m  sum over the masks of -log p(token | what is not masked, text before) ].

Each block is drawn once; there are thousands. Documents, context and bytes are those of llama/evaluate.py.
"""
import argparse
import json
import math
from pathlib import Path

import sentencepiece
import torch
import torch.nn.functional as F

import checkpoint
import training
from llama.evaluate import CHUNK, encode, scored_windows
from masked.train import blocks_of, masks
from shipped import HELDOUT, MODELS, TOKENIZER


def nats(model, window, first, random):
    """The bound, and how many positions it is of."""
    clean, size = window[None], model.config.block_length
    blocks = blocks_of(len(window), size, clean.device)
    masked, weight = masks(1, blocks, random)
    masked[:, 0] = False
    count = masked[:, :size].sum()  # the first block's weights, without its first position
    weight[:, :size] = (size - 1) / max(int(count), 1)
    noisy = torch.where(masked, model.config.mask_token_id, clean)
    masked[:, :first] = False
    states = model(clean, noisy, blocks, blocks)[masked]
    total = 0.0
    for h, y, w in zip(states.split(CHUNK), clean[masked].split(CHUNK), weight[masked].split(CHUNK)):
        total += float((F.cross_entropy(F.linear(h, model.model.embed_tokens.weight), y, reduction="none") * w).sum())
    return total, len(window) - first


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--model", type=Path, default=MODELS / "masked")
    arguments.add_argument("--share", type=float, default=1.0, help="of the documents; less is not written")
    options = arguments.parse_args()
    model = checkpoint.load_masked(options.model, TOKENIZER)
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(TOKENIZER))
    autoregressive = json.loads((MODELS / "quality.json").read_text())["domains"]
    random = torch.Generator().manual_seed(training.SEED)
    table = {}
    for path in sorted(HELDOUT.glob("*.txt")):
        documents = encode(tokenizer, path)
        documents = documents[:max(1, int(len(documents) * options.share))]
        total = scored = 0
        for document in documents:
            for window, first in scored_windows(document):
                some, count = nats(model, window, first + 1, random)
                total, scored = total + some, scored + count
        per_token = total / scored
        # Over the domain's own tokens and bytes, of which the documents are a share.
        of = autoregressive[path.stem]
        bits = per_token * of["tokens"] / of["bytes"] / math.log(2)
        table[path.stem] = {"bound_bpb": round(bits, 4), "target_bpb": of["target_bpb"],
                            "ratio": round(bits / of["target_bpb"], 4)}
        print(f"{path.stem:12} {bits:.4f} {of['target_bpb']:.4f} {bits / of['target_bpb']:.4f}", flush=True)
    mean = {name: sum(row[name] for row in table.values()) / len(table) for name in ("bound_bpb", "target_bpb")}
    mean["ratio"] = mean["bound_bpb"] / mean["target_bpb"]
    print("mean", {name: round(value, 4) for name, value in mean.items()})
    if options.share == 1.0:
        (MODELS / "masked.json").write_text(json.dumps(
            {"domains": table, "mean": {name: round(value, 4) for name, value in mean.items()}}, indent=1) + "\n")


if __name__ == "__main__":
    with torch.inference_mode():
        main()
