# SPDX-License-Identifier: Apache-2.0
"""Hugging Face model directories: config.json, model.safetensors (or shards and an index).

Beside the usual float formats there is I8: a matrix `X.weight` is int8 [out, in] with a companion
`X.weight_scale`, float32 [out]; the value of an element is its integer times its row's scale. Norms stay F32.
"""
import dataclasses
import json
import shutil
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import fingerprints
from canvas_head.model import CanvasHead, CanvasHeadConfig
from eagle.model import Eagle
from eagle3.model import Eagle3, Eagle3Config
from early_exit.model import Exit, ExitConfig
from llama.model import Config, Llama
from masked.model import Masked, MaskedConfig
from medusa.model import Medusa, MedusaConfig
from streams.model import StreamConfig, Streams

SHARD_BYTES = 16 << 20
# Of the target's states: no layers of their own.
ADAPTERS = {Medusa: "HunchMedusaHeads", Exit: "HunchEarlyExit", Streams: "HunchSpeculativeStreams"}
# Without a module of that name around them.
PREFIXES = {Eagle: "model.", CanvasHead: "model.", Exit: "exit.", Streams: "streams."}
FLOATS = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def quantise(name, weight):
    """Symmetric, one scale per row, the largest element at 127."""
    scale = weight.abs().amax(dim=1).clamp(min=1e-12) / 127
    return {name: (weight / scale[:, None]).round().to(torch.int8), f"{name}_scale": scale}


def encode(state, dtype):
    """Tensors of a file in one of the formats I8, F32, F16, BF16."""
    tensors = {}
    for name, value in state.items():
        value = value.detach().float().cpu().contiguous()
        if dtype != "I8":
            tensors[name] = value.to(FLOATS[dtype])
        elif value.ndim == 2:
            tensors.update(quantise(name, value))
        else:
            tensors[name] = value
    return tensors


def decode(tensors):
    """The float32 state dict of a file in any of the formats."""
    return {name: value.float() * tensors[f"{name}_scale"][:, None] if value.dtype == torch.int8 else value.float()
            for name, value in tensors.items() if not name.endswith("_scale")}


def shards(tensors):
    """Consecutive groups of tensors of at most SHARD_BYTES, where a single tensor allows it."""
    groups, size = [{}], 0
    for name, value in tensors.items():
        bytes_ = value.numel() * value.element_size()
        if groups[-1] and size + bytes_ > SHARD_BYTES - 65536:  # room for the header
            groups.append({})
            size = 0
        groups[-1][name] = value
        size += bytes_
    return groups


def of_vocabulary(tokenizer):
    """What the config of a model says of the tokenizer that it was trained with."""
    return {"vocabulary_fingerprint": fingerprints.text(fingerprints.vocabulary(tokenizer))}


def of_target(folder):
    """What the config of a head says of the target that it was trained for."""
    return {"target_head_fingerprint": made_for(folder)["head"]}


def made_for(folder):
    """What a layout, a ranking or a router says of the model whose head it is made for."""
    fields, head = config_of(folder), load_state(folder)["model.embed_tokens.weight"]
    return {"vocab_size": str(fields["vocab_size"]),
            "vocabulary": fields.get("vocabulary_fingerprint", fingerprints.UNKNOWN),
            "head": fingerprints.text(fingerprints.head(head.numpy()))}


