# SPDX-License-Identifier: Apache-2.0
"""Steps of speculative decoding: the assistant drafts, the model reads the drafts in one pass, `hunch` verifies."""
from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter

import torch
from torch.nn import functional

import hunch

from ._transformers_cache import Tree
from ._transformers_laws import Laws
from ._transformers_lengths import AdaptiveLength
from ._transformers_readers import reader
from ._transformers_texts import FIRST_ROOM, Texts

#: Drafts are drawn with keys of their own, so that no random word decides both a draft and its verification; and each
#: step with another one: a rule that looks at drafts behind the accepted ones must not meet their words again.
DRAFT_KEY, STEP_KEY = 0x5851F42D4C957F2D, 0x1E3779B97F4A7C15

SPARE = 16  # places for the drafts of texts that have ended, or end before their last draft


@dataclass
class Statistics:
    """Of one call: passes of the model over drafts, drafts of texts that had not ended, and of chains the length that
    each step had, which as num_draft_tokens gives the texts of a seed again."""

    steps: int = 0
    drafted: int = 0
    accepted: int = 0
    emitted: int = 0
    lengths: list[int] = field(default_factory=list)

    @property
    def acceptance(self) -> float:
        """Accepted drafts of those that were drafted."""
        return self.accepted / max(self.drafted, 1)


class Shape:
    """A tree by the number of children at each level. Node 0 is the last emitted token; nodes are counted level by
    level, the children of a node side by side."""

    def __init__(self, branching: tuple[int, ...], device):
        self.branching, parents, levels = branching, [-1], [[0]]
        for children in branching:
            begin = len(parents)
            parents += [node for node in levels[-1] for _ in range(children)]
            levels.append(list(range(begin, len(parents))))
        self.levels, self.nodes = levels, len(parents)
        self.parents = torch.tensor(parents, device=device)
        self.depth = [0] * self.nodes
        self.path: list[list[int]] = [[] for _ in parents]  # nodes from the first level on
        below = torch.eye(self.nodes, dtype=torch.bool)
        for node, parent in enumerate(parents[1:], 1):
            self.depth[node] = self.depth[parent] + 1
            self.path[node] = self.path[parent] + [node]
            below[node] |= below[parent]
        self.below, self.depths = below.to(device), torch.tensor(self.depth, device=device)

    def whole(self, base):
        """All nodes as the model reads them."""
        return Tree(base, self.below, self.depths)

    def level(self, depth, base):
        """One level as the assistant reads it, whose pass before it has read node 0."""
        nodes = self.levels[depth]
        return Tree(base, self.below[nodes[0] : nodes[-1] + 1, 1 : nodes[-1] + 1],
                    self.depths[nodes[0] : nodes[-1] + 1] - 1)


