# SPDX-License-Identifier: Apache-2.0
"""Tests hunch.sglang on the files of SGLang as published: its own functions are called, and call what is registered.

    ./build.sh
    PYTHONPATH=build-torch/python python build-torch/test/test_sglang.py

It downloads a wheel of 39 MB once. Without it: NOT RUN, and an exit status of 3, or 0 with --offline-ok.

SGLang's Triton kernels, which the results are compared with, run in Triton's interpreter. No engine is started.
"""
import inspect
import os
import sys
import types
import unittest
from importlib.metadata import entry_points
from unittest import mock

os.environ["TRITON_INTERPRET"] = "1"  # Triton reads it when it is imported

import torch  # noqa: E402

import engine_files  # noqa: E402
import hunch.sglang  # noqa: E402

WHEEL = engine_files.Wheel(
    "sglang==0.5.23", "00b3cd5b265ac76c64185fbb6b95424f324ddd9f428d0306b77bc9db9d859937", "manylinux_2_34_x86_64",
    "cp311", 39, ("sglang/_version.py", "sglang/kernels/ops/sampling/murmur_hash.py",
                  *(f"sglang/kernels/ops/speculative/{name}.py" for name in (
                      "reject_sampling", "sampling", "spec_tree", "tree", "verify_sampling")),
                  "sglang/srt/speculative/eagle_utils.py"))
DEVICE = torch.device("cpu")
V = 5
REQUESTS = 50_000
LIMIT = 66.0  # Pearson's statistic with 24 degrees of freedom is above it once in 100,000 times
SEEN = 500.0  # what a control must reach
ROOT = 3  # the token of the root, which nothing depends on

config = types.SimpleNamespace()
one_rank = types.SimpleNamespace(tp_group=types.SimpleNamespace(world_size=1))
STUBS = {
    "sglang.kernels.jit.utils": {"cache_once": lambda f: f},
    "sglang.kernels.kernel_api_logging": {"debug_kernel_api": lambda f: f},
    "sglang.kernels.ops.sampling": {"softmax": lambda logits, temperatures: (logits / temperatures).softmax(-1)},
    "sglang.srt.layers.dp_attention": {"is_dp_attention_enabled": lambda: False},
    "sglang.srt.runtime_context": {"get_spec": lambda: config, "get_parallel": lambda: one_rank},
    "sglang.srt.speculative.spec_utils": {"SIMULATE_ACC_LEN": 0},
    "sglang.srt.utils": {"is_cuda": lambda: True, **{
        f"is_{other}": lambda: False for other in ("cpu", "hip", "musa", "npu", "xpu")}},
    "sglang.srt.utils.async_probe": {name: lambda *_: None for name in (
        "maybe_detect_nan", "maybe_detect_oob", "sanitize_nan_logits")},
}
directory = None


def load(found):
    global directory
    directory = found


