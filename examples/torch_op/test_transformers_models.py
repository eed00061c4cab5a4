# SPDX-License-Identifier: Apache-2.0
"""Tests which models, options and texts hunch.transformers takes, and by what message it refuses the others.

    PYTHONPATH=build-torch/python python build-torch/test/test_transformers_models.py
"""
import unittest
from unittest import mock

import numpy
import torch
from tokenizers import Regex, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import (BartConfig, BartForCausalLM, BloomConfig, BloomForCausalLM, DynamicCache, EosTokenCriteria,
                          GenerationConfig, GPT2LMHeadModel, GPTNeoConfig, GPTNeoForCausalLM, LlamaForCausalLM, LogitsProcessor,
                          LogitsProcessorList, MambaConfig, MambaForCausalLM, MaxLengthCriteria, MiniMaxConfig,
                          MiniMaxForCausalLM, MistralForCausalLM, OpenAIGPTConfig, OpenAIGPTLMHeadModel,
                          PreTrainedTokenizerFast, Qwen2ForCausalLM, RwkvConfig, RwkvForCausalLM, StoppingCriteria, StoppingCriteriaList)

import hunch
from hunch import _transformers_loop as loop
from hunch import _transformers_texts
from hunch._transformers_cache import Reader
from hunch._transformers_readers import honours_tree_masks
from hunch.transformers import Speculative, generate
from tiny_models import V, tiny


SHAPE = dict(vocab_size=V, bos_token_id=None, eos_token_id=None, pad_token_id=0)


def other(kind, config):
    """A random model of an architecture that stands for others of its kind."""
    torch.manual_seed(1)
    model = kind._from_config(config).eval().requires_grad_(False)
    model.generation_config.pad_token_id = 0
    return model


