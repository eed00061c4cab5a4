# SPDX-License-Identifier: Apache-2.0
"""Tests hunch.vllm on the files of vLLM as published: its own classes are called, and call what is registered.

    ./build.sh
    PYTHONPATH=build-torch/python python build-torch/test/test_vllm.py

It downloads a wheel of 336 MB once. Without it: NOT RUN, and an exit status of 3, or 0 with --offline-ok.

vLLM's Triton kernels run in Triton's interpreter, so that no GPU is needed. No engine is started.
"""
import inspect
import logging
import os
import sys
import types
import unittest
import warnings
from importlib.metadata import entry_points
from unittest import mock

os.environ["TRITON_INTERPRET"] = "1"  # Triton reads it when it is imported

import torch  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402

import engine_files  # noqa: E402
import hunch.vllm  # noqa: E402
from hunch._engine_patch import differences  # noqa: E402

WHEEL = engine_files.Wheel(
    "vllm==0.33.0", "4b6bdec4ab269990bf70d45a3c1e94c3760a27064513760193b26d6f0da883aa", "manylinux_2_28_x86_64", "abi3",
    336, ("vllm/_version.py", "vllm/v1/sample/metadata.py", "vllm/v1/sample/rejection_sampler.py",
          "vllm/v1/spec_decode/fly.py", "vllm/v1/spec_decode/metadata.py", "vllm/v1/worker/gpu/input_batch.py",
          "vllm/v1/worker/gpu/sample/gumbel.py", "vllm/v1/worker/gpu/spec_decode/rejection_sampler.py",
          "vllm/v1/worker/gpu/spec_decode/rejection_sampler_utils.py"))
DEVICE = torch.device("cpu")
V = 5
REQUESTS = 4000
LIMIT = 66.0  # Pearson's statistic with 24 degrees of freedom is above it once in 100,000 times
SEEN = 250.0  # what a control must reach


@triton.jit
def log1p(x):
    return tl.log(1.0 + x)  # the interpreter has no libdevice


def dispatcher(*, kernel, warmup_inputs):
    """vLLM's decorator without its warm-up: the launch that the decorated function describes, by names."""
    def decorate(describe):
        def launch(*args, **kwargs):
            given = inspect.signature(describe).bind(*args, **kwargs).arguments
            grid, constants = describe(*args, **kwargs)
            pointers = {n: given[n.removesuffix("_ptr")] for n in kernel.arg_names if n not in constants}
            kernel[grid](**pointers, **constants)
        launch.register_warmup = lambda **_: None
        return launch
    return decorate


class Processed(torch.nn.Module):
    """Stands for vLLM's samplers: divides by the temperature, and draws bonus tokens as plain decoding does."""
    logprobs_mode = "raw_logprobs"
    compute_nans = use_fp64_gumbel = return_sampling_mask = False

    def __init__(self, temperature=None, seeds=None):
        super().__init__()
        if temperature is not None:
            states = len(temperature)
            self.sampling_states = types.SimpleNamespace(
                temperature=types.SimpleNamespace(gpu=temperature), seeds=types.SimpleNamespace(gpu=seeds),
                max_num_logprobs=lambda _: -1)
            self.req_states = types.SimpleNamespace(
                prefill_len=types.SimpleNamespace(gpu=torch.zeros(states, dtype=torch.int32)))

    def apply_sampling_params(self, logits, states, *_):
        temperature = self.sampling_states.temperature.gpu[states.long()][:, None]
        return logits / torch.where(temperature == 0, 1.0, temperature)

    def forward(self, logits, sampling_metadata, **_):
        if sampling_metadata.all_greedy:
            tokens = logits.argmax(-1)
        else:
            temperature = sampling_metadata.temperature[:, None]
            law = (logits / torch.where(temperature == 0, 1.0, temperature)).softmax(-1)
            tokens = torch.where(temperature[:, 0] == 0, logits.argmax(-1), torch.multinomial(law, 1)[:, 0])
        return types.SimpleNamespace(sampled_token_ids=tokens.int()[:, None], logprobs_tensors=None)


