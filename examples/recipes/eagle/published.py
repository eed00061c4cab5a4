# SPDX-License-Identifier: Apache-2.0
"""Writes tiny/heads/: a small random target, draft heads for it in the files that others publish theirs in, and what these
compute, for parity tests of an engine.

    python -m eagle.published

EAGLE-1 and EAGLE-3 as their authors' files are, EAGLE-3, with norms of two kinds, too, and multi-token prediction as
`speculators` saves them, and Medusa. The layout of
tiny/heads/golden.safetensors is in README.md.
"""
import json
import shutil

import torch
from safetensors.torch import save_file
from torch.nn.functional import silu
from transformers import AutoModelForCausalLM, LlamaConfig

import fingerprints
from masked.golden import randomise
from shipped import MODELS

HEADS = MODELS / "tiny" / "heads"
VOCABULARY, DRAFTED, HIDDEN, INNER, LAYERS = 96, 40, 32, 48, 4
ATTENTION = {"num_attention_heads": 4, "num_key_value_heads": 2}
HEAD_DIM = HIDDEN // ATTENTION["num_attention_heads"]
THETA, EPSILON = 10000.0, 1e-5
LENGTH, AHEAD = 24, 3    # of the text that the target has read; of a chain after it
MEDUSA = 4
SIZES = {"vocab_size": VOCABULARY, "hidden_size": HIDDEN, "intermediate_size": INNER, **ATTENTION,
         "max_position_embeddings": 128, "rms_norm_eps": EPSILON, "tie_word_embeddings": False}


def random(*shape, around=0.0):
    """As in BF16."""
    return (around + 0.2 * torch.randn(shape)).bfloat16().float()


def norm(x, weight):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPSILON) * weight


def rotated(x, places):
    """[heads, rows, size] turned to their places."""
    half = x.shape[-1] // 2
    angle = places[:, None] * THETA ** (-torch.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1)


def layer_weights(inputs):
    query, key = ATTENTION["num_attention_heads"] * HEAD_DIM, ATTENTION["num_key_value_heads"] * HEAD_DIM
    return {"self_attn.q_proj": random(query, inputs), "self_attn.k_proj": random(key, inputs),
            "self_attn.v_proj": random(key, inputs), "self_attn.o_proj": random(HIDDEN, query),
            "mlp.gate_proj": random(INNER, HIDDEN), "mlp.up_proj": random(INNER, HIDDEN),
            "mlp.down_proj": random(HIDDEN, INNER), "post_attention_layernorm": random(HIDDEN, around=1.0)}


class Chain:
    """A layer over rows that are given one after the other, each of which sees those before it."""

    def __init__(self, weights):
        self.w, self.keys, self.values = weights, [], []

    def attended(self, x):
        place = torch.tensor([len(self.keys)])
        query, key, value = ((self.w[f"self_attn.{p}_proj"] @ x).view(-1, 1, HEAD_DIM) for p in "qkv")
        if "self_attn.q_norm" in self.w:
            query, key = norm(query, self.w["self_attn.q_norm"]), norm(key, self.w["self_attn.k_norm"])
        self.keys.append(rotated(key, place))
        self.values.append(value)
        groups = query.shape[0] // key.shape[0]
        keys, values = (torch.cat(of, 1).repeat_interleave(groups, 0) for of in (self.keys, self.values))
        scores = rotated(query, place) @ keys.transpose(1, 2) / HEAD_DIM ** 0.5
        return self.w["self_attn.o_proj"] @ (scores.softmax(-1) @ values).reshape(-1)

    def fed_forward(self, x):
        h = norm(x, self.w["post_attention_layernorm"])
        return x + self.w["mlp.down_proj"] @ (silu(self.w["mlp.gate_proj"] @ h) * (self.w["mlp.up_proj"] @ h))


def along(step, features, ids):
    """Logits of all rows: those whose token the target has read the one before, then a chain of its own states."""
    logits = []
    for i in range(1, LENGTH + AHEAD):
        state, of_row = step(ids[i], features[i - 1] if i <= LENGTH else None, None if i <= LENGTH else state)
        logits.append(of_row)
    return torch.stack(logits)


