"""Trains what reads a state of the target and goes straight to its head.

    python train_adapter.py --work DIR --model medusa --minutes N
    python train_adapter.py --work DIR --model exit --minutes N
    python train_adapter.py --work DIR --model streams --minutes N
    python train_adapter.py --work DIR --model shared --refine DIR/streams.pt --minutes N

`medusa`: heads on the last hidden state, after the norm. Head j, counted from 0, learns the law of the token
j + 2 ahead; the target's own head has the one before. (Cai et al. 2024, arXiv:2401.10774.) Its weight is
DECAY^j.

`exit`: an adapter behind the second layer, for drafts from the target's first layers; it learns the law that
the target's last layer yields at the same position.

`streams`: speculative streams in the last layers. Stream j, counted from 0, learns what Medusa's head j learns;
a step takes every PLACES-th position of a window. Only what streams have of their own is trained, so that the
target's rows are what they were.

`shared`: streams, and the layers of the target that they run through, and its last norm: another model, whose text
is its own. It begins as the target, or with streams that were trained beside the target, and learns the target's law
too, with the weight 1.

The loss is KL(p || q) that turns into 1 - sum min(p, q), see distillation.py: the whole law is learned and not
the token that follows in the text. The target, its embedding and its head stay as they are, but for what `shared`
trains.
"""
import torch
import torch.nn.functional as F

import checkpoint
import training
from distillation import Lesson, arguments, distil
from model import Exit, ExitConfig, Medusa, MedusaConfig, Shared, StreamConfig, Streams, rope_tables

DECAY = 0.8
PLACES = 4


def main():
    parser = arguments(__doc__, minutes=8)
    parser.add_argument("--model", choices=("medusa", "exit", "streams", "shared"), required=True)
    parser.add_argument("--layers", type=int, default=StreamConfig.stream_layers, help="that streams run through")
    parser.add_argument("--map-rank", type=int, default=StreamConfig.map_rank)
    parser.add_argument("--adapter-rank", type=int, default=StreamConfig.adapter_rank)
    parser.add_argument("--root-rank", type=int, default=StreamConfig.root_rank)
    options = parser.parse_args()
    options.name = options.name or options.model

    torch.manual_seed(training.SEED)
    target = checkpoint.load(options.target, options.work / "tokenizer.model").to(training.device())
    head = target.model.embed_tokens.weight
    if options.model == "medusa":
        model = Medusa(MedusaConfig())
    elif options.model in ("streams", "shared"):
        config = StreamConfig(stream_layers=options.layers, map_rank=options.map_rank,
                              adapter_rank=options.adapter_rank, root_rank=options.root_rank)
        model = Streams(config) if options.model == "streams" else Shared(config, target)
    else:
        model = Exit(ExitConfig())
        with torch.no_grad():
            model.norm.weight.copy_(target.model.norm.weight)
    model = model.to(training.device())

    def medusa_loss(record, progress, share):
        lesson = Lesson(record, head)
        return sum(DECAY ** j * lesson.loss(states, share, ahead=j + 1)[0]
                   for j, states in enumerate(model(record.last).unbind(-2)))

    def exit_loss(record, progress, share):
        return Lesson(record, head).loss(model(record.early), share)[0]

    def stream_loss(record, progress, share):
        shared = options.model == "shared"
        trunk = (model.target if shared else target).model
        length = record.last.shape[1]
        with torch.no_grad():
            x = record.early
            cos, sin = rope_tables(trunk.config, length, x.device)
            for layer in trunk.layers[ExitConfig.exit_layer:model.first_layer(trunk)]:
                x = layer(x, cos, sin)
        first = int(torch.randint(PLACES, ()))
        main, states = model.beside(trunk, x, torch.arange(first, length, PLACES, device=x.device), shared)
        states = model.told(states, F.embedding(record.ids[:, 1 + first::PLACES], head))
        lesson = Lesson(record, head)
        own = lesson.loss(main, 0.0)[0] if shared else 0.0
        return own + sum(DECAY ** j * lesson.loss(of, share, ahead=j + 1, every=slice(first, None, PLACES))[0]
                   for j, of in enumerate(states.unbind(-2)))

    distil(options, target, model, {"medusa": medusa_loss, "exit": exit_loss}.get(options.model, stream_loss))


if __name__ == "__main__":
    main()
