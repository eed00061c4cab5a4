# SPDX-License-Identifier: Apache-2.0
"""Tokenizers of a few tokens in the files that LLaDA and Dream have theirs in: bytes, some pairs of them that are
frequent in the shipped text, and the special tokens that the models are asked with."""
import json

from shipped import HELDOUT
from text import published

MERGES = 20


def of_bytes():
    lines = (HELDOUT / "docs.txt").read_text().split("\n")[:2000]
    return published.trained_on_bytes(256 + MERGES, lines)


def write(file, value):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")


def llada(folder):
    """A tokenizer.json. Returns what config.json says of its tokens."""
    kind = published.tokenizer_kinds()["llada"]
    special = ["<|startoftext|>", "<|endoftext|>", "<|mdm_mask|>", "<|eot_id|>"]
    made = published.assembled((*kind[:4], published.added_of(special), ()), {"bytes": of_bytes()})
    write(folder / "tokenizer.json", json.loads(made.to_str()))
    write(folder / "tokenizer_config.json", {"add_bos_token": False, "add_eos_token": False, "bos_token": special[0],
                                             "eos_token": special[1], "pad_token": special[1],
                                             "tokenizer_class": "PreTrainedTokenizerFast"})
    mask, end = made.token_to_id(special[2]), made.token_to_id(special[1])
    return {"mask_token_id": mask, "eos_token_id": end, "pad_token_id": end}


def dream(folder):
    """A vocab.json and a merges.txt. Returns what config.json says of its tokens."""
    model = of_bytes()
    write(folder / "vocab.json", model["vocab"])
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{pair}\n" for pair in model["merges"]))
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|beginoftext|>", "<|mask|>"]
    ids = {name: len(model["vocab"]) + i for i, name in enumerate(special)}
    added = {str(ids[name]): {"content": name, "lstrip": False, "normalized": False, "rstrip": False,
                              "single_word": False, "special": True} for name in special}
    write(folder / "tokenizer_config.json", {"add_bos_token": False, "add_prefix_space": False,
                                             "added_tokens_decoder": added, "bos_token": special[3],
                                             "eos_token": special[0], "mask_token": special[4],
                                             "pad_token": special[0], "tokenizer_class": "DreamTokenizer"})
    return {"mask_token_id": ids[special[4]], "bos_token_id": ids[special[3]], "eos_token_id": ids[special[0]],
            "pad_token_id": ids[special[0]]}