def eagle(target, features, ids):
    """EAGLE-1: fc [embedding; state], a layer without a norm in front of its attention, none at the end."""
    weights = layer_weights(HIDDEN)
    fc, bias = random(HIDDEN, 2 * HIDDEN), random(HIDDEN)
    chain, embedding = Chain(weights), target.model.embed_tokens.weight

    def step(token, feature, own):
        x = fc @ torch.cat((embedding[token], feature if own is None else own)) + bias
        x = chain.fed_forward(x + chain.attended(x))
        return x, target.lm_head.weight @ x

    tensors = {f"layers.0.{name}.weight": value for name, value in weights.items()}
    tensors |= {"fc.weight": fc, "fc.bias": bias, "embed_tokens.weight": embedding}
    write("eagle", {"architectures": ["LlamaForCausalLM"], **SIZES, "num_hidden_layers": 1, "bias": True}, tensors, target)
    return along(step, features, ids)


def eagle3(target, features, ids, name="eagle3", layer="midlayer", norm_stays=False, norms=0):
    """EAGLE-3: fc of three states; attention over [norm of the embedding; norm of the state]; a head of its own. With
    `norms` of as many parts of the three states in front of fc, the next row reads the state after the last norm, too."""
    weights = layer_weights(2 * HIDDEN)
    fc, last, head = random(HIDDEN, 3 * HIDDEN), random(HIDDEN, around=1.0), random(DRAFTED, HIDDEN)
    of_token, of_state = random(HIDDEN, around=1.0), random(HIDDEN, around=1.0)
    of_parts = [random(3 * HIDDEN // norms, around=1.0) for _ in range(norms)]
    chain, embedding = Chain(weights), target.model.embed_tokens.weight

    def step(token, feature, own):
        if own is None and norms:
            feature = torch.cat([norm(part, weight) for part, weight in zip(feature.chunk(norms), of_parts)])
        x = fc @ feature if own is None else own
        normed = norm(x, of_state)
        attended = chain.attended(torch.cat((norm(embedding[token], of_token), normed)))
        x = chain.fed_forward((normed if norm_stays else x) + attended)
        return norm(x, last) if norms else x, head @ norm(x, last)

    kept = torch.randperm(VOCABULARY)[:DRAFTED].sort().values
    tensors = {f"{layer}.{name}.weight": value for name, value in weights.items()}
    tensors |= {f"{layer}.hidden_norm.weight": of_state, f"{layer}.input_layernorm.weight": of_token, "fc.weight": fc,
                "norm.weight": last, "lm_head.weight": head, "d2t": kept - torch.arange(DRAFTED),
                "t2d": torch.zeros(VOCABULARY, dtype=torch.bool).index_fill(0, kept, True)}
    tensors |= {f"fc_norm.{k}.weight" if norms > 1 else "input_norm.weight": weight for k, weight in enumerate(of_parts)}
    shape = {**SIZES, "num_hidden_layers": 1}
    if name != "eagle3":
        config = {"architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3", "draft_vocab_size": DRAFTED,
                  "norm_before_residual": norm_stays, "eagle_aux_hidden_state_layer_ids": [0, 2, LAYERS],
                  "transformer_layer_config": {"model_type": "llama", **shape}}
        if norms:
            config |= {"norm_before_fc": norms == 1, "fc_norm": norms > 1, "norm_output": True}
        write(name, config, tensors, target)
    else:
        write("eagle3", {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": DRAFTED, **shape}, tensors, target)
    return along(step, features, ids)


def mtp(target, features, ids):
    """Multi-token prediction: fc [norm of the embedding; norm of the state], a whole layer of Qwen3, a norm."""
    weights = layer_weights(HIDDEN) | {"input_layernorm": random(HIDDEN, around=1.0),
                                       "self_attn.q_norm": random(HEAD_DIM, around=1.0),
                                       "self_attn.k_norm": random(HEAD_DIM, around=1.0)}
    fc, last = random(HIDDEN, 2 * HIDDEN), random(HIDDEN, around=1.0)
    of_token, of_state = random(HIDDEN, around=1.0), random(HIDDEN, around=1.0)
    chain, embedding = Chain(weights), target.model.embed_tokens.weight

    def step(token, feature, own):
        x = fc @ torch.cat((norm(embedding[token], of_token), norm(feature if own is None else own, of_state)))
        x = chain.fed_forward(x + chain.attended(norm(x, weights["input_layernorm"])))
        x = norm(x, last)
        return x, target.lm_head.weight @ x

    tensors = weights | {"input_proj": fc, "token_layernorm": of_token, "hidden_layernorm": of_state, "final_layernorm": last}
    shape = {"model_type": "qwen3", **SIZES, "head_dim": HEAD_DIM, "num_hidden_layers": LAYERS}
    write("mtp", {"architectures": ["MTPDraftModel"], "speculators_model_type": "mtp", "num_nextn_predict_layers": 1,
                  "transformer_layer_config": shape},
          {f"mtp_layers.0.{name}.weight": value for name, value in tensors.items()}, target)
    return along(step, features, ids)


def medusa(target, states):
    """Medusa: head j makes lm_head_j (h + silu(W_j h + b_j))."""
    logits, tensors = [], {}
    for j in range(MEDUSA):
        w, b, head = random(HIDDEN, HIDDEN), random(HIDDEN), random(VOCABULARY, HIDDEN)
        tensors |= {f"{j}.0.linear.weight": w, f"{j}.0.linear.bias": b, f"{j}.1.weight": head}
        logits.append((states + silu(states @ w.T + b)) @ head.T)
    write("medusa", {"medusa_num_heads": MEDUSA, "medusa_num_layers": 1}, tensors, target)
    return torch.stack(logits)


def write(name, config, tensors, target):
    folder = HEADS / name
    folder.mkdir(parents=True)
    about = {"target_head_fingerprint": fingerprints.text(fingerprints.head(target.lm_head.weight))}
    (folder / "config.json").write_text(json.dumps(config | about, indent=2) + "\n")
    kept = {key: value if value.dtype in (torch.int64, torch.bool) else value.bfloat16() for key, value in tensors.items()}
    save_file({key: value.contiguous() for key, value in kept.items()}, folder / "model.safetensors",
              metadata={"format": "pt"})


def main():
    torch.manual_seed(0)
    shutil.rmtree(HEADS, ignore_errors=True)
    target = randomise(AutoModelForCausalLM.from_config(LlamaConfig(**SIZES, num_hidden_layers=LAYERS),
                                                        attn_implementation="eager"))
    ids = torch.randint(0, VOCABULARY, (LENGTH + AHEAD,))
    before = []     # layer 0, 1, ..., the norm
    for part in (*target.model.layers, target.model.norm):
        part.register_forward_pre_hook(lambda _, inputs: before.append(inputs[0][0]))
    last = target.model(ids[None, :LENGTH]).last_hidden_state[0]
    three = [torch.cat([before[l] for l in layers], -1) for layers in ((LAYERS - 3, 2, LAYERS // 2), (0, 2, LAYERS))]
    logits = {"eagle": eagle(target, last, ids), "eagle3": eagle3(target, three[0], ids),
              "eagle3_speculators": eagle3(target, three[1], ids, "eagle3_speculators", "layers.0", norm_stays=True),
              "mtp": mtp(target, last, ids), "medusa": medusa(target, last),
              "eagle3_norm": eagle3(target, three[1], ids, "eagle3_norm", "layers.0", norm_stays=True, norms=1),
              "eagle3_norms": eagle3(target, three[1], ids, "eagle3_norms", "layers.0", norms=3)}
    target.to(torch.bfloat16).save_pretrained(HEADS / "target")
    (HEADS / "target" / "generation_config.json").unlink(missing_ok=True)
    save_file({"ids": ids.int()} | {f"{name}.logits": value.contiguous() for name, value in logits.items()},
              HEADS / "golden.safetensors")


if __name__ == "__main__":
    with torch.inference_mode():
        main()
