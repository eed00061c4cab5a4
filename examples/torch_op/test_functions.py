# SPDX-License-Identifier: Apache-2.0
"""Tests verify_chain, verify_tree, build_tree and describe_tree: the reference's outputs, and laws.

    PYTHONPATH=build-torch/python python build-torch/test/test_functions.py

The tests of laws compare counts of the first two tokens of 60,000 texts with the target's law by Pearson's statistic:
24 degrees of freedom, so that a right rule exceeds 60 with probability 6e-5. Each has controls that must exceed 150.
"""
import math
import unittest

import torch

import hunch
import reference
from function_cases import HAS_CUDA_KERNELS, Functions, draw

TEXTS, V = 60_000, 5


class Rules(Functions):
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

    # --- trees of candidates -------------------------------------------------------------------
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


class OnTheCpu(Rules, unittest.TestCase):
    pass


@unittest.skipUnless(torch.cuda.is_available() and HAS_CUDA_KERNELS, "no GPU, or a build without CUDA")
class OnCuda(Rules, unittest.TestCase):
    device = "cuda"


if __name__ == "__main__":
    unittest.main()
