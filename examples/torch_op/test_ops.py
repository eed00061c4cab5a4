# SPDX-License-Identifier: Apache-2.0
"""Tests the operators: the reference's outputs, exact laws, seeds, errors, torch.compile.

    python test_ops.py
"""
import unittest

import torch

import hunch
import reference
from enumeration import CELLS, V, WHOLE, continued, gap, grouped, middles, redraw, sixteenths

ops = torch.ops.hunch
STATUS = {name: code for code, name in enumerate(hunch.STATUS)}
HAS_CUDA_KERNELS = torch._C._dispatch_has_kernel_for_dispatch_key("hunch::build_tree", "CUDA")


def laws(*shape):
    return (3 * torch.randn(shape)).softmax(-1)


def i32(*values):
    return torch.tensor(values, dtype=torch.int32)


def i64(*values):
    return torch.tensor(values, dtype=torch.int64)


def results(of):
    """What an operator returns, as a tuple where it is one tensor too."""
    return (of,) if isinstance(of, torch.Tensor) else of


class Operators:
    device = "cpu"

    def setUp(self):
        torch.manual_seed(0)

    def call(self, name, *args, **kwargs):
        """Calls an operator on the device under test; results come back to the CPU."""
        def there(x):
            return x.to(self.device) if isinstance(x, torch.Tensor) else x
        outputs = getattr(ops, name)(*map(there, args), **{k: there(v) for k, v in kwargs.items()})
        return [r.cpu() for r in outputs]

    def all_ok(self, status):
        self.assertTrue((status == STATUS["ok"]).all(), status)

    # --- (a) chains on probabilities -----------------------------------------------------------
    def chains(self, batch=64, n=3, vocab=50):
        q, p = laws(batch, n, vocab), laws(batch, n + 1, vocab)
        p[: batch // 2, :n] = 0.7 * p[: batch // 2, :n] + 0.3 * q[: batch // 2]  # so that runs differ in length
        ids = torch.multinomial(q.flatten(0, 1), 1).view(batch, n).int()
        return q, ids, p

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
    def requests(self, counts, n, vocab):
        """Ragged chains of `counts` drafts; the state of a request is not its place in the batch."""
        states = len(counts) + 2
        draft = 2 * torch.randn(states, n, vocab)
        target = 2 * torch.randn(sum(counts) + len(counts), vocab)
        starts = [0]
        for c in counts:
            starts.append(starts[-1] + c + 1)
        mapping = torch.randperm(states)[:len(counts)].int()
        tokens, pos = torch.zeros(starts[-1], dtype=torch.int32), torch.zeros(starts[-1], dtype=torch.int64)
        for r, c in enumerate(counts):
            rows = draft[mapping[r], :c].softmax(-1)
            begin = starts[r]
            tokens[begin + 1:begin + 1 + c] = torch.multinomial(rows, 1)[:, 0].int() if c else 0
            pos[begin:begin + 1 + c] = 10 * r + torch.arange(c + 1)
            target[begin:begin + c] = 0.5 * target[begin:begin + c] + draft[mapping[r], :c]
        return dict(target_logits=target, draft_logits=draft, draft_sampled=tokens, cu_num_logits=i32(*starts),
                    pos=pos, idx_mapping=mapping, temperature=torch.ones(states),
                    seed=torch.randint(1 << 62, (states,)), num_speculative_steps=n)

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

    def census(self, prompts, emitted, vocab):
        """The census of texts, one for each state, in tensors on the device."""
        states, capacity = len(prompts), 64
        arrays = [torch.full(shape, -9, dtype=torch.int32, device=self.device)
                  for shape in ((states, capacity), (states, capacity), (states, vocab), (states,))]
        for name, texts in (("begin_texts", prompts), ("count_tokens", emitted)):
            ids = torch.full((states, max(map(len, texts))), -1, device=self.device)
            for row, text in zip(ids, texts):
                row[:len(text)] = torch.tensor(text, device=self.device)
            lengths = i32(*map(len, texts)).to(self.device)
            self.all_ok(getattr(ops, name)(*arrays, torch.arange(states, device=self.device).int(), ids, lengths))
        return dict(zip(("census_tokens", "census_emitted", "census_index", "census_size"), arrays))

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
    def trees(self, batch=100, topk=3, depth=3, nodes=12, vocab=4):
        """Random trees of an EAGLE-2 drafter's form, and the tokens of their nodes."""
        parents, selected = [], []
        for _ in range(batch):
            expanded = [-1] + list(range(topk))  # the children of the root, then topk candidates of each level
            for level in range(1, depth - 1):
                first = topk + topk * topk * (level - 1)
                expanded += sorted((first + torch.randperm(topk * topk)[:topk]).tolist())
            chosen = set()
            while len(chosen) < nodes - 1:
                s = int(torch.randint(topk + topk * topk * (depth - 1), ()))
                if s < topk or expanded[s // topk] in chosen:
                    chosen.add(s)
            parents.append(expanded)
            selected.append(sorted(chosen))
        lengths = torch.randint(0, 99, (batch,))
        return i64(*parents), i64(*selected), lengths, topk, torch.randint(vocab, (batch, nodes))

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

    # --- what is the same everywhere -----------------------------------------------------------
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


class OnTheCpu(Operators, unittest.TestCase):
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
class OnCuda(Operators, unittest.TestCase):
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