class Refused(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model, cls.assistant = tiny(LlamaForCausalLM, 1), tiny(Qwen2ForCausalLM, 2)
        cls.ids = torch.tensor([[1, 2, 3]])

    def refused(self, words, error=NotImplementedError, model=None, assistant=None, ids=None, **options):
        with self.assertRaisesRegex(error, words):
            generate(model or self.model, assistant or self.assistant, self.ids if ids is None else ids,
                     **{"max_new_tokens": 4} | options)

    def same(self, model, ids, assistant=None, new=20, **options):
        plain = model.generate(ids, max_new_tokens=new, do_sample=False, **options)
        ours = generate(model, assistant or model, ids, max_new_tokens=new, do_sample=False, num_draft_tokens=3,
                        **options)
        self.assertEqual(plain.tolist(), ours.tolist())

    def test_options(self):
        self.refused("num_beams=3", num_beams=3)
        self.refused("return_dict_in_generate", return_dict_in_generate=True)
        self.refused("use_cache=False", use_cache=False)
        self.refused("cache_implementation='static'", cache_implementation="static")
        self.refused("rule 'block' judges chains", ValueError, rule="block", tree=(2, 1))
        self.refused("a tree has one child", ValueError, tree=(2, 0))
        self.refused("a tree has one child", ValueError, tree=(2.5,))
        self.refused("a level of 9 children, and model and assistant have 8", ValueError, tree=(2, 9))
        self.refused("rule must be 'rejection' or 'block', it is 'foo'", ValueError, rule="foo")
        self.refused("num_draft_tokens must be", ValueError, num_draft_tokens=[2, 1.5])
        self.refused("num_draft_tokens must be", ValueError, num_draft_tokens=[])
        self.refused("stop_strings need the tokenizer", ValueError, stop_strings=["."])
        self.refused("force_words_ids", force_words_ids=[[1]], num_beams=1)
        self.refused("prefill_chunk_size=4", prefill_chunk_size=4)
        self.refused("assistant_model, which is", assistant_model=self.assistant)
        self.refused("assistant_tokenizer, which is", assistant_tokenizer=object())
        self.refused("synced_gpus, which is", synced_gpus=True)
        self.refused("num_draft_tokens must be", ValueError, num_draft_tokens=-1)
        self.refused("num_draft_tokens must be", ValueError, num_draft_tokens="fast")
        self.refused("one for each of 1 rows", ValueError, seed=[1, 2])
        self.refused("position_ids that do not count", position_ids=torch.tensor([[3, 4, 5]]))

    def test_models(self):
        self.refused("vocabularies of LlamaForCausalLM and LlamaForCausalLM have 8 and 4000",
                     assistant=tiny(LlamaForCausalLM, 1, vocabulary=4000))
        training = tiny(LlamaForCausalLM, 1).train()
        self.refused("the model is in training mode", model=training)
        cache = {Reader(self.model, 1).cache_name: DynamicCache(config=self.model.config)}
        self.model(self.ids[:, :2], use_cache=True, **cache)
        self.refused("tokens in it", **cache)

    def test_texts(self):
        self.refused(r"attention_mask must have the shape of input_ids, \[1, 3\], it has \[1, 4\]", ValueError,
                     attention_mask=torch.tensor([[0, 1, 1, 1]]))
        self.refused("padded on the left", ValueError, attention_mask=torch.tensor([[1, 1, 0]]))
        self.refused("one token or more", ValueError, ids=torch.tensor([[1, 2], [1, 2]]),
                     attention_mask=torch.tensor([[1, 1], [0, 0]]))
        self.refused("a streamer takes one text", ValueError, ids=self.ids.repeat(2, 1), streamer=object())

    def test_processors(self):
        class Counts(LogitsProcessor):
            def __call__(self, input_ids, scores):
                return scores

        own = LogitsProcessorList([Counts()])
        self.refused("processor Counts is not known", logits_processor=own)
        generate(self.model, self.assistant, self.ids, max_new_tokens=4, logits_processor=own,
                 stateless_processors=(Counts,))
        self.refused("PrefixConstrainedLogitsProcessor", prefix_allowed_tokens_fn=lambda row, ids: [1])
        self.refused("UnbatchedClassifierFreeGuidance", guidance_scale=2.0)

    def test_caches(self):
        window = tiny(MistralForCausalLM, 9, sliding_window=4)
        self.refused("layers of type DynamicSlidingWindowLayer", model=window, ids=self.ids.repeat(2, 1))
        self.refused("draft trees need", model=window, tree=(2, 1))

    def test_models_that_take_no_cache(self):
        """They would read drafts as if no text were before them, and write anything."""
        recurrent = other(RwkvForCausalLM, RwkvConfig(**SHAPE, context_length=64, hidden_size=32, num_hidden_layers=2))
        whole = other(OpenAIGPTLMHeadModel, OpenAIGPTConfig(vocab_size=V, n_positions=64, n_embd=32, n_layer=2,
                                                            n_head=4))
        for model in (recurrent, whole):
            name = type(model).__name__
            self.refused(f"the forward of {name} takes no cache", model=model)
            self.refused(f"the forward of {name} takes no cache", model=model, ids=self.ids.repeat(2, 1))
            self.refused(f"the forward of {name} takes no cache", assistant=model)

    def test_a_cache_that_is_not_used(self):
        forgetful = tiny(LlamaForCausalLM, 1)
        inner = forgetful.forward

        def forward(input_ids, position_ids=None, cache=None, **rest):
            return inner(input_ids=input_ids, position_ids=position_ids)

        forgetful.forward = forward
        self.refused("leaves its cache empty", model=forgetful)
        self.refused("leaves its cache empty", model=forgetful, ids=self.ids[:, :1])

    def test_caches_that_do_not_go_back(self):
        recurrent = other(MambaForCausalLM, MambaConfig(**SHAPE, hidden_size=32, num_hidden_layers=2, state_size=4))
        self.refused("the cache of MambaForCausalLM cannot be cropped", model=recurrent)
        self.refused("the cache of MambaForCausalLM cannot be cropped", assistant=recurrent)
        self.refused("a batch of more than one needs", model=recurrent, ids=self.ids.repeat(2, 1))
        cache = DynamicCache(config=recurrent.config)
        recurrent(self.ids[:, :2], use_cache=True, cache=cache)
        self.refused("tokens in it", model=recurrent, cache=cache)
        own = other(MiniMaxForCausalLM, MiniMaxConfig(**SHAPE, hidden_size=32, intermediate_size=48, block_size=8,
                                                      num_hidden_layers=2, num_attention_heads=4,
                                                      num_key_value_heads=2, num_local_experts=2))
        self.refused("MiniMaxForCausalLM does not read with the cache DynamicCache: ", model=own)
        self.refused("MiniMaxForCausalLM does not read with the cache DynamicCache: ", assistant=own)

    def test_windows_that_attention_makes(self):
        """GPT-Neo's come from the width of the cache, and not from the mask."""
        model = other(GPTNeoForCausalLM, GPTNeoConfig(**SHAPE, hidden_size=32, num_layers=2, num_heads=4, window_size=4,
                                                      attention_types=[[["global", "local"], 1]],
                                                      initializer_range=0.3, max_position_embeddings=64))
        self.same(model, self.ids)
        self.refused("makes windows of its own", model=model, ids=self.ids.repeat(2, 1))
        self.refused("makes windows of its own", model=model, tree=(2, 1))
        model = other(GPTNeoForCausalLM, GPTNeoConfig(**SHAPE, hidden_size=32, num_layers=2, num_heads=4,
                                                      attention_types=[[["global"], 2]], initializer_range=0.3,
                                                      max_position_embeddings=64))
        self.same(model, torch.tensor([[0, 0, 1, 2, 3], [4, 5, 6, 7, 1]]),
                  attention_mask=torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]]))

    def test_padding_that_counts(self):
        """A reader leaves padding out, which `model.generate` counts where positions are not an argument."""
        ids, mask = torch.tensor([[0, 0, 1, 2, 3]]), torch.tensor([[0, 0, 1, 1, 1]])
        absolute = other(BartForCausalLM, BartConfig(
            vocab_size=V, d_model=32, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=48, init_std=0.3,
            max_position_embeddings=64, bos_token_id=None, eos_token_id=None, pad_token_id=0, forced_eos_token_id=None,
            decoder_start_token_id=None))
        self.refused("padding counts in the positions of BartForCausalLM", model=absolute, ids=ids,
                     attention_mask=mask)
        self.same(absolute, ids[:, 2:])
        self.same(self.model, ids, assistant=absolute, attention_mask=mask)  # drafts are any
        relative = other(BloomForCausalLM, BloomConfig(**SHAPE, hidden_size=32, n_layer=2, n_head=4,
                                                       initializer_range=0.3))
        self.same(relative, ids, attention_mask=mask)
        self.same(relative.bfloat16(), ids, new=2, attention_mask=mask)

    def test_masks_are_asked_for(self):
        self.assertTrue(honours_tree_masks(self.model))
        self.assertTrue(honours_tree_masks(tiny(GPT2LMHeadModel, 4)))
        deaf = tiny(LlamaForCausalLM, 1)
        inner = deaf.forward

        def forward(input_ids, attention_mask=None, position_ids=None, cache=None, logits_to_keep=0, **rest):
            return inner(input_ids=input_ids, position_ids=position_ids, cache=cache, logits_to_keep=logits_to_keep,
                         **rest)

        deaf.forward = forward
        self.assertFalse(honours_tree_masks(deaf))
        self.refused("does not honour masks", model=deaf, ids=self.ids.repeat(2, 1))

    def test_rows_without_a_law(self):
        broken = tiny(LlamaForCausalLM, 1)
        broken.lm_head.weight[3] = torch.nan
        with self.assertRaises(hunch.StatusError):
            generate(broken, self.assistant, self.ids, max_new_tokens=4, num_draft_tokens=2)
        for lengths in (2, "auto"):  # an assistant without laws costs time only
            plain = self.model.generate(self.ids, max_new_tokens=9, do_sample=False)
            self.assertEqual(plain.tolist(), generate(self.model, broken, self.ids, num_draft_tokens=lengths,
                                                      max_new_tokens=9, do_sample=False).tolist())
            generate(self.model, broken, self.ids, num_draft_tokens=lengths, max_new_tokens=9, do_sample=True)

    def test_caches_grow(self):
        with mock.patch.object(loop, "FIRST_ROOM", 1), mock.patch.object(loop, "SPARE", 0):
            for options in (dict(num_draft_tokens=3), dict(tree=(2, 2))):
                plain = self.model.generate(self.ids, max_new_tokens=30, do_sample=False)
                self.assertEqual(plain.tolist(), generate(self.model, self.assistant, self.ids, max_new_tokens=30,
                                                          do_sample=False, **options).tolist())


