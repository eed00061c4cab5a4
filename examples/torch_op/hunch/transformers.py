# SPDX-License-Identifier: Apache-2.0
"""Speculative decoding for models of Hugging Face transformers, with the law of `model.generate`.

    from hunch.transformers import generate

    ids = generate(model, assistant, **tokenizer(prompts, return_tensors="pt", padding=True), max_new_tokens=200,
                   do_sample=True, temperature=0.8, top_p=0.95)

Or inside of a call of the model's own:

    ids = model.generate(ids, custom_generate=Speculative(assistant), max_new_tokens=200, do_sample=True)

The assistant draws drafts from its own law, the model reads them in one pass, and `hunch.verify_chain` keeps as many as
the law of the model allows. Batches, prompts padded on the left, several end tokens, stopping criteria and logits
processors are as in `model.generate`. What cannot be exact is refused by a message that names it.
"""
from __future__ import annotations

import copy
from numbers import Integral
from typing import Iterable, Literal, Optional, Union

import torch
from transformers import StoppingCriteriaList, StopStringCriteria

from ._transformers_laws import Laws
from ._transformers_lengths import AdaptiveLength, lasting, schedule
from ._transformers_loop import Loop, Statistics
from ._transformers_readers import why_not_padded
from ._transformers_texts import Texts

__all__ = ["AdaptiveLength", "Speculative", "Statistics", "generate"]

#: Vocabularies may be padded: they count as one if their sizes differ by less.
PADDING_OF_VOCABULARY = 512


class Speculative:
    """A decoding method for `model.generate(custom_generate=...)`: drafts of an assistant, exactly verified.

    Args:
        assistant: a causal language model with the model's vocabulary, on its device. Sizes of vocabularies may differ
            by padding.
        num_draft_tokens: drafts of each step: a number; numbers in turn, of which the last stays; an `AdaptiveLength`,
            which finds the fastest and is kept for further calls; "auto", a new one for each call.
        tree: children of a node at each level, such as (3, 2, 1), the assistant's most probable tokens: verified by
            `hunch.verify_tree` in one pass. In place of num_draft_tokens.
        rule: of chains, "rejection" or "block".
        seed: of the draws: a number, to which the row is added, or one for each row [B]. A seed gives the same text
            whatever else is in the batch, as far as the model's logits do.
        generator: where seeds come from if there is none; None: torch's default, which `torch.manual_seed` sets.
        streamer: gets the tokens of each step; for a batch of one. `model.generate` has no way to hand its own on.
        stateless_processors: types of logits processors of your own that depend on the tokens and scores of one row.

    `statistics` is of the last call. Lossless: the text has the law of `model.generate`, and is its text where that
    does not sample, as far as logits do not depend on the shape of a pass.
    """

    def __init__(self, assistant, *, num_draft_tokens: Union[int, Iterable[int], AdaptiveLength, str] = "auto",
                 tree: Optional[Iterable[int]] = None, rule: Literal["rejection", "block"] = "rejection",
                 seed: Union[int, Iterable[int], None] = None, generator: Optional[torch.Generator] = None,
                 streamer=None, stateless_processors: tuple[type, ...] = ()):
        self.assistant, self.rule, self.streamer = assistant, rule, streamer
        self.seed = seed if seed is None or isinstance(seed, (Integral, torch.Tensor)) else list(seed)
        self.generator, self.stateless = generator, tuple(stateless_processors)
        self.num_draft_tokens = lasting(num_draft_tokens)
        self.tree = None if tree is None else tuple(tree)
        if rule not in ("rejection", "block"):
            raise ValueError(f"hunch.transformers: rule must be 'rejection' or 'block', it is {rule!r}")
        if self.tree is not None:
            if self.num_draft_tokens != "auto" or not self.tree or not all(
                    isinstance(n, Integral) and n >= 1 for n in self.tree):
                raise ValueError("hunch.transformers: a tree has one child or more at each level, a whole number, and "
                                 f"no num_draft_tokens; tree is {self.tree}")
            if rule != "rejection":
                raise ValueError(f"hunch.transformers: the rule {rule!r} judges chains only")
        self.statistics = Statistics()

    def __call__(self, model, input_ids, logits_processor, stopping_criteria, generation_config, **model_kwargs):
        """What `model.generate` calls when its arguments are prepared: token ids [B, prompt and emitted tokens].

        It takes away what it prepares for the model from arguments that have a name here, so the mask has none.
        """
        attention_mask = model_kwargs.pop("attention_mask", None)
        _refuse(model, self.assistant, input_ids, generation_config, model_kwargs)
        batch = input_ids.shape[0]
        if self.streamer is not None and batch > 1:
            raise ValueError("hunch.transformers: a streamer takes one text, and steps of a batch have several")
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        if attention_mask.shape != input_ids.shape:
            raise ValueError(f"hunch.transformers: attention_mask must have the shape of input_ids, "
                             f"{list(input_ids.shape)}, it has {list(attention_mask.shape)}")
        known = min(m.config.get_text_config().vocab_size for m in (model, self.assistant))
        if self.tree is not None and max(self.tree) > known:
            raise ValueError(f"hunch.transformers: tree has a level of {max(self.tree)} children, and model and "
                             f"assistant have {known} tokens in common")
        _refuse_positions(model_kwargs.get("position_ids"), attention_mask)
        laws = Laws(logits_processor, generation_config.do_sample, batch, self.stateless)
        texts = Texts(input_ids, attention_mask, stopping_criteria, _pad_of(generation_config))
        loop = Loop(model, self.assistant, texts, laws, seeds=self._seeds(batch, input_ids.device),
                    lengths=schedule(self.num_draft_tokens), tree=self.tree, rule=self.rule, streamer=self.streamer)
        if any(texts.padding):
            with torch.inference_mode():
                _refuse_if(why_not_padded(model))
        self.statistics = loop.statistics
        if self.streamer is not None:
            self.streamer.put(input_ids.cpu())
        with torch.inference_mode():
            loop.run()
        if self.streamer is not None:
            self.streamer.end()
        return texts.result()

    def _seeds(self, batch, device):
        if self.seed is None:
            return torch.randint(2**62, (batch,), generator=self.generator,
                                 device=self.generator.device if self.generator else "cpu").to(device)
        if isinstance(self.seed, Integral):
            return torch.tensor([int(self.seed) + row for row in range(batch)], dtype=torch.int64, device=device)
        seeds = torch.as_tensor(self.seed, dtype=torch.int64, device=device)
        if seeds.shape != (batch,):
            raise ValueError(f"hunch.transformers: seed must be a number or one for each of {batch} rows")
        return seeds