class Loaded(unittest.TestCase):
    """With SGLang's files loaded anew, and its functions replaced."""

    def setUp(self):
        self.enterContext(engine_files.Engine("sglang", directory, WHEEL.files, STUBS))
        import sglang
        from sglang._version import __version__
        from sglang.kernels.ops.speculative import reject_sampling, sampling, spec_tree, tree
        from sglang.srt.speculative import eagle_utils
        sglang.__version__ = __version__
        self.spec_tree, self.eagle, self.rejection = spec_tree, eagle_utils, reject_sampling
        self.kernels = {"tree_speculative_sampling_target_only": sampling, "verify_tree_greedy": tree,
                        "chain_speculative_sampling_triton": reject_sampling, "build_tree_kernel_efficient": tree}
        self.theirs = {name: getattr(module, name) for name, module in self.kernels.items()}
        hunch.sglang.register(build_tree=True)
        self.addCleanup(hunch.sglang.unregister)
        vars(config).update(
            speculative_use_rejection_sampling=False, speculative_use_block_verification=False,
            speculative_accept_threshold_single=1.0, speculative_accept_threshold_acc=1.0)
        torch.manual_seed(0)

    def sample(self, candidates, links, levels, logits, draft_probs=None, greedy=False, seeds=None, temperature=1.0):
        """eagle_sample: candidates [B, nodes], links [B, nodes] three times, logits [B, nodes, V].

        Returns predictions by slot, numbers of tokens, accepted slots.
        """
        batch, nodes = candidates.shape
        verified = types.SimpleNamespace(
            draft_token=candidates.flatten(), draft_token_num=nodes, max_tree_depth=levels, tree_topk=2,
            retrieve_index=links[0], retrieve_next_token=links[1], retrieve_next_sibling=links[2],
            draft_probs=draft_probs)
        sampling = types.SimpleNamespace(
            acc_additive_penalties=None, acc_scaling_penalties=None, logit_bias=None, is_all_greedy=greedy,
            has_watermark_candidates=False, temperatures=torch.full((batch, 1), temperature),
            need_top_k_sampling=False, need_top_p_sampling=False, sampling_seed=seeds)
        running = types.SimpleNamespace(
            device=DEVICE, forward_mode=types.SimpleNamespace(is_idle=lambda: False), sampling_info=sampling,
            seq_lens=torch.full((batch,), 17))
        return self.eagle.eagle_sample(verified, running, types.SimpleNamespace(
            next_token_logits=logits.reshape(batch * nodes, -1)))


def own_links(batch, child, sibling):
    """The same links for every sequence, and slots in order."""
    return (torch.arange(batch * len(child)).view(batch, -1), *(
        torch.tensor(link).expand(batch, -1).contiguous() for link in (child, sibling)))


def statistic(first, second, law):
    return engine_files.pearson(torch.bincount(V * first.long() + second.long(), minlength=V * V).double(),
                                law.flatten().double())


def plain(t0, t1):
    return t0.softmax(-1)[:, None] * t1.softmax(-1)