class Arguments(unittest.TestCase):
    """Of one method, in several calls."""

    @classmethod
    def setUpClass(cls):
        cls.model, cls.assistant = tiny(LlamaForCausalLM, 1), tiny(Qwen2ForCausalLM, 2)
        cls.ids = torch.tensor([[1, 2, 3], [3, 2, 1]])

    def texts(self, calls=2, **options):
        method = Speculative(self.assistant, **options)
        return [self.model.generate(self.ids, custom_generate=method, max_new_tokens=12, do_sample=True).tolist()
                for _ in range(calls)]

    def test_iterators_are_not_used_up(self):
        wanted = self.texts(num_draft_tokens=[3, 2], seed=[7, 8])
        self.assertEqual(wanted[0], wanted[1])
        self.assertEqual(self.texts(num_draft_tokens=iter([3, 2]), seed=iter([7, 8])), wanted)
        self.assertEqual(self.texts(num_draft_tokens=numpy.array([3, 2]), seed=range(7, 9)), wanted)
        self.assertEqual(self.texts(num_draft_tokens=[3, 2], seed=torch.tensor([7, 8])), wanted)
        self.assertEqual(self.texts(num_draft_tokens=[3, 2], seed=numpy.int64(7)), wanted)
        wanted = self.texts(tree=(2, 1), seed=7)
        self.assertEqual(self.texts(tree=iter([2, numpy.int64(1)]), seed=7), wanted)

    def test_stop_strings(self):
        letters = Tokenizer(WordLevel({letter: i for i, letter in enumerate("abcdefgh")}, unk_token="a"))
        letters.pre_tokenizer, letters.decoder = pre_tokenizers.Split(Regex("."), "isolated"), decoders.Fuse()
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=letters, clean_up_tokenization_spaces=False)
        plain = self.model.generate(self.ids, max_new_tokens=30, do_sample=False)[0].tolist()
        string = "".join("abcdefgh"[token] for token in plain[9:11])  # of two tokens
        wanted = dict(max_new_tokens=30, do_sample=False, stop_strings=[string, "never"], tokenizer=tokenizer)
        stopped = self.model.generate(self.ids, **wanted).tolist()
        self.assertLess(len(stopped[0]), 33)
        for drafts in (dict(num_draft_tokens=5), dict(tree=(2, 2))):
            self.assertEqual(generate(self.model, self.model, self.ids, **drafts, **wanted).tolist(), stopped)
        config = GenerationConfig(max_new_tokens=30, do_sample=False, stop_strings=string, pad_token_id=0)
        for stops in (dict(), dict(stop_strings=string)):  # of the config, or in its place
            self.assertEqual(generate(self.model, self.assistant, self.ids, generation_config=config,
                                      tokenizer=tokenizer, **stops).tolist(), stopped)
        self.assertEqual(config.stop_strings, string)
        generate(self.model, self.assistant, self.ids, max_new_tokens=3, tokenizer=tokenizer)  # which is not needed

    def test_a_wrong_rule_is_said_at_once(self):
        with self.assertRaisesRegex(ValueError, "rule must be"):
            Speculative(self.assistant, rule="foo")

    def test_a_limit_takes_no_memory(self):
        class Stops(StoppingCriteria):
            def __call__(self, input_ids, scores, **kwargs):
                return torch.full((len(input_ids),), input_ids.shape[1] >= 20)

        for options in (dict(num_draft_tokens=3), dict(tree=(2, 2))):
            with mock.patch.object(_transformers_texts, "FIRST_ROOM", 2):
                plain = self.model.generate(self.ids, max_new_tokens=17, do_sample=False)
                ours = generate(self.model, self.assistant, self.ids, max_new_tokens=10**11, do_sample=False,
                                stopping_criteria=StoppingCriteriaList([Stops()]), **options)
                self.assertEqual(plain.tolist(), ours.tolist())

    def test_criteria_of_derived_classes_are_asked(self):
        class LaterEos(EosTokenCriteria):
            """Ends a text at the second end token."""

            def __call__(self, input_ids, scores, **kwargs):
                return (input_ids[:, 3:] == self.eos_token_id).sum(1) >= 2

        class Sooner(MaxLengthCriteria):
            def __call__(self, input_ids, scores, **kwargs):
                return torch.full((len(input_ids),), input_ids.shape[1] >= self.max_length - 5)

        plain = self.model.generate(self.ids, max_new_tokens=30, do_sample=False)
        token = next(t for t in plain[0, 3:].tolist() if plain[0, 3:].tolist().count(t) > 1)
        criteria = StoppingCriteriaList([LaterEos(token), Sooner(25)])
        ours = generate(self.model, self.assistant, self.ids[:1], max_new_tokens=30, do_sample=False,
                        stopping_criteria=criteria)[0].tolist()
        places = [i for i, t in enumerate(plain[0].tolist()) if i >= 3 and t == token]
        self.assertEqual(ours, plain[0, : min(places[1] + 1, 20)].tolist())