def generate(model, assistant, input_ids, attention_mask=None, *, generation_config=None,
             num_draft_tokens="auto", tree=None, rule="rejection", seed=None, generator=None, streamer=None,
             stateless_processors=(), **options):
    """Texts of `model`, faster: what `model.generate(input_ids, **options)` returns, by drafts of `assistant`.

    Args:
        model, assistant: causal language models of transformers with one vocabulary, in evaluation mode.
        input_ids: int64 [B, L], padded on the left; attention_mask: [B, L], 0 where there is padding.
        generation_config and options: as for `model.generate`: max_new_tokens, do_sample, temperature, top_k, top_p,
            min_p, eos_token_id, pad_token_id, repetition_penalty, logits_processor, stopping_criteria, stop_strings
            with tokenizer, and others.
        The rest: as for `Speculative`.

    Returns:
        int64 [B, L + the longest continuation], the shorter ones filled up with the pad token.

    Raises:
        NotImplementedError: models, processors or options that this loop would not keep exact, by name.
        ValueError: arguments that contradict each other. hunch.StatusError: the model's logits hold no law.

    Without do_sample the text is that of `model.generate`; with it the law is. Costs one pass of the model for each
    step, one of the assistant for each draft, and caches of both that hold the texts and the drafts of a step.
    """
    for name in ("assistant_model", "assistant_tokenizer", "synced_gpus"):
        value = options.pop(name, None)
        _refuse_if(f"{name}, which is of the package's own assisted or sharded generation" if value else None)
    generation_config = _take_stop_strings(generation_config, options)
    method = Speculative(assistant, num_draft_tokens=num_draft_tokens, tree=tree, rule=rule, seed=seed,
                         generator=generator, streamer=streamer, stateless_processors=stateless_processors)
    return model.generate(input_ids, attention_mask=attention_mask, generation_config=generation_config,
                          custom_generate=method, **options)


