# SPDX-License-Identifier: Apache-2.0
"""Writes tiny/: small random masked models as LLaDA, Dream and this project write them, the first two with tokenizers
as theirs, and what `transformers` says of canvases, for parity tests of an engine; and a head that drafts for the last of
them, with what model.py says.

    python -m masked.golden

LLaDA is a Llama and Dream a Qwen2 whose attention mask hides nothing; the layout of tiny/golden.safetensors is in
README.md.
"""
import json

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

import checkpoint
from canvas_head.model import CanvasHead, CanvasHeadConfig
from masked import tiny_text
from masked.model import Masked, MaskedConfig, seen_in_group
from shipped import MODELS

TINY = MODELS / "tiny"
VOCABULARY, LAYERS, CONTEXT = 90, 2, 64
OF_TEXT, PADDED = 288, 296  # the vocabularies of those that have a tokenizer; LLaDA's embedding
STORED = 4                  # one in so many of their logits
HIDDEN, HEADS, KEY_VALUE_HEADS, INNER = 32, 4, 2, 48
LENGTH, BLOCK, KNOWN = 22, 6, (1, 6, 11)  # of canvases; tokens in a block; known positions of each canvas
MASK, WRITTEN = VOCABULARY - 1, 3
LLADA = {"model.embed_tokens": "model.transformer.wte", "model.norm": "model.transformer.ln_f",
         "lm_head": "model.transformer.ff_out", "model.layers": "model.transformer.blocks",
         "input_layernorm": "attn_norm", "post_attention_layernorm": "ff_norm", "self_attn.o_proj": "attn_out",
         "mlp.gate_proj": "ff_proj", "mlp.up_proj": "up_proj", "mlp.down_proj": "ff_out", "self_attn.": ""}


def randomise(model):
    """As in BF16; something in every layer: no branch is zero, and norms are not one."""
    for name, p in model.named_parameters():
        if "norm" in name:
            torch.nn.init.uniform_(p, 0.5, 1.5)
        else:
            torch.nn.init.normal_(p, std=0.2)
        p.data = p.data.bfloat16().float()
    return model.eval().requires_grad_(False)


def canvases(mask):
    """Tokens [canvases, LENGTH] with masks, at least one at both ends of a block, from the known ones on."""
    tokens = torch.randint(0, MASK, (len(KNOWN), LENGTH))
    masked = torch.rand(len(KNOWN), LENGTH) < 0.6
    for row, known in zip(masked, KNOWN):
        row[:known] = False
        row[[known, known + BLOCK - 1, known + BLOCK, LENGTH - 1]] = True
    return torch.where(masked, mask, tokens)


def blocks(known):
    return (torch.arange(LENGTH) - known).div(BLOCK, rounding_mode="floor").clamp(min=-1)


def everything(known):
    """Which positions [LENGTH, LENGTH] each one sees."""
    return torch.ones(LENGTH, LENGTH, dtype=torch.bool)


def causal_prefix(known):
    of, place = blocks(known), torch.arange(LENGTH)
    return torch.where(of[:, None] < 0, place <= place[:, None], of <= of[:, None])


def logits(model, tokens, seen):
    """[LENGTH, vocabulary] of a model of `transformers`."""
    hidden = torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)
    return model(tokens[None], attention_mask=hidden[None, None]).logits[0]


def write(name, config, state):
    folder = TINY / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_file({key: value.bfloat16().contiguous() for key, value in state.items()}, folder / "model.safetensors",
              metadata={"format": "pt"})


def sizes(vocabulary):
    return {"hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": LAYERS, "vocab_size": vocabulary,
            "num_attention_heads": HEADS, "num_key_value_heads": KEY_VALUE_HEADS, "max_position_embeddings": CONTEXT}


def llada():
    model = randomise(LlamaForCausalLM._from_config(
        LlamaConfig(**sizes(PADDED), tie_word_embeddings=False, rms_norm_eps=1e-5, rope_theta=500000.0), attn_implementation="eager"))
    state = {}
    for name, value in model.state_dict().items():
        for theirs, ours in LLADA.items():
            name = name.replace(theirs, ours)
        state[name] = value
    write("llada", {"architectures": ["LLaDAModelLM"], "model_type": "llada", "d_model": HIDDEN, "n_heads": HEADS,
                    "n_kv_heads": KEY_VALUE_HEADS, "n_layers": LAYERS, "mlp_hidden_size": INNER,
                    "vocab_size": OF_TEXT, "embedding_size": PADDED, "max_sequence_length": CONTEXT,
                    "rope": True, "rope_theta": 500000.0, "rms_norm_eps": 1e-5, "layer_norm_type": "rms",
                    "block_type": "llama", "activation_type": "silu", "include_bias": False, "include_qkv_bias": False,
                    "weight_tying": False, **tiny_text.llada(TINY / "llada")}, state)
    return model, everything, 0


def dream():
    fields = sizes(OF_TEXT) | {"rms_norm_eps": 1e-6, "hidden_act": "silu", "tie_word_embeddings": False}
    model = randomise(Qwen2ForCausalLM._from_config(Qwen2Config(**fields, rope_theta=1000000.0),
                                                    attn_implementation="eager"))
    write("dream", {"architectures": ["DreamModel"], "model_type": "Dream", **fields, "rope_theta": 1000000.0,
                    "rope_scaling": None, "use_sliding_window": False, **tiny_text.dream(TINY / "dream")},
          model.state_dict())
    return model, everything, 1