class Vocabularies(unittest.TestCase):
    def test_padded_sizes(self):
        """The larger one's tokens beyond the smaller one are never drafted, and are emitted if the model says so."""
        for sizes in ((40, 48), (48, 40)):
            model, assistant = (tiny(LlamaForCausalLM, 1 + i, vocabulary=n) for i, n in enumerate(sizes))
            ids = torch.tensor([[sizes[0] - 1, 2, 3], [4, 5, 6]])
            plain = model.generate(ids, max_new_tokens=30, do_sample=False)
            self.assertEqual(plain.tolist(), generate(model, assistant, ids, num_draft_tokens=3, max_new_tokens=30,
                                                      do_sample=False).tolist())
            generate(model, assistant, ids, num_draft_tokens=3, max_new_tokens=30, do_sample=True, seed=1)

    def test_padded_sizes_and_processors(self):
        """Which name tokens of the model that the assistant may lack."""
        for sizes in ((40, 48), (48, 40)):
            model, assistant = (tiny(LlamaForCausalLM, 1 + i, vocabulary=n) for i, n in enumerate(sizes))
            last = sizes[0] - 1
            ids = torch.tensor([[last, 2, 3], [4, 5, 6]])
            for options in (dict(bad_words_ids=[[last], [5, 6]]), dict(sequence_bias={(last,): 3.0, (7, last): -2.0}),
                            dict(eos_token_id=last, forced_eos_token_id=last), dict(repetition_penalty=1.3),
                            dict(eos_token_id=last, exponential_decay_length_penalty=(4, 1.2)),
                            dict(suppress_tokens=[last, 3]), dict(remove_invalid_values=True)):
                for drafts in (dict(num_draft_tokens=3), dict(tree=(2, 2))):
                    with self.subTest(sizes, **options, **drafts):
                        plain = model.generate(ids, max_new_tokens=12, do_sample=False, **options)
                        self.assertEqual(plain.tolist(), generate(model, assistant, ids, max_new_tokens=12,
                                                                  do_sample=False, **drafts, **options).tolist())
                        generate(model, assistant, ids, max_new_tokens=12, do_sample=True, seed=1, **drafts,
                                 **options)


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    unittest.main()
