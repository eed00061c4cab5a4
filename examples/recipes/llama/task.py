# SPDX-License-Identifier: Apache-2.0
"""Scores models by what has one right answer: held-out lines of Java and Python that end with at least two brackets,
quotes, commas, colons or semicolons. Greedy decoding completes the line as it was, or does not.

    python -m llama.task
    python -m llama.task --target DIR --target DIR     # beside the shipped target

A model reads the PROMPT tokens before.
"""
import argparse
import re
from pathlib import Path

import sentencepiece
import torch
import torch.nn.functional as F

import checkpoint
from llama.generate import Decoder
from shipped import HELDOUT, MODELS, TOKENIZER
from text.corpus import SEPARATOR

PROMPT, ANSWER, ROWS = 192, 10, 25  # tokens, tokens, prompts in a batch
CLOSING = re.compile(r"(?<=[^\s)\]}\"';:,])[)\]}\"';:,]{2,}\n")


def instances(tokenizer, domain, count):
    """`count` of all ([PROMPT] tokens, answer), evenly spread."""
    found = []
    for document in (HELDOUT / f"{domain}.txt").read_text("utf-8").split(SEPARATOR):
        for match in CLOSING.finditer(document):
            prompt = tokenizer.encode(document[:match.start()])[-PROMPT:]
            if len(prompt) == PROMPT:
                found.append((prompt, match[0]))
    return [found[i] for i in torch.linspace(0, len(found) - 1, min(count, len(found))).long()]


def greedy(target, prompts):
    """[rows, ANSWER] tokens after prompts [rows, PROMPT]."""
    decoder, read, out = Decoder(target.model, len(prompts), PROMPT + ANSWER), prompts, []
    for _ in range(ANSWER):
        read = F.linear(decoder.read(read), target.model.embed_tokens.weight).argmax(-1, keepdim=True)
        out.append(read)
    return torch.cat(out, dim=1)


def score(target, tokenizer, asked):
    """How many answers are right."""
    right = 0
    for i in range(0, len(asked), ROWS):
        batch = asked[i:i + ROWS]
        written = greedy(target, torch.tensor([prompt for prompt, _ in batch]))
        for (prompt, answer), tokens in zip(batch, written.tolist()):
            text = tokenizer.decode(prompt + tokens)[len(tokenizer.decode(prompt)):]
            right += text.startswith(answer)
    return right


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--target", type=Path, action="append", default=[])
    arguments.add_argument("--instances", type=int, default=200, help="of each domain")
    options = arguments.parse_args()
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(TOKENIZER))
    asked = {domain: instances(tokenizer, domain, options.instances) for domain in ("java", "python")}
    print(f"{'':24}" + "".join(f"{f'{domain} ({len(of)})':>16}" for domain, of in asked.items()) + f"{'both':>16}")
    for folder in (MODELS / "target", *options.target):
        target = checkpoint.load(folder, TOKENIZER)
        right = [score(target, tokenizer, of) for of in asked.values()]
        shares = [r / len(of) for r, of in zip(right, asked.values())]
        shares.append(sum(right) / sum(map(len, asked.values())))
        print(f"{folder.parent.name + '/' + folder.name:24}" + "".join(f"{share:16.4f}" for share in shares), flush=True)


if __name__ == "__main__":
    with torch.inference_mode():
        main()