def _take_stop_strings(config, options):
    """Makes a stopping criterion of stop_strings and tokenizer, which `model.generate` keeps from a decoding method of
    others; the config without them."""
    strings, tokenizer = options.pop("stop_strings", None), options.pop("tokenizer", None)
    if config is not None and config.stop_strings is not None:
        strings, config = config.stop_strings if strings is None else strings, copy.deepcopy(config)
        config.stop_strings = None
    if strings is not None:
        if tokenizer is None:
            raise ValueError("hunch.transformers: stop_strings need the tokenizer, as tokenizer=...")
        criteria = options.get("stopping_criteria") or []
        options["stopping_criteria"] = StoppingCriteriaList([*criteria, StopStringCriteria(tokenizer, strings)])
    return config


def _refuse_if(what: Optional[str]):
    """Raises with what is not supported, unless it is None."""
    if what is not None:
        raise NotImplementedError(f"hunch.transformers: {what}")


def _has_tokens(cache) -> bool:
    """Whether a cache, or None, has been read into."""
    try:
        return cache is not None and cache.get_seq_length() > 0
    except ValueError:  # nothing but recurrent layers, which do not count
        return cache.has_previous_state()


def _refuse(model, assistant, input_ids, config, model_kwargs):
    """Raises where the text would not be the one of `model.generate`, or would not be returned as it does."""
    for name, m in (("model", model), ("assistant", assistant)):
        if m.config.is_encoder_decoder:
            _refuse_if(f"the {name} {type(m).__name__} has an encoder; only decoders are supported")
        if m.training:
            _refuse_if(f"the {name} is in training mode, and its logits are random; call eval()")
        if m.device != input_ids.device:
            _refuse_if(f"the {name} is on {m.device}, and input_ids on {input_ids.device}")
    sizes = [m.config.get_text_config().vocab_size for m in (model, assistant)]
    if abs(sizes[0] - sizes[1]) >= PADDING_OF_VOCABULARY:
        _refuse_if(f"the vocabularies of {type(model).__name__} and {type(assistant).__name__} have {sizes[0]} and "
                    f"{sizes[1]} tokens; models must share one, padding aside")
    if (config.num_beams or 1) > 1:
        _refuse_if(f"num_beams={config.num_beams}: beams are not samples of a law")
    for name in ("return_dict_in_generate", "output_scores", "output_logits", "output_attentions",
                 "output_hidden_states", "token_healing", "cache_implementation", "prompt_lookup_num_tokens",
                 "penalty_alpha", "dola_layers", "force_words_ids", "constraints", "prefill_chunk_size"):
        if getattr(config, name, None):
            _refuse_if(f"{name}={getattr(config, name)!r}")
    if config.use_cache is False:
        _refuse_if("use_cache=False: drafts are read behind what is cached")
    for name in ("cache", "past_key_values"):
        if _has_tokens(model_kwargs.get(name)):
            _refuse_if(f"{name} with tokens in it: a call begins with its prompt")
    handled = {"position_ids", "logits_to_keep", "use_cache", "cache", "past_key_values"}
    other = [name for name, value in model_kwargs.items() if name not in handled and value is not None]
    if other:
        _refuse_if(f"arguments of the model's forward: {', '.join(other)}")


def _refuse_positions(position_ids, attention_mask):
    """Positions other than those that count the tokens of a prompt."""
    if position_ids is None:
        return
    counted = (attention_mask.long().cumsum(-1) - 1).clamp(min=0)
    present = attention_mask.bool()
    if position_ids.shape != counted.shape or not torch.equal(position_ids[present], counted[present]):
        raise NotImplementedError("hunch.transformers: position_ids that do not count the tokens of each prompt")


def _pad_of(config) -> int:
    """What `model.generate` fills up with."""
    if config.pad_token_id is not None:
        return int(config.pad_token_id)
    eos = config.eos_token_id
    return int(eos[0] if isinstance(eos, (list, tuple)) else eos) if eos is not None else 0