def save(folder, model, dtype="I8", about={}):
    """`about`: more fields of the config."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("model*.safetensors*"):
        old.unlink()
    fields = dataclasses.asdict(model.config)
    if type(model) in ADAPTERS:
        config = {"architectures": [ADAPTERS[type(model)]], **fields}
    else:
        config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", **fields,
                  "hidden_act": "silu", "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": True,
                  "bos_token_id": 1, "eos_token_id": 2}
    if isinstance(model, Masked):
        config |= {"architectures": ["HunchMaskedLlama"], "attention": "causal_prefix", "shifted": True}
    if isinstance(model, Eagle3):
        config |= {"architectures": ["LlamaForCausalLMEagle3"]}
    config |= {**about, "torch_dtype": "float32", "weight_format": dtype}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    prefix = PREFIXES.get(type(model), "")
    write_tensors(folder, encode({prefix + name: value for name, value in model.state_dict().items()}, dtype))


def write_tensors(folder, tensors):
    groups = shards(tensors)
    if len(groups) == 1:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        return
    weight_map = {}
    for i, group in enumerate(groups, 1):
        name = f"model-{i:05}-of-{len(groups):05}.safetensors"
        save_file(group, folder / name, metadata={"format": "pt"})
        weight_map.update(dict.fromkeys(group, name))
    total = sum(t.numel() * t.element_size() for t in tensors.values())
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}, indent=1) + "\n")


def convert(source, folder, dtype):
    """A directory, whatever it holds, with its weights in another format; what else lies in it is copied."""
    source, folder = Path(source), Path(folder)
    if folder.exists() and folder.samefile(source):
        raise ValueError(f"{folder} would be written over what is read")
    folder.mkdir(parents=True, exist_ok=True)
    for path in source.iterdir():
        if path.is_file() and not path.name.startswith("model"):
            shutil.copy(path, folder / path.name)
    fields = config_of(source) | {"weight_format": dtype}
    (folder / "config.json").write_text(json.dumps(fields, indent=2) + "\n")
    write_tensors(folder, encode(load_state(source), dtype))


def config_of(folder):
    """The fields of a config. A model that does not name its vocabulary reads what the tokenizer beside it writes."""
    fields, tokenizer = json.loads((Path(folder) / "config.json").read_text()), Path(folder) / "tokenizer.model"
    if "vocabulary_fingerprint" not in fields and tokenizer.exists():
        fields |= of_vocabulary(tokenizer)
    return fields


def load_made_for(path, known, name):
    """The tensors of a file that says what it was made for, compared with what is known of `name`: `made_for`, and of
    a router the layout too."""
    with safe_open(path, "pt") as file:
        fingerprints.check(path, file.metadata() or {}, known, name)
    return load_file(path)


def load_state(folder):
    tensors = {}
    for path in sorted(Path(folder).glob("model*.safetensors")):
        tensors.update(load_file(path))
    return decode(tensors)


def loaded(make, config, folder, known=None, name=None):
    """A model of a directory, dequantised, ready to evaluate; `known` of `name`, which its config is compared with."""
    fields = config_of(folder)
    if known:
        fingerprints.check(Path(folder) / "config.json", fields, known, name)
    model = make(config(**{f.name: fields[f.name] for f in dataclasses.fields(config)}))
    prefix = PREFIXES.get(make, "")
    model.load_state_dict({name.removeprefix(prefix): value for name, value in load_state(folder).items()})
    return model.eval().requires_grad_(False)


def loaded_reader(make, config, folder, tokenizer):
    """A model of text. `tokenizer`: the file of that of the text, where it is not its own."""
    return loaded(make, config, folder, tokenizer and of_vocabulary(tokenizer), tokenizer)


def load(folder, tokenizer=None):
    return loaded_reader(Llama, Config, folder, tokenizer)


def load_masked(folder, tokenizer=None):
    return loaded_reader(Masked, MaskedConfig, folder, tokenizer)


def loaded_head(make, config, folder, target):
    """A head for the target of another directory."""
    return loaded(make, config, folder, of_target(target), target)


def load_eagle(folder, target):
    return loaded_head(Eagle, Config, folder, target)


def load_eagle3(folder, target):
    return loaded_head(Eagle3, Eagle3Config, folder, target)


def load_canvas_head(folder, target):
    return loaded_head(CanvasHead, CanvasHeadConfig, folder, target)


def load_medusa(folder, target):
    return loaded_head(Medusa, MedusaConfig, folder, target)


def load_exit(folder, target):
    return loaded_head(Exit, ExitConfig, folder, target)


def load_streams(folder, target):
    return loaded_head(Streams, StreamConfig, folder, target)


def reference(folder):
    """The same weights in `transformers`, float32: the implementation that ours and the engine are held against."""
    from transformers import LlamaConfig, LlamaForCausalLM  # slow to import, and only checks need it
    fields = config_of(folder)
    fields.pop("weight_format")
    model = LlamaForCausalLM._from_config(LlamaConfig(**fields), attn_implementation="eager", dtype=torch.float32)
    state = load_state(folder)
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state)
    return model.eval().requires_grad_(False)
