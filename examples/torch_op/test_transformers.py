# SPDX-License-Identifier: Apache-2.0
"""Tests hunch.transformers: texts and laws of `model.generate`, on the CPU.

    PYTHONPATH=build-torch/python python build-torch/test/test_transformers.py

Laws are tested by chi-squared at a false-positive rate of 1e-5 for each test, about 2e-4 for all of them; seeds are
fixed, so a run that has passed passes again. A planted wrong rule must fail the same test.
"""
import itertools
import random
import unittest
from unittest import mock

import torch
from transformers import (GenerationConfig, GPT2LMHeadModel, LlamaForCausalLM, LogitsProcessorList, MinPLogitsWarper,
                          MistralForCausalLM, Qwen2ForCausalLM, RepetitionPenaltyLogitsProcessor, StoppingCriteria,
                          StoppingCriteriaList, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper)

import hunch
from hunch import _transformers_loop as loop
from hunch._transformers_laws import Laws
from hunch.transformers import AdaptiveLength, Speculative, generate
from shipped_pair import padded, pair, prompts
from tiny_models import V, nearby, tiny

FALSE_POSITIVES = 1e-5


def law_of_texts(model, prompt, tokens, processors):
    """The probability of every continuation [V ** tokens], by passes over whole texts without a cache."""
    law = torch.ones(1, dtype=torch.double)
    for length in range(tokens):
        texts = torch.tensor([[*prompt, *t] for t in itertools.product(range(model.config.vocab_size), repeat=length)])
        scores = torch.cat([model(part, use_cache=False).logits[:, -1].float() for part in texts.split(512)])
        law = (law[:, None] * processors(texts, scores).double().softmax(-1)).flatten()
    return law


def chi_squared(counts, law):
    """The probability of a statistic as large as this one. Cells of less than 5 are one."""
    total = counts.sum()
    expected = law * total
    if bool((counts[law == 0] > 0).any()):
        return 0.0
    small = expected < 5
    seen = torch.cat([counts[~small], counts[small].sum()[None]]).double()
    wanted = torch.cat([expected[~small], expected[small].sum()[None]])
    seen, wanted = seen[wanted > 0], wanted[wanted > 0]
    statistic = ((seen - wanted) ** 2 / wanted).sum()
    return torch.special.gammaincc(torch.tensor((len(seen) - 1) / 2, dtype=torch.double), statistic / 2).item()


