# SPDX-License-Identifier: Apache-2.0
"""Arguments of the operators, which their tests share."""
import torch

import hunch

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

    def chains(self, batch=64, n=3, vocab=50):
        q, p = laws(batch, n, vocab), laws(batch, n + 1, vocab)
        p[: batch // 2, :n] = 0.7 * p[: batch // 2, :n] + 0.3 * q[: batch // 2]  # so that runs differ in length
        ids = torch.multinomial(q.flatten(0, 1), 1).view(batch, n).int()
        return q, ids, p

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