def masked():
    config = MaskedConfig(**sizes(VOCABULARY), head_dim=HIDDEN // HEADS, mask_token_id=MASK, block_length=BLOCK)
    checkpoint.save(TINY / "masked", randomise(Masked(config)))
    return checkpoint.reference(TINY / "masked"), causal_prefix, 1


def own_states(model, tokens, known):
    """[LENGTH, hidden] by model.py, of a canvas of masked/."""
    of = blocks(known)
    return model(tokens[None], tokens[None], (of >= 0).long(), of)[0]


def own_logits(tokens, known):
    """What model.py says of the masks of a canvas of masked/, [masks, vocabulary]."""
    model = checkpoint.load_masked(TINY / "masked")
    return (own_states(model, tokens, known) @ model.model.embed_tokens.weight.T)[tokens == MASK]


def head_canvases():
    """Canvases of two blocks after as many that are known; the last one has masks in its second block only."""
    tokens = torch.randint(0, MASK, (3, 4 * BLOCK))
    masked = torch.rand(tokens.shape) < 0.6
    masked[:, :2 * BLOCK] = False
    masked[:, [2 * BLOCK, 2 * BLOCK + 2, -2, -1]] = True
    masked[-1, :3 * BLOCK] = False
    return torch.where(masked, MASK, tokens)


def head_logits(tokens):
    """What a head says of the masks that are left when WRITTEN is put into the first one of each canvas of masked/."""
    config = CanvasHeadConfig(**sizes(VOCABULARY), head_dim=HIDDEN // HEADS, target_layer=1, cached_layers=(0, 1))
    checkpoint.save(TINY / "canvas_head", randomise(CanvasHead(config)),
                    about=checkpoint.of_target(TINY / "masked"))
    head = checkpoint.load_canvas_head(TINY / "canvas_head", TINY / "masked")
    model = checkpoint.load_masked(TINY / "masked")
    embedding, found = model.model.embed_tokens, []
    for row in tokens:
        full = int((row[2 * BLOCK:3 * BLOCK] != MASK).all())
        known, then = model.known(row[None]), row[None, None]
        _, residuals = model.of_readings(known, then, 2 * BLOCK, BLOCK, full, config.target_layer)
        now = then.clone()
        now[..., (row == MASK).nonzero()[0]] = WRITTEN
        seen = seen_in_group(2 * BLOCK, BLOCK, full, row.device)[None]
        outputs, _ = head(known, embedding(now), residuals, now != then, seen)
        found.append((outputs @ embedding.weight.T)[now == MASK])
    return torch.cat(found)


def check_aligned():
    """`Masked.aligned`, which the model is trained by, says what its `forward` says."""
    torch.manual_seed(1)
    model = checkpoint.load_masked(TINY / "masked")
    length, readings = 4 * BLOCK, 3
    clean = torch.randint(0, MASK, (2, length))
    noisy = torch.where(torch.rand(2, readings, length) < 0.5, MASK, clean[:, None])
    for group in (BLOCK, 2 * BLOCK):
        groups, of = torch.arange(length) // group, torch.arange(length) // BLOCK
        each = [model(clean, noisy[:, i], groups, of) for i in range(readings)]
        torch.testing.assert_close(model.aligned(clean, noisy, group, BLOCK), torch.stack(each, 1), atol=1e-4, rtol=1e-4)
    # A group whose first block is full: as if that were known, and the second alone.
    noisy[:, :, 2 * BLOCK:3 * BLOCK] = torch.randint(0, MASK, (2, readings, BLOCK))
    found = model.of_readings(model.known(clean), noisy, 2 * BLOCK, BLOCK, 1)[:, :, 3 * BLOCK:]
    of = torch.arange(length) // BLOCK
    for i in range(readings):
        text = torch.cat((clean[:, :2 * BLOCK], noisy[:, i, 2 * BLOCK:3 * BLOCK], clean[:, 3 * BLOCK:]), 1)
        torch.testing.assert_close(found[:, i], model(text, noisy[:, i], of, of)[:, 3 * BLOCK:], atol=1e-4, rtol=1e-4)


def main():
    torch.manual_seed(0)
    tensors = {}
    for name, make in {"llada": llada, "dream": dream, "masked": masked}.items():
        model, seen, shift = make()
        size, stored = (VOCABULARY, 1) if name == "masked" else (OF_TEXT, STORED)
        mask = json.loads((TINY / name / "config.json").read_text())["mask_token_id"]
        tokens = canvases(mask)
        of_masks = [logits(model, row, seen(known))[(row == mask).nonzero()[:, 0] - shift, :size:stored]
                    for row, known in zip(tokens, KNOWN)]
        if name == "masked":
            difference = max((own_logits(row, known) - theirs).abs().max().item()
                             for row, known, theirs in zip(tokens, KNOWN, of_masks))
            assert difference < 1e-3, f"model.py and transformers differ by {difference}"
        tensors |= {f"{name}.tokens": tokens.int(), f"{name}.known": torch.tensor(KNOWN).int(),
                    f"{name}.logits": torch.cat(of_masks).contiguous()}
    tokens = head_canvases()
    tensors |= {"block_length": torch.tensor([BLOCK]).int(), "written": torch.tensor([WRITTEN]).int(),
                "canvas_head.tokens": tokens.int(), "canvas_head.known": torch.full((len(tokens),), 2 * BLOCK).int(),
                "canvas_head.logits": head_logits(tokens).contiguous()}
    save_file(tensors, TINY / "golden.safetensors")
    check_aligned()


if __name__ == "__main__":
    with torch.inference_mode():
        main()
