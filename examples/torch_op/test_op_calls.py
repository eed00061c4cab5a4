# SPDX-License-Identifier: Apache-2.0
"""Tests what is the same for all operators: schemas, torch.compile, messages, threads, streams and graphs.

    PYTHONPATH=build-torch/python python build-torch/test/test_op_calls.py
"""
import unittest

import torch
from torch._dynamo.testing import CompileCounter

from operator_cases import HAS_CUDA_KERNELS, Operators, i32, i64, laws, ops, results


class Calls(Operators):
    def some_calls(self):
        """One call of each operator: name, arguments, keyword arguments."""
        q, ids, p = self.chains(batch=6)
        seeds, ones = torch.arange(6), torch.ones(6, dtype=torch.int32)
        parents, selected, lengths, topk, candidates = self.trees(batch=6)
        links = ops.build_tree(parents, selected, lengths, topk)[2:5]
        requests = self.requests([1, 0, 3], 3, 12)
        named = ("num_speculative_steps",)
        chain = torch.arange(-1, 3).expand(6, 4).contiguous()
        census = {k: v.cpu() for k, v in self.census(5 * [[1, 2, 3]], 5 * [[3, 4]], 12).items()}
        positional = [requests[k] for k in requests if k not in named] + [requests[k] for k in named]
        calls = [("chain_speculative_sampling", [q, ids, p], dict(seeds=seeds, lengths=ones)),
                 ("rejection_sample", positional, dict(block_verification=True, top_k=torch.full((5,), 3).int())),
                 ("rejection_sample_", positional, dict(presence_penalty=torch.ones(5), **census,
                                                        allowed=torch.full((7, 1), 0x7f0).int())),
                 ("begin_texts", [*census.values(), i32(4, 0), i64([1, 2], [3, 3]), i32(2, 1)], {}),
                 ("count_tokens", [*census.values(), i32(4, 0), i64([1, 2], [3, 3]), i32(2, 1)], {}),
                 ("tree_speculative_sampling_target_only", [candidates, *links, laws(*candidates.shape, 4), 4],
                  dict(seeds=seeds, lengths=ones)),
                 ("verify_tree_greedy", [candidates, *links, torch.randint(4, (candidates.numel(),)), 4], {}),
                 ("build_tree", [parents, selected, lengths, topk], {}),
                 ("verify_tree", [torch.randn(6, 4, 9), candidates[:, :4].contiguous(), chain, torch.randn(6, 4, 9)],
                  dict(seeds=seeds, lengths=ones, temperature=torch.ones(6), top_k=torch.full((6,), 3).int(),
                       without_replacement=True)),
                 ("describe_tree", [chain, ones], {}),
                 ("shortlist_head", [torch.randn(6, 16), torch.randn(40, 16).bfloat16(), i32([0, 3], [7, 9])[None], 8],
                  {}),
                 ("choose_clusters", [torch.randn(6, 4), i32(1, 3, 4, 8, 9), 3],
                  dict(rows=6, share=0.9, per_row=True))]

        def there(x):
            return x.to(self.device, copy=True) if isinstance(x, torch.Tensor) else x
        return [(name, [there(x) for x in args], {k: there(v) for k, v in kwargs.items()})
                for name, args, kwargs in calls]

    def copied(self, args, kwargs):
        def copy(x):
            return x.clone() if isinstance(x, torch.Tensor) else x
        return [copy(x) for x in args], {k: copy(v) for k, v in kwargs.items()}

    def test_schemas_and_fakes(self):
        for name, args, kwargs in self.some_calls():
            with self.subTest(name):
                torch.library.opcheck(getattr(ops, name).default, tuple(args), kwargs)

    def test_compiled_calls_are_the_same(self):
        for name, args, kwargs in self.some_calls():
            with self.subTest(name):
                torch._dynamo.reset()
                op = getattr(ops, name)
                compiled = torch.compile(lambda *a, **k: op(*a, **k), backend="aot_eager", fullgraph=True, dynamic=True)
                first = self.copied(args, kwargs)  # some operators write what they are given
                for got, wanted in zip(results(compiled(*first[0], **first[1])), results(op(*args, **kwargs))):
                    self.assertTrue(got.equal(wanted))

    def test_numbers_are_compiled_once(self):
        """Those that change from step to step: lengths of drafts, levels and budgets."""
        calls = {name: (args, kwargs) for name, args, kwargs in self.some_calls()}
        for name, at in (("rejection_sample", 8), ("rejection_sample_", 8), ("verify_tree_greedy", 5),
                         ("tree_speculative_sampling_target_only", 5), ("choose_clusters", 2),
                         ("choose_clusters", "rows")):
            with self.subTest(name, argument=at):
                torch._dynamo.reset()
                counter = CompileCounter()

                def run(n, op=getattr(ops, name), at=at):
                    args, kwargs = self.copied(*calls[name])
                    if name.startswith("rejection_sample"):
                        args[1] = args[1].repeat(1, n, 1)[:, :n].contiguous()
                    (kwargs if isinstance(at, str) else args)[at] = n
                    return op, args, kwargs
                compiled = torch.compile(lambda op, args, kwargs: op(*args, **kwargs), backend=counter, fullgraph=True,
                                         dynamic=True)
                for n in range(13, 19):  # which no other size is
                    compiled(*run(n))
                self.assertEqual(counter.frame_count, 1)

    def test_empty_batches(self):
        none, ids = torch.empty(0, 2, 5), torch.empty(0, 2, dtype=torch.int32)
        out, _, _, status = self.call("chain_speculative_sampling", none, ids, torch.empty(0, 3, 5),
                                      uniform_samples=torch.empty(0, 3))
        self.assertEqual((out.shape, status.shape), ((0, 3), (0,)))

    def test_what_is_refused(self):
        calls = {name: (args, kwargs) for name, args, kwargs in self.some_calls()}
        faults = [
            ("chain_speculative_sampling", 0, lambda t: t[0], "draft_probs must have 3 dimensions"),
            ("chain_speculative_sampling", 0, lambda t: t.double(), "draft_probs must be Float, it is Double"),
            ("chain_speculative_sampling", 1, lambda t: t.float(), "draft_token_ids must be Int, it is Float"),
            ("chain_speculative_sampling", 2, lambda t: t[:, 1:].contiguous(),
             r"target_probs must have the shape \[6, 4, 50\], it has \[6, 3, 50\]"),
            ("chain_speculative_sampling", 2, lambda t: t.transpose(0, 1).contiguous().transpose(0, 1),
             "target_probs must be contiguous"),
            ("chain_speculative_sampling", "lengths", lambda t: None,
             "give either seeds and lengths, or uniform_samples"),
            ("chain_speculative_sampling", "uniform_samples", lambda t: torch.rand(6, 4, device=self.device),
             "give either seeds and lengths, or uniform_samples"),
            ("chain_speculative_sampling", "seeds", lambda t: t[1:], r"seeds must have the shape \[6\]"),
            ("rejection_sample", 0, lambda t: t.t().contiguous().t(), "rows of target_logits must be contiguous"),
            ("rejection_sample", 0, lambda t: t[:1].expand_as(t), "rows of target_logits must be contiguous"),
            ("rejection_sample", 1, lambda t: t[1:].contiguous(), r"draft_logits must have the shape \[5, 3, 12\]"),
            ("rejection_sample", 3, lambda t: t[1:], r"cu_num_logits must have the shape \[4\]"),
            ("rejection_sample", 6, lambda t: t.half(), "temperature must be Float, it is Half"),
            ("tree_speculative_sampling_target_only", 4, lambda t: t[:, 1:].contiguous(), "target_probs must have the"),
            ("tree_speculative_sampling_target_only", 5, lambda n: 0, "levels must be at least 1, it is 0"),
            ("tree_speculative_sampling_target_only", "threshold_acc", lambda t: 1.5, "must be in .0, 1., it is 1.5"),
            ("tree_speculative_sampling_target_only", "uniform_samples", lambda t: torch.rand(6, 12), "give either"),
            ("verify_tree_greedy", 4, lambda t: t.double(), "target_predict must be Int, it is Double"),
            ("rejection_sample", 0, lambda t: t.double(), "target_logits must be Float, it is Double"),
            ("rejection_sample", 1, lambda t: t.half(), "draft_logits must be Float, it is Half"),
            ("rejection_sample", "top_k", lambda t: t.long(), "top_k must be Int, it is Long"),
            ("rejection_sample_", "census_size", lambda t: None, "penalties need a census"),
            ("rejection_sample_", "allowed", lambda t: t.long(), "allowed must be Int, it is Long"),
            ("begin_texts", 3, lambda t: t[1:], r"census_size must have the shape \[5\]"),
            ("build_tree", 3, lambda k: 0, "topk must be at least 1"),
            ("verify_tree", 0, lambda t: t.double(), "target_logits must be Float, it is Double"),
            ("verify_tree", 2, lambda t: t[:, :3], r"parents must have the shape \[6, 4\]"),
            ("verify_tree", 3, lambda t: t[:5], r"draft_logits must have the shape \[6, 4, 9\]"),
            ("describe_tree", 0, lambda t: t.int(), "parents must be Long, it is Int"),
            ("shortlist_head", 1, lambda t: t[:, :8], r"weight must have the shape \[40, 16\]"),
            ("shortlist_head", 2, lambda t: t.expand(2, 2, 2), r"ranges must have the shape \[6, 2, 2\]"),
            ("shortlist_head", 3, lambda n: -1, "most_rows must be at least 0"),
            ("choose_clusters", 1, lambda t: t[1:], r"cluster_begin must have the shape \[5\]"),
            ("choose_clusters", 2, lambda n: 0, "most must be at least 1"),
            ("choose_clusters", "share", lambda x: 1.5, "share must be in .0, 1., it is 1.5"),
            ("build_tree", 3, lambda k: 4, r"must have topk \* \(depth - 1\) \+ 1 columns, it has 7, and topk is 4"),
        ]
        for name, which, change, message in faults:
            with self.subTest(name, argument=which):
                args, kwargs = list(calls[name][0]), dict(calls[name][1])
                into = kwargs if isinstance(which, str) else args
                into[which] = change(into.get(which) if into is kwargs else into[which])
                with self.assertRaisesRegex((ValueError, TypeError), f"hunch::{name}: .*{message}"):
                    getattr(ops, name)(*args, **kwargs)


