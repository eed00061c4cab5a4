# SPDX-License-Identifier: Apache-2.0
"""Arguments of verify_chain, verify_tree, build_tree and describe_tree, which their tests share."""
import torch

import reference

HAS_CUDA_KERNELS = torch._C._dispatch_has_kernel_for_dispatch_key("hunch::verify_tree", "CUDA")


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

    def same(self, one, other):
        for a, b in zip(one, other):
            self.assertEqual((a.shape, a.dtype), (b.shape, b.dtype))
            self.assertTrue(a.equal(b))
