# SPDX-License-Identifier: Apache-2.0
"""Tests what verify_chain, verify_tree, build_tree and describe_tree take: types, layouts, batches, errors, compile.

    PYTHONPATH=build-torch/python python build-torch/test/test_function_calls.py
"""
import math
import unittest

import torch
from torch._dynamo.testing import CompileCounter

import hunch
from function_cases import HAS_CUDA_KERNELS, Functions, draw

ON = dict(temperature=torch.tensor([0.7]), top_k=torch.tensor([9]), top_p=torch.tensor([0.8]),
          min_p=torch.tensor([0.02]))


class Calls(Functions):
    # --- types, layouts, batches ---------------------------------------------------------------
    def some_calls(self):
        """Calls of the functions: positional and named arguments."""
        target, tokens, draft = self.chains(batch=6)
        tree_target, tree, parents, laws = self.trees(batch=6)
        keys = self.keys(6)
        candidates = torch.tensor([-1, -1, 0, 0, 1, 2]).expand(6, -1)
        scores = torch.tensor([-0.1, -0.2, -0.3, -2.0, -0.9, -0.4]) - torch.rand(6, 1)
        cuts = dict(temperature=0.7, top_k=5, top_p=torch.full((6,), 0.9), min_p=0.01)
        return [(hunch.verify_chain, [target, tokens, draft], dict(keys, **cuts)),
                (hunch.verify_chain, [target, tokens, None], dict(keys, rule="block")),
                (hunch.verify_tree, [tree_target, tree, parents, laws], dict(keys, **cuts)),
                (hunch.verify_tree, [tree_target, tree, parents, None], dict(keys)),
                (hunch.describe_tree, [parents], dict(lengths=keys["lengths"])),
                (hunch.build_tree, [torch.randint(9, (6, 6)), candidates, scores, torch.randint(9, (6,))],
                 dict(nodes=5, lengths=keys["lengths"]))]

    def test_types_and_layouts_of_arguments_change_nothing(self):
        def spread(t):
            """The same values, with others in between."""
            room = t.new_zeros(*t.shape, 2)
            room[..., 0] = t
            return room[..., 0]
        changes = [lambda t: t.int() if t.dtype == torch.int64 and t.abs().max() < 2**31 else t,
                   lambda t: t.long() if t.dtype == torch.int32 else t,
                   spread,
                   lambda t: t.t().contiguous().t() if t.dim() == 2 else t.transpose(0, -1).clone().transpose(0, -1)]
        for function, args, kwargs in self.some_calls():
            wanted = self.call(function, *args, **kwargs)
            for change in changes:
                def changed(x):
                    return change(x) if isinstance(x, torch.Tensor) else x
                got = self.call(function, *map(changed, args), **{k: changed(v) for k, v in kwargs.items()})
                self.same(got, wanted)

    def test_logits_of_16_bits_are_read_as_they_are(self):
        for function, args, kwargs in self.some_calls()[:4]:
            for half in (torch.bfloat16, torch.float16):
                narrow = [x.to(half) if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in args]
                wide = [x.float() if isinstance(x, torch.Tensor) and x.dtype == half else x for x in narrow]
                self.same(self.call(function, *narrow, **kwargs), self.call(function, *wide, **kwargs))

    def test_numbers_are_tensors_of_one_value(self):
        for function, args, kwargs in self.some_calls()[:3:2]:
            for name, value in ON.items():
                options = {k: kwargs[k] for k in ("seeds", "lengths")} | {name: value.item()}
                by_number = self.call(function, *args, **options)
                other_type = value.long() if name == "top_k" else value.double()
                for tensor in (value[0], value.expand(6), other_type.expand(6)):
                    self.same(self.call(function, *args, **{**options, name: tensor}), by_number)

    def test_more_top_tokens_than_there_are_cut_nothing(self):
        function, args, kwargs = self.some_calls()[0]
        options = {k: kwargs[k] for k in ("seeds", "lengths")}
        wanted = self.call(function, *args, **options)
        for many in (30, 2**40, torch.tensor(2**40), torch.full((6,), 31)):
            self.same(self.call(function, *args, top_k=many, **options), wanted)

    def test_a_sequence_depends_on_its_seed_and_length_alone(self):
        for function, args, kwargs in self.some_calls():
            wanted = self.call(function, *args, **kwargs)
            for rows in (torch.arange(6).flip(0), torch.tensor([3]), torch.tensor([], dtype=torch.long)):
                def part(x):
                    return x[rows] if isinstance(x, torch.Tensor) else x
                got = self.call(function, *map(part, args), **{k: part(v) for k, v in kwargs.items()})
                self.same(got, type(wanted)(*(w[rows] for w in wanted)))

    def test_nothing_drafted_is_plain_decoding(self):
        target, _, draft = self.chains(batch=40)
        keys = self.keys(40)
        chain = self.call(hunch.verify_chain, target[:, :1], torch.zeros(40, 0).long(), draft[:, :0], **keys)
        tree = self.call(hunch.verify_tree, target[:, :1], torch.zeros(40, 1).long(), torch.full((40, 1), -1), None,
                         **keys)
        self.same(chain, (tree.tokens, tree.num_tokens, tree.status))
        self.assertTrue((chain.num_tokens == 1).all())
        self.assertEqual(tree.path.shape, (40, 0))
        greedy = self.call(hunch.verify_chain, target[:, :1], torch.zeros(40, 0).long(), None, temperature=0, **keys)
        self.assertTrue(greedy.tokens[:, 0].equal(target[:, 0].argmax(-1)))

    def test_logits_of_a_model_that_is_trained_are_read(self):
        for function, args, kwargs in self.some_calls()[:4]:
            args = [x.clone().requires_grad_() if isinstance(x, torch.Tensor) and x.is_floating_point() else x
                    for x in args]
            self.assertFalse(any(r.requires_grad for r in self.call(function, *args, **kwargs)))

    def test_drafts_of_another_law_and_vocabulary(self):
        target, tokens, draft = self.chains(batch=40)
        keys = self.keys(40)
        scaled = self.call(hunch.verify_chain, target, tokens, (draft / 0.7).log_softmax(-1), temperature=0.7,
                           draft_is_scaled=True, **keys)
        self.same(scaled, self.call(hunch.verify_chain, target, tokens, draft, temperature=0.7, **keys))
        few = draft[..., :20]
        tokens = draw(few / 0.7)
        wide = torch.cat([few, torch.full_like(draft[..., 20:], -torch.inf)], -1)
        self.same(self.call(hunch.verify_chain, target, tokens, few, temperature=0.7, **keys),
                  self.call(hunch.verify_chain, target, tokens, wide, temperature=0.7, **keys))

    def test_wide_trees(self):
        # 70 children that the target does not want: each is rejected.
        draft, target = torch.zeros(1, 71, 100), torch.full((1, 71, 100), -torch.inf)
        target[:, :, 99] = 0
        parents, tokens = torch.tensor([[-1] + 70 * [0]]), torch.arange(-1, 70)[None]
        for children, status in (("independent", "ok"), ("without_replacement", "invalid_draft")):
            got = self.call(hunch.verify_tree, target, tokens, parents, draft, children=children, **self.keys(1))
            self.assertEqual(hunch.STATUS[got.status[0]], status)
            self.assertEqual(got.tokens[0, 0], 99 if status == "ok" else -1)
        got = self.call(hunch.verify_tree, target, tokens, parents, None, **self.keys(1))
        self.assertEqual(got.tokens[0, :2].tolist(), [99, -1])

    # --- errors --------------------------------------------------------------------------------
    def test_bad_values_are_the_status_of_their_sequence(self):
        target, tokens, parents, laws = self.trees(batch=10)
        keys = self.keys(10)
        parents, tokens = parents.clone(), tokens.clone()
        parents[:, :3] = torch.tensor([-1, 0, 0])  # nodes 1 and 2 hang on the root
        clean = self.call(hunch.verify_tree, target, tokens, parents, laws, temperature=0.7, **keys)
        self.assertFalse(clean.status.any())
        temperature = torch.full((10,), 0.7)
        target, laws = target.clone(), laws.clone()
        target[1, 0] = torch.nan
        tokens[2, 1] = 6
        parents[3, 4] = 4
        parents[4, 4] = -2
        parents[5, 0] = 0
        laws[6, 0] = torch.nan
        temperature[7] = -1
        laws[8, 0, tokens[8, 1]] = -torch.inf  # cannot have been drawn
        got = self.call(hunch.verify_tree, target, tokens, parents, laws, temperature=temperature, **keys)
        self.assertEqual([hunch.STATUS[s] for s in got.status.tolist()],
                         ["ok", "invalid_logits", "invalid_token", "invalid_draft", "invalid_draft", "invalid_draft",
                          "invalid_draft", "invalid_parameter", "invalid_draft", "ok"])
        self.assertTrue((got.tokens[1:9] == -1).all() and (got.path[1:9] == -1).all())
        self.assertFalse(got.num_tokens[1:9].any())
        self.same([r[[0, 9]] for r in got], [r[[0, 9]] for r in clean])
        with self.assertRaises(hunch.StatusError) as raised:
            got.raise_for_status()
        self.assertEqual(raised.exception.rows, list(range(1, 9)))
        self.assertIn("1: invalid_logits", str(raised.exception))

        target, tokens, draft = self.chains(batch=4)
        target[1, 0] = torch.inf
        tokens[2, 0] = 30
        options = dict(self.keys(4), temperature=torch.tensor([0.7, 0.7, 0.7, torch.nan]))
        got = self.call(hunch.verify_chain, target, tokens, draft, **options)
        self.assertEqual([hunch.STATUS[s] for s in got.status.tolist()],
                         ["ok", "invalid_logits", "invalid_token", "invalid_parameter"])

    def test_lengths_that_no_text_has_are_a_status(self):
        """Cut to 32 bits, the first would be 5, and name its random words."""
        lengths = torch.tensor([2**32 + 5, 2**31, 0, -5, -2**32 + 5, 5])
        wanted = 5 * ["invalid_parameter"] + ["ok"]
        for function, args, kwargs in self.some_calls():
            for temperature in (0.7, 0) if "seeds" in kwargs else (None,):
                options = dict(kwargs, lengths=lengths) | ({} if temperature is None else {"temperature": temperature})
                got = self.call(function, *args, **options)
                self.assertEqual([hunch.STATUS[s] for s in got.status.tolist()], wanted, function.__name__)
                narrow = lengths.clamp(-2**31, 2**31 - 1).int()  # the second is one that a text may have
                self.assertEqual(self.call(function, *args, **dict(options, lengths=narrow)).status.tolist()[2:],
                                 got.status.tolist()[2:])

    def test_numbers_beyond_float32_are_a_status(self):
        function, args, kwargs = self.some_calls()[0]
        keys = {k: kwargs[k] for k in ("seeds", "lengths")}
        for name in ("temperature", "top_p", "min_p"):
            for value in (1e39, -1e39, 10**400, -10**400, math.nan):
                got = self.call(function, *args, **keys, **{name: value})
                self.assertEqual({hunch.STATUS[s] for s in got.status.tolist()}, {"invalid_parameter"}, (name, value))

    def test_what_is_refused(self):
        calls = self.some_calls()
        chain, tree, built = calls[0], calls[2], calls[5]
        far = torch.device("meta")
        faults = [
            (chain, 0, lambda t: t.double(), TypeError, "target_logits must be .*float32 or .*, it is torch.float64"),
            (chain, 0, lambda t: t[0], ValueError, r"target_logits must have the shape \[B, n \+ 1, V\]"),
            (chain, 0, lambda t: t.tolist(), TypeError, "target_logits must be a tensor, it is list"),
            (chain, 0, lambda t: t[:, :0], ValueError, "target_logits must have a row for the root"),
            (chain, 0, lambda t: t[..., :0], ValueError, "target_logits must have rows of one element"),
            (chain, 1, lambda t: t[:, 1:], ValueError, r"draft_tokens must have the shape \[6, 3\], it has \[6, 2\]"),
            (chain, 1, lambda t: t.float(), TypeError, "draft_tokens must be torch.int32 or torch.int64"),
            (chain, 2, lambda t: t.half(), TypeError, "draft_logits must be torch.float32, it is torch.float16"),
            (chain, 2, lambda t: torch.cat([t, t], -1), ValueError, "draft_logits has more tokens than the target"),
            (chain, 2, lambda t: t.to(far), ValueError, "draft_logits is on meta, but target_logits is on"),
            (chain, "seeds", lambda t: t[1:], ValueError, r"seeds must have the shape \[6\]"),
            (chain, "seeds", lambda t: 7, TypeError, "seeds must be a tensor, it is int"),
            (chain, "lengths", lambda t: t.float(), TypeError, "lengths must be"),
            (chain, "temperature", lambda t: "warm", TypeError, "temperature must be a number or a tensor"),
            (chain, "temperature", lambda t: True, TypeError, "temperature must be a number or a tensor"),
            (chain, "temperature", lambda t: torch.ones(5, device=self.device), ValueError,
             r"temperature must have the shape \[6\]"),
            (chain, "top_k", lambda t: 1.5, TypeError, "top_k must be a number"),
            (chain, "top_k", lambda t: torch.ones(6, device=self.device), TypeError, "top_k must hold integers"),
            (chain, "rule", lambda t: "typical", ValueError, "rule must be 'rejection' or 'block'"),
            (tree, 1, lambda t: t[:, 1:], ValueError, r"tokens must have the shape \[6, 9\]"),
            (tree, 2, lambda t: t.float(), TypeError, "parents must be"),
            (tree, 3, lambda t: t[:, 1:], ValueError, r"draft_logits must have the shape \[6, 9, V'\]"),
            (tree, 0, lambda t: t[:, :0], ValueError, "target_logits must have a row for the root"),
            (tree, "children", lambda t: "ranked", ValueError, "children must be 'independent' or"),
            (built, "nodes", lambda n: 8, ValueError, r"nodes must be in \[1, 7\] for 6 candidates, it is 8"),
            (built, "nodes", lambda n: 2.0, TypeError, "nodes must be a whole number"),
            (built, 2, lambda t: t.long(), TypeError, "scores must be"),
            (calls[4], 0, lambda t: t[:, :0], ValueError, "parents must have a root"),
        ]
        for (function, args, kwargs), which, change, error, message in faults:
            with self.subTest(function.__name__, argument=which, message=message):
                def there(x):
                    return x.to(self.device) if isinstance(x, torch.Tensor) else x
                args, kwargs = list(map(there, args)), {k: there(v) for k, v in kwargs.items()}
                into = kwargs if isinstance(which, str) else args
                into[which] = change(into.get(which) if into is kwargs else into[which])
                with self.assertRaisesRegex(error, f"hunch.{function.__name__}: {message}"):
                    function(*args, **kwargs)

    # --- torch.compile -------------------------------------------------------------------------
    def test_compiled_functions_are_the_same(self):
        for function, args, kwargs in self.some_calls():
            for dynamic in (False, True):
                with self.subTest(function.__name__, dynamic=dynamic):
                    torch._dynamo.reset()
                    compiled = torch.compile(function, backend="aot_eager", fullgraph=True, dynamic=dynamic)
                    self.same(self.call(compiled, *args, **kwargs), self.call(function, *args, **kwargs))

    def test_draft_lengths_are_compiled_once(self):
        """A limit of eight compilations would end fullgraph=True in an error."""
        def verify(target, tokens, draft, seeds, lengths):
            return hunch.verify_chain(target, tokens, draft, seeds=seeds, lengths=lengths)

        torch._dynamo.reset()
        counter = CompileCounter()
        compiled = torch.compile(verify, backend=counter, fullgraph=True, dynamic=True)
        for n in range(2, 14):
            target, tokens, draft = (x.to(self.device) for x in self.chains(batch=6, n=n))
            keys = {k: v.to(self.device) for k, v in self.keys(6).items()}
            self.same(compiled(target, tokens, draft, **keys), verify(target, tokens, draft, **keys))
        self.assertEqual(counter.frame_count, 1)


class OnTheCpu(Calls, unittest.TestCase):
    pass


@unittest.skipUnless(torch.cuda.is_available() and HAS_CUDA_KERNELS, "no GPU, or a build without CUDA")
class OnCuda(Calls, unittest.TestCase):
    device = "cuda"


if __name__ == "__main__":
    unittest.main()