class Law(unittest.TestCase):
    """The first four tokens of texts that go on, against their law; rows of a batch advance at their own pace."""

    TOKENS, PROMPT, ROWS, CALLS = 4, [1, 5, 2], 1024, 6

    @classmethod
    def setUpClass(cls):
        cls.model = tiny(LlamaForCausalLM, 1)
        cls.near = nearby(cls.model, 2, 0.3)

    def p_value(self, model, assistant, processors, prompt=None, dtype=torch.float32, **options):
        prompt = prompt or self.PROMPT
        exact = law_of_texts(model.to(dtype), prompt, self.TOKENS, LogitsProcessorList(processors))
        ids = torch.tensor([prompt] * self.ROWS)
        drafts = {name: options.pop(name) for name in ("num_draft_tokens", "tree") if name in options}
        method = Speculative(assistant.to(dtype), rule=options.pop("rule", "rejection"),
                             **(drafts or {"num_draft_tokens": 3}))
        counts = torch.zeros(V ** self.TOKENS, dtype=torch.long)
        for call in range(self.CALLS):
            method.seed = 10 ** 6 * (call + 1)
            texts = model.generate(ids, custom_generate=method, max_new_tokens=self.TOKENS + 3, do_sample=True,
                                   **{"top_k": 0} | options)[:, len(prompt):][:, : self.TOKENS]
            index = (texts * V ** torch.arange(self.TOKENS - 1, -1, -1)).sum(1)
            counts += torch.bincount(index, minlength=len(counts))
        self.acceptance = method.statistics.acceptance
        return chi_squared(counts, exact)

    def check(self, *args, **kwargs):
        self.assertGreater(self.p_value(*args, **kwargs), FALSE_POSITIVES)
        self.assertGreater(self.acceptance, 0.05)  # drafts were accepted
        self.assertLess(self.acceptance, 0.999)    # and refused

    def test_rejection(self):
        self.check(self.model, self.near, [])

    def test_block(self):
        self.check(self.model, self.near, [], rule="block")

    def test_temperature(self):
        self.check(self.model, self.near, [TemperatureLogitsWarper(0.6)], temperature=0.6)

    def test_top_k(self):
        self.check(self.model, self.near, [TopKLogitsWarper(3)], top_k=3)

    def test_top_p(self):
        self.check(self.model, self.near, [TemperatureLogitsWarper(1.4), TopPLogitsWarper(0.8)], temperature=1.4,
                   top_p=0.8)

    def test_min_p(self):
        self.check(self.model, self.near, [MinPLogitsWarper(0.2)], min_p=0.2)

    def test_cuts_in_the_order_of_transformers(self):
        cuts = dict(temperature=1.3, top_k=6, top_p=0.85, min_p=0.1)
        self.check(self.model, self.near, [TemperatureLogitsWarper(1.3), TopKLogitsWarper(6), TopPLogitsWarper(0.85),
                                           MinPLogitsWarper(0.1)], **cuts)

    def test_penalty(self):
        self.check(self.model, self.near, [RepetitionPenaltyLogitsProcessor(1.5)], repetition_penalty=1.5)

    def test_other_architectures(self):
        self.check(tiny(Qwen2ForCausalLM, 3), tiny(GPT2LMHeadModel, 4), [])
        self.check(tiny(GPT2LMHeadModel, 5), tiny(Qwen2ForCausalLM, 6), [], prompt=[4])

    def test_bfloat16(self):
        model = tiny(LlamaForCausalLM, 1)
        self.check(model, nearby(model, 2, 0.3), [], dtype=torch.bfloat16)

    def test_lengths_that_change(self):
        self.check(self.model, self.near, [], num_draft_tokens=[2, 0, 5, 1])

    def test_trees(self):
        self.check(self.model, self.near, [], tree=(3, 2))
        self.check(self.model, self.near, [TopPLogitsWarper(0.8)], tree=(2, 2, 1), top_p=0.8)
        self.check(tiny(GPT2LMHeadModel, 5), tiny(Qwen2ForCausalLM, 6), [RepetitionPenaltyLogitsProcessor(1.5)],
                   tree=(2, 1), repetition_penalty=1.5)

    def test_a_tree_that_is_read_as_a_chain_is_seen(self):
        class Wrong(loop.Tree):
            def __init__(self, base, below, depths):
                earlier = below.new_ones(below.shape).tril(below.shape[1] - below.shape[0])
                super().__init__(base, below | earlier, depths)

        with mock.patch.object(loop, "Tree", Wrong):
            self.assertLess(self.p_value(self.model, self.near, [], tree=(3, 2)), FALSE_POSITIVES)

    def test_a_wrong_law_of_the_drafts_is_seen(self):
        def wrong(target, tokens, laws, **rest):
            return hunch.verify_chain(target, tokens, None if laws is None else laws / 2, **rest)
        with mock.patch.object(loop, "hunch", mock.Mock(wraps=hunch, verify_chain=wrong)):
            self.assertLess(self.p_value(self.model, self.near, []), FALSE_POSITIVES)

    def test_drafts_that_are_always_kept_are_seen(self):
        def wrong(target, tokens, laws, **rest):
            right = hunch.verify_chain(target, tokens, laws, **rest)
            kept = torch.cat([tokens, right.tokens[:, :1]], 1)
            return right._replace(tokens=kept, num_tokens=torch.full_like(right.num_tokens, kept.shape[1]))
        with mock.patch.object(loop, "hunch", mock.Mock(wraps=hunch, verify_chain=wrong)):
            self.assertLess(self.p_value(self.model, self.near, []), FALSE_POSITIVES)

    def test_words_of_drafts_that_come_again_are_seen(self):
        """The rule for blocks looks at drafts behind the accepted ones: the next step needs other words."""
        with mock.patch.object(loop, "STEP_KEY", 0):
            self.assertLess(self.p_value(self.model, self.near, [], rule="block"), FALSE_POSITIVES)

    def test_by_confidence(self):
        """Steps of one text, whose lengths depend on what was drafted."""
        class BySureness(AdaptiveLength):
            """Whatever passes take."""

            def next(self, by_confidence=False):
                super().next(by_confidence)
                return self.most

            def may_go_on(self):
                return True

            def goes_on(self, sure):
                return sure > 0.4

        exact = law_of_texts(self.model, [1], 2, LogitsProcessorList())
        method, used = Speculative(self.near, num_draft_tokens=BySureness(4)), set()
        counts = torch.zeros(V ** 2, dtype=torch.long)
        for method.seed in range(600):
            text = self.model.generate(torch.tensor([[1]]), custom_generate=method, max_new_tokens=5, do_sample=True,
                                       top_k=0)[0]
            counts[text[1] * V + text[2]] += 1
            used |= set(method.statistics.lengths)
        self.assertGreater(len(used), 2)
        self.assertGreater(chi_squared(counts, exact), FALSE_POSITIVES)


