# SPDX-License-Identifier: Apache-2.0
"""Makes safetensors of weights that PyTorch has pickled, without running what the pickle says.

    python convert.py --model DIR|FILE --out DIR

DIR has pytorch_model.bin, or the shards of pytorch_model.bin.index.json; FILE is a .bin, .pt or .pth with tensors by
name, or with a list of token ids, which becomes the tensor "token_map". Configs and tokenizers beside them are copied. Tensors keep their types, but for float64, which becomes float32.
"""
import argparse
import json
import pickle
import re
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

BESIDE = ("*.json", "*.model", "*.txt", "*.tiktoken")
INDEX = "pytorch_model.bin.index.json"
NESTED = ("state_dict", "model_state_dict", "model", "module")  # where training programs put the weights


def files_of(source):
    if source.is_file():
        return [source]
    if (source / INDEX).exists():
        names = sorted(set(json.loads((source / INDEX).read_text())["weight_map"].values()))
        outside = [name for name in names if Path(name).name != name]
        if outside:
            sys.exit(f"{source / INDEX}: names {outside[0]}, which is no file of the directory")
        return [source / name for name in names]
    for name in ("pytorch_model.bin", "consolidated.00.pth", "model.pt"):
        if (source / name).exists():
            return [source / name]
    sys.exit(f"{source}: has neither {INDEX} nor pytorch_model.bin")


def is_list(found):
    """Whether it is a list of token ids, as FR-Spec's rankings are published."""
    if isinstance(found, torch.Tensor):
        return found.dim() == 1 and not found.is_floating_point()
    return isinstance(found, list) and len(found) > 0 and all(isinstance(id, int) for id in found)


def tensors_of(file):
    """By name. A pickle that names anything but tensors is refused by torch, and not run."""
    try:
        found = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        # What torch says goes on with how to run it nevertheless.
        named = re.search(r"GLOBAL ([\w.]+)", str(error))
        sys.exit(f"{file}: is no pickle of tensors alone, and is not read"
                 + (f": it asks for {named[1]}" if named else ""))
    except (RuntimeError, EOFError, OSError) as error:
        sys.exit(f"{file}: {error}")
    for key in NESTED:
        if isinstance(found, dict) and isinstance(found.get(key), dict):
            found = found[key]
    if is_list(found):
        return {"token_map": torch.as_tensor(found, dtype=torch.int64)}
    if not isinstance(found, dict) or not all(isinstance(value, torch.Tensor) for value in found.values()):
        sys.exit(f"{file}: is no table of tensors by name")
    return found


def plain(tensor):
    """With memory of its own: a file of safetensors shares none."""
    return (tensor.float() if tensor.dtype == torch.float64 else tensor).detach().contiguous().clone()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    a = parser.parse_args()
    tensors = {}
    for file in files_of(a.model):
        for name, tensor in tensors_of(file).items():
            if name in tensors:
                sys.exit(f"{file}: has {name}, which an earlier file has, too")
            tensors[name] = plain(tensor)
    a.out.mkdir(parents=True, exist_ok=True)
    save_file(tensors, a.out / "model.safetensors", metadata={"format": "pt"})
    folder = a.model if a.model.is_dir() else a.model.parent
    for pattern in BESIDE if "token_map" not in tensors else ():
        for file in folder.glob(pattern):
            if file.name != INDEX and file.parent.resolve() != a.out.resolve():
                shutil.copy(file, a.out)
    print(f"{a.out / 'model.safetensors'}: {len(tensors)} tensors, "
          f"{sum(t.numel() * t.element_size() for t in tensors.values()):,} bytes")


if __name__ == "__main__":
    main()