class Sampled(Loaded):
    def test_the_law_of_trees_is_the_targets(self):
        # The root's children are nodes 1 and 2; node 3 hangs on node 1. Each request has its own two tokens there.
        t0, t1, t2 = torch.randn(V), torch.randn(V, V), torch.randn(V)
        a = torch.randint(2, (REQUESTS,))
        b = (a + 1 + torch.randint(V - 1, (REQUESTS,))) % V
        candidates = torch.stack([torch.full_like(a, ROOT), a, b, torch.randint(V, (REQUESTS,))], 1)
        logits = torch.stack([t0.expand(REQUESTS, V), t1[a], t1[b], t2.expand(REQUESTS, V)], 1)
        links = own_links(REQUESTS, (1, 3, -1, -1), (-1, 2, -1, -1))

        def found(temperature=1.0):
            predict, n, _ = self.sample(candidates, links, 3, logits, temperature=temperature)
            by_node = predict.view(REQUESTS, 4)
            first = by_node[:, 0].long()
            after = torch.where(first == a, by_node[:, 1], by_node[:, 2])
            drawn = torch.multinomial((t1 / temperature).softmax(-1)[first], 1)[:, 0]
            self.assertEqual(set(n.tolist()), {1, 2, 3})
            return statistic(first, torch.where(n > 1, after, drawn), plain(t0 / temperature, t1 / temperature))
        self.assertLess(found(), LIMIT)
        self.assertLess(found(0.6), LIMIT)
        config.speculative_accept_threshold_acc = 0.3  # accepts more than the target does: lossy, and seen
        self.assertGreater(found(), SEEN)

    def chains(self, requests=REQUESTS):
        """Two drafts of each request: candidates, links, logits, q, and the laws of the first two tokens."""
        t0, t1, t2 = torch.randn(V), torch.randn(V, V), torch.randn(V, V, V)
        d0, d1 = t0 + torch.randn(V), t1 + torch.randn(V, V)
        x = torch.multinomial(d0.softmax(-1), requests, replacement=True)
        y = torch.multinomial(d1.softmax(-1)[x], 1)[:, 0]
        logits = torch.stack([t0.expand(requests, V), t1[x], t2[x, y]], 1)
        q = torch.stack([d0.softmax(-1).expand(requests, V), d1.softmax(-1)[x]], 1)
        candidates = torch.stack([torch.full_like(x, ROOT), x, y], 1)
        return candidates, own_links(requests, (1, 2, -1), (-1, -1, -1)), logits, q, t0, t1

    def test_the_law_of_chains_is_the_targets(self):
        candidates, links, logits, q, t0, t1 = self.chains()
        config.speculative_use_rejection_sampling = True

        def found(draft_probs):
            predict, n, _ = self.sample(candidates, links, 3, logits, draft_probs)
            first = predict.view(-1, 3)[:, 0]
            drawn = torch.multinomial(t1.softmax(-1)[first], 1)[:, 0]
            return statistic(first, torch.where(n > 1, predict.view(-1, 3)[:, 1], drawn), plain(t0, t1))
        self.assertLess(found(q), LIMIT)
        self.assertGreater(found(torch.full_like(q, 1 / V)), SEEN)

    def test_chains_accept_what_sglangs_kernel_accepts(self):
        candidates, links, logits, q, _, _ = self.chains(300)
        p, coins, last = logits.softmax(-1), torch.rand(300, 3), torch.rand(300)

        def run(kernel):
            out = (torch.zeros(900).int(), torch.full((300, 3), -1).int(), torch.zeros(300).int())
            kernel(*out, candidates, *links, coins, last, p, q, 1.0, 1.0, True)
            return out
        ours = run(self.rejection.chain_speculative_sampling_triton)
        theirs = run(self.theirs["chain_speculative_sampling_triton"])
        self.assertTrue(ours[1].equal(theirs[1]) and ours[2].equal(theirs[2]))
        accepted = torch.arange(3) < ours[2][:, None]
        self.assertTrue(ours[0].view(300, 3)[accepted].equal(theirs[0].view(300, 3)[accepted]))
        whole = ours[2] == 2  # then the last token is by the same uniform, too
        self.assertTrue(ours[0].view(300, 3)[whole].equal(theirs[0].view(300, 3)[whole]))
        self.assertEqual(set(ours[2].tolist()), {0, 1, 2})

    def test_blocks_are_left_to_sglang(self):
        candidates, links, logits, q, _, _ = self.chains(40)
        config.speculative_use_rejection_sampling = config.speculative_use_block_verification = True
        torch.manual_seed(5)
        ours = self.sample(candidates, links, 3, logits, q)
        hunch.sglang.unregister()
        torch.manual_seed(5)
        for one, other in zip(ours, self.sample(candidates, links, 3, logits, q)):
            self.assertTrue(one.equal(other))

    def test_a_seeded_request_does_not_depend_on_the_batch(self):
        from sglang.kernels.ops.sampling import murmur_hash
        candidates, links, logits, q, _, _ = self.chains(50)
        # The hash asks for a compiled CPU version; its kernel can be interpreted.
        kernel = murmur_hash.murmur_hash32_kernel

        def hashed(seed, positions, columns):
            out = torch.empty((len(seed), len(columns)), dtype=torch.int64)
            kernel[(len(seed), 1)](seed.long(), positions.long(), columns, out, len(seed), len(columns), BLOCK_SIZE=16)
            return out
        self.enterContext(mock.patch.object(murmur_hash, "murmur_hash32", hashed))
        seeds = torch.randint(1 << 40, (50,))
        some = torch.tensor([44, 3, 17, 8])
        for config.speculative_use_rejection_sampling in (False, True):
            whole = self.sample(candidates, links, 3, logits, q, seeds=seeds)
            part = self.sample(candidates[some], own_links(4, (1, 2, -1), (-1, -1, -1)), 3, logits[some], q[some],
                               seeds=seeds[some])
            self.assertTrue(part[0].view(4, 3).equal(whole[0].view(50, 3)[some]))
            self.assertTrue(part[1].equal(whole[1][some]))
            other = self.sample(candidates, links, 3, logits, q, seeds=seeds + 1)
            self.assertFalse(other[0].equal(whole[0]))

    def test_a_row_of_nan_is_counted_and_disturbs_nobody(self):
        candidates, links, logits, _, _, _ = self.chains(30)
        coins, last = torch.rand(30, 3), torch.rand(30)

        def run(p):
            out = (torch.zeros(90).int(), torch.full((30, 3), -1).int(), torch.zeros(30).int())
            hunch.sglang.tree_speculative_sampling_target_only(*out, candidates, *links, coins, last, p, None)
            return out[0].view(30, 3), out[1], out[2]
        wanted = run(logits.softmax(-1))
        broken = logits.softmax(-1)
        broken[7] = torch.nan
        hunch.sglang.counts = type(hunch.sglang.counts)(hunch.STATUS)
        got = run(broken)
        others = torch.arange(30) != 7
        for one, other in zip(got, wanted):
            self.assertTrue(one[others].equal(other[others]))
        self.assertTrue((got[0][7] >= 0).all() and int(got[2][7]) == 0)
        self.assertEqual(hunch.sglang.counts.read()["invalid_logits"], 1)


