# SPDX-License-Identifier: Apache-2.0
"""Normalisers, pre-tokenisers and decoders of published tokenizers, in the words of the library `tokenizers`."""
import json

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SPACE = "\u2581"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
UNKNOWN, BEGIN, END = "<unk>", "<s>", "</s>"
# What each cuts texts by. LLaDA has the vocabulary of Ling, and here what Ling cuts by.
GPT4 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
        r"\s+(?!\S)|\s+")
LLADA = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|"
         r"\s+(?!\S)|\s+")
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
            r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{ENDING}|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{ENDING}|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def added_of(special, plain=()):
    return [AddedToken(text, special=True, normalized=False) for text in special] + list(plain)


SPECIAL = ["<|endoftext|>", "<|mdm_mask|>", "<|im_start|>"]
ADDED = added_of(SPECIAL, [AddedToken("<tool>", normalized=False), AddedToken("<toolbox>", normalized=False)])
STRIPPING = added_of(["<|left|>"], [AddedToken("<both>", lstrip=True, rstrip=True, normalized=False),
                                    AddedToken("<after>", rstrip=True, normalized=False),
                                    AddedToken("<before>", lstrip=True, normalized=False),
                                    AddedToken("\u4e2d\u4e2d", normalized=True)])
OF_PIECES = added_of([UNKNOWN, BEGIN, END, "[INST]"])


def split(regex, behavior="isolated"):
    return pre_tokenizers.Split(Regex(regex), behavior)


def of_bytes(prefix=False, regex=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=regex)


def template(*front):
    single = " ".join([*(name for name, _ in front), "$A"])
    return processors.TemplateProcessing(single=single, special_tokens=list(front))


def tokenizer_kinds():
    """Name to (model, normalizer, pre_tokenizer, decoder, added tokens, the tokens in front of a text)."""
    byte_level, sequence = decoders.ByteLevel(), pre_tokenizers.Sequence
    llama = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(),
                               decoders.Strip(" ", 1, 0)])
    pieces = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    meta = {scheme: pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme=scheme, split=cut)
            for scheme, cut in (("first", False), ("always", True), ("never", True))}
    rough = normalizers.Sequence([normalizers.Strip(), normalizers.NFKC(), normalizers.Lowercase(),
                                  normalizers.Replace("--", "\u2014")])
    words, digits = pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.Digits
    return {
        "gpt2": ("bytes", None, of_bytes(regex=True), byte_level, ADDED, ()),
        "roberta": ("bytes", None, of_bytes(True, True), byte_level, STRIPPING, ()),
        "llama3": ("bytes whole", None, sequence([split(GPT4 % "{1,3}"), of_bytes()]), byte_level, ADDED, SPECIAL[:1]),
        "qwen2": ("bytes", normalizers.NFC(), sequence([split(GPT4 % ""), of_bytes()]), byte_level, ADDED, ()),
        "llada": ("bytes", normalizers.NFC(), sequence([split(LLADA), of_bytes()]), byte_level, ADDED, ()),
        "deepseek": ("bytes", None, sequence([split(r"\p{N}{1,3}"), split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"),
                                              split(DEEPSEEK), of_bytes()]), byte_level, ADDED, SPECIAL[:2]),
        "o200k": ("bytes", None, sequence([split(O200K), of_bytes()]), byte_level, ADDED, ()),
        "starcoder": ("bytes", None, sequence([digits(True), of_bytes(regex=True)]), byte_level, ADDED, ()),
        "falcon": ("bytes", None, sequence([words, of_bytes(regex=True), digits(False), split("[0-9][0-9][0-9]")]),
                   byte_level, ADDED, ()),
        "rough": ("bytes", rough, sequence([split(r"\p{Han}|\p{Greek}+", "merged_with_previous"),
                                            split(r"\s+", "merged_with_next"), split("[aeiou]", "removed"),
                                            of_bytes()]), byte_level, STRIPPING, ()),
        "llama2": ("pieces", pieces, None, llama, OF_PIECES, [BEGIN]),
        "mistral": ("pieces", None, meta["first"], llama, OF_PIECES, [BEGIN]),
        "characters": ("characters", normalizers.NFD(), meta["always"], decoders.Metaspace(SPACE, "always", True),
                       OF_PIECES, ()),
        "unigram": ("unigram", normalizers.NFKD(), meta["always"], llama, OF_PIECES, [BEGIN]),
        "unigram2": ("unigram", None, meta["never"], decoders.Metaspace(SPACE, "never", True), OF_PIECES, ()),
    }


def train(model, trainer, cut, texts):
    """A model, as its file has it."""
    made = Tokenizer(model)
    made.pre_tokenizer = cut
    made.train_from_iterator(texts, trainer)
    return json.loads(made.to_str())["model"]


def bpe(size, **how):
    return trainers.BpeTrainer(vocab_size=size, show_progress=False, max_token_length=12, **how)


def trained_on_bytes(size, texts):
    """Merges as older files have them."""
    model = train(models.BPE(), bpe(size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()), of_bytes(), texts)
    return {**model, "merges": [" ".join(pair) for pair in model["merges"]]}


def trained(size, texts):
    """Models over about as many tokens, besides those that they need."""
    special, meta = [UNKNOWN, BEGIN, END], pre_tokenizers.Metaspace
    out = {"bytes": trained_on_bytes(size, texts)}
    out["bytes whole"] = {**out["bytes"], "ignore_merges": True}
    for name, first in (("pieces", special + BYTES), ("characters", special)):
        trainer = bpe(size + len(first), special_tokens=first, limit_alphabet=100)
        model = train(models.BPE(unk_token=UNKNOWN), trainer, meta(SPACE, "first", False), texts)
        out[name] = {**model, "byte_fallback": name == "pieces", "fuse_unk": name == "pieces"}
    trainer = trainers.UnigramTrainer(vocab_size=size, show_progress=False, unk_token=UNKNOWN, special_tokens=special)
    ascii_only = [line.encode("ascii", "ignore").decode() for line in texts]
    model = train(models.Unigram(), trainer, meta(SPACE, "always"), ascii_only)
    vocab = [[piece, round(score, 4)] for piece, score in model["vocab"]]
    out["unigram"] = {**model, "vocab": vocab + [[byte, 0.0] for byte in BYTES], "byte_fallback": True}
    return out


def assembled(kind, all_models):
    """A tokenizer of these parts, see `tokenizer_kinds`."""
    model, normalizer, cut, decoder, added, front = kind
    made = Tokenizer.from_str(json.dumps({"version": "1.0", "model": all_models[model]}))
    made.normalizer = normalizer
    made.pre_tokenizer = cut
    made.decoder = decoder
    made.add_tokens(added)
    if front:
        made.post_processor = template(*((name, made.token_to_id(name)) for name in front))
    return made
