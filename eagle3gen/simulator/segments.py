"""The library of texts that answers are made of, beside the corpus: what models write and what tokenizers stumble over.

Every segment may stand after a line break: its first line is never blank, so that no token reaches over the joint.
"""

import random
import string
from collections.abc import Callable

COUNT = 240
PHRASE = (
    "the list index of each value is checked before we return it so that nothing is lost when some input turns out "
    "to be empty however larger numbers need more care because rounding can hide an error until later"
)
WORDS = tuple(PHRASE.split())
NAMES = ("total", "items", "result", "node", "left", "cache", "maxDepth", "user_id", "HTTPServer", "λ", "größe")
CHINESE = "的一是不了在人有我他这中大来上国个到说们为子和你地出道也时年得就那要下以生会自着去之过家学对可她里后"
KANA = "あいうえおかきくけこさしすせそたちつてとなにぬねのはひふへほまみむめもやゆよらりるれろわをんアイウエオカキ"
HANGUL = "가나다라마바사아자차카타파하거너더러머버서어저처커터퍼허고노도로모보소오조초코토포호"
RARE = "𠮷𠀋𡈽㐂龘齉ᚠᚢᚦ𐎀𐎁ሀለሐⴰⴱⵎꦲꦤᠮᠣ𝔄𝔅𝕏ﷺ№™½①Ⅳﬁ"
EMOJI = ("🎉", "😀", "👍🏽", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇯🇵", "❤️", "1️⃣", "🧑🏿‍🚀", "☕", "🫠")
MARKS = ("é", "ñ", "å", "Z̷̢͝a", "ก็", "ẛ̣", "하")
SIGNS = "∀∃∈∉⊂∪∩∑∏∫√∞≈≠≤≥→⇒·×÷±∂∇"


def segments() -> list[str]:
    """A few hundred texts, the same in every run."""
    rng = random.Random("segments")  # noqa: S311  not for secrets
    return [KINDS[number % len(KINDS)](rng) for number in range(COUNT)]


def _prose(rng: random.Random) -> str:
    marks = (", ", "; ", " — ", " ", " ", " ", ". And ", "? ", "… ")
    text = "".join(rng.choice(WORDS) + rng.choice(marks) for _ in range(rng.randint(8, 40)))
    return f"{text[:1].upper()}{text[1:].strip()}."


def _code(rng: random.Random) -> str:
    """Lines that go in and out, with blanks or tabs, some of them blank themselves."""
    step = rng.choice(("    ", "  ", "\t"))
    lines, depth = [], 0
    for _ in range(rng.randint(4, 14)):
        name, other = rng.choice(NAMES), rng.choice(NAMES)
        lines.append(step * depth + rng.choice((f"if {name} > {other}:", f"{name} += {other}[i]", f"return {name}()")))
        depth = depth + 1 if lines[-1].endswith(":") else max(0, depth - rng.randint(0, 1))
        if rng.random() < 0.15:
            lines.append(step * rng.randint(0, 2))
    return "```python\n" + "\n".join(lines) + "\n```"


def _indented(rng: random.Random) -> str:
    """A text that begins with blanks."""
    return rng.choice(("    ", "\t", " ", "  - ", "        ")) + _prose(rng)


def _script(alphabet: str) -> Callable[[random.Random], str]:
    def write(rng: random.Random) -> str:
        parts = ["".join(rng.choices(alphabet, k=rng.randint(1, 12))) for _ in range(rng.randint(2, 8))]
        return rng.choice(("，", "、", " ", "。", "GPU", "3")).join(parts) + rng.choice("。!？.")

    return write


def _emoji(rng: random.Random) -> str:
    parts = [rng.choice(EMOJI) * rng.randint(1, 3) + rng.choice((" ", "", " ok ", "\n")) for _ in range(8)]
    return "".join(parts).rstrip() + rng.choice(MARKS)


def _numbers(rng: random.Random) -> str:
    makers = (
        lambda: str(rng.randint(0, 10 ** rng.randint(1, 18))),
        lambda: f"{rng.uniform(-1e6, 1e6):.{rng.randint(1, 9)}f}",
        lambda: f"{rng.getrandbits(64):#x}",
        lambda: f"{rng.randint(0, 99)}%",
        lambda: f"{rng.randint(1, 999)},{rng.randint(0, 999):03}",
    )
    return rng.choice((" ", ", ", " + ", "\n", " = ")).join(rng.choice(makers)() for _ in range(rng.randint(3, 16)))


def _maths(rng: random.Random) -> str:
    symbols = " ".join(rng.choice(SIGNS) + rng.choice("xyzαβn") for _ in range(rng.randint(3, 10)))
    return (
        f"$$\\sum_{{i={rng.randint(0, 9)}}}^{{n}} \\frac{{x_i^{rng.randint(2, 9)}}}{{\\sqrt{{n}}}}$$ where {symbols}."
    )


def _markdown(rng: random.Random) -> str:
    rows = [f"| {rng.choice(WORDS)} | **{rng.randint(0, 999)}** | `{rng.choice(NAMES)}` |" for _ in range(4)]
    return (
        f"### {rng.choice(WORDS).title()}\n\n| a | b | c |\n|:--|--:|---|\n" + "\n".join(rows) + "\n\n> " + _prose(rng)
    )


def _blanks(rng: random.Random) -> str:
    """Runs of every kind of blank inside a text and at its end."""
    kinds = (" ", "  ", "   ", " " * 17, "\t\t", "\n\n\n", " \n", "\r\n", "\u00a0", "\u3000", "\u2003 ", "\n    ")
    return "".join(rng.choice(WORDS) + rng.choice(kinds) for _ in range(rng.randint(4, 14)))


def _noise(rng: random.Random) -> str:
    """Keys, paths and symbols: pieces that are in no vocabulary."""
    letters = string.ascii_letters + string.digits + "+/"
    parts = ["".join(rng.choices(letters, k=rng.randint(4, 40))) for _ in range(3)]
    return rng.choice(("/", "::", "&&", " <", "==", "\\n", '","')).join(parts) + "".join(
        rng.choices(string.punctuation, k=rng.randint(1, 9))
    )


KINDS: tuple[Callable[[random.Random], str], ...] = (
    _prose,
    _code,
    _indented,
    _script(CHINESE),
    _script(KANA + CHINESE),
    _script(HANGUL),
    _script(RARE),
    _emoji,
    _numbers,
    _maths,
    _markdown,
    _blanks,
    _noise,
)