class Lengths(unittest.TestCase):
    """AdaptiveLength with passes of which the times are known: seconds of a step without drafts, of one with, and of a
    draft."""
    PLAIN, VERIFYING, DRAFT = 0.010, 0.014, 0.003

    def pace(self, lengths, steps, sure, chance, dice):
        """Tokens per second over those of plain decoding, where the assistant is so sure, and accepted so often."""
        tokens = seconds = 0.0
        for _ in range(steps):
            drafted = asked = 0
            for i in range(lengths.next(True)):
                if i > 0 and not lengths.may_go_on():
                    break
                asked += 1
                if not lengths.goes_on(sure):
                    break
                drafted += 1
            accepted = 0
            while accepted < drafted and dice.random() < chance:
                accepted += 1
            took = asked * self.DRAFT + (self.VERIFYING if drafted else self.PLAIN)
            lengths.learn(drafted, [accepted], took, asked * self.DRAFT)
            tokens, seconds = tokens + accepted + 1, seconds + took
        return tokens / seconds * self.PLAIN

    def test_drafts_where_it_pays(self):
        for seed in range(20):
            lengths, dice = AdaptiveLength(), random.Random(seed)
            # Ten drafts and their verification take 44 ms; 8.6 tokens on the mean in place of 4.4.
            self.assertGreater(self.pace(lengths, 100, 0.95, 0.95, dice), 1.4, seed)
            # A draft that is hardly ever accepted costs its time, and is given up.
            self.assertGreater(self.pace(lengths, 100, 0.1, 0.05, dice), 0.85, seed)
            # An assistant that is sure and wrong is found out, and forgiven.
            self.assertGreater(self.pace(lengths, 100, 0.95, 0.05, dice), 0.7, seed)
            self.assertGreater(self.pace(lengths, 150, 0.95, 0.95, dice), 1.3, seed)

    def test_a_row_without_a_law_ends_a_draft(self):
        lengths = AdaptiveLength()
        lengths.learn(0, [0], self.PLAIN)
        lengths.next(True)
        self.assertFalse(lengths.goes_on(float("nan")))
        self.assertTrue(lengths.goes_on(0.9))


