# SPDX-License-Identifier: Apache-2.0
"""Tests head, select_clusters and what is around them: definitions in plain Python, types, errors, torch.compile.

    PYTHONPATH=build-torch/python python build-torch/test/test_shortlists.py

A logit of `head` may differ from the sum in double by 1e-6 of the sum of the magnitudes of its terms: float32 adds 64
elements in at least 16 partial sums, whose roundings are 6e-8 each.
"""
import json
import struct
import tempfile
import unittest
from pathlib import Path

import torch

import hunch
import reference

ops = torch.ops.hunch
HAS_CUDA_KERNELS = torch._C._dispatch_has_kernel_for_dispatch_key("hunch::shortlist_head", "CUDA")
WEIGHTS = (torch.float32, torch.bfloat16, torch.float16)


def lists_of(ranges):
    """The rows of ranges [G, 2], up to the first that is empty."""
    rows = []
    for first, last in ranges:
        if first == last:
            break
        rows += range(first, last)
    return rows


class Shortlists:
    device = "cpu"

    def setUp(self):
        torch.manual_seed(0)

    def there(self, x):
        return x.to(self.device) if isinstance(x, (torch.Tensor, hunch.Layout)) else x

    def call(self, function, *args, **kwargs):
        """Calls a function on the device under test; a result comes back to the CPU."""
        result = function(*map(self.there, args), **{k: self.there(v) for k, v in kwargs.items()})
        if isinstance(result, torch.Tensor):
            return result.cpu()
        return type(result)(*(r.cpu() if isinstance(r, torch.Tensor) else r for r in result))

    # --- head ----------------------------------------------------------------------------------
    def is_product(self, logits, hidden, weight, rows):
        """Whether logits [R] are those of some rows and one hidden state."""
        h, w = hidden.double(), weight[rows].double()
        self.assertTrue(((logits.double() - w @ h).abs() <= 1e-6 * (w.abs() @ h.abs())).all())

    def test_logits_are_products_with_the_rows(self):
        for weight_type in WEIGHTS:
            for batch, width, rows in ((1, 64, 500), (3, 80, 33), (70, 64, 1000)):
                weight, hidden = torch.randn(rows, width).to(weight_type), torch.randn(batch, width)
                for ids in (torch.randperm(rows)[:25], torch.arange(rows), torch.tensor([rows - 1]),
                            torch.randperm(rows)[:20].int()):
                    logits = self.call(hunch.head, hidden, weight, ids)
                    self.assertEqual((logits.shape, logits.dtype), ((batch, len(ids)), torch.float32))
                    for b in range(batch):
                        self.is_product(logits[b], hidden[b], weight, ids.long())

    def test_the_tolerance_notices_a_wrong_row(self):
        weight, hidden = torch.randn(500, 64), torch.randn(1, 64)
        with self.assertRaises(AssertionError):
            self.is_product(self.call(hunch.head, hidden, weight, torch.arange(25))[0], hidden[0], weight,
                            torch.arange(1, 26))

    def test_hidden_states_of_16_bits(self):
        weight, hidden = torch.randn(300, 64), torch.randn(4, 64).bfloat16()
        ids = torch.randperm(300)[:40]
        self.assertTrue(self.call(hunch.head, hidden, weight, ids).equal(
            self.call(hunch.head, hidden.float(), weight, ids)))

    def test_ranges_are_their_rows(self):
        weight, hidden = torch.randn(300, 64), torch.randn(5, 64)
        pairs = [[0, 10], [10, 12], [100, 117], [299, 300]]
        rows = torch.tensor(lists_of(pairs))
        wanted = self.call(hunch.head, hidden, weight, rows)
        for ranges in (pairs, torch.tensor(pairs), torch.tensor(pairs).int()):
            self.assertTrue(self.call(hunch.head, hidden, weight, ranges=ranges, max_rows=30).equal(wanted))
        self.assertTrue(self.call(hunch.head, hidden, weight, ranges=pairs).equal(wanted))
        again = self.call(hunch.shortlist_ranges, rows[torch.randperm(30)])
        self.assertEqual(again.tolist(), [[0, 12], [100, 117], [299, 300]])

    def test_each_state_has_its_own_list(self):
        weight, hidden = torch.randn(300, 64), torch.randn(70, 64)  # more states than are planned at a time
        ranges = torch.zeros(70, 4, 2, dtype=torch.int64)
        for b in range(70):
            ends = torch.randperm(301)[:2 * (b % 5)].sort().values
            ranges[b, :b % 5] = ends.view(-1, 2)
        logits = self.call(hunch.head, hidden, weight, ranges=ranges, max_rows=300)
        for b in range(70):
            rows = lists_of(ranges[b].tolist())
            self.is_product(logits[b, :len(rows)], hidden[b], weight, rows)
            self.assertTrue((logits[b, len(rows):] == -torch.inf).all())
            alone = self.call(hunch.head, hidden[b:b + 1], weight, ranges=ranges[b], max_rows=300)
            self.assertTrue(alone[0].equal(logits[b]))  # bit for bit, whatever is computed beside it

    def test_what_is_no_list_has_no_logits(self):
        weight, hidden = torch.randn(30, 16), torch.randn(2, 16)
        good = [[0, 5], [7, 9]]
        for bad in ([[0, 31], [0, 0]], [[-1, 3], [4, 5]], [[5, 9], [0, 2]], [[0, 5], [4, 9]], [[5, 3], [6, 7]],
                    [[0, 29], [29, 30]], [[2**40, 2**40 + 1], [0, 0]], [[-2**40, -1], [0, 0]]):
            logits = self.call(hunch.head, hidden, weight, ranges=torch.tensor([bad, good]), max_rows=8)
            self.assertTrue(logits[0].isnan().all(), bad)
            self.is_product(logits[1, :7], hidden[1], weight, lists_of(good))
        for ids in ([3, 3, 4], [0, 30], [-1, 2], [2**40, 1]):
            self.assertTrue(self.call(hunch.head, hidden, weight, torch.tensor(ids)).isnan().all(), ids)

    def test_nothing_asked(self):
        weight = torch.randn(30, 16)
        self.assertEqual(self.call(hunch.head, torch.randn(0, 16), weight, torch.arange(3)).shape, (0, 3))
        self.assertEqual(self.call(hunch.head, torch.randn(2, 16), weight, torch.arange(0)).shape, (2, 0))
        self.assertTrue((self.call(hunch.head, torch.randn(2, 16), weight, ranges=torch.zeros(0, 2).long(),
                                   max_rows=2) == -torch.inf).all())

    def test_there_are_no_gradients(self):
        """What looked as if it had some would give a trained model none, in silence."""
        weight, hidden = torch.randn(30, 16, requires_grad=True), torch.randn(2, 16, requires_grad=True)
        for options in (dict(shortlist=torch.arange(3)), dict(ranges=[[0, 3]])):
            logits = self.call(hunch.head, hidden, weight, **options)
            self.assertFalse(logits.requires_grad)
            with self.assertRaisesRegex(RuntimeError, "does not require grad"):
                logits.sum().backward()

    # --- clusters ------------------------------------------------------------------------------
    def layout(self, sizes, core=0):
        begin = torch.tensor([core] + sizes).cumsum(0)
        rows = int(begin[-1])
        return hunch.Layout(torch.randperm(rows + 7)[:rows], begin, rows + 7)

    def chooses(self, scores, layout, **budget):
        """Compares a choice with the definition, context by context."""
        got = self.call(hunch.select_clusters, scores, layout, **budget)
        begin, counts = layout.cluster_begin.tolist(), set()
        for b, row in enumerate(scores):
            wanted = reference.chosen_clusters(row.float(), begin, **budget)
            ranges = got.ranges[b].tolist()
            self.assertEqual(ranges, wanted + [[0, 0]] * (len(ranges) - len(wanted)), (row, budget))
            self.assertEqual(got.num_rows[b], len(lists_of(wanted)))
            self.assertLessEqual(got.num_rows[b], got.max_rows)
            counts.add(int(got.num_rows[b]))
        return counts

    def test_choices_are_those_of_the_definition(self):
        sizes = torch.randint(1, 30, (40,)).tolist()
        for core in (0, 11):
            layout = self.layout(sizes, core)
            scores = 2 * torch.randn(30, 40)
            for budget in (dict(most=1), dict(most=7), dict(most=40), dict(most=40, rows=100), dict(most=5, rows=400),
                           dict(most=40, share=0.5), dict(most=40, share=0.9, rows=150), dict(most=3, share=1.0)):
                for per_row in (False, True):
                    self.chooses(scores, layout, per_row=per_row, **budget)
            self.assertGreater(len(self.chooses(scores, layout, most=40, rows=150)), 3)
            self.assertGreater(len(self.chooses(scores, layout, most=40, share=0.7)), 3)

    def test_ties_go_to_the_lower_number(self):
        layout = self.layout([3, 1, 2, 5, 4, 2])
        equal, few = torch.zeros(2, 6), torch.randint(0, 2, (30, 6)).float()
        for budget in (dict(most=3), dict(most=6, rows=7), dict(most=6, share=0.5), dict(most=6)):
            self.chooses(equal, layout, **budget)
            self.chooses(few, layout, **{k: v for k, v in budget.items() if k != "share"})
        got = self.call(hunch.select_clusters, equal, layout, most=2)
        self.assertEqual(got.ranges[0].tolist(), [[0, 4], [0, 0], [0, 0]])

    def test_scores_that_are_no_numbers(self):
        layout = self.layout([3, 1, 2, 5], core=2)
        scores = torch.randn(5, 4)
        scores[1, 2], scores[2, 0], scores[3], scores[4, 1:3] = torch.nan, torch.inf, -torch.inf, -torch.inf
        for budget in (dict(most=2), dict(most=4), dict(most=4, rows=9), dict(most=4, share=0.8)):
            self.chooses(scores, layout, **budget)
        got = self.call(hunch.select_clusters, scores, layout, most=2)
        self.assertEqual(got.ranges[1:4, 0].tolist(), 3 * [[0, 5]])  # the core and the first cluster
        # Of a whole share are those that have some of it.
        got = self.call(hunch.select_clusters, scores[4:], layout, most=4, share=1.0)
        self.assertEqual(got.num_rows.tolist(), [10])

    def test_a_budget_below_the_largest_cluster_takes_one(self):
        layout = self.layout([30, 1, 2, 20], core=5)
        scores = torch.tensor([[3.0, 2.0, 1.0, 0.0], [0.0, 1.0, 2.0, 3.0], [0.0, 3.0, 2.0, 1.0]])
        for rows in (1, 5, 6, 7, 8, 20, 35, 36, 58):
            self.chooses(scores, layout, most=4, rows=rows)
        got = self.call(hunch.select_clusters, scores, layout, most=4, rows=8)
        self.assertEqual(got.num_rows.tolist(), [35, 25, 8])

    def test_budgets_shrink_with_the_depth(self):
        layout, scores = self.layout([2] * 20), torch.randn(4, 20)
        for depth, clusters, rows in ((None, 12, 20), (0, 12, 20), (1, 12, 20), (2, 2, 3), (3, 1, 2), (9, 1, 1)):
            got = self.call(hunch.select_clusters, scores, layout, most=12, depth=depth)
            self.assertEqual(got.num_rows.tolist(), 4 * [2 * clusters])
            got = self.call(hunch.select_clusters, scores, layout, most=12, rows=20, depth=depth)
            self.assertEqual(got.num_rows.tolist(), 4 * [2 * min(clusters, max(1, rows // 2))])

    def test_no_layout_has_empty_clusters(self):
        for begin, message in (([0, 3, 3, 8], "cluster_begin must ascend"), ([0, 9], "cluster_begin must ascend"),
                               ([-1, 8], "cluster_begin must ascend"), ([8], "cluster_begin must ascend")):
            with self.assertRaisesRegex(ValueError, message):
                hunch.Layout(torch.arange(8), torch.tensor(begin), 8)
        with self.assertRaisesRegex(ValueError, "row_token must be tokens of the vocabulary of 7"):
            hunch.Layout(torch.arange(8), torch.tensor([0, 8]), 7)
        with self.assertRaisesRegex(ValueError, "row_token has a token twice"):
            hunch.Layout(torch.tensor([0, 1, 1]), torch.tensor([0, 3]), 8)
        # Of ids that 32 bits do not hold the lower ones would do.
        with self.assertRaisesRegex(ValueError, "row_token must be tokens"):
            hunch.Layout(torch.tensor([0, 2**32 + 1]), torch.tensor([0, 2]), 9)
        with self.assertRaisesRegex(ValueError, "cluster_begin must ascend"):
            hunch.Layout(torch.tensor([0, 1]), torch.tensor([2**32, 2**32 + 2]), 9)
        with self.assertRaisesRegex(TypeError, "vocab_size must be a whole number"):
            hunch.Layout(torch.tensor([0, 1]), torch.tensor([0, 2]), 9.5)

    def test_empty_clusters_break_nothing(self):
        # The operator looks at no table: ranges of such clusters are empty, and end the list.
        begin = self.there(torch.tensor([0, 3, 3, 8], dtype=torch.int32))
        ranges = ops.choose_clusters(self.there(torch.tensor([[0.0, 2.0, 1.0]])), begin, 1, None, None, False)
        logits = ops.shortlist_head(self.there(torch.ones(1, 4)), self.there(torch.ones(8, 4)), ranges, 8)
        self.assertTrue((logits == -torch.inf).all())

    def test_a_draft_from_clusters_is_verified(self):
        """Scores, choice, head, draw and verification, as an engine has them; the law by Pearson's statistic."""
        texts, layout = 60_000, self.layout([3, 2, 4, 1], core=2)
        vocab, width = layout.vocab_size, 16
        by_token = torch.randn(vocab, width) / 2
        weight = by_token[layout.row_token.long()].contiguous()
        hidden = torch.randn(3, width).repeat_interleave(texts // 3, 0)
        target = hidden[:1] @ by_token.T + torch.randn(1, vocab)  # one law for all, whatever was drafted
        lists = self.call(hunch.select_clusters, hidden[:, :4], layout, most=2)
        logits = self.call(hunch.head, hidden, weight, ranges=lists.ranges, max_rows=lists.max_rows)
        tokens = hunch.shortlist_tokens(lists, layout)
        self.assertEqual(tokens.shape, logits.shape)
        for b in (0, texts // 2, texts - 1):
            rows = lists_of(lists.ranges[b].tolist())
            self.assertEqual(tokens[b].tolist(), layout.row_token[rows].tolist() + [-1] * (tokens.shape[1] - len(rows)))
        drawn = tokens.gather(1, torch.multinomial(logits.softmax(-1), 1))
        draft = self.call(hunch.spread_logits, logits, tokens, vocab)
        both = target[:, None].expand(texts, 2, vocab)
        plain = target[0].softmax(-1)

        def statistic(draft):
            got = self.call(hunch.verify_chain, both, drawn, draft[:, None], seeds=torch.arange(texts),
                            lengths=torch.full((texts,), 5))
            got.raise_for_status()
            count = torch.bincount(got.tokens[:, 0], minlength=vocab)
            return ((count - texts * plain) ** 2 / (texts * plain)).sum().item()
        # vocab - 1 = 18 degrees of freedom: beyond 55 with probability 1.3e-5.
        self.assertLess(statistic(draft), 55)
        self.assertGreater(statistic(torch.zeros_like(draft)), 150)

    # --- files ---------------------------------------------------------------------------------
    def write(self, name, about, **tensors):
        header, data = {"__metadata__": about}, b""
        for key, t in tensors.items():
            begin = len(data)
            data += t.numpy().tobytes()
            kind = "F32" if t.dtype == torch.float32 else "I32"
            header[key] = {"dtype": kind, "shape": list(t.shape), "data_offsets": [begin, len(data)]}
        text = json.dumps(header).encode()
        path = Path(self.folder.name) / name
        path.write_bytes(struct.pack("<Q", len(text)) + text + data)
        return path

    def test_files_of_layouts_and_routers(self):
        with tempfile.TemporaryDirectory() as folder:
            self.folder = type("Folder", (), {"name": folder})
            made = self.layout([3, 2], core=1)
            about = {"format": "hunch.vocab_layout", "vocab_size": str(made.vocab_size)}
            tables = dict(row_token=made.row_token, cluster_begin=made.cluster_begin)
            layout = hunch.Layout.load(self.write("layout", about, **tables))
            self.assertEqual(layout.fingerprint, made.fingerprint)
            self.assertEqual((layout.clusters, layout.core_rows), (2, 1))
            weights = dict(first=torch.randn(5, 4), first_bias=torch.randn(5), second=torch.randn(2, 5),
                           second_bias=torch.randn(2))
            words = {"format": "hunch.router", "layout": f"0x{made.fingerprint:016x}"}
            router = hunch.Router.load(self.write("router", words, **weights), layout)
            x = torch.randn(3, 4)
            wanted = (x @ weights["first"].T + weights["first_bias"]).clamp(min=0) @ weights["second"].T
            self.assertTrue(router.scores(x).allclose(wanted + weights["second_bias"], atol=1e-6))
            broken = Path(folder) / "broken"
            for message, change in (("a router", lambda: self.write("r", words, **weights)),
                                    ("no clusters", lambda: self.write("l", about, row_token=made.row_token)),
                                    ("too short", lambda: broken)):
                broken.write_bytes(b"{}")
                with self.subTest(message), self.assertRaisesRegex(ValueError, folder):
                    hunch.Layout.load(change())
            lacking = [
                (hunch.Layout.load, "layout", dict(about, vocab_size="many"), tables, "invalid literal"),
                (hunch.Layout.load, "layout", {"format": about["format"]}, tables, "it has no 'vocab_size'"),
                (hunch.Layout.load, "layout", about, dict(cluster_begin=made.cluster_begin), "it has no 'row_token'"),
                (lambda path: hunch.Router.load(path, layout), "router", words,
                 {k: v for k, v in weights.items() if k != "second"}, "it has no 'second'")]
            for changed, message in (({"second": torch.randn(3, 5)}, r"second must be torch.float32 \[2, 5\]"),
                                     ({"first_bias": torch.randn(1)}, r"first_bias must be torch.float32 \[5\]"),
                                     ({"second_bias": torch.randn(2, 1)}, r"second_bias must be .* \[2\]"),
                                     ({"first": torch.randn(4)}, "not a router"),
                                     ({"first": torch.ones(5, 4).int()}, "first must be torch.float32")):
                lacking.append((lambda path: hunch.Router.load(path, layout), "router", words, weights | changed,
                                message))
            for load, name, said, tensors, message in lacking:
                with self.subTest(message), self.assertRaisesRegex(ValueError, f"{folder}/{name}: .*{message}"):
                    load(self.write(name, said, **tensors))
            other = self.layout([3, 2], core=1)
            with self.assertRaisesRegex(ValueError, "was trained for the layout"):
                hunch.Router.load(self.write("router", words, **weights), other)

    def test_the_library_writes_what_is_read(self):
        models = Path("examples/models")
        if not models.exists():
            self.skipTest("not run in the root of the repository, where the shipped models are")
        layout = hunch.Layout.load(models / "layout.safetensors")
        hunch.Router.load(models / "router.safetensors", layout)  # which compares fingerprints

    # --- what is refused, and torch.compile ----------------------------------------------------
    def test_what_is_refused(self):
        layout, scores = self.layout([3, 2]), torch.randn(4, 2)
        hidden, weight, ids = torch.randn(2, 8), torch.randn(9, 8), torch.arange(3)
        faults = [
            (hunch.head, [hidden[0], weight, ids], {}, ValueError, r"hidden must have the shape \[B, H\]"),
            (hunch.head, [hidden.long(), weight, ids], {}, TypeError, "hidden must be"),
            (hunch.head, [hidden, weight[:, :7], ids], {}, ValueError, r"weight must have the shape \[V, 8\]"),
            (hunch.head, [hidden, weight.t().contiguous().t(), ids], {}, ValueError, "weight must be contiguous"),
            (hunch.head, [hidden, weight.double(), ids], {}, TypeError, "weight must be"),
            (hunch.head, [hidden, weight, ids.float()], {}, TypeError, "shortlist must be"),
            (hunch.head, [hidden, weight], {}, ValueError, "shortlist or ranges must be given"),
            (hunch.head, [hidden, weight, ids], dict(ranges=[[0, 1]]), ValueError, "shortlist or ranges must be given"),
            (hunch.head, [hidden, weight], dict(ranges=torch.zeros(3, 2).long()), ValueError, "max_rows must be given"),
            (hunch.head, [hidden, weight], dict(ranges=torch.zeros(3, 1, 2).long(), max_rows=3), ValueError,
             r"ranges must have the shape \[2, G, 2\]"),
            (hunch.head, [hidden, weight], dict(ranges=[[1, 2, 3]]), ValueError, "ranges must be pairs"),
            (hunch.head, [hidden, weight], dict(ranges=torch.zeros(3, 2).long(), max_rows=-1), ValueError, "max_rows"),
            (hunch.select_clusters, [scores[:, :1], layout], dict(most=1), ValueError, r"scores must have the shape"),
            (hunch.select_clusters, [scores.long(), layout], dict(most=1), TypeError, "scores must be"),
            (hunch.select_clusters, [scores, layout], dict(most=0), ValueError, "most must be 1 or more"),
            (hunch.select_clusters, [scores, layout], dict(most=1, rows=0), ValueError, "rows must be 1 or more"),
            (hunch.select_clusters, [scores, layout], dict(most=1, share=0.0), ValueError, r"share must be in"),
            (hunch.head, [hidden, weight], dict(ranges=[[0, 2.5]]), ValueError, "ranges must be pairs"),
            (hunch.head, [hidden, weight], dict(ranges=torch.zeros(3, 2).long(), max_rows=2.5), TypeError,
             "max_rows must be a whole number, it is float"),
            (hunch.select_clusters, [scores, layout], dict(most=2.5), TypeError, "most must be a whole number"),
            (hunch.select_clusters, [scores, layout], dict(most=True), TypeError, "most must be a whole number"),
            (hunch.select_clusters, [scores, layout], dict(most=None), TypeError, "most must be a whole number"),
            (hunch.select_clusters, [scores, layout], dict(most=1, rows=2.5), TypeError, "rows must be a whole number"),
            (hunch.select_clusters, [scores, layout], dict(most=1, depth=-3), ValueError, "depth must be 0 or more"),
            (hunch.spread_logits, [scores, scores.long(), -5], {}, ValueError, "vocab_size must be 1 or more"),
            (hunch.spread_logits, [scores, scores.long(), 2.5], {}, TypeError, "vocab_size must be a whole number"),
            (hunch.spread_logits, [scores, ids, 9], {}, ValueError, r"tokens must have the shape \[4, 2\]"),
        ]
        for function, args, kwargs, error, message in faults:
            with self.subTest(message), self.assertRaisesRegex(error, f"hunch.{function.__name__}: {message}"):
                self.call(function, *args, **kwargs)

    def test_compiled_functions_are_the_same(self):
        layout = self.there(self.layout([3, 2, 4], core=1))
        scores, hidden, weight = (self.there(torch.randn(*shape)) for shape in ((4, 3), (4, 16), (10, 16)))

        def draft(scores, hidden):
            lists = hunch.select_clusters(scores, layout, most=2, rows=7, depth=1)
            logits = hunch.head(hidden, weight, ranges=lists.ranges, max_rows=lists.max_rows)
            tokens = hunch.shortlist_tokens(lists, layout)
            return hunch.spread_logits(logits, tokens, layout.vocab_size), hunch.head(hidden, weight, tokens[0, :1])
        for dynamic in (False, True):
            torch._dynamo.reset()
            compiled = torch.compile(draft, backend="aot_eager", fullgraph=True, dynamic=dynamic)
            for got, wanted in zip(compiled(scores, hidden), draft(scores, hidden)):
                self.assertTrue(got.equal(wanted))


class OnTheCpu(Shortlists, unittest.TestCase):
    def test_threads_change_nothing(self):
        weight, hidden, ids = torch.randn(3000, 64).bfloat16(), torch.randn(5, 64), torch.randperm(3000)[:1000]
        threads, results = torch.get_num_threads(), []
        for n in (1, 3):
            torch.set_num_threads(n)
            results.append(hunch.head(hidden, weight, ids))
        torch.set_num_threads(threads)
        self.assertTrue(results[0].equal(results[1]))


@unittest.skipUnless(torch.cuda.is_available() and HAS_CUDA_KERNELS, "no GPU, or a build without CUDA")
class OnCuda(Shortlists, unittest.TestCase):
    device = "cuda"


if __name__ == "__main__":
    unittest.main()