class Loop:
    """One call of `generate`. seeds: int64 [B]."""

    def __init__(self, model, assistant, texts: Texts, laws: Laws, *, seeds, lengths, tree, rule, streamer):
        self.model_vocabulary = model.config.get_text_config().vocab_size
        self.assistant_vocabulary = assistant.config.get_text_config().vocab_size
        self.texts, self.laws, self.schedule, self.rule = texts, laws, lengths, rule
        self.device, self.streamer = texts.ids.device, streamer
        self.seeds = seeds
        self.statistics = Statistics()
        batch, trees = len(texts.sizes), tree is not None
        capacity = min(texts.limit, texts.prompt + FIRST_ROOM) + (Shape(tree, self.device).nodes if trees else SPARE)
        self.target = reader(model, batch, capacity, trees=trees)
        self.draft = reader(assistant, batch, capacity, trees=trees)
        self.tree = tree
        self.shapes: dict[int, Shape] = {}
        # A length that depends on the drafts is exact where each is judged alone, and is one length only for one text.
        self.by_confidence = batch == 1 and rule == "rejection" and isinstance(lengths, AdaptiveLength)
        self.last_position = texts.limit - 1 if batch > 1 or trees else None

    def run(self) -> None:
        if all(self.texts.done):
            return
        self._read_prompts()
        while not all(self.texts.done):
            room = self.texts.room - 1
            if self.tree is not None:
                self._tree_step(self.tree[:room])
            else:
                self._chain_step(min(self.schedule.next(self.by_confidence), room))

    def _read_prompts(self):
        """All but the last token of each: what every step begins with."""
        ends = [n - 1 for n in self.texts.lengths]
        if max(ends) == 0:
            return
        tokens = self.texts.tokens([0] * len(ends), ends)
        for side, read in ((self.target, tokens), (self.draft, self._for_assistant(tokens))):
            side.read(read, 1, last_position=self.last_position)
            side.keep(ends)

    def _for_assistant(self, tokens):
        """Tokens that the assistant has; of those that only the model has it is told another one."""
        if self.assistant_vocabulary < self.model_vocabulary:
            return tokens.clamp(max=self.assistant_vocabulary - 1)
        return tokens

    def _catch_up(self):
        """Has the assistant read the texts up to their ends: its logits after these [B, V]."""
        begins, ends = self.draft.lengths, self.texts.lengths
        counts = [end - begin for begin, end in zip(begins, ends)]
        width = max(counts)
        tokens = self._for_assistant(self.texts.tokens(begins, ends))
        if min(counts) == width:
            logits = self.draft.read(tokens, 1, last_position=self.last_position)[:, 0]
        else:
            logits = self.draft.read(tokens, width, last_position=self.last_position)
            last = torch.tensor(counts, device=self.device) - 1
            logits = logits[torch.arange(len(counts), device=self.device), last]
        self.draft.keep(ends)
        return logits

    def _read_draft(self, token):
        """The assistant's logits [B, 1, V] after a draft [B, 1]."""
        return self.draft.read(self._for_assistant(token.clamp(min=0)), 1, last_position=self.last_position)

    def _draft_law(self, logits, texts):
        """The logits [B, m, V] that drafts are chosen by."""
        logits = logits[..., : self.model_vocabulary].float()
        if self.laws.edits:
            # Processors name tokens of the model; what the assistant has not is left out again, whatever they give it.
            known = logits.shape[-1]
            logits = functional.pad(logits, (0, self.model_vocabulary - known), value=-torch.inf)
            logits = self.laws.edited(logits, texts())[..., :known]
        return self.laws.cut_draft(logits)

    def _target_law(self, logits, texts):
        return self.laws.edited(logits, texts()) if self.laws.edits else logits.float()

    def _draw(self, logits, lengths, place):
        """A token [B] for each row of logits [B, V], the draft at `place` of a step; -1 where a row holds no law."""
        if self.laws.sampling.temperature == 0:
            return logits.argmax(-1)
        nothing = torch.empty((len(logits), 0), dtype=torch.long, device=self.device)
        return hunch.verify_chain(logits[:, None], nothing, None, seeds=(self.seeds ^ DRAFT_KEY) + lengths * STEP_KEY,
                                  lengths=lengths + place, temperature=self.laws.sampling.temperature).tokens[:, 0]

    def _sure(self, logits) -> float:
        """The largest probability of a law, at temperature 1 where nothing is sampled. Waits for the device."""
        scaled = logits / (self.laws.sampling.temperature or 1.0)
        return (scaled.max() - scaled.logsumexp(0)).exp().item()

    def _chain_step(self, n: int):
        began = perf_counter()
        texts, sampling = self.texts, self.laws.sampling
        lengths = torch.tensor(texts.lengths, device=self.device)
        root = texts.tokens([k - 1 for k in texts.lengths], texts.lengths)
        drafts, laws, unread = [root], [], 1
        for i in range(n):
            if self.by_confidence and i > 0 and not self.schedule.may_go_on():
                break
            logits = self._catch_up()[:, None] if i == 0 else self._read_draft(drafts[-1])
            law = self._draft_law(logits, lambda: self._prefixes(drafts[1:], [i]))
            if self.by_confidence and not self.schedule.goes_on(self._sure(law[0, 0])):
                unread = 0
                break
            laws.append(law)
            drafts.append(self._draw(law[:, 0], lengths, i)[:, None])
        n, drafted = len(laws), perf_counter()
        read = torch.cat(drafts, 1)
        logits = self.target.read(read.clamp(min=0), n + 1, last_position=self.last_position)
        logits = self._target_law(logits, lambda: self._prefixes(drafts[1:], range(n + 1)))
        laws = torch.cat(laws, 1) if laws and sampling.temperature > 0 else None
        verified = hunch.verify_chain(logits, self._within(read[:, 1:]), laws, seeds=self.seeds, lengths=lengths,
                                      rule=self.rule, **sampling._asdict())
        before = texts.lengths
        counts, accepted = self._emit(verified, n)
        self.target.keep([k - 1 + m for k, m in zip(before, counts)])
        if n > 0:
            # The last draft was not read, unless the assistant was asked what comes after it.
            self.draft.keep([k + min(m - 1, n - unread) if m > 0 else k - 1 for k, m in zip(before, counts)])
        self.statistics.lengths.append(n)
        self.schedule.learn(n, accepted, perf_counter() - began, drafted - began)

    def _within(self, drafts):
        """Drafts [B, n] without those behind the last token of a text: none depends on the limits of the others."""
        rooms = [self.texts.limit - size - 1 for size in self.texts.sizes]
        if min(rooms) >= drafts.shape[1]:
            return drafts
        behind = torch.arange(drafts.shape[1], device=self.device) >= torch.tensor(rooms, device=self.device)[:, None]
        return drafts.masked_fill(behind, -1)

    def _prefixes(self, drafts, rows):
        """The tokens before rows of a chain: of each text, with the first of its drafts."""
        drafted = torch.cat([self.texts.ids[:, :0], *drafts], 1).clamp(min=0)
        return [[torch.cat([self.texts.prefix(b), drafted[b, :i]]) for i in rows] for b in range(len(drafted))]

    def _tree_step(self, branching: tuple[int, ...]):
        texts, sampling = self.texts, self.laws.sampling
        if len(branching) not in self.shapes:
            self.shapes[len(branching)] = Shape(branching, self.device)
        shape = self.shapes[len(branching)]
        before = texts.lengths
        nodes = texts.tokens([k - 1 for k in before], before)  # [B, nodes so far]
        for depth, children in enumerate(branching):
            if depth == 0:
                logits = self._catch_up()[:, None]
            else:
                level = self._for_assistant(nodes[:, shape.levels[depth][0] :])
                logits = self.draft.read(level, level.shape[1], tree=shape.level(depth, before),
                                         last_position=self.last_position)
            law = self._draft_law(logits, lambda: self._node_prefixes(nodes, shape, shape.levels[depth]))
            nodes = torch.cat([nodes, law.topk(children, -1).indices.flatten(1)], 1)
        base = self.target.lengths
        logits = self.target.read(nodes, shape.nodes, tree=shape.whole(base), last_position=self.last_position)
        logits = self._target_law(logits, lambda: self._node_prefixes(nodes, shape, range(shape.nodes)))
        verified = hunch.verify_tree(
            logits, nodes, shape.parents.expand(len(nodes), -1), None, seeds=self.seeds,
            lengths=torch.tensor(before, dtype=torch.int32, device=self.device), **sampling._asdict())
        counts, _ = self._emit(verified, len(branching))
        paths = [path[: m - 1] if m > 0 else None for path, m in zip(verified.path.tolist(), counts)]
        self.target.keep_paths(base, [[] if path is None else [0, *path] for path in paths])
        if branching:
            read = [[] if path is None else [node - 1 for node in path if shape.depth[node] < len(branching)]
                    for path in paths]
            self.draft.keep_paths(before, read)
            self.draft.keep([k - 1 if path is None else kept
                             for k, path, kept in zip(before, paths, self.draft.lengths)])

    def _node_prefixes(self, nodes, shape, rows):
        return [[torch.cat([self.texts.prefix(b), nodes[b, shape.path[node]]]) for node in rows]
                for b in range(len(nodes))]

    def _emit(self, verified, most: int):
        """Appends what was verified: how many tokens each text took, and the accepted drafts of those that had not
        ended. Where the model's row after them holds no law the call fails."""
        rows, numbers, status = verified.tokens.tolist(), verified.num_tokens.tolist(), verified.status.tolist()
        counts, accepted = [], []
        statistics = self.statistics
        statistics.steps += 1
        for row, (tokens, number) in enumerate(zip(rows, numbers)):
            if self.texts.done[row]:
                counts.append(0)
                continue
            if status[row] != 0:
                raise hunch.StatusError([row], [hunch.STATUS[status[row]]])
            statistics.drafted += min(most, self.texts.limit - self.texts.sizes[row] - 1)
            taken = self.texts.emit(row, tokens[:number])
            if self.streamer is not None:
                self.streamer.put(torch.tensor(taken))
            counts.append(len(taken))
            accepted.append(number - 1)
            statistics.accepted += number - 1
            statistics.emitted += len(taken)
        return counts, accepted
