# SPDX-License-Identifier: Apache-2.0
"""Rows of whole steps without models: the launches of a recorded step, each by its kernel."""

from laws import Laws, VOCAB
from model import Launch, Pass, Row, Small, at_most

FILES = ("laws", "halves", "rejection", "step", "growth", "drafts", "clusters")
CHAIN = "chain of 5"
TREE = "EAGLE-2 tree of 60 nodes, depth 6, routed shortlists"
LISTED = 27000  # rows of a shortlist
WEIGHTS = (1024 * 8192 + 1008 * 1024) * 2  # bytes of both layers of the router
PAIR = 1.4  # microseconds for the products of two more contexts with one of them: instructions
CHILDREN = 10  # of a node of the tree

# Bodies that wait and do little, or several that one launch runs one after the other, and the kernels
# of the gate that are theirs.
SMALL = {
    "begin_step": "begin_step",
    "plan_drafts+stage_committed": "first_of_a_dynamic_tree",
    "plan_drafts+stage_committed+ask_level+choose_each+list_level": "first_of_a_chain",
    "end_level+stage_frontier": "next_of_a_dynamic_tree",
    "end_level+stage_frontier+ask_level+choose_each+list_level": "next_of_a_chain",
    "end_level+finish_dynamic": "last_of_a_dynamic_tree",
    "end_level": "end_of_a_chain_level",
    "ask_level": "asks_of_a_level",
    "list_level": "lists_of_a_level",
    "place_rows": "place_rows",
    "end_step": "end_step",
    "keep_read": "kept_tokens",
    "route_clusters": "choose_by_number",
}
# Trips to the host's memory, one after the other.
OF_HOST = {"decide_repeat": 1}


class Bodies:
    """What takes the time of a body of a step."""

    def __init__(self, model):
        self.model, self.laws = model, Laws(model)

    def launches(self, step, name):
        """Of a list of bodies and how many there are of each."""
        contexts = CHILDREN if name == TREE else 1
        return [self.of(each, name == CHAIN, contexts) for each in step]

    def of(self, launched, is_chain, contexts):
        model, gpu, laws = self.model, self.model.gpu, self.laws
        body, count = launched["body"], launched["count"]
        if "+" in body:  # each with a copy of a view, so that pointers stand in it several times
            kernel = f"{SMALL[body]} block"
            assert model.gate.arguments[kernel] == launched["size"], f"{kernel} is not {body}"
            return Small(kernel, count, again=launched["again"])
        if body in SMALL:
            return Small(f"{SMALL[body]} block", count)
        if body in OF_HOST:
            return Small(f"{body} block", count, host=OF_HOST[body])
        if body == "make_slot_laws":
            return laws.law(count)
        if body == "decide_slot" and is_chain:
            return Launch("verify_by_rejection", count, [Pass(laws.residual, VOCAB, 2, 4)],
                          laws.decide)
        if body == "decide_slot":  # a test for each level of the tree, then a draw
            return Launch("decide_on_a_tree", count, [], 6 * laws.test + laws.draw)
        if body == "draw_level":  # the logits have just been written
            return Launch("draw_of_a_child", count, self.law_of_a_list(),
                          laws.draw_of(gpu, LISTED), 2)
        if body == "rank_level":
            return Launch("plain_ranked_level", count, self.law_of_a_list() + self.ranking(),
                          CHILDREN * 8 * gpu.barrier)
        others = ((contexts + 1) // 2 - 1) * PAIR
        if body == "route_hidden":  # which also asks for the weights of the other layer
            return Small("hidden_layer block", count, more=others, size=WEIGHTS)
        if body == "route_scores":
            return Small("scores_and_choice block", count, more=others)
        raise KeyError(f"no times for the body {body}: see steps.py")

    def law_of_a_list(self):
        return self.laws.passes(LISTED, source="cache")

    def ranking(self):
        """The best of each tile, once more through the row."""
        return [Pass(self.laws.largest, LISTED, 1, 4, "cache")]


def rows(model):
    found = []
    for name, what, goal in ((CHAIN, "5 drafts, B = 1, 27000 draft rows", 40.0),
                             (TREE, f"{TREE}, B = 1", 120.0)):
        step = model.steps[name]
        own = [each for each in step if not each["beside"]]
        bodies = Bodies(model)
        what = f"step without models and heads, graph, {what}"
        parts = [(what, own, at_most(goal))]
        if len(own) < len(step):
            # A draft model's layer takes longer than what runs beside it; and if there were none:
            parts.append((f"{what}, with its router", step, None))
        for what, part, wanted in parts:
            launches = bodies.launches(part, name)
            time, _ = model.total(launches)
            nodes = len(launches) * model.gpu.follow
            found.append(Row(what, "us", time, "launches" if 2 * nodes > time else "chain", wanted))
            found.append(Row(f"{what}: launches", "", len(launches)))
    return found
