# SPDX-License-Identifier: Apache-2.0
"""Tests verify_chain, verify_tree, build_tree and describe_tree: the reference's outputs, laws, types, errors, compile.

    python test_functions.py

The tests of laws compare counts of the first two tokens of 60,000 texts with the target's law by Pearson's statistic:
24 degrees of freedom, so that a right rule exceeds 60 with probability 6e-5. Each has controls that must exceed 150.
"""
import math
import unittest

import torch

import hunch
import reference

HAS_CUDA_KERNELS = torch._C._dispatch_has_kernel_for_dispatch_key("hunch::verify_tree", "CUDA")
TEXTS, V = 60_000, 5
ON = dict(temperature=torch.tensor([0.7]), top_k=torch.tensor([9]), top_p=torch.tensor([0.8]),
          min_p=torch.tensor([0.02]))


def draw(logits, dim=-1):
    """A token of each row of logits."""
    return torch.multinomial(logits.flatten(0, -2).softmax(-1), 1).view(logits.shape[:-1])


class Functions:
    device = "cpu"

    def setUp(self):
        torch.manual_seed(0)

    def call(self, function, *args, **kwargs):
        """Calls a function on the device under test; results come back to the CPU."""
        def there(x):
            return x.to(self.device) if isinstance(x, torch.Tensor) else x
        result = function(*map(there, args), **{k: there(v) for k, v in kwargs.items()})
        return type(result)(*(r.cpu() for r in result))

    def keys(self, batch):
        return dict(seeds=torch.randint(-2**62, 2**62, (batch,)), lengths=torch.randint(1, 9999, (batch,)).int())

    def chains(self, batch=60, n=3, vocab=30):
        draft = 2 * torch.randn(batch, n, vocab)
        target = torch.cat([0.5 * torch.randn(batch, n, vocab) + draft, torch.randn(batch, 1, vocab)], 1)
        return target, draw(draft / 0.7), draft

    def trees(self, batch=60, nodes=9, vocab=6, law="independent"):
        """Random trees whose siblings were drawn from the rows of their parents at temperature 0.7."""
        parents = torch.tensor([[-1] + [int(torch.randint(i, ())) for i in range(1, nodes)] for _ in range(batch)])
        draft = torch.randn(batch, nodes, vocab)
        target = draft + 0.7 * torch.randn(batch, nodes, vocab)
        tokens = torch.zeros(batch, nodes, dtype=torch.int64)
        for b in range(batch):
            for node in range(nodes):
                children = reference.offspring(parents[b].tolist(), node)
                if children:
                    replace = law == "independent"
                    if not replace:
                        parents[b, children[vocab - 1:]] = -1  # a vocabulary has no more children
                        children = children[:vocab - 1]
                    tokens[b, children] = torch.multinomial((draft[b, node] / 0.7).softmax(0), len(children), replace)
        return target, tokens, parents, draft

    # --- the reference's outputs ---------------------------------------------------------------
    def test_chains_are_the_references(self):
        target, tokens, draft = self.chains()
        batch, n = tokens.shape
        tokens[5:9, 1] = -1  # a chain of one draft
        keys, accepted = self.keys(batch), set()
        cuts = dict(top_k=7, top_p=0.9, min_p=0.01)
        for options in (dict(temperature=0.7), dict(temperature=0), dict(temperature=0.7, **cuts)):
            for given in (draft, None):
                got = self.call(hunch.verify_chain, target, tokens, given, **keys, **options)
                got.raise_for_status()
                for b in range(batch):
                    drafted = [x for x in tokens[b, :1 if 5 <= b < 9 else n].tolist()]
                    p = torch.stack([reference.law(row, **options) for row in target[b]])
                    q = torch.nn.functional.one_hot(tokens[b].clamp(min=0), p.shape[1]).double()
                    if given is not None and options["temperature"] > 0:
                        q = torch.stack([reference.law(row, 0.7) for row in draft[b]])
                    seed, length = int(keys["seeds"][b]), int(keys["lengths"][b])
                    wanted = reference.chain(p, q, drafted, lambda i, what: reference.philox(seed, length, i, what))
                    self.assertEqual(got.tokens[b].tolist(), wanted + [-1] * (n + 1 - len(wanted)))
                    self.assertEqual(got.num_tokens[b], len(wanted))
                    accepted.add(len(wanted) - 1)
        self.assertEqual(accepted, set(range(n + 1)))

    def test_trees_are_the_references(self):
        for children in ("independent", "without_replacement"):
            target, tokens, parents, draft = self.trees(law=children)
            batch, nodes = tokens.shape
            keys, depths = self.keys(batch), set()
            for options in (dict(temperature=0.7), dict(temperature=0), dict(temperature=0.7, top_k=4, top_p=0.95)):
                for given in (draft, None):
                    got = self.call(hunch.verify_tree, target, tokens, parents, given, children=children, **keys,
                                    **options)
                    got.raise_for_status()
                    for b in range(batch):
                        p = torch.stack([reference.law(row, **options) for row in target[b]])
                        q = torch.stack([reference.law(row, 0.7) for row in draft[b]])
                        seed, length = int(keys["seeds"][b]), int(keys["lengths"][b])

                        def uniform(node, what, sibling):
                            return reference.philox(seed, length, node, what, sibling)
                        above, ids = parents[b].tolist(), tokens[b].tolist()
                        if given is None or options["temperature"] == 0:
                            path, last = reference.tree_by_target(p, ids, above, uniform)
                        else:
                            path, last = reference.tree_by_rejection(p, q, ids, above, uniform,
                                                                     children == "without_replacement")
                        wanted = [ids[node] for node in path] + [last]
                        self.assertEqual(got.tokens[b].tolist(), wanted + [-1] * (nodes - len(wanted)))
                        self.assertEqual(got.path[b].tolist(), path + [-1] * (nodes - 1 - len(path)))
                        self.assertEqual(got.num_tokens[b], len(wanted))
                        depths.add(len(path))
            self.assertLessEqual({0, 1, 2, 3}, depths)

    def test_a_chain_as_a_tree_is_the_chain(self):
        target, tokens, draft = self.chains()
        batch, n = tokens.shape
        keys = self.keys(batch)
        tree = torch.cat([torch.zeros(batch, 1).long(), tokens], 1)
        parents = torch.arange(-1, n).expand(batch, -1)
        laws = torch.cat([draft, torch.full_like(draft[:, :1], torch.nan)], 1)  # of a leaf nothing is read
        for options in (dict(temperature=0.7), dict(temperature=0.7, top_p=0.9), dict(temperature=0)):
            chain = self.call(hunch.verify_chain, target, tokens, draft, **keys, **options)
            for got in (self.call(hunch.verify_tree, target, tree, parents, laws, **keys, **options),):
                for name in ("tokens", "num_tokens", "status"):
                    self.assertTrue(getattr(got, name).equal(getattr(chain, name)))

    # --- laws ----------------------------------------------------------------------------------
    def statistic(self, tokens, first, second):
        """Pearson's statistic of the first two tokens of TEXTS texts; where one was emitted, plain decoding goes on."""
        x, y = tokens[:, 0], tokens[:, 1]
        y = torch.where(y >= 0, y, draw(second[x]))
        expected = TEXTS * first.softmax(-1)[:, None] * second.softmax(-1)
        count = torch.bincount(V * x + y, minlength=V * V).view(V, V)
        return ((count - expected) ** 2 / expected).sum().item()

    def models(self):
        target = torch.randn(V), torch.randn(V, V), torch.randn(V, V, V)
        return target, (target[0] + torch.randn(V), target[1] + torch.randn(V, V))

    def test_the_law_of_chains(self):
        (t0, t1, t2), (d0, d1) = self.models()
        x = draw(d0.expand(TEXTS, V))
        y = draw(d1[x])
        target = torch.stack([t0.expand(TEXTS, V), t1[x], t2[x, y]], 1)
        draft, keys = torch.stack([d0.expand(TEXTS, V), d1[x]], 1), dict(
            seeds=torch.arange(TEXTS), lengths=torch.full((TEXTS,), 9))

        def found(draft, **options):
            got = self.call(hunch.verify_chain, target, torch.stack([x, y], 1), draft, **keys, **options)
            got.raise_for_status()
            return self.statistic(got.tokens, t0, t1), float(got.num_tokens.float().mean())
        emitted = []
        for rule in ("rejection", "block"):
            right, mean = found(draft, rule=rule)
            self.assertLess(right, 60)
            self.assertGreater(found(torch.zeros_like(draft), rule=rule)[0], 150)  # not what drew them
            self.assertGreater(found(2 * draft, rule=rule)[0], 150)  # drawn at another temperature
            emitted.append(mean)
        self.assertGreater(emitted[1], emitted[0])  # what block verification is for
        self.assertLess(found(None)[0], 60)  # drafts without a law: any that were fixed before

    def test_the_law_of_trees(self):
        # Two children of the root, and two of each of these; `draws` says how siblings were drawn.
        (t0, t1, t2), (d0, d1) = self.models()
        parents = torch.tensor([-1, 0, 0, 1, 1, 2, 2]).expand(TEXTS, -1)
        keys = dict(seeds=torch.arange(TEXTS), lengths=torch.full((TEXTS,), 9))

        def drafts(draws):
            def siblings(logits):
                if draws == "chosen":
                    return logits.topk(2).indices
                return torch.multinomial(logits.softmax(-1), 2, replacement=draws == "independent")
            top = siblings(d0.expand(TEXTS, V))
            below = [siblings(d1[top[:, i]]) for i in range(2)]
            tokens = torch.cat([torch.zeros(TEXTS, 1).long(), top, *below], 1)
            leaves = [t2[top[:, i], below[i][:, j]] for i in range(2) for j in range(2)]
            target = torch.stack([t0.expand(TEXTS, V), t1[top[:, 0]], t1[top[:, 1]], *leaves], 1)
            laws = torch.stack([d0.expand(TEXTS, V), d1[top[:, 0]], d1[top[:, 1]], *leaves], 1)
            return target, tokens, laws

        def found(target, tokens, laws, **options):
            got = self.call(hunch.verify_tree, target, tokens, parents, laws, **keys, **options)
            self.assertLessEqual(set(got.status.tolist()), {0, hunch.STATUS.index("invalid_draft")})
            return self.statistic(got.tokens[got.status == 0], t0, t1) if (got.status == 0).all() else math.inf
        for draws, other in (("independent", "without_replacement"), ("without_replacement", "independent")):
            target, tokens, laws = drafts(draws)
            self.assertLess(found(target, tokens, laws, children=draws), 60)
            self.assertGreater(found(target, tokens, laws, children=other), 150)
            self.assertGreater(found(target, tokens, torch.zeros_like(laws), children=draws), 150)
        target, tokens, laws = drafts("chosen")
        self.assertLess(found(target, tokens, None), 60)
        self.assertGreater(found(target, tokens, laws), 150)  # chosen, and not drawn from these laws

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

    def same(self, one, other):
        for a, b in zip(one, other):
            self.assertEqual((a.shape, a.dtype), (b.shape, b.dtype))
            self.assertTrue(a.equal(b))

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

    # --- trees of candidates -------------------------------------------------------------------
    def candidates(self, batch=40, wide=4, levels=3):
        """Candidates of EAGLE-2: `wide` children of the root, and of the best ones at each level; equal scores too."""
        rows = []
        for _ in range(batch):
            parents, scores, frontier = [], [], [(-1, 0.0)]
            for _ in range(levels):
                grown = []
                for above, score in frontier:
                    steps = -torch.randint(0, 4, (wide,)) * 0.5  # ties, and children as good as their parents
                    for step in steps.tolist():
                        grown.append((len(parents), score + step))
                        parents.append(above)
                        scores.append(score + step)
                frontier = sorted(grown, key=lambda c: -c[1])[:wide]
            rows.append((parents, scores))
        return torch.tensor([r[0] for r in rows]), torch.tensor([r[1] for r in rows])

    def test_built_trees_are_the_references(self):
        parents, scores = self.candidates()
        batch, count = parents.shape
        scores[3, 2:], scores[4] = -torch.inf, torch.nan  # fewer candidates than nodes, and none
        tokens, roots = torch.randint(99, (batch, count)), torch.randint(99, (batch,))
        lengths = torch.randint(1, 99, (batch,))
        for nodes in (1, 2, 12, count + 1):
            got = self.call(hunch.build_tree, tokens, parents, scores, roots, nodes=nodes, lengths=lengths)
            got.raise_for_status()
            for b in range(batch):
                kept, above = reference.kept_candidates(parents[b].tolist(), scores[b].tolist(), nodes)
                rest = [-1] * (nodes - 1 - len(kept))
                above = [-1] + above
                self.assertEqual(got.candidates[b].tolist(), kept + rest)
                self.assertEqual(got.parents[b].tolist(), above + rest)
                self.assertEqual(got.tokens[b].tolist(), [int(roots[b])] + tokens[b, kept].tolist() + rest)
                self.describes(got, b, above, int(lengths[b]))

    def describes(self, got, b, parents, length):
        """Compares mask, positions and links of a tree, whose last nodes may not be there, with their definitions."""
        nodes = got.mask.shape[1]
        for node in range(nodes):
            sees = reference.ancestors(parents, node) if node < len(parents) else {0, node}
            self.assertEqual(set(got.mask[b, node].nonzero()[:, 0].tolist()), sees)
            if node < len(parents):
                self.assertEqual(got.positions[b, node], length - 2 + len(sees))
                children = reference.offspring(parents, node)
                links = reference.children_of(node, got.first_child[b].tolist(), got.next_sibling[b].tolist())
                self.assertEqual(list(links), children)

    def test_trees_of_parents_are_described(self):
        _, _, parents, _ = self.trees()
        lengths = torch.randint(1, 99, (len(parents),))
        got = self.call(hunch.describe_tree, parents, lengths=lengths)
        got.raise_for_status()
        for b in range(len(parents)):
            self.describes(got, b, parents[b].tolist(), int(lengths[b]))

    def test_what_is_no_tree_is_said(self):
        bad = torch.tensor([[-1, 0, 1], [-1, 2, 0], [-1, 0, 3], [-1, -2, 0], [0, 0, 0], [-1, 0, 1]])
        got = self.call(hunch.describe_tree, bad, lengths=torch.tensor([1, 1, 1, 1, 1, 0]))
        self.assertEqual([hunch.STATUS[s] for s in got.status.tolist()],
                         ["ok"] + 4 * ["invalid_draft"] + ["invalid_parameter"])
        # Children that are better than their parents, a parent that comes late, one that is not there.
        parents = torch.tensor([[-1, 0, 1], [2, -1, -1], [-1, 7, -1], [-1, -1, -5]])
        scores = torch.tensor([[-9.0, -2.0, -1.0], [-1.0, -2.0, -3.0], [-1.0, -2.0, -3.0], [-1.0, -2.0, -0.5]])
        got = self.call(hunch.build_tree, torch.arange(12).view(4, 3), parents, scores, torch.zeros(4).long(), nodes=3,
                        lengths=torch.ones(4).long())
        self.assertEqual([hunch.STATUS[s] for s in got.status.tolist()], 4 * ["invalid_draft"])

    def test_a_built_tree_is_verified(self):
        parents, scores = self.candidates(batch=8)
        tokens = torch.randint(12, parents.shape)
        tree = self.call(hunch.build_tree, tokens, parents, scores, torch.zeros(8).long(), nodes=20,
                         lengths=torch.ones(8).long())
        target = torch.full((8, 20, 12), -5.0)
        for b in range(8):
            for node in range(20):
                children = reference.offspring(tree.parents[b].tolist(), node)
                target[b, node, tree.tokens[b, children[-1]] if children else 3] = 5.0
        got = self.call(hunch.verify_tree, target, tree.tokens, tree.parents, None, temperature=0, **self.keys(8))
        got.raise_for_status()
        levels = (tree.positions - tree.positions[:, :1])
        for b in range(8):
            path = got.path[b, :got.num_tokens[b] - 1]
            self.assertEqual(levels[b, path].tolist(), list(range(1, len(path) + 1)))
            self.assertEqual(reference.offspring(tree.parents[b].tolist(), int(path[-1])), [])

    # --- torch.compile -------------------------------------------------------------------------
    def test_compiled_functions_are_the_same(self):
        for function, args, kwargs in self.some_calls():
            for dynamic in (False, True):
                with self.subTest(function.__name__, dynamic=dynamic):
                    torch._dynamo.reset()
                    compiled = torch.compile(function, backend="aot_eager", fullgraph=True, dynamic=dynamic)
                    self.same(self.call(compiled, *args, **kwargs), self.call(function, *args, **kwargs))


class OnTheCpu(Functions, unittest.TestCase):
    pass


@unittest.skipUnless(torch.cuda.is_available() and HAS_CUDA_KERNELS, "no GPU, or a build without CUDA")
class OnCuda(Functions, unittest.TestCase):
    device = "cuda"


if __name__ == "__main__":
    unittest.main()