def grown(batch=40, topk=3, steps=3, nodes=10, vocab=4):
    """What an EAGLE-2 drafter hands to build_tree_kernel_efficient: random trees, parents always chosen."""
    parents, chosen = [], []
    for _ in range(batch):
        expanded = [-1] + list(range(topk))
        for level in range(1, steps - 1):
            expanded += sorted((topk + topk * topk * (level - 1) + torch.randperm(topk * topk)[:topk]).tolist())
        taken = set()
        while len(taken) < nodes - 1:
            s = int(torch.randint(topk + topk * topk * (steps - 1), ()))
            if s < topk or expanded[s // topk] in taken:
                taken.add(s)
        parents.append(expanded)
        chosen.append(sorted(taken))
    tokens = torch.stack([torch.randperm(nodes - 1) % vocab for _ in range(batch)])
    return torch.tensor(parents), torch.tensor(chosen), tokens, torch.randint(1, 30, (batch,))


class Greedy(Loaded):
    def built(self, mode, parents, chosen, tokens, lengths, topk=3, steps=3):
        return self.eagle.build_tree_kernel_efficient(
            torch.full((len(parents),), ROOT), parents, chosen, tokens, lengths, int(lengths.sum()), topk, steps,
            chosen.shape[1] + 1, mode)

    def test_trees_are_those_of_sglangs_kernel(self):
        drawn = grown()
        modes = self.eagle.TreeMaskMode
        for mode in (modes.FULL_MASK, modes.QLEN_ONLY):
            ours = self.built(mode, *drawn)
            with mock.patch.object(self.spec_tree, "sgl_build_tree_kernel_efficient",
                                   self.spec_tree.sgl_build_tree_kernel_triton):
                theirs = self.built(mode, *drawn)
            for one, other in zip(ours, theirs):
                self.assertTrue(one.equal(other))
        parents, chosen = (torch.zeros(1, 9).long(), torch.zeros(1, 5).long())
        ours = hunch.sglang.build_tree_kernel_efficient
        self.assertIs(ours(parents, chosen, *[None] * 6, 3, 3, 6, 0), NotImplemented)  # 7 columns belong to 3 levels
        self.assertIs(ours(parents[:, :7], chosen, *[None] * 6, 3, 3, 6, 2), NotImplemented)  # bits

    def test_greedy_texts_are_those_of_sglangs_kernel(self):
        drawn = grown()
        built = self.built(self.eagle.TreeMaskMode.QLEN_ONLY, *drawn)
        candidates = built[-1].view(40, 10)
        logits = torch.randn(40, 10, 4)
        ours = self.sample(candidates, built[2:5], 4, logits, greedy=True)
        with mock.patch.object(self.kernels["verify_tree_greedy"], "verify_tree_greedy",
                               lambda **a: self.spec_tree.verify_tree_greedy_triton(
                                   **{name.replace("retrive", "retrieve"): value for name, value in a.items()})):
            theirs = self.sample(candidates, built[2:5], 4, logits, greedy=True)
        for one, other in zip(ours, theirs):
            self.assertTrue(one.equal(other))
        self.assertEqual(set(ours[1].tolist()), {1, 2, 3, 4})


class WhatIsReplaced(Loaded):
    def test_the_installed_package_has_the_entry_point(self):
        found = entry_points(group="sglang.srt.plugins", name="hunch")
        self.assertEqual({e.value for e in found}, {"hunch.sglang:plugin"})

    def held(self):
        return {name: getattr(module, name) for name, module in self.kernels.items()}

    def test_functions_are_replaced_wherever_they_are_held(self):
        self.assertTrue(all(f is not self.theirs[name] for name, f in self.held().items()))
        self.assertIs(self.eagle.tree_speculative_sampling_target_only,
                      self.held()["tree_speculative_sampling_target_only"])
        hunch.sglang.unregister()
        self.assertEqual(self.held(), self.theirs)
        self.assertIs(self.eagle.tree_speculative_sampling_target_only,
                      self.theirs["tree_speculative_sampling_target_only"])
        hunch.sglang.register()  # trees are then built by SGLang
        self.assertIs(self.held()["build_tree_kernel_efficient"], self.theirs["build_tree_kernel_efficient"])

    def test_other_signatures_are_refused(self):
        hunch.sglang.unregister()
        for name, module in self.kernels.items():
            names = list(inspect.signature(self.theirs[name]).parameters)
            scope = {}
            exec(f"def mutated({', '.join(names[:-1])}, renamed): pass", scope)
            with self.subTest(name), mock.patch.object(module, name, scope["mutated"]):
                with self.assertRaisesRegex(hunch.sglang.InterfaceDiffers,
                                            f"{name}: it lacks {names[-1]}; .*it has renamed besides"):
                    hunch.sglang.register(build_tree=True, any_version=True)
                self.assertFalse(hunch.sglang.is_registered())
                self.assertEqual({n: f for n, f in self.held().items() if n != name},
                                 {n: f for n, f in self.theirs.items() if n != name})

    def test_other_versions_are_refused_and_the_entry_point_can_be_switched_off(self):
        import sglang
        hunch.sglang.unregister()
        with mock.patch.dict(os.environ, HUNCH_SGLANG="off"):
            hunch.sglang.plugin()
        self.assertFalse(hunch.sglang.is_registered())
        sglang.__version__ = "0.6.0"
        with self.assertLogs("hunch", "WARNING") as logs:
            hunch.sglang.plugin()
        self.assertIn("sglang is left as it is: version 0.6.0 has not been read", logs.output[0])
        sglang.__version__ = "0.5.23"
        hunch.sglang.plugin()
        self.assertTrue(hunch.sglang.is_registered())


class WhenImported(unittest.TestCase):
    def test_a_function_is_replaced_when_its_module_is_imported(self):
        self.enterContext(engine_files.Engine("sglang", directory, WHEEL.files, STUBS))
        import sglang
        sglang.__version__ = hunch.sglang.VERSIONS[0]
        self.addCleanup(hunch.sglang.unregister)
        hunch.sglang.plugin()
        self.assertFalse({t.module for t in hunch.sglang._TARGETS} & set(sys.modules))
        from sglang.kernels.ops.speculative import tree
        from sglang.srt.speculative import eagle_utils

        def replaced():
            return [hasattr(f, "__wrapped__") for f in (
                tree.verify_tree_greedy, eagle_utils.tree_speculative_sampling_target_only,
                eagle_utils.chain_speculative_sampling_triton, tree.build_tree_kernel_efficient)]
        self.assertEqual(replaced(), [True, True, True, False])
        hunch.sglang.unregister()
        self.assertEqual(replaced(), [False, False, False, False])


if __name__ == "__main__":
    engine_files.main(WHEEL, load)
