# SPDX-License-Identifier: Apache-2.0
"""Measures the shipped models on the held-out text, prints the tables and writes quality.json.

    python -m llama.evaluate
    python -m llama.evaluate --target DIR --share 0.1    # of another target, or less text: the table only

Bits per byte count every token of a document and its end mark (which encodes the separator); the bytes are
those of the file, separators included, and `xz -9e` is given the same file. Context: windows of 1,024 tokens
that advance by 512, so that a token is predicted from at least 512 tokens of its document, or all there are.
"""
import argparse
import hashlib
import json
import lzma
import math
from pathlib import Path

import sentencepiece
import torch
import torch.nn.functional as F

import checkpoint
from shipped import HELDOUT, MODELS, TOKENIZER
from text.corpus import SEPARATOR

CONTEXT, STRIDE, CHUNK = 1024, 512, 256
PROMPT, GENERATED, SAMPLES = 64, 256, 4  # tokens, tokens, prompts of each domain


def encode(tokenizer, path):
    return tokenizer.encode(path.read_text("utf-8").split(SEPARATOR), add_bos=True, add_eos=True)


def scored_windows(document):
    """(ids, first): windows of inputs with one label more, and the first position not scored before."""
    done = 0
    for start in range(0, len(document) - 1, STRIDE):
        window = document[start:start + CONTEXT + 1]
        if start + len(window) - 1 > done:
            yield torch.tensor(window), done - start
            done = start + len(window) - 1


def score(target, draft, documents):
    """Sums over all scored positions: nats of both models, sum of min(p, q), equal argmax."""
    sums = torch.zeros(4, dtype=torch.double)
    count = 0
    for document in documents:
        for window, first in scored_windows(document):
            hidden = [m.model(window[None, :-1])[0, first:] for m in (target, draft)]
            labels = window[1 + first:]
            for t, d, y in zip(hidden[0].split(CHUNK), hidden[1].split(CHUNK), labels.split(CHUNK)):
                log_p, log_q = (F.linear(h, m.model.embed_tokens.weight).log_softmax(-1)
                                for h, m in ((t, target), (d, draft)))
                sums += torch.stack([F.nll_loss(log_p, y, reduction="sum"), F.nll_loss(log_q, y, reduction="sum"),
                                     torch.minimum(log_p, log_q).exp().sum(),
                                     (log_p.argmax(-1) == log_q.argmax(-1)).sum()]).double()
                count += len(y)
    return sums.tolist(), count


def repeated(rows):
    """Share of 4-grams that occurred before in the same row."""
    total = repeats = 0
    for row in rows:
        grams = [tuple(row[i:i + 4]) for i in range(len(row) - 3)]
        total += len(grams)
        repeats += len(grams) - len(set(grams))
    return repeats / total


def repetition(domains):
    """Repeated 4-grams in held-out text and in continuations of the same prompts, of the same length."""
    rows = [d[:PROMPT + GENERATED] for documents in domains.values()
            for d in [d for d in documents if len(d) > PROMPT + GENERATED][:SAMPLES]]
    model = checkpoint.reference(MODELS / "target")
    prompts = torch.tensor([row[:PROMPT] for row in rows])
    torch.manual_seed(0)
    result = {"prompts": len(rows), "heldout": repeated([row[PROMPT:] for row in rows])}
    for name, options in (("T=1", {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0}),
                          ("T=0", {"do_sample": False})):
        text = model.generate(prompts, attention_mask=torch.ones_like(prompts), pad_token_id=0,
                              min_new_tokens=GENERATED, max_new_tokens=GENERATED, **options)
        result[name] = repeated(text[:, PROMPT:].tolist())
    return result


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--target", type=Path)
    arguments.add_argument("--share", type=float, default=1.0, help="of the documents of each domain")
    options = arguments.parse_args()
    target, draft = (checkpoint.load(folder, TOKENIZER)
                     for folder in (options.target or MODELS / "target", MODELS / "draft"))
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(TOKENIZER))
    table, domains = {}, {}
    columns = ("xz_bpb", "target_bpb", "draft_bpb", "acceptance", "argmax_agreement")
    print(f"{'domain':12}" + "".join(f"{c:>18}" for c in columns))
    for path in sorted(HELDOUT.glob("*.txt")):
        texts = path.read_text("utf-8").split(SEPARATOR)
        texts = texts[:max(1, int(len(texts) * options.share))]
        data = SEPARATOR.join(texts).encode()
        domains[path.stem] = documents = encode(tokenizer, path)[:len(texts)]
        (target_nats, draft_nats, overlap, equal), count = score(target, draft, documents)
        bits = 1 / (math.log(2) * len(data))
        values = (8 * len(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME)) / len(data), target_nats * bits,
                  draft_nats * bits, overlap / count, equal / count)
        table[path.stem] = {**dict(zip(columns, (round(v, 4) for v in values))), "tokens": count, "bytes": len(data)}
        print(f"{path.stem:12}" + "".join(f"{v:18.4f}" for v in values), flush=True)
    mean = {c: round(sum(row[c] for row in table.values()) / len(table), 4) for c in columns}
    print(f"{'mean':12}" + "".join(f"{mean[c]:18.4f}" for c in columns))
    if options.target or options.share < 1:
        return
    ratio = round(mean["target_bpb"] / mean["xz_bpb"], 4)
    repeats = {k: round(v, 4) for k, v in repetition(domains).items()}
    print("target / xz", ratio, "repeated 4-grams", repeats)
    files = {f"{p.parent.name}/{p.name}": hashlib.sha256(p.read_bytes()).hexdigest()
             for name in ("target", "draft") for p in sorted((MODELS / name).iterdir())}
    (MODELS / "quality.json").write_text(json.dumps(
        {"context": CONTEXT, "stride": STRIDE, "domains": table, "mean": mean, "target_to_xz": ratio,
         "repeated_4grams": repeats, "sha256": files}, indent=1) + "\n")


if __name__ == "__main__":
    with torch.inference_mode():
        main()
