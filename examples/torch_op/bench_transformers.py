# SPDX-License-Identifier: Apache-2.0
"""Measures hunch.transformers beside plain `generate` and the package's own assisted generation, on the CPU.

    PYTHONPATH=build-torch/python python build-torch/test/bench_transformers.py [--pair shipped|large] [--threads 1 2]
        [--rounds 5] [--new-tokens 64] [--prompts 4] [--temperatures 0 1] [--top-p 0.9]

Candidates take turns on the same prompt in every round, after one round that is not counted. Printed are medians over
rounds and prompts: tokens per second, the speed over plain `generate` of the same round, and, counted in a further run,
tokens per pass of the target and the accepted part of the drafts. --clock cpu counts the processor's time, which others
on the machine disturb less; with several threads it adds theirs up, so it is for one.

`large`: a random Llama of 12 layers, hidden 1024, whose later layers add little, and its first two layers as the draft;
it says what drafts cost where a pass of the target is long, and nothing about any text.
"""
import argparse
import time
from statistics import median

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import shipped_pair
from hunch.transformers import AdaptiveLength, Speculative


def large_pair(layers=12, exit_layer=2, later=0.05, sharpness=8.0):
    """A target and a draft that shares its first layers, embedding and head. `later` scales what the other layers add,
    and so how often drafts are accepted; `sharpness` the logits, since those of random weights say little."""
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=16000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=layers,
                         num_attention_heads=16, num_key_value_heads=8, max_position_embeddings=2048,
                         tie_word_embeddings=True, eos_token_id=None, pad_token_id=0)
    target = LlamaForCausalLM._from_config(config, attn_implementation="sdpa").eval().requires_grad_(False)
    for layer in target.model.layers[exit_layer:]:
        layer.self_attn.o_proj.weight.mul_(later)
        layer.mlp.down_proj.weight.mul_(later)
    target.model.norm.weight.fill_(sharpness)
    config = LlamaConfig(**(config.to_dict() | {"num_hidden_layers": exit_layer}))
    draft = LlamaForCausalLM._from_config(config, attn_implementation="sdpa").eval().requires_grad_(False)
    draft.load_state_dict({k: v for k, v in target.state_dict().items() if k in draft.state_dict()})
    for m in (target, draft):
        m.generation_config.pad_token_id = 0
    return target, draft


class Assisted:
    """`generate(assistant_model=...)`; with a number of drafts, so many in each step, whatever the draft thinks."""

    def __init__(self, draft, drafts=None):
        self.draft, self.drafts = draft, drafts
        self.settings = {"num_assistant_tokens": 20, "num_assistant_tokens_schedule": "constant",
                         "assistant_confidence_threshold": 0.4}
        if drafts is not None:
            self.settings |= {"num_assistant_tokens": drafts, "assistant_confidence_threshold": 0.0}

    def __call__(self, target, ids, options):
        for name, value in self.settings.items():
            setattr(self.draft.generation_config, name, value)
        return target.generate(ids, assistant_model=self.draft, **options)


class Ours:
    def __init__(self, draft, **method):
        self.method = Speculative(draft, **method)

    def __call__(self, target, ids, options):
        return target.generate(ids, custom_generate=self.method, **options)


def plain(target, ids, options):
    return target.generate(ids, **options)


def counted(run, target, ids, options):
    """Tokens per pass of the target, and the accepted part of the drafts, from the rows that it reads."""
    rows = []
    hook = target.register_forward_pre_hook(
        lambda module, args, inputs: rows.append(inputs["input_ids"].shape[1]), with_kwargs=True)
    text = run(target, ids, options)
    hook.remove()
    prompt, new = ids.shape[1], text.shape[1] - ids.shape[1]
    # A first pass reads the prompt: alone, all but its last token, or drafts behind it.
    passes = rows[1:] if rows[0] == prompt - 1 else [rows[0] - prompt + 1, *rows[1:]]
    drafted = sum(passes) - len(passes)
    return new / len(passes), (new - len(passes)) / drafted if drafted else float("nan")


def measure(candidates, target, prompts, options, rounds, clock):
    """Of each candidate the median of tokens per second and of its speed over the first one's."""
    seconds = {name: [] for name in candidates}
    for turn in range(rounds + 1):
        for ids in prompts if turn else prompts[:1]:
            for name, run in candidates.items():
                torch.manual_seed(turn)
                began = clock()
                text = run(target, ids, options)
                took = (clock() - began) / (text.shape[1] - ids.shape[1])
                if turn:
                    seconds[name].append(took)
    first = next(iter(seconds.values()))
    return {name: (1 / median(t), median(f / s for f, s in zip(first, t))) for name, t in seconds.items()}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pair", choices=("shipped", "large"), default="shipped")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0.0, 1.0])
    parser.add_argument("--top-p", type=float, default=1.0, help="where the temperature is not 0")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--prompts", type=int, default=4)
    parser.add_argument("--drafts", type=int, default=3, help="of the candidates with a fixed number")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    return parser.parse_args()


def main():
    args = arguments()
    clock = time.perf_counter if args.clock == "wall" else time.process_time
    if args.pair == "shipped":
        target, draft = shipped_pair.pair()
        texts = [d[0] for d in shipped_pair.prompts(1, 64).values()]
        prompts = [torch.tensor([t]) for t in texts[:: max(len(texts) // args.prompts, 1)][: args.prompts]]
    else:
        target, draft = large_pair()
        prompts = list(torch.randint(16000, (args.prompts, 1, 64), generator=torch.Generator().manual_seed(1)))
    print(f"pair {args.pair}, {len(prompts)} prompts of 64 tokens, {args.new_tokens} new tokens, "
          f"{args.rounds} rounds, {args.clock} clock")
    for threads in args.threads:
        torch.set_num_threads(threads)
        for temperature in args.temperatures:
            options = dict(max_new_tokens=args.new_tokens, do_sample=temperature > 0)
            if temperature > 0:
                options |= dict(temperature=temperature, top_k=0, top_p=args.top_p)
            candidates = {
                "plain generate": plain,
                "assisted, default": Assisted(draft),
                f"assisted, {args.drafts}": Assisted(draft, args.drafts),
                f"hunch, {args.drafts}": Ours(draft, num_draft_tokens=args.drafts),
                "hunch, adaptive": Ours(draft, num_draft_tokens=AdaptiveLength()),
                "hunch, tree 3 2 1": Ours(draft, tree=(3, 2, 1)),
            }
            found = measure(candidates, target, prompts, options, args.rounds, clock)
            print(f"\n{threads} thread{'s' if threads > 1 else ''}, T = {temperature:g}"
                  + (f", top-p {args.top_p:g}" if temperature > 0 and args.top_p < 1 else ""))
            print(f"{'':20} {'tokens/s':>9} {'speed':>7} {'per pass':>9} {'accepted':>9}")
            for name, (rate, speed) in found.items():
                torch.manual_seed(99)
                counts = [counted(candidates[name], target, ids, options) for ids in prompts]
                per_pass, accepted = (sum(c) / len(counts) for c in zip(*counts))
                print(f"{name:20} {rate:9.1f} {speed:6.2f}x {per_pass:9.2f} {accepted:9.3f}", flush=True)


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    main()