STUBS = {
    "vllm.config.model": {"PROCESSED_LOGPROBS_MODES": ("processed_logits", "processed_logprobs")},
    "vllm.logger": {"init_logger": logging.getLogger},
    "vllm.model_executor.warmup.jit_warmup_triton_helper": {"triton_kernel_dispatcher_with_warmup": dispatcher},
    "vllm.triton_utils": {"HAS_TRITON": True, "tl": tl, "triton": triton,
                          "tldevice": types.SimpleNamespace(log1p=log1p)},
    "vllm.utils.torch_utils": {"async_tensor_h2d": lambda t, device: t.to(device)},
    "vllm.v1.outputs": {"SamplerOutput": types.SimpleNamespace},
    "vllm.v1.sample.ops.topk_topp_sampler": {"apply_top_k_top_p": lambda logits, top_k, top_p: logits},
    "vllm.v1.worker.gpu.sample.output": {"SamplerOutput": types.SimpleNamespace},
    "vllm.v1.worker.gpu.sample.states": {"NO_LOGPROBS": -1},
}
directory = None


def load(found):
    global directory
    directory = found


class Loaded(unittest.TestCase):
    """With vLLM's files loaded anew, and its functions replaced."""

    def setUp(self):
        self.engine = engine_files.Engine("vllm", directory, WHEEL.files, STUBS)
        self.enterContext(self.engine)
        import vllm
        from vllm._version import __version__
        from vllm.v1.sample import rejection_sampler as older
        from vllm.v1.worker.gpu.spec_decode import rejection_sampler, rejection_sampler_utils
        vllm.__version__ = __version__
        self.older, self.runner, self.utils = older, rejection_sampler, rejection_sampler_utils
        self.theirs = rejection_sampler_utils.rejection_sample
        self.theirs_older = older.rejection_sample
        hunch.vllm.register()
        self.addCleanup(hunch.vllm.unregister)
        torch.manual_seed(0)


def ragged(lengths):
    """Row numbers of chains of `lengths` drafts: sums, requests of rows, places of rows in their chain."""
    rows = torch.tensor(lengths) + 1
    ends = rows.cumsum(0)
    request = torch.arange(len(lengths)).repeat_interleave(rows)
    return torch.cat([torch.zeros(1, dtype=torch.long), ends]), request, torch.arange(int(ends[-1])) - (
        ends - rows)[request]


def two_tokens(requests):
    """Laws p and q of two drafts and the token after them, the drafts, and the law of the first two tokens."""
    t0, t1, t2 = torch.randn(V), torch.randn(V, V), torch.randn(V, V, V)
    d0, d1 = t0 + torch.randn(V), t1 + torch.randn(V, V)
    x0 = torch.multinomial(d0.softmax(-1), requests, replacement=True)
    x1 = torch.multinomial(d1.softmax(-1)[x0], 1)[:, 0]
    target = torch.stack([t0.expand(requests, V), t1[x0], t2[x0, x1]], 1)
    draft = torch.stack([d0.expand(requests, V), d1[x0]], 1)
    return target, draft, torch.stack([x0, x1], 1), t0.softmax(-1)[:, None] * t1.softmax(-1), t1


def statistic(tokens, law, t1):
    """Of the first two tokens [R, 2 or more]; the second is drawn by t1 where it is not there."""
    first = tokens[:, 0].long()
    second = torch.where(tokens[:, 1] >= 0, tokens[:, 1].long(), torch.multinomial(t1.softmax(-1)[first], 1)[:, 0])
    return engine_files.pearson(torch.bincount(V * first + second, minlength=V * V).double(), law.flatten().double())


