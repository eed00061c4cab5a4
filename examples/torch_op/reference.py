# SPDX-License-Identifier: Apache-2.0
"""The rules in plain Python and torch, one sequence at a time, in double: what the operators are held against."""
import torch

MASK = 0xFFFFFFFF
PURPOSES = {"accept": 1, "residual": 2, "bonus": 3}


def philox(seed, length, node, purpose):
    """Philox4x32-10 at an address of the library, as a uniform in [0, 1) with 53 bits."""
    key0, key1 = seed & MASK, seed >> 32 & MASK
    c = (length, node, 0, PURPOSES[purpose])
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = (b >> 32 ^ c[1] ^ key0, b & MASK, a >> 32 ^ c[3] ^ key1, a & MASK)
        key0, key1 = key0 + 0x9E3779B9 & MASK, key1 + 0xBB67AE85 & MASK
    return ((c[1] << 32 | c[0]) >> 11) * 2.0 ** -53


def pick(weights, u):
    """The first index whose cumulative weight exceeds u of the total."""
    upto = weights.double().cumsum(0)
    return int((upto <= u * upto[-1]).sum())


def chain(p, q, drafted, uniform):
    """Speculative sampling: p [n + 1, V], q [n, V], and uniform(node, purpose). The emitted tokens."""
    p, q = p.double(), q.double()
    for i, x in enumerate(drafted):
        if not uniform(i, "accept") * q[i, x] < p[i, x]:
            return drafted[:i] + [pick((p[i] - q[i]).clamp(min=0), uniform(i, "residual"))]
    return drafted + [pick(p[len(drafted)], uniform(len(drafted), "bonus"))]


def children_of(node, next_token, next_sibling):
    child = next_token[node]
    while child >= 0:
        yield child
        child = next_sibling[child]


def tree(tokens, next_token, next_sibling, levels, choose):
    """Walks while a child is what choose(node, children) gives: the accepted nodes, and the token after them."""
    path = []
    while True:
        node = path[-1] if path else 0
        children = list(children_of(node, next_token, next_sibling)) if len(path) < levels - 1 else []
        token = choose(node, children)
        matching = [c for c in children if tokens[c] == token]
        if not matching:
            return path, token
        path.append(matching[0])


def from_target(p, tokens, tests, final):
    """The choice of `tree` that samples p [nodes, V]: a uniform of `tests` says which child, if any."""
    def choose(node, children):
        row, seen = p[node].double(), []
        sum_of_children = 0.0
        for c in children:
            sum_of_children += 0.0 if tokens[c] in seen else float(row[tokens[c]])
            seen.append(tokens[c])
            if tests[node] < sum_of_children:
                return tokens[c]
        return pick(row.index_fill(0, torch.tensor(seen, dtype=torch.long), 0.0), final)
    return choose
