# SPDX-License-Identifier: Apache-2.0
"""The rules in plain Python and torch, one sequence at a time, in double: what the operators are held against."""
import torch

MASK = 0xFFFFFFFF
PURPOSES = {"accept": 1, "residual": 2, "bonus": 3}


def philox(seed, length, node, purpose, sibling=0):
    """Philox4x32-10 at an address of the library, as a uniform in [0, 1) with 53 bits."""
    key0, key1 = seed & MASK, seed >> 32 & MASK
    c = (length, node, sibling, PURPOSES[purpose])
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


def law(logits, temperature, top_k=0, top_p=1.0, min_p=0.0):
    """The law of a row: softmax at the temperature, then min-p, top-k and top-p of what is left. 0: the argmax."""
    if temperature == 0:
        return torch.nn.functional.one_hot(logits.argmax(), len(logits)).double()
    p = (logits.double() / temperature).softmax(0)
    p = torch.where(p < min_p * p.max(), 0.0, p)
    if top_k > 0:
        p = torch.where(p < p.sort(descending=True).values[:top_k][-1], 0.0, p)
    p = p / p.sum()
    if top_p < 1:
        falling = p.sort(descending=True).values
        last = falling[(falling.cumsum(0) < top_p).sum()]
        p = torch.where(p < last, 0.0, p)
    return p / p.sum()


def offspring(parents, node):
    return [i for i, above in enumerate(parents) if i > 0 and above == node]


def tree_by_rejection(p, q, tokens, parents, uniform, without_replacement):
    """Speculative sampling on a tree whose siblings were drawn from q [N, V]: the accepted nodes, and the token after.

    Each rejection replaces p by the positive part of p - q; drawn without replacement, q loses the rejected token.
    """
    node, path = 0, []
    while True:
        children = offspring(parents, node)
        if not children:
            return path, pick(p[node], uniform(node, "bonus", 0))
        left, drawn_from = p[node].double(), q[node].double()
        for sibling, child in enumerate(children):
            x = tokens[child]
            if uniform(node, "accept", sibling) * drawn_from[x] < left[x]:
                break
            left = (left - drawn_from).clamp(min=0)
            left = left / left.sum()
            if without_replacement:
                drawn_from = drawn_from.index_fill(0, torch.tensor([x]), 0.0)
                drawn_from = drawn_from / drawn_from.sum()
        else:
            return path, pick(left, uniform(node, "residual", 0))
        path.append(child)
        node = child


def tree_by_target(p, tokens, parents, uniform):
    """Draws from the target, and descends while a child has the token: the accepted nodes, and the token after."""
    node, path = 0, []
    while True:
        token = pick(p[node], uniform(node, "bonus", 0))
        matching = [c for c in offspring(parents, node) if tokens[c] == token]
        if not matching:
            return path, token
        node = matching[0]
        path.append(node)


def chosen_clusters(scores, begin, most, rows=None, share=None, per_row=False):
    """DynaSpec's choice for one context, cluster by cluster: row ranges, the core in front, neighbours joined."""
    count = len(scores)
    law_of_router = scores.double().softmax(0)
    if per_row:
        scores = scores - torch.tensor([b - a for a, b in zip(begin, begin[1:])]).double().log().float()
    chosen, used, mass = [], begin[0], 0.0
    if not law_of_router.isfinite().all():
        chosen = [0]
    else:
        some_mass = int((law_of_router.float() > 0).sum())
        for c in sorted(range(count), key=lambda c: (-float(scores[c]), c)):
            size = begin[c + 1] - begin[c]
            is_enough = share is not None and (len(chosen) >= some_mass if share == 1 else mass >= share)
            if len(chosen) == most or is_enough or (rows is not None and chosen and used + size > rows):
                break
            chosen.append(c)
            used += size
            mass += float(law_of_router[c])
    ranges = [[0, begin[0]]] if begin[0] > 0 else []
    for c in sorted(chosen):
        if ranges and ranges[-1][1] == begin[c]:
            ranges[-1][1] = begin[c + 1]
        else:
            ranges.append([begin[c], begin[c + 1]])
    return ranges


def kept_candidates(parents, scores, nodes):
    """EAGLE-2's choice for one sequence: the candidates that become nodes 1, 2, ..., and the parents of these nodes."""
    there = [m for m, s in enumerate(scores) if s > -torch.inf]
    kept = sorted(sorted(there, key=lambda m: (-scores[m], m))[:nodes - 1])
    return kept, [0 if parents[m] == -1 else kept.index(parents[m]) + 1 for m in kept]


def ancestors(parents, node):
    """The nodes that a node attends to: itself, and those above it."""
    seen = {node}
    while node > 0:
        node = parents[node]
        seen.add(node)
    return seen
