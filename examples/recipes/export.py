# SPDX-License-Identifier: Apache-2.0
"""Writes a trained model as a Hugging Face directory.

    python export.py --work DIR --model target --out ../models/target   # int8, as shipped
    python export.py --work DIR --model draft --out ../models/draft      # eagle, eagle3, medusa, exit, streams, masked,
                                                                         # canvas_head likewise
    python export.py --work DIR --model shared --out DIR                 # a target and its streams, two directories
    python export.py --work DIR --model streams --name NAME --out DIR    # a checkpoint of that name
    python export.py --work DIR --model target --out DIR --dtype BF16    # F32, F16, BF16: for testing loaders
    python export.py --model tiny --out DIR --dtype F32                  # a random model for tests
    python export.py --from ../models/target --out DIR --dtype BF16      # of a directory, such as one that ships
"""
import argparse
import dataclasses
import shutil
from pathlib import Path

import torch

import checkpoint
from canvas_head.model import CANVAS_HEAD, CanvasHead
from eagle.model import EAGLE, Eagle
from eagle3.model import EAGLE3, Eagle3
from early_exit.model import Exit, ExitConfig
from llama.model import DRAFT, LARGE_DRAFT, SMALL_DRAFT, TARGET, TINY, Llama
from masked.model import MASKED, Masked
from medusa.model import Medusa, MedusaConfig
from shipped import MODELS as SHIPPED
from streams.model import StreamConfig, Streams, merged

MODELS = {"target": (Llama, TARGET), "draft": (Llama, DRAFT), "draft-small": (Llama, SMALL_DRAFT),
          "draft-large": (Llama, LARGE_DRAFT), "eagle": (Eagle, EAGLE), "eagle3": (Eagle3, EAGLE3), "medusa": (Medusa, MedusaConfig()),
          "exit": (Exit, ExitConfig()), "streams": (Streams, None), "shared": (Streams, None),
          "masked": (Masked, MASKED), "canvas_head": (CanvasHead, CANVAS_HEAD), "tiny": (Llama, TINY)}

TARGETS = {"eagle": "target", "eagle3": "target", "medusa": "target", "exit": "target", "canvas_head": "masked"}  # of heads


def tiny():
    """A random model that does something in every layer: no branch is zero, and norms are not one."""
    torch.manual_seed(0)
    model = Llama(TINY)
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.2) if p.ndim == 2 else torch.nn.init.uniform_(p, 0.5, 1.5)
    return model


def trained_streams(state):
    """Of the sizes that they were trained with."""
    one_map = len(state["up.weight"]) == state["down.weight"].shape[1]  # as published, and so linear
    return Streams(StreamConfig(speculative_streams=len(state["embedding.weight"]),
                                stream_layers=len({name.split(".")[1] for name in state if name.startswith("layers.")}),
                                map_rank=len(state["down.weight"]),
                                adapter_rank=state["layers.0.output.b.weight"].shape[1],
                                root_rank=len(state["root.down.weight"]) if "root.down.weight" in state else 0,
                                map_activation="none" if one_map else "silu", one_map=one_map))


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--work", type=Path)
    arguments.add_argument("--model", choices=MODELS)
    arguments.add_argument("--from", dest="source", type=Path, help="a directory instead of a checkpoint")
    arguments.add_argument("--name", help="of the checkpoint")
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--dtype", choices=["I8", *checkpoint.FLOATS], default="I8")
    options = arguments.parse_args()
    if (options.model is None) == (options.source is None):
        arguments.error("one of --model and --from is needed")
    if options.source:
        checkpoint.convert(options.source, options.out, options.dtype)
        return
    if options.model == "tiny":
        checkpoint.save(options.out, tiny(), options.dtype)
        return
    saved = torch.load(options.work / f"{options.name or options.model}.pt", map_location="cpu")
    state = saved["model"]
    about = checkpoint.of_vocabulary(options.work / "tokenizer.model")
    if options.model in ("streams", "shared"):
        of_target = {name.removeprefix("target."): state.pop(name) for name in list(state) if name.startswith("target.")}
        model = trained_streams(state)
        if of_target:
            target = Llama(TARGET)
            target.load_state_dict(merged(of_target))
            checkpoint.save(options.out / "target", target, options.dtype, about)
            shutil.copy(options.work / "tokenizer.model", options.out / "target" / "tokenizer.model")
            about = checkpoint.of_target(options.out / "target")
            options.out /= "streams"
        else:
            about = checkpoint.of_target(SHIPPED / "target")
    else:
        make, config = MODELS[options.model]
        if options.model == "medusa":
            config = dataclasses.replace(config, own_heads="heads.0.weight" in state)
        if options.model == "exit" and "config" in saved:  # its weights do not say which layer it is after
            config = ExitConfig(**saved["config"])
        model = make(config)
        if options.model in TARGETS:
            about = checkpoint.of_target(SHIPPED / TARGETS[options.model])
    model.load_state_dict(state)
    checkpoint.save(options.out, model, options.dtype, about)
    if options.model == "target":  # the draft shares it
        shutil.copy(options.work / "tokenizer.model", options.out / "tokenizer.model")


if __name__ == "__main__":
    main()