class Shipped(unittest.TestCase):
    """Texts without sampling are those of `model.generate`, token by token."""

    @classmethod
    def setUpClass(cls):
        cls.target, cls.draft = pair()
        cls.prompts = [d[: 12 + 9 * (i % 5)] for texts in prompts(4, 48).values() for i, d in enumerate(texts)]

    def same(self, ids, mask=None, model=None, assistant=None, new=40, method=None, **options):
        model = model or self.target
        method = method or Speculative(assistant or self.draft, num_draft_tokens=3)
        plain = model.generate(ids, attention_mask=mask, max_new_tokens=new, **{"do_sample": False} | options)
        ours = model.generate(ids, attention_mask=mask, max_new_tokens=new, custom_generate=method,
                              **{"do_sample": False} | options)
        self.assertEqual(plain.tolist(), ours.tolist())
        return method.statistics

    def test_one_by_one(self):
        accepted = sum(self.same(torch.tensor([p])).accepted for p in self.prompts)
        self.assertGreater(accepted, 5 * len(self.prompts))

    def test_three_with_padding(self):
        for i in range(0, len(self.prompts) - 2, 3):
            self.same(*padded(self.prompts[i : i + 3]))

    def test_eager_attention(self):
        target, draft = pair("eager")
        self.same(*padded(self.prompts[:3]), model=target, assistant=draft)

    def test_trees(self):
        chain = self.same(torch.tensor(self.prompts[:1]), method=Speculative(self.draft, num_draft_tokens=3))
        tree = self.same(torch.tensor(self.prompts[:1]), method=Speculative(self.draft, tree=(3, 2, 1)))
        self.assertLess(tree.steps, chain.steps)
        self.same(*padded(self.prompts[:3]), method=Speculative(self.draft, tree=(2, 2, 1)))
        self.same(*padded(self.prompts[:3]), method=Speculative(self.draft, tree=(2, 2)), repetition_penalty=1.3)
        self.same(torch.tensor([[1]]), method=Speculative(self.draft, tree=(2, 2)))
        target, draft = pair("eager")
        self.same(*padded(self.prompts[3:5]), model=target, method=Speculative(draft, tree=(4, 1)))

    def test_processors(self):
        for options in (dict(repetition_penalty=1.3), dict(no_repeat_ngram_size=2), dict(bad_words_ids=[[1], [5, 6]]),
                        dict(eos_token_id=[self.prompts[0][5], 13], min_new_tokens=9), dict(suppress_tokens=[3, 4, 13]),
                        dict(eos_token_id=2, forced_eos_token_id=2), dict(begin_suppress_tokens=[13])):
            self.same(*padded(self.prompts[3:6]), new=24, **options)

    def test_ends_inside_of_an_accepted_run(self):
        """The model drafts for itself, so that runs are accepted whole."""
        for ids, mask in ((torch.tensor(self.prompts[:1]), None), padded(self.prompts[:3])):
            plain = self.target.generate(ids, attention_mask=mask, max_new_tokens=40, do_sample=False)[:, ids.shape[1]:]
            for place in (1, 5, 6, 12, 23):
                method = Speculative(self.target, num_draft_tokens=7)
                self.same(ids, mask, method=method, eos_token_id=[int(plain[0, place]), 31999])
                self.same(ids, mask, method=method, new=place)

    def test_stopping_criteria(self):
        class Contains(StoppingCriteria):
            def __init__(self, token):
                self.token = token

            def __call__(self, input_ids, scores, **kwargs):
                return (input_ids[:, width:] == self.token).any(1)

        for ids, mask in ((torch.tensor(self.prompts[1:2]), None), padded(self.prompts[:3])):
            width = ids.shape[1]
            plain = self.target.generate(ids, attention_mask=mask, max_new_tokens=40, do_sample=False)[:, width:]
            for place in (3, 12):
                criteria = StoppingCriteriaList([Contains(int(plain[0, place]))])
                ours = generate(self.target, self.target, ids, mask, num_draft_tokens=5, max_new_tokens=40,
                                do_sample=False, stopping_criteria=criteria)[:, width:]
                for row, (mine, his) in enumerate(zip(ours.tolist(), plain.tolist())):
                    token = int(plain[0, place])
                    end = his.index(token) + 1 if token in his else len(his)
                    self.assertEqual(mine[:end], his[:end], row)
                    self.assertTrue(all(t == 0 for t in mine[end:]))

    def test_one_token_prompts_and_one_new_token(self):
        self.same(torch.tensor([[1]]))
        self.same(torch.tensor([[1]]), new=1)
        self.same(*padded([[1], self.prompts[0], [1, 40]]))

    def test_adaptive_lengths_and_their_repetition(self):
        lengths = AdaptiveLength()
        self.same(torch.tensor(self.prompts[:1]), new=60, method=Speculative(self.draft, num_draft_tokens=lengths))
        self.same(*padded(self.prompts[:2]), method=Speculative(self.draft, num_draft_tokens=lengths))
        ids, method = torch.tensor(self.prompts[:1]), Speculative(self.draft, num_draft_tokens=lengths)
        options = dict(max_new_tokens=50, do_sample=True)
        for method.seed in (5, 6):  # the lengths of a call are its own, whatever was drafted before it
            text = self.target.generate(ids, custom_generate=method, **options)
            used = method.statistics.lengths
            self.assertEqual(len(used), method.statistics.steps)
            again = generate(self.target, self.draft, ids, num_draft_tokens=used, seed=method.seed, **options)
            self.assertEqual(text.tolist(), again.tolist())

    def test_seeds(self):
        ids, mask = padded(self.prompts[:3])
        options = dict(num_draft_tokens=3, max_new_tokens=30, do_sample=True)
        one = generate(self.target, self.draft, ids, mask, seed=7, **options)
        self.assertEqual(one.tolist(), generate(self.target, self.draft, ids, mask, seed=7, **options).tolist())
        self.assertNotEqual(one.tolist(), generate(self.target, self.draft, ids, mask, seed=8, **options).tolist())
        alone = generate(self.target, self.draft, torch.tensor(self.prompts[1:2]), seed=[8], **options)
        self.assertEqual(one[1, ids.shape[1]:].tolist(), alone[0, len(self.prompts[1]):].tolist())
        torch.manual_seed(3)
        drawn = generate(self.target, self.draft, ids, mask, **options)
        torch.manual_seed(3)
        self.assertEqual(drawn.tolist(), generate(self.target, self.draft, ids, mask, **options).tolist())
        one, two = (generate(self.target, self.draft, ids, mask, generator=torch.Generator().manual_seed(4), **options)
                    for _ in range(2))
        self.assertEqual(one.tolist(), two.tolist())

    def test_a_generation_config_and_several_texts_of_a_prompt(self):
        ids = torch.tensor(self.prompts[:1])
        config = GenerationConfig(max_new_tokens=20, do_sample=False, repetition_penalty=1.2, pad_token_id=0)
        plain = self.target.generate(ids, generation_config=config)
        ours = generate(self.target, self.draft, ids, generation_config=config, num_draft_tokens=3)
        self.assertEqual(plain.tolist(), ours.tolist())
        texts = generate(self.target, self.draft, ids, num_draft_tokens=3, max_new_tokens=20, do_sample=True, seed=1,
                         num_return_sequences=3)
        self.assertEqual(len(set(map(tuple, texts.tolist()))), 3)

    def test_streamer(self):
        class Streamer:
            got, ended = [], False

            def put(self, value):
                self.got += value.flatten().tolist()

            def end(self):
                self.ended = True

        streamer = Streamer()
        ids = torch.tensor(self.prompts[:1])
        text = generate(self.target, self.draft, ids, num_draft_tokens=3, max_new_tokens=20, do_sample=False,
                        streamer=streamer)
        self.assertEqual(streamer.got, text[0].tolist())
        self.assertTrue(streamer.ended)

    def test_acceptance_is_the_overlap_of_the_laws(self):
        """With one draft in each step, the mean of sum min(p, q) over the texts, within 5 standard deviations."""
        ids = torch.tensor(self.prompts[:1] * 48)
        method = Speculative(self.draft, num_draft_tokens=1, seed=11)
        text = self.target.generate(ids, custom_generate=method, max_new_tokens=24, do_sample=True, top_k=0)
        p, q = (m(text).logits.softmax(-1)[:, ids.shape[1] - 1 : -2] for m in (self.target, self.draft))
        overlap, drafted = torch.minimum(p, q).sum(-1), method.statistics.drafted
        deviation = (0.25 / drafted) ** 0.5 + overlap.std().item() / overlap.numel() ** 0.5
        self.assertAlmostEqual(method.statistics.acceptance, overlap.mean().item(), delta=5 * deviation)


