# SPDX-License-Identifier: Apache-2.0
"""Readers: from the files of a Debian package to plain documents.

Every reader is a generator `reader(path) -> (name, text)`. The name decides on which side of the
held-out split a document falls, so it is chosen such that the same work under two paths (a manual
page in two languages, a chapter in two translations) has the same name.
"""
import gzip
import html.parser
import re
import struct
import zipfile
import zlib
from pathlib import Path

# ---------------------------------------------------------------- manual pages

ROFF_CHARACTERS = {
    "aq": "'", "dq": '"', "lq": "“", "rq": "”", "oq": "‘", "cq": "’", "em": "—", "en": "–", "bu": "•",
    "co": "©", "ti": "~", "ha": "^", "rs": "\\", "hy": "-", "mu": "×", "->": "→", "<=": "≤", ">=": "≥",
    "Fo": "«", "Fc": "»", "fm": "′", "+-": "±", "sl": "/", "ga": "`", "at": "@", "sh": "#", "Do": "$",
}
ROFF_STRINGS = {"L": '"', "R": '"', "lq": '"', "rq": '"', 'L"': '"', 'R"': '"', "--": "--", "Aq": "'"}
ROFF_ESCAPE = re.compile(
    r"""\\(?: f(?:\[[^\]]*\]|\(..|.) | s[-+]?\d{1,2} | [hvwmMk]'[^']*' | m\[[^\]]*\]
        | \*(?:\((?P<string2>..)|\[(?P<string>[^\]]*)\]|(?P<string1>.))
        | \((?P<character2>..) | \[(?P<character>[^\]]*)\] | (?P<single>.) )""", re.X)
ROFF_PARAGRAPH = {"PP", "P", "LP", "Pp", "sp", "HP"}
ROFF_HEADING = {"SH", "SS", "Sh", "Ss"}
ROFF_FONT = {"B", "I", "R", "SM", "SB", "MT", "UR", "Nm", "Fl", "Ar", "Xr", "Pa", "Nd", "It", "MR"}
ROFF_ALTERNATING = {"BR", "RB", "BI", "IB", "IR", "RI"}


def roff_inline(line):
    """Escapes of one line of roff as the characters that a reader would see."""
    def seen(match):
        string = match["string2"] or match["string"] or match["string1"]
        if string is not None:
            return ROFF_STRINGS.get(string, "")
        name = match["character2"] or match["character"]
        if name is not None:
            if re.fullmatch(r"u[0-9A-F]{4,5}", name):
                return chr(int(name[1:], 16))
            return ROFF_CHARACTERS.get(name, "")
        return {"-": "-", "e": "\\", "\\": "\\", " ": " ", "~": " ", "0": " ", "t": "\t",
                "'": "'", "`": "`", ".": "."}.get(match["single"] or "", "")
    return ROFF_ESCAPE.sub(seen, line)


def roff_arguments(rest):
    return [quoted.replace('""', '"') if quoted else plain
            for quoted, plain in re.findall(r'"((?:[^"]|"")*)"?|(\S+)', rest)]


def roff_text(source):
    """A manual page as text: macros become line structure, everything else stays as written."""
    lines, verbatim, skip_until, tag_next = [], False, None, False

    def put(text, heading=False):
        if heading or not text:
            lines.append("")
        if text:
            lines.append(("    " if verbatim and not heading else "") + text)

    for line in source.split("\n"):
        if skip_until is not None:
            if line.strip() == skip_until:
                skip_until = None
            continue
        line = re.sub(r'\s*\\".*$', "", line) if '\\"' in line else line
        if not line or line[0] not in ".'":
            if line.strip():
                put(roff_inline(line.rstrip()))
            continue
        parts = line[1:].strip().split(None, 1)
        macro, rest = (parts + ["", ""])[:2]
        arguments = [roff_inline(a) for a in roff_arguments(rest)]
        if macro in ("de", "ig", "am"):
            skip_until = ".."
        elif macro == "ie" or macro == "if":
            skip_until = ".\\}" if rest.endswith("\\{\\") else None
        elif macro == "TH":
            put(f"{arguments[0]}({arguments[1]})" if len(arguments) > 1 else "", heading=True)
        elif macro in ROFF_HEADING:
            verbatim = False
            put(" ".join(arguments), heading=True)
        elif macro in ROFF_PARAGRAPH:
            put("")
        elif macro in ("TP", "IP", "TQ"):
            put("")
            tag_next = macro == "IP"
            if tag_next and arguments and arguments[0]:
                put(arguments[0])
        elif macro in ("nf", "EX", "Vb", "CS"):
            verbatim = True
        elif macro in ("fi", "EE", "Ve", "CE"):
            verbatim = False
        elif macro in ROFF_ALTERNATING:
            put("".join(arguments))
        elif macro in ROFF_FONT:
            put(" ".join(arguments))
    return "\n".join(lines)


