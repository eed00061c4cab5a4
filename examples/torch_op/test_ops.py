# SPDX-License-Identifier: Apache-2.0
"""Tests the operators' rules: the reference's outputs, exact laws, seeds, errors of a sequence.

    PYTHONPATH=build-torch/python python build-torch/test/test_ops.py
"""
import unittest

import torch

import hunch
import reference
from enumeration import CELLS, V, WHOLE, continued, gap, grouped, middles, redraw, sixteenths
from operator_cases import HAS_CUDA_KERNELS, Operators, i32, i64, laws, ops


class Rules(Operators):
    # --- (a) chains on probabilities -----------------------------------------------------------
    def emits(self, q, ids, p, ids_out, emitted, uniform):
        batch, n, _ = q.shape
        lengths = set()
        for b in range(batch):
            wanted = reference.chain(p[b], q[b], ids[b].tolist(), lambda i, what: uniform(b, i, what))
            self.assertEqual(ids_out[b].tolist(), wanted + [-1] * (n + 1 - len(wanted)))
            self.assertEqual(emitted[b], len(wanted) - 1)
            lengths.add(len(wanted))
        self.assertEqual(lengths, set(range(1, n + 2)))

    def test_chains_are_the_references_for_given_uniforms(self):
        q, ids, p = self.chains()
        n, u = q.shape[1], torch.rand(q.shape[0], q.shape[1] + 1)
        out, accepted, emitted, status = self.call("chain_speculative_sampling", q, ids, p, uniform_samples=u)
        self.all_ok(status)
        self.emits(q, ids, p, out, emitted,
                   lambda b, i, what: float(u[b, i if what == "accept" else min(i + 1, n)]))
        at = ids.long()[..., None]
        p_x, q_x = (rows.double().gather(-1, at)[..., 0] for rows in (p[:, :n], q))
        self.assertTrue(accepted.equal((u[:, :n] * q_x < p_x).sum(1).int()))

    def test_chains_are_the_references_for_seeds(self):
        q, ids, p = self.chains()
        seeds, lengths = torch.randint(1 << 62, (len(q),)), torch.randint(1, 9999, (len(q),)).int()
        out, _, emitted, status = self.call("chain_speculative_sampling", q, ids, p, seeds=seeds, lengths=lengths)
        self.all_ok(status)
        self.emits(q, ids, p, out, emitted,
                   lambda b, i, what: reference.philox(int(seeds[b]), int(lengths[b]), i, what))

    def test_a_chain_depends_on_its_seed_and_length_alone(self):
        q, ids, p = self.chains()
        seeds, lengths = torch.arange(len(q)), torch.full((len(q),), 7, dtype=torch.int32)

        def run(rows, seeds, lengths):
            return self.call("chain_speculative_sampling", q[rows], ids[rows], p[rows], seeds=seeds[rows],
                             lengths=lengths[rows])
        every = torch.arange(len(q))
        whole = run(every, seeds, lengths)
        for rows in (every, every.flip(0), every[5:6], torch.randperm(len(q))[:17]):
            for got, wanted in zip(run(rows, seeds, lengths), whole):
                self.assertTrue(got.equal(wanted[rows]))
        self.assertFalse(run(every, seeds + 1000, lengths)[0].equal(whole[0]))
        self.assertFalse(run(every, seeds, lengths + 1)[0].equal(whole[0]))

    def test_the_law_of_chains_is_exact(self):
        def target_and_draft():
            p, q = sixteenths(), torch.tensor([8, 4, 2, 2])[torch.randperm(V)] / 16
            return torch.stack([p, q])
        rows = torch.stack([redraw(target_and_draft, lambda r: (r[0] - r[1]).clamp(min=0).sum() * 16 in WHOLE)
                            for _ in range(1 + V)])
        (p0, q0), (p1, q1), p2 = rows[0], rows[1:].unbind(1), sixteenths(V, V)
        x0, x1, u0, u1, u2 = torch.meshgrid(torch.arange(V) * 1.0, torch.arange(V) * 1.0, middles(8),
                                            middles(CELLS), middles(CELLS), indexing="ij")
        x0, x1 = x0.flatten().long(), x1.flatten().long()
        drafts = torch.stack([q0.expand(len(x0), V), q1[x0]], 1)
        target = torch.stack([p0.expand(len(x0), V), p1[x0], p2[x0, x1]], 1)
        u = torch.stack([u0.flatten(), u1.flatten(), u2.flatten()], 1)
        ids = torch.stack([x0, x1], 1).int()
        weights = q0[x0].double() * q1[x0, x1].double() / (8 * CELLS * CELLS)

        def law(drafts):
            out, _, emitted, status = self.call("chain_speculative_sampling", drafts, ids, target, uniform_samples=u)
            self.all_ok(status)
            return continued(*grouped(out, emitted + 1, weights), p1, p2)
        self.assertLess(gap(law(drafts), p0, p1, p2), 1e-9)
        self.assertGreater(gap(law(torch.full_like(drafts, 1 / V)), p0, p1, p2), 0.01)  # not what drew them

    def test_an_error_is_of_its_sequence_alone(self):
        q, ids, p = self.chains(batch=5)
        seeds, lengths = torch.arange(5), torch.ones(5, dtype=torch.int32)
        clean = self.call("chain_speculative_sampling", q, ids, p, seeds=seeds, lengths=lengths)
        q, ids, p = q.clone(), ids.clone(), p.clone()
        p[1] = float("nan")
        ids[2, 0] = q.shape[-1]
        q[3, 0, ids[3, 0]] = 0
        out, accepted, emitted, status = self.call("chain_speculative_sampling", q, ids, p, seeds=seeds,
                                                   lengths=lengths)
        self.assertEqual([hunch.STATUS[s] for s in status.tolist()],
                         ["ok", "invalid_logits", "invalid_token", "invalid_draft", "ok"])
        self.assertTrue((out[1:4] == -1).all() and (emitted[1:4] == 0).all() and (accepted[1:4] == 0).all())
        for got, wanted in zip((out, accepted, emitted), clean):
            self.assertTrue(got[[0, 4]].equal(wanted[[0, 4]]))

    # --- (b) ragged chains on logits -----------------------------------------------------------
    def test_ragged_chains_are_the_references(self):
        n, vocab = 4, 40
        for has_law, target_scaled, draft_scaled in ((True, True, False), (True, False, True), (False, False, True)):
            c = self.requests([r % (n + 1) for r in range(60)], n, vocab)
            c["temperature"] = torch.tensor([0, 0.5, 2.0])[torch.arange(len(c["temperature"])) % 3]
            drafts = c["draft_logits"]
            c.update(draft_logits=drafts if has_law else None, target_is_scaled=target_scaled,
                     draft_is_scaled=draft_scaled)
            sampled, num_sampled, status = self.call("rejection_sample", **c)
            self.all_ok(status)
            for r, state in enumerate(c["idx_mapping"].tolist()):
                begin, end = c["cu_num_logits"][r:r + 2].tolist()
                tokens = c["draft_sampled"][begin + 1:end].tolist()
                rows, t = c["target_logits"][begin:end].double(), float(c["temperature"][state])
                point = torch.nn.functional.one_hot(torch.tensor(tokens, dtype=torch.long), vocab).double()
                if t == 0:
                    p, q = torch.nn.functional.one_hot(rows.argmax(-1), vocab).double(), point
                else:
                    p = (rows / (1 if target_scaled else t)).softmax(-1)
                    q = (drafts[state, :len(tokens)].double() / (1 if draft_scaled else t)).softmax(-1)
                    q = q if has_law else point
                seed, length = int(c["seed"][state]), int(c["pos"][begin]) + 1
                wanted = reference.chain(p, q, tokens, lambda i, what: reference.philox(seed, length, i, what))
                self.assertEqual(sampled[r].tolist(), wanted + [-1] * (n + 1 - len(wanted)))
                self.assertEqual(num_sampled[r], len(wanted))

    def test_the_law_of_ragged_chains(self):
        # Pearson's statistic of two tokens of 100,000 requests: 24 degrees of freedom.
        requests, vocab = 100_000, 5
        t0, t1, t2 = torch.randn(vocab), torch.randn(vocab, vocab), torch.randn(vocab, vocab, vocab)
        d0, d1 = t0 + torch.randn(vocab), t1 + torch.randn(vocab, vocab)
        x0 = torch.multinomial(d0.softmax(-1), requests, replacement=True)
        x1 = torch.multinomial(d1.softmax(-1)[x0], 1)[:, 0]
        common = dict(
            target_logits=torch.stack([t0.expand(requests, vocab), t1[x0], t2[x0, x1]], 1).view(-1, vocab),
            draft_sampled=torch.stack([torch.zeros_like(x0), x0, x1], 1).flatten().int(),
            cu_num_logits=(3 * torch.arange(requests + 1)).int(), pos=torch.arange(3).repeat(requests),
            idx_mapping=torch.arange(requests).int(), temperature=torch.ones(requests), seed=torch.arange(requests),
            num_speculative_steps=2)
        plain = t0.softmax(-1)[:, None] * t1.softmax(-1)

        def statistic(drafts, **options):
            sampled, num_sampled, status = self.call("rejection_sample", draft_logits=drafts, **common, **options)
            self.all_ok(status)
            first, second = sampled[:, 0], sampled[:, 1]
            torch.manual_seed(1)
            second = torch.where(second >= 0, second, torch.multinomial(t1.softmax(-1)[first], 1)[:, 0])
            count = torch.bincount(vocab * first + second, minlength=vocab * vocab).view(vocab, vocab)
            return ((count - requests * plain) ** 2 / (requests * plain)).sum().item(), num_sampled.sum().item()
        drafts, emitted = torch.stack([d0.expand(requests, vocab), d1[x0]], 1), []
        for block in (False, True):
            right, tokens = statistic(drafts, block_verification=block)
            self.assertLess(right, 60)
            self.assertGreater(statistic(torch.zeros_like(drafts), block_verification=block)[0], 500)
            emitted.append(tokens)
        self.assertGreater(emitted[1], emitted[0])  # what block verification is for

    def test_rows_of_a_padded_vocabulary_are_read_in_place(self):
        c = self.requests([2, 0, 3], 3, 40)
        wanted = self.call("rejection_sample", **c)
        padded = torch.full((len(c["target_logits"]), 64), float("nan")).to(self.device)
        padded[:, :40] = c["target_logits"]
        c["target_logits"] = padded[:, :40]
        for got, same in zip(self.call("rejection_sample", **c), wanted):
            self.assertTrue(got.equal(same))

    def test_logits_and_ids_of_other_types_are_read_as_they_are(self):
        c = self.requests([2, 0, 3, 1], 3, 40)
        for half in (torch.bfloat16, torch.float16):
            for k in ("target_logits", "draft_logits"):
                c[k] = c[k].to(half)
            got = self.call("rejection_sample", **{**c, "draft_sampled": c["draft_sampled"].long()})
            wide = {k: c[k].float() for k in ("target_logits", "draft_logits")}
            for one, other in zip(got, self.call("rejection_sample", **{**c, **wide})):
                self.assertTrue(one.equal(other))
            c.update(wide)
        q, ids, p = self.chains(batch=9)
        padded_q, padded_p = (torch.full((*t.shape[:2], 64), float("nan")) for t in (q, p))
        padded_q[..., :50], padded_p[..., :50] = q, p
        u = torch.rand(9, 4)
        wanted = self.call("chain_speculative_sampling", q, ids, p, uniform_samples=u)
        got = getattr(ops, "chain_speculative_sampling")(
            padded_q.to(self.device)[..., :50], ids.long().to(self.device), padded_p.to(self.device)[..., :50],
            uniform_samples=u.to(self.device), check_rows=True)
        for one, other in zip(got, wanted):
            self.assertTrue(one.cpu().equal(other))

    def test_cuts_are_those_of_logits_that_were_cut_before(self):
        n, vocab = 4, 40
        c = self.requests([r % (n + 1) for r in range(60)], n, vocab)
        states = len(c["temperature"])
        k, least = torch.randint(0, 6, (states,)).int(), 0.2 * torch.rand(states)
        cut, plain = c["target_logits"].clone(), self.call("rejection_sample", **c)
        for r, state in enumerate(c["idx_mapping"].tolist()):
            rows = cut[c["cu_num_logits"][r]:c["cu_num_logits"][r + 1]]
            p = rows.softmax(-1)
            rows[p < least[state] * p.amax(-1, keepdim=True)] = -torch.inf
            if k[state] > 0:
                rows[rows < rows.topk(int(k[state])).values[:, -1:]] = -torch.inf
        got = self.call("rejection_sample", **c, top_k=k, min_p=least, top_p=torch.ones(states))
        for one, other in zip(got, self.call("rejection_sample", **{**c, "target_logits": cut})):
            self.assertTrue(one.equal(other))
        self.assertFalse(got[0].equal(plain[0]))

    def test_penalties_and_masks_are_those_of_logits_that_were_edited_before(self):
        n, vocab = 4, 40
        c = self.requests([r % (n + 1) for r in range(40)], n, vocab)
        states = len(c["temperature"])
        texts = [[torch.randint(vocab, (int(torch.randint(1, 12, ())),)).tolist() for _ in range(states)]
                 for _ in range(2)]
        penalties = dict(repetition_penalty=1 + torch.rand(states), presence_penalty=torch.rand(states),
                         frequency_penalty=torch.rand(states))
        masks = torch.randint(-2 ** 31, 2 ** 31, (3, 2)).int()
        mask_of_row = torch.randint(-1, 3, (len(c["target_logits"]),)).int()
        edited = c["target_logits"].clone()
        for r, state in enumerate(c["idx_mapping"].tolist()):
            begin, end = c["cu_num_logits"][r:r + 2].tolist()
            for row in range(begin, end):
                emitted = texts[1][state] + c["draft_sampled"][begin + 1:row + 1].tolist()
                count = torch.bincount(torch.tensor(emitted), minlength=vocab)
                x, occurs = edited[row], (count > 0) | torch.zeros(vocab).bool().index_fill(
                    0, torch.tensor(texts[0][state]), True)
                repeated = torch.where(x > 0, x / penalties["repetition_penalty"][state],
                                       x * penalties["repetition_penalty"][state])
                minus = penalties["frequency_penalty"][state] * count + penalties["presence_penalty"][state]
                edited[row] = torch.where(occurs, repeated - torch.where(count > 0, minus, 0.0), x)
                if mask_of_row[row] >= 0:
                    words = masks[mask_of_row[row]].long()
                    allowed = (words[torch.arange(vocab) // 32] >> torch.arange(vocab) % 32) & 1
                    edited[row, allowed == 0] = -torch.inf
        census, plain = self.census(*texts, vocab), self.call("rejection_sample", **c)

        def there(values):
            return {k: v.to(self.device) if isinstance(v, torch.Tensor) else v for k, v in values.items()}
        arguments = there(dict(c, **penalties, allowed=masks, mask_of_row=mask_of_row))
        arguments["target_logits"] = arguments["target_logits"].clone()
        got = ops.rejection_sample_(**arguments, **census)
        found = arguments["target_logits"].cpu()
        is_edited = found.isclose(edited, rtol=1e-6, atol=1e-6).all(-1)
        self.assertTrue((is_edited | (found == c["target_logits"]).all(-1)).all())  # what no rule reads may stay
        self.assertGreaterEqual(is_edited.sum(), len(c["idx_mapping"]))  # of each request one row, or more
        wanted = self.call("rejection_sample", **{**c, "target_logits": arguments["target_logits"].cpu()})
        for one, other in zip(got, wanted):
            self.assertTrue(one.cpu().equal(other))
        self.assertFalse(got[0].cpu().equal(plain[0]))

    # --- (c) trees -----------------------------------------------------------------------------
    def test_links_masks_and_positions_of_a_tree(self):
        # Two children of the root; the first has two children, the second has one.
        mask, positions, index, child, sibling, status = self.call(
            "build_tree", i64([-1, 0, 1]), i64([0, 1, 2, 3, 4]), i64(7), 2)
        self.all_ok(status)
        self.assertEqual(positions.tolist(), [[7, 8, 8, 9, 9, 9]])
        self.assertEqual(child.tolist(), [[1, 3, 5, -1, -1, -1]])
        self.assertEqual(sibling.tolist(), [[-1, 2, -1, 4, -1, -1]])
        self.assertEqual(index.tolist(), [[0, 1, 2, 3, 4, 5]])
        sees = [[j for j in range(6) if mask[0, i, j]] for i in range(6)]
        self.assertEqual(sees, [[0], [0, 1], [0, 2], [0, 1, 3], [0, 1, 4], [0, 2, 5]])

    def test_masks_and_positions_follow_the_links(self):
        parents, selected, lengths, topk, _ = self.trees()
        mask, positions, index, child, sibling, status = self.call("build_tree", parents, selected, lengths, topk)
        self.all_ok(status)
        self.assertEqual(index.flatten().tolist(), list(range(index.numel())))
        for b in range(len(parents)):
            sees, todo = {0: {0}}, [0]
            while todo:
                node = todo.pop()
                for c in reference.children_of(node, child[b].tolist(), sibling[b].tolist()):
                    sees[c] = sees[node] | {c}
                    todo.append(c)
            self.assertEqual(len(sees), mask.shape[1])
            for node, ancestors in sees.items():
                self.assertEqual(set(mask[b, node].nonzero()[:, 0].tolist()), ancestors)
                self.assertEqual(positions[b, node], lengths[b] + len(ancestors) - 1)

    def walks(self, candidates, links, levels, outputs, choice):
        """Compares the outputs of a verification with the walks of the reference."""
        (index, child, sibling), (predicts, accept_index, count, status) = links, outputs
        self.all_ok(status)
        slots, found = torch.full_like(predicts, -1), set()
        for b in range(len(candidates)):
            tokens = candidates[b].tolist()
            path, token = reference.tree(tokens, child[b].tolist(), sibling[b].tolist(), levels, choice(b, tokens))
            nodes = [0] + path
            slots[index[b, nodes]] = i32(*[tokens[c] for c in path], token)
            self.assertEqual(accept_index[b].tolist(), index[b, nodes].tolist() + [-1] * (levels - len(nodes)))
            self.assertEqual(count[b], len(path))
            found.add(len(path))
        self.assertTrue(predicts.equal(slots))
        self.assertEqual(found, set(range(levels)))

    def test_trees_are_the_references_for_given_uniforms(self):
        parents, selected, lengths, topk, candidates = self.trees()
        links = self.call("build_tree", parents, selected, lengths, topk)[2:5]
        p = laws(*candidates.shape, 4)
        tests, final = torch.rand(candidates.shape), torch.rand(len(candidates))
        for levels in (2, 4):
            outputs = self.call("tree_speculative_sampling_target_only", candidates, *links, p, levels,
                                uniform_samples=tests, uniform_samples_for_final_sampling=final)
            self.walks(candidates, links, levels, outputs, lambda b, tokens: reference.from_target(
                p[b], tokens, tests[b].tolist(), float(final[b])))

    def test_greedy_trees_are_the_references(self):
        parents, selected, lengths, topk, candidates = self.trees()
        links = self.call("build_tree", parents, selected, lengths, topk)[2:5]
        predicted = torch.randint(4, candidates.shape)
        outputs = self.call("verify_tree_greedy", candidates, *links, predicted.flatten(), 4)
        self.walks(candidates, links, 4, outputs, lambda b, tokens: lambda node, children: int(predicted[b, node]))

    def test_a_tree_depends_on_its_seed_and_length_alone(self):
        parents, selected, lengths, topk, candidates = self.trees()
        links = self.call("build_tree", parents, selected, lengths, topk)[2:5]
        p, seeds, ones = laws(*candidates.shape, 4), torch.arange(len(candidates)), torch.ones(len(candidates)).int()

        def run(rows):
            index = torch.arange(len(rows) * candidates.shape[1]).view(len(rows), -1)  # slots of this batch
            return self.call("tree_speculative_sampling_target_only", candidates[rows], index, links[1][rows],
                             links[2][rows], p[rows], 4, seeds=seeds[rows], lengths=ones[rows])
        every = torch.arange(len(candidates))
        whole = run(every)
        for rows in (every, every.flip(0), every[3:4]):
            predicts, _, count, _ = run(rows)
            self.assertTrue(count.equal(whole[2][rows]))
            self.assertTrue(predicts.view(len(rows), -1).equal(whole[0].view(len(every), -1)[rows]))

    def test_the_law_of_trees_is_exact(self):
        # The root's children are nodes 1 and 2, with tokens 0 and 2; node 3, with token 1, hangs on node 1.
        def drawable(p, *children):
            return (p.sum() - p[list(children)].sum()) * 16 in WHOLE
        p0 = redraw(sixteenths, lambda p: drawable(p, 0, 2))
        p1, p2 = sixteenths(V), sixteenths(V, V)
        p1[0] = redraw(sixteenths, lambda p: drawable(p, 1))
        rows = 16 * 16 * CELLS
        root, first, final = (u.flatten() for u in torch.meshgrid(middles(16), middles(16), middles(CELLS),
                                                                  indexing="ij"))
        candidates = i64(3, 0, 2, 1).expand(rows, 4).contiguous()
        index = torch.arange(4 * rows).view(rows, 4)
        child, sibling = (i64(*link).expand(rows, 4).contiguous() for link in ((1, 3, -1, -1), (-1, 2, -1, -1)))
        target = torch.stack([p0, p1[0], p1[2], p2[0, 1]]).expand(rows, 4, V).contiguous()
        tests = torch.stack([root, first, root, first], 1)

        def law(**thresholds):
            predicts, _, count, status = self.call(
                "tree_speculative_sampling_target_only", candidates, index, child, sibling, target, 3,
                uniform_samples=tests, uniform_samples_for_final_sampling=final, **thresholds)
            self.all_ok(status)
            by_node = predicts.view(rows, 4).long()
            # What the root predicts, then node 1 or 2, then node 3.
            second = torch.where(by_node[:, 0] == 0, by_node[:, 1], by_node[:, 2])
            tokens = torch.stack([by_node[:, 0], second, by_node[:, 3]], 1)
            return continued(*grouped(tokens, count.long() + 1, torch.full((rows,), 1 / rows, dtype=torch.double)),
                             p1, p2)
        self.assertLess(gap(law(), p0, p1, p2), 1e-9)
        for lossy in ({"threshold_acc": 0.8}, {"threshold_single": 0.05}):
            self.assertGreater(gap(law(**lossy), p0, p1, p2), 0.01)


class OnTheCpu(Rules, unittest.TestCase):
    pass


@unittest.skipUnless(torch.cuda.is_available() and HAS_CUDA_KERNELS, "no GPU, or a build without CUDA")
class OnCuda(Rules, unittest.TestCase):
    device = "cuda"


if __name__ == "__main__":
    if not torch.cuda.is_available():
        print("no GPU here: the operators are tested on the CPU only")
    unittest.main()