class Cuts(unittest.TestCase):
    def test_drafts_are_cut_as_by_transformers(self):
        torch.manual_seed(0)
        rows = 3 * torch.randn(64, 300)
        for cuts in ([TopKLogitsWarper(7)], [TemperatureLogitsWarper(0.7), TopPLogitsWarper(0.9)],
                     [TemperatureLogitsWarper(1.2), MinPLogitsWarper(0.05)],
                     [TemperatureLogitsWarper(0.8), TopKLogitsWarper(20), TopPLogitsWarper(0.8)]):
            laws = Laws(cuts, True, 1)
            self.assertFalse(laws.edits)
            theirs = LogitsProcessorList(cuts)(None, rows)
            self.assertTrue(laws.cut_draft(rows).isinf().equal(theirs.isinf()))


class Sliding(unittest.TestCase):
    """A window shorter than the text: the model's own cache, cropped."""

    def test_chains_of_one_text(self):
        model = tiny(MistralForCausalLM, 9, vocabulary=64, sliding_window=6)
        assistant = nearby(model, 3, 0.2)
        ids = torch.tensor([[1, 2, 3, 4, 5, 6, 7, 8, 9]])
        for prompt in (ids, ids[:, :1]):
            plain = model.generate(prompt, max_new_tokens=30, do_sample=False)
            self.assertEqual(plain.tolist(), generate(model, assistant, prompt, num_draft_tokens=3, max_new_tokens=30,
                                                      do_sample=False).tolist())


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    unittest.main()