def roff(path):
    source = gzip.decompress(path.read_bytes())
    if source.startswith(b".so "):
        return
    yield path.name.removesuffix(".gz"), roff_text(source.decode("utf-8", "replace"))


# ---------------------------------------------------------------- HTML, reST, program text

class HtmlText(html.parser.HTMLParser):
    """Text of a page's body; white space is kept inside <pre>, navigation is left out."""
    SKIPPED = {"head", "script", "style"}
    BLOCKS = {"p", "div", "h1", "h2", "h3", "h4", "h5", "dt", "dd", "tr", "pre", "table", "ul", "ol", "br"}

    def __init__(self):
        super().__init__()
        self.parts, self.open, self.pre = [], [], 0

    def skipping(self):
        return any(self.open)

    def handle_starttag(self, tag, attributes):
        if tag in ("meta", "link", "img", "hr", "input", "br", "col"):
            self.parts.append("\n" if tag == "br" else "")
            return
        classes = dict(attributes).get("class") or ""
        self.open.append(tag in self.SKIPPED or classes in ("navheader", "navfooter"))
        self.pre += tag == "pre"
        if tag == "li":
            self.parts.append("\n- ")
        elif tag in ("td", "th"):
            self.parts.append(" ")
        elif tag in self.BLOCKS:
            self.parts.append("\n" if tag in ("tr", "dd", "div") else "\n\n")

    def handle_endtag(self, tag):
        if self.open:
            self.open.pop()
        self.pre -= tag == "pre"
        if tag in self.BLOCKS:
            self.parts.append("\n")

    def handle_data(self, data):
        if not self.skipping():
            self.parts.append(data if self.pre > 0 else re.sub(r"\s+", " ", data))


def html(path):
    parser = HtmlText()
    parser.feed(path.read_text("utf-8", "replace"))
    yield path.name, re.sub(r"\n[ \n]*\n", "\n\n", "".join(parser.parts).replace("\xa0", " "))


def text(path):
    yield "/".join(path.parts[-2:]), path.read_text("utf-8", "replace")


LICENCE_COMMENT = re.compile(r"\A(?:\s*(?:/\*.*?\*/|(?://|#)[^\n]*\n))+", re.S)


def program_text(source):
    """Source text without its opening comment, which is the same licence notice in every file."""
    return LICENCE_COMMENT.sub("", source, count=1)


def source(path):
    yield "/".join(path.parts[-2:]), program_text(path.read_text("utf-8", "replace"))


def java_zip(path):
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if re.fullmatch(r"java\.[\w.]+/javax?/.*\.java", name):
                yield "/".join(name.split("/")[-2:]), program_text(archive.read(name).decode("utf-8", "replace"))


# ---------------------------------------------------------------- dictionaries and scripture

BASE64 = {c: i for i, c in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")}


def dictd(path):
    """Runs of consecutive entries of about 8 KiB; single entries would be mostly document starts."""
    def number(digits):
        value = 0
        for digit in digits:
            value = value * 64 + BASE64[digit]
        return value

    data = gzip.decompress(Path(f"{path}.dict.dz").read_bytes())
    index = (line.split("\t") for line in Path(f"{path}.index").read_text("utf-8").splitlines())
    spans = sorted({(number(o), number(n)) for word, o, n in index if not word.startswith("00database")})
    run, size, first, end = [], 0, 0, 0
    for offset, length in spans:
        if offset < end:
            continue
        end = offset + length
        entry = data[offset:end].decode("utf-8", "replace").strip("\n")
        run.append(entry)
        size += length
        if size >= 8192:
            yield f"{path.name}@{first}", "\n\n".join(run)
            run, size, first = [], 0, end


def sword(path):
    """Chapters of a SWORD zText module: blocks of zlib data, and an index of verses in them."""
    for testament in ("ot", "nt"):
        compressed = (path / f"{testament}.bzz").read_bytes()
        blocks = [zlib.decompress(compressed[offset:offset + size]) for offset, size, _ in
                  struct.iter_unpack("<III", (path / f"{testament}.bzs").read_bytes())]
        chapter, verses = None, []
        for block, offset, size in struct.iter_unpack("<IIH", (path / f"{testament}.bzv").read_bytes()):
            verse = blocks[block][offset:offset + size].decode("utf-8", "replace") if size else ""
            start = re.search(r'<chapter [^>]*sID="([^"]+)"', verse)
            if start:
                if chapter:
                    yield chapter, "\n".join(verses)
                chapter, verses = start[1], [start[1].replace(".", " ")]
                continue
            plain = re.sub(r"<note.*?</note>|<title.*?</title>|<[^>]*>|¶", "", verse, flags=re.S)
            plain = re.sub(r"\s+", " ", plain).strip()
            if chapter and plain:
                verses.append(f"{len(verses)} {plain}")
        if chapter:
            yield chapter, "\n".join(verses)