class OnTheCpu(Calls, unittest.TestCase):
    def test_threads_change_nothing(self):
        threads = torch.get_num_threads()
        for name, args, kwargs in self.some_calls():
            by_threads = []
            for n in (1, 3):
                torch.set_num_threads(n)
                own_args, own_kwargs = self.copied(args, kwargs)
                by_threads.append(results(getattr(ops, name)(*own_args, **own_kwargs)))
            for one, three in zip(*by_threads):
                self.assertTrue(one.equal(three))
        torch.set_num_threads(threads)


@unittest.skipUnless(torch.cuda.is_available() and HAS_CUDA_KERNELS, "no GPU, or a build without CUDA")
class OnCuda(Calls, unittest.TestCase):
    device = "cuda"

    def test_results_are_those_of_the_cpu(self):
        for name, args, kwargs in self.some_calls():
            on_cpu = getattr(ops, name)(*[x.cpu() if isinstance(x, torch.Tensor) else x for x in args],
                                        **{k: v.cpu() if isinstance(v, torch.Tensor) else v for k, v in kwargs.items()})
            for there, here in zip(results(getattr(ops, name)(*args, **kwargs)), results(on_cpu)):
                self.assertTrue(there.cpu().equal(here))

    def test_work_goes_to_the_current_stream_and_into_graphs(self):
        name, args, kwargs = self.some_calls()[0]
        wanted = getattr(ops, name)(*args, **kwargs)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):  # a stream of its own; what went elsewhere would break the capture
            captured = getattr(ops, name)(*args, **kwargs)
        graph.replay()
        torch.cuda.synchronize()
        for got, same in zip(captured, wanted):
            self.assertTrue(got.equal(same))

    def test_replays_read_what_has_changed_since_the_capture(self):
        _, args, kwargs = self.some_calls()[0]
        op = ops.chain_speculative_sampling
        op(*args, **kwargs)  # loads the kernels
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = op(*args, **kwargs)
        texts = []
        for _ in range(8):
            kwargs["lengths"] += 1
            graph.replay()
            for got, wanted in zip(captured, op(*args, **kwargs)):
                self.assertTrue(got.equal(wanted))
            texts.append(captured[0].clone())
        self.assertTrue(any(not one.equal(texts[0]) for one in texts[1:]))


if __name__ == "__main__":
    if not torch.cuda.is_available():
        print("no GPU here: the operators are tested on the CPU only")
    unittest.main()