class OnLogits(Loaded):
    """The GPU runner."""

    def sample(self, target, draft, tokens, lengths, temperature=None, states=None, seeds=None, method="standard",
               steps=2):
        """RejectionSampler.__call__: rows [N, V], the cache [S, steps, V] or None, and the tokens that rows read."""
        cu, request, place = ragged(lengths)
        states = torch.arange(len(lengths)) if states is None else states
        count = int(states.max()) + 1 if draft is None else len(draft)
        temperature = torch.ones(count) if temperature is None else temperature
        seeds = torch.arange(count) if seeds is None else seeds
        batch = types.SimpleNamespace(
            num_reqs=len(lengths), input_ids=tokens.int(), positions=10 + place,
            logits_indices=torch.arange(len(tokens)), expanded_idx_mapping=states[request].int(),
            expanded_local_pos=place.int(), cu_num_logits=cu.int(), cu_num_logits_np=cu.int().numpy(),
            idx_mapping=states.int(), idx_mapping_np=states.int().numpy(),
            seq_lens=torch.full((len(lengths),), 99).int(), seq_lens_cpu_upper_bound=torch.zeros(len(lengths)).int())
        config = types.SimpleNamespace(
            num_speculative_tokens=steps, enable_adaptive_verification=False, rejection_sample_method=method,
            fly_entropy_threshold=0.3, fly_entropy_top_k=3, synthetic_acceptance_rates=[0.5] * steps)
        out = self.runner.RejectionSampler(Processed(temperature, seeds), config, DEVICE)(target, batch, draft)
        self.assertTrue(((out.num_sampled >= 1) & (out.num_sampled <= torch.tensor(lengths) + 1)).all())
        self.assertTrue((out.num_sampled + out.num_rejected).equal(torch.tensor(lengths).int() + 1))
        valid = torch.arange(steps + 1) < out.num_sampled[:, None]
        return torch.where(valid, out.sampled_token_ids, -1), out.num_sampled

    def flat(self, target, drafts):
        return target.reshape(-1, V), torch.cat([torch.zeros(len(drafts), 1).long(), drafts], 1).flatten()

    def test_the_law_is_the_targets(self):
        requests = REQUESTS
        target, draft, drafts, law, t1 = two_tokens(requests)
        rows, tokens = self.flat(target, drafts)
        lengths = [2] * requests
        emitted = {}
        for method in ("standard", "block"):
            sampled, n = self.sample(rows, draft, tokens, lengths, method=method)
            self.assertLess(statistic(sampled, law, t1), LIMIT)
            emitted[method] = int(n.sum())
            wrong, _ = self.sample(rows, torch.zeros_like(draft), tokens, lengths, method=method)
            self.assertGreater(statistic(wrong, law, t1), SEEN)
        self.assertGreater(emitted["block"], emitted["standard"])
        # Without a law a draft counts as one that was fixed before, which these were, too.
        without, _ = self.sample(rows, None, tokens, lengths)
        self.assertLess(statistic(without, law, t1), LIMIT)

    def test_the_law_at_another_temperature(self):
        requests, temperature = REQUESTS, 0.5
        target, draft, _, _, _ = two_tokens(requests)
        t0, d0 = target[0, :1], draft[0, :1]
        x = torch.multinomial((d0 / temperature).softmax(-1), requests, replacement=True).T
        rows = torch.cat([t0.expand(requests, V), target[:, 2]], 1).view(-1, V)
        tokens = torch.cat([torch.zeros_like(x), x], 1).flatten()
        law = (t0[0] / temperature).softmax(-1).double()
        for cache, is_right in ((d0, True), (d0 / temperature, False)):  # the cache is from before the temperature
            sampled, _ = self.sample(rows, cache.expand(requests, 1, V).contiguous(), tokens, [1] * requests,
                                     torch.full((requests,), temperature), steps=1)
            found = engine_files.pearson(torch.bincount(sampled[:, 0], minlength=V).double(), law)
            self.assertTrue(found < 36 if is_right else found > 100, found)  # 4 degrees of freedom: 3e-7

    def mixed(self, requests=60, steps=4, vocab=40):
        """Ragged chains near to the target's argmax; some end in a placeholder."""
        lengths = [r % (steps + 1) for r in range(requests)]
        cu, request, place = ragged(lengths)
        states = torch.randperm(requests + 3)[:requests]
        draft = 2 * torch.randn(requests + 3, steps, vocab)
        target = 0.3 * torch.randn(len(request), vocab)
        tokens = torch.zeros(len(request)).long()
        for row in range(len(request)):
            if place[row] < lengths[request[row]]:
                target[row] += draft[states[request[row]], place[row]]
                tokens[row + 1] = draft[states[request[row]], place[row]].argmax()
        tokens[cu[1:][torch.tensor(lengths) == 4] - 1] = torch.tensor(-1)
        return target, draft, tokens, lengths, states

    def test_greedy_texts_are_those_of_vllms_kernels(self):
        for (target, draft, tokens, lengths, states), has_law in (
                (self.mixed(), True), (self.mixed(), False), (self.mixed(15, vocab=9000), True)):
            cold, cache = torch.zeros(len(draft)), draft if has_law else None
            ours = self.sample(target, cache, tokens, lengths, cold, states, steps=4)
            hunch.vllm.unregister()
            theirs = self.sample(target, cache, tokens, lengths, cold, states, steps=4)
            hunch.vllm.register()
            for one, other in zip(ours, theirs):
                self.assertTrue(one.equal(other))
            self.assertEqual(set(ours[1].tolist()), {1, 2, 3, 4})  # the fifth is a placeholder's

    def test_a_request_depends_on_its_seed_and_position_alone(self):
        target, draft, tokens, lengths, states = self.mixed()
        seeds = torch.randint(-2 ** 63, 2 ** 63 - 1, (len(draft),))
        whole, _ = self.sample(target, draft, tokens, lengths, states=states, seeds=seeds, steps=4)
        cu, _, _ = ragged(lengths)
        some = torch.randperm(len(lengths))[:17]
        rows = torch.cat([torch.arange(int(cu[r]), int(cu[r + 1])) for r in some])
        part, _ = self.sample(target[rows], draft, tokens[rows], [lengths[r] for r in some], torch.ones(len(draft)),
                              states[some], seeds, steps=4)
        self.assertTrue(part.equal(whole[some]))
        other, _ = self.sample(target, draft, tokens, lengths, states=states, seeds=seeds + 1, steps=4)
        self.assertFalse(other.equal(whole))

    def test_a_cache_of_another_type_is_read_exactly(self):
        target, draft, tokens, lengths, states = self.mixed()
        small = draft.bfloat16()
        for rows in (target, target.bfloat16()):
            got, _ = self.sample(rows, small, tokens, lengths, states=states, steps=4)
            wanted, _ = self.sample(rows.float(), small.float(), tokens, lengths, states=states, steps=4)
            self.assertTrue(got.equal(wanted))

    def test_rows_after_the_last_request_are_not_read(self):
        target, draft, tokens, lengths, states = self.mixed()
        cu, request, place = ragged(lengths)

        def run(cache, more):
            rows = torch.cat([target, torch.full((more, target.shape[1]), torch.nan)])
            own = [torch.cat([t, torch.full((more,), -1)]) for t in (tokens, 10 + place, states[request], place)]
            padded = (torch.cat([cu, cu[-1:]]).int(), torch.cat([states, torch.tensor([-1])]).int())
            return self.runner.rejection_sample(
                rows, cache, own[0].int(), padded[0], own[1], padded[1], own[2].int(), own[3].int(),
                torch.ones(len(draft)), torch.arange(len(draft)), 4)
        for cache in (draft, draft.bfloat16(), None):
            wanted, got = run(cache, 0), run(cache, 9)
            self.assertTrue(got[0].equal(wanted[0]) and got[1].equal(wanted[1]))
            self.assertEqual((int(got[1][-1]), int(got[1][:-1].min())), (0, 1))

    def test_where_nothing_can_have_been_drawn_the_token_is_the_targets(self):
        requests = REQUESTS
        target, draft, drafts, law, t1 = two_tokens(requests)
        no_law = draft.clone()
        no_law.scatter_(2, drafts[..., None], -torch.inf)
        none = torch.full_like(drafts, -1)
        hunch.vllm.counts = type(hunch.vllm.counts)(hunch.STATUS)
        for cache, tokens in ((draft, none), (no_law, drafts), (draft, drafts + V)):
            rows, tokens = self.flat(target, tokens)
            sampled, n = self.sample(rows, cache, tokens, [2] * requests)
            self.assertTrue((n == 1).all())
            self.assertLess(statistic(sampled, law, t1), LIMIT)
        self.assertEqual(hunch.vllm.counts.read()["ok"], 3 * requests)

    def test_a_row_of_nan_is_counted_and_disturbs_nobody(self):
        target, draft, tokens, lengths, states = self.mixed()
        wanted, _ = self.sample(target, draft, tokens, lengths, states=states, steps=4)
        cu, _, _ = ragged(lengths)
        broken = target.clone()
        broken[cu[7]] = torch.nan
        hunch.vllm.counts = type(hunch.vllm.counts)(hunch.STATUS)
        got, n = self.sample(broken, draft, tokens, lengths, states=states, steps=4)
        others = torch.arange(len(lengths)) != 7
        self.assertTrue(got[others].equal(wanted[others]))
        self.assertEqual((int(n[7]), int(got[7, 0])), (1, 0))
        self.assertEqual(hunch.vllm.counts.read()["invalid_logits"], 1)

    def test_other_rules_are_left_to_vllm(self):
        target, draft, tokens, lengths, states = self.mixed()
        cu, request, place = ragged(lengths)
        arguments = (target, draft, tokens.int(), cu.int(), place + 10, states.int(), states[request].int(),
                     place.int(), torch.ones(len(draft)), torch.arange(len(draft)), 4)
        rates = torch.full((4,), 0.5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the interpreter calculates what the kernel does not use
            got = self.runner.rejection_sample(*arguments, synthetic_conditional_rates=rates)
            wanted = self.theirs(*arguments, synthetic_conditional_rates=rates)
        valid = torch.arange(5) < wanted[1][:, None]
        self.assertTrue(got[1].equal(wanted[1]) and got[0][valid].equal(wanted[0][valid]))
        ours = hunch.vllm.rejection_sample_logits
        for options in (dict(synthetic_conditional_rates=rates), dict(contexts=rates), dict(fly_window_size=2)):
            self.assertIs(ours(*arguments, **options), NotImplemented)


class OnProbabilities(Loaded):
    """The older runner."""

    def sample(self, target, draft_probs, drafts, bonus, lengths, temperature=None, generators=None):
        """RejectionSampler.forward: rows [T, V] of logits and probabilities, drafts [T], rows of the bonus [B, V]."""
        cu, request, place = ragged(lengths)
        is_bonus = place == torch.tensor(lengths)[request]
        logits = torch.empty(len(request), target.shape[1])
        logits[~is_bonus], logits[is_bonus] = target, bonus
        metadata = self.older.SpecDecodeMetadata(
            draft_token_ids=drafts.int(), num_draft_tokens=lengths,
            cu_num_draft_tokens=torch.tensor(lengths).cumsum(0).int(), cu_num_sampled_tokens=cu[1:].int(),
            target_logits_indices=(~is_bonus).nonzero()[:, 0], bonus_logits_indices=is_bonus.nonzero()[:, 0],
            logits_indices=torch.arange(len(request)))
        sampling = self.older.SamplingMetadata(
            temperature=temperature, all_greedy=temperature is None,
            all_random=temperature is not None and bool((temperature > 0).all()), top_p=None, top_k=None,
            generators=generators or {}, max_num_logprobs=None, no_penalties=True, prompt_token_ids=None,
            frequency_penalties=None, presence_penalties=None, repetition_penalties=None, output_token_ids=[],
            allowed_token_ids_mask=None, bad_words_token_ids={},
            logitsprocs=types.SimpleNamespace(non_argmax_invariant=[]))
        return self.older.RejectionSampler(Processed())(metadata, draft_probs, logits, sampling).sampled_token_ids

    def test_the_law_is_the_targets(self):
        requests = REQUESTS
        target, draft, drafts, law, t1 = two_tokens(requests)

        def found(q):
            out = self.sample(target[:, :2].reshape(-1, V), q, drafts.flatten(), target[:, 2], [2] * requests,
                              torch.ones(requests))
            return statistic(out, law, t1)
        self.assertLess(found(draft.softmax(-1).view(-1, V)), LIMIT)
        self.assertLess(found(None), LIMIT)
        self.assertGreater(found(torch.full((2 * requests, V), 1 / V)), SEEN)

    def mixed(self, requests=60, most=4, vocab=40):
        lengths = [r % (most + 1) for r in range(requests)]
        q = 2 * torch.randn(sum(lengths), vocab)
        drafts = q.argmax(-1)
        drafts[torch.rand(len(drafts)) < 0.1] = -1
        return q + 0.3 * torch.randn_like(q), q.softmax(-1), drafts, torch.randn(requests, vocab), lengths

    def test_greedy_texts_are_those_of_vllms_kernels(self):
        arguments = self.mixed()
        none_then_some = torch.tensor([0.0, 0.7])[torch.arange(60) % 2]
        for temperature in (None, none_then_some):
            is_greedy = torch.ones(60).bool() if temperature is None else temperature == 0
            ours = self.sample(*arguments, temperature=temperature)
            hunch.vllm.unregister()
            theirs = self.sample(*arguments, temperature=temperature)
            hunch.vllm.register()
            self.assertTrue(ours[is_greedy].equal(theirs[is_greedy]))
            self.assertEqual((ours.dtype, ours.shape), (theirs.dtype, theirs.shape))
            self.assertEqual(set((ours >= 0).sum(1).tolist()), {1, 2, 3, 4, 5})

    def test_a_seeded_request_does_not_depend_on_the_batch(self):
        target, q, drafts, bonus, lengths = self.mixed()
        bonus = torch.full_like(bonus, -1e9).index_fill(1, torch.tensor(7), 0.0)  # the bonus token is not ours to seed
        ends = torch.tensor(lengths).cumsum(0)

        def run(requests, seeded):
            rows = torch.cat([torch.arange(int(ends[r]) - lengths[r], int(ends[r])) for r in requests])
            generators = {i: torch.Generator().manual_seed(int(r)) for i, r in enumerate(requests) if r in seeded}
            out = self.sample(target[rows], q[rows], drafts[rows], bonus[requests], [lengths[r] for r in requests],
                              torch.full((len(requests),), 1.5), generators)
            return {r: row[row >= 0].tolist() for r, row in zip(requests, out)}
        seeded = set(range(0, 60, 2))
        whole, part = run(list(range(60)), seeded), run([44, 31, 8, 3, 24, 58], seeded)
        again = run(list(range(60)), set())
        for r in (44, 8, 24, 58):
            self.assertEqual(part[r], whole[r])
        self.assertNotEqual([again[r] for r in seeded], [whole[r] for r in seeded])

    def test_a_batch_without_drafts_gets_its_bonus_tokens(self):
        bonus = torch.randn(3, 40)
        for q in (None, torch.empty(0, 40)):
            out = self.sample(torch.empty(0, 40), q, torch.empty(0).long(), bonus, [0, 0, 0])
            self.assertEqual(out.tolist(), bonus.argmax(-1)[:, None].tolist())

    def test_a_placeholder_is_followed_by_a_token_of_the_target(self):
        requests = REQUESTS
        target, draft, _, law, t1 = two_tokens(requests)
        out = self.sample(target[:, :2].reshape(-1, V), draft.softmax(-1).view(-1, V),
                          torch.full((2 * requests,), -1), target[:, 2], [2] * requests, torch.ones(requests))
        self.assertTrue((out[:, 1:] == -1).all())
        self.assertLess(statistic(out, law, t1), LIMIT)


class WhatIsReplaced(Loaded):
    def test_the_installed_package_has_the_entry_point(self):
        found = entry_points(group="vllm.general_plugins", name="hunch")
        self.assertEqual({e.value for e in found}, {"hunch.vllm:plugin"})

    def test_functions_are_replaced_and_put_back(self):
        self.assertTrue(hunch.vllm.is_registered())
        self.assertIs(self.runner.rejection_sample, self.utils.rejection_sample)
        self.assertIsNot(self.runner.rejection_sample, self.theirs)
        self.assertEqual(differences(self.runner.rejection_sample, self.theirs), [])
        replaced = self.runner.rejection_sample
        hunch.vllm.register()  # once more changes nothing
        self.assertIs(self.runner.rejection_sample, replaced)
        hunch.vllm.unregister()
        self.assertFalse(hunch.vllm.is_registered())
        for module in (self.runner, self.utils):
            self.assertIs(module.rejection_sample, self.theirs)
        self.assertIs(self.older.rejection_sample, self.theirs_older)

    def refused(self, message, **options):
        before = self.runner.rejection_sample, self.older.rejection_sample
        with self.assertRaisesRegex(hunch.vllm.InterfaceDiffers, message):
            hunch.vllm.register(**options)
        self.assertEqual(before, (self.runner.rejection_sample, self.older.rejection_sample))
        self.assertFalse(hunch.vllm.is_registered())

    def test_other_signatures_are_refused(self):
        hunch.vllm.unregister()
        names = list(inspect.signature(self.theirs_older).parameters)
        theirs = "synthetic_mode=False, synthetic_conditional_rates=None, use_fp64_gumbel=False, " \
                 "fly_window_size=None, fly_entropy_threshold=None, fly_entropy_top_k=3"
        first = ", ".join(names[:8])
        for signature, message in (
                (f"{first}, {theirs}, tree=None", "it has tree besides"),
                (f"{first.replace(', bonus_token_ids', '')}, {theirs}", "it lacks bonus_token_ids"),
                (f"{first}, {theirs.replace('top_k=3', 'top_k=4')}", "fly_entropy_top_k is declared otherwise"),
                (f"{first}, *, {theirs}", "synthetic_mode is declared otherwise"),
                (f"{first.replace('draft_probs, target_logits', 'target_logits, draft_probs')}, {theirs}",
                 "its order is draft_token_ids")):
            with self.subTest(message):
                scope = {}
                exec(f"def mutated({signature}): pass", scope)
                with mock.patch.object(self.older, "rejection_sample", scope["mutated"]):
                    self.refused(f"vllm.v1.sample.rejection_sampler.rejection_sample: .*{message}", any_version=True)

    def test_other_versions_are_refused(self):
        import vllm
        hunch.vllm.unregister()
        vllm.__version__ = "0.34.0"
        self.refused("version 0.34.0 has not been read, 0.33.0 has")
        hunch.vllm.register(any_version=True)
        self.assertTrue(hunch.vllm.is_registered())

    def test_functions_that_are_missing_are_named(self):
        hunch.vllm.unregister()
        del self.utils.rejection_sample
        self.refused("utils.rejection_sample is not there")

    def test_the_entry_point_can_be_switched_off_and_never_stops_the_engine(self):
        import vllm
        hunch.vllm.unregister()
        with mock.patch.dict(os.environ, HUNCH_VLLM="off"):
            hunch.vllm.plugin()
        self.assertFalse(hunch.vllm.is_registered())
        hunch.vllm.plugin()
        self.assertTrue(hunch.vllm.is_registered())
        hunch.vllm.unregister()
        vllm.__version__ = "0.34.0"
        with self.assertLogs("hunch", "WARNING") as logs:
            hunch.vllm.plugin()
        self.assertIn("vllm is left as it is: version 0.34.0", logs.output[0])
        self.assertFalse(hunch.vllm.is_registered())
        with mock.patch.dict(os.environ, HUNCH_VLLM="0"), self.assertRaisesRegex(ValueError, "HUNCH_VLLM must be on"):
            hunch.vllm.plugin()
        with mock.patch.dict(os.environ, HUNCH_VLLM="any_version"):
            hunch.vllm.plugin()
        self.assertTrue(hunch.vllm.is_registered())


class WhenImported(unittest.TestCase):
    """What the entry point does before vLLM has imported its samplers, as it is called there."""

    def setUp(self):
        self.enterContext(engine_files.Engine("vllm", directory, WHEEL.files, STUBS))
        import vllm
        vllm.__version__ = hunch.vllm.VERSIONS[0]
        self.addCleanup(hunch.vllm.unregister)

    def modules(self):
        from vllm.v1.sample import rejection_sampler as older
        from vllm.v1.worker.gpu.spec_decode import rejection_sampler, rejection_sampler_utils
        return older, rejection_sampler, rejection_sampler_utils

    def replaced(self):
        return [hasattr(module.rejection_sample, "__wrapped__") for module in self.modules()]

    def test_a_function_is_replaced_when_its_module_is_imported(self):
        hunch.vllm.plugin()
        self.assertTrue(hunch.vllm.is_registered())
        self.assertFalse({t.module for t in hunch.vllm._TARGETS} & set(sys.modules))
        self.assertEqual(self.replaced(), [True, True, True])
        hunch.vllm.unregister()
        self.assertEqual(self.replaced(), [False, False, False])

    def test_nothing_is_replaced_after_it_was_given_up(self):
        hunch.vllm.plugin()
        hunch.vllm.unregister()
        self.assertEqual(self.replaced(), [False, False, False])

    def test_a_function_that_differs_is_left_with_a_warning(self):
        first, second = hunch.vllm._TARGETS
        with mock.patch.object(hunch.vllm, "_TARGETS", (first._replace(ours=second.ours), second)):
            hunch.vllm.plugin()
        with self.assertLogs("hunch", "WARNING") as logs:
            self.assertEqual(self.replaced(), [True, False, False])
        self.assertRegex(logs.output[0], "rejection_sample is left as it is: .*sampler_utils.rejection_sample: it lacks")

    def test_what_was_left_is_not_called_registered(self):
        first, second = hunch.vllm._TARGETS
        wrong = (first._replace(ours=second.ours), second._replace(ours=first.ours))
        with mock.patch.object(hunch.vllm, "_TARGETS", wrong):
            hunch.vllm.plugin()
        with self.assertLogs("hunch", "WARNING"):
            self.assertEqual(self.replaced(), [False, False, False])
        self.assertFalse(hunch.vllm.is_registered())
        hunch.vllm.register()
        self.assertEqual(self.replaced(), [True, True, True])


if __name__ == "__main__":
    engine_files.main(WHEEL, load)
