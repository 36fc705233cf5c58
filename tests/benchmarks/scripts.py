"""Made-up texts in many scripts, to search in: words as rare and as common as words are, of letters that are so, too.

Real words would not be rarer: what makes a search slow is how often the pieces stand that the index knows.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import NamedTuple

WORDS = 20_000
"""Different words of a script."""

Dice = random.Random


class Script(NamedTuple):
    """How a word is made, and what stands between two of them."""

    word: Callable[[Dice], str]
    space: str = " "


class Language(NamedTuple):
    """Words of a script, the most common first, and a text of so many, drawn at random."""

    words: list[str]
    space: str
    text: Callable[[int], str]


def language(script: str) -> Language:
    """The words of one of `SCRIPTS`, the same each time."""
    dice, made = random.Random(1), SCRIPTS[script]
    drawn = (made.word(dice) for _ in itertools.count())
    words = list(itertools.islice(dict.fromkeys(itertools.islice(drawn, 4 * WORDS)), WORDS))
    shares = list(itertools.accumulate(1 / (place + 1) for place in range(len(words))))
    return Language(
        words, made.space, lambda length: made.space.join(dice.choices(words, cum_weights=shares, k=length))
    )


def _letters(first: int, last: int) -> str:
    return "".join(map(chr, range(first, last + 1)))


def _falling(letters: str, flat: float = 3.0) -> Callable[[Dice], str]:
    """Draws one of some letters, the first ones more often."""
    shares = list(itertools.accumulate(1 / (place + flat) for place in range(len(letters))))
    return lambda dice: dice.choices(letters, cum_weights=shares)[0]


def _spelled(letters: str, shortest: int = 2, longest: int = 9) -> Callable[[Dice], str]:
    draw = _falling(letters)
    return lambda dice: "".join(draw(dice) for _ in range(dice.randint(shortest, longest)))


def _syllables(consonants: str, patterns: list[str], signs: dict[str, str], longest: int) -> Callable[[Dice], str]:
    """Words of syllables: in a pattern `C` is a consonant, a letter of `signs` one of those, `.` nothing."""
    draw = {"C": _falling(consonants, 5.0)} | {name: _falling(some) for name, some in signs.items()}
    draw["."] = lambda _: ""

    def word(dice: Dice) -> str:
        chosen = (dice.choice(patterns) for _ in range(dice.randint(1, longest)))
        return "".join(draw[part](dice) if part in draw else part for pattern in chosen for part in pattern)

    return word


_thai = _syllables(
    "กนรงมอวยทลดสตคปบหจพชขผถศฟณธซญษภฉฮ",
    ["Cา", "CาF", "เCF", "แC", "CVT", "CVF", "CัF", "ไC", "CVTF", "โCF", "C็", "CะF", "CCา", "CF", "เCา", "Cอ"],
    {"V": "\u0e34\u0e35\u0e38\u0e39\u0e37\u0e36", "T": "\u0e48\u0e49", "F": "นงกมยบดว"},
    3,
)
_khmer = _syllables(
    "នកររតមសបងលអវយទចដខពហធជថផឈគ",
    ["CV", "CVF", "C\u17d2CV", "CF", "CV", "C", "C\u17d2CVF"],
    {"V": "\u17b6\u17b7\u17c1\u17bb\u17c4\u17c2\u17b8\u17bc\u17c6", "F": "នកងរមតល"},
    3,
)
_hindi = _syllables(
    "करनसतमलहपदवयजबगचटखभथशअधइउडघछएफ",
    ["CV", "C", "CV", "C\u094dCV", "CVC", "CC"],
    {"V": "\u093e\u0947\u0940\u093f\u094b\u0941\u0902\u0948\u0942"},
    4,
)
_arabic = _spelled("ايلنمرتبوهسدعفكقحجشطصزخضغذثظءى", 2, 6)
_russian = _spelled("оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъ")
_han, _kana, _kata = (
    _falling(_letters(0x4E00, 0x5A00), 8.0),
    _falling(_letters(0x3042, 0x3093)),
    _letters(0x30A2, 0x30F3),
)
_hangul = _falling("".join(map(chr, range(0xAC00, 0xD7A3, 8))), 6.0)
_particle, _latin = _falling("은는이가을를에의도로"), _spelled("etaoinshrdlcumwfgypbvkjxqz")
_emoji = _falling(_letters(0x1F600, 0x1F64F) + "❤✨🔥🎉🚀" + _letters(0x1F300, 0x1F5FF))


def _chinese(dice: Dice) -> str:
    return "".join(_han(dice) for _ in range(dice.choices([1, 2, 3, 4], [12, 65, 13, 10])[0]))


def _japanese(dice: Dice) -> str:
    kind = dice.random()
    if kind < 0.25:
        return "".join(dice.choice(_kata) for _ in range(dice.randint(3, 6)))
    stem = _chinese(dice) if kind < 0.75 else ""
    return stem + "".join(_kana(dice) for _ in range(dice.randint(not stem, 3)))


def _korean(dice: Dice) -> str:
    return "".join(_hangul(dice) for _ in range(dice.randint(1, 4))) + (_particle(dice) if dice.random() < 0.5 else "")


def _code(dice: Dice) -> str:
    name = "_".join(_latin(dice) for _ in range(dice.randint(1, 3)))
    return dice.choice(
        ["{}", "{}", "self.{}", "{}()", "def {}(self):\n   ", "{} =", "[{}]", '"{}",', "return {}"]
    ).format(name)


SCRIPTS = {
    "latin": Script(_latin),
    "thai": Script(_thai, ""),
    "thai, few letters": Script(_spelled("ากอรเมลตปบคแจห"), ""),
    "chinese": Script(_chinese, ""),
    "japanese": Script(_japanese, ""),
    "korean": Script(_korean),
    "khmer": Script(_khmer, ""),
    "arabic": Script(_arabic),
    "hindi": Script(_hindi),
    "russian": Script(_russian),
    "code": Script(_code),
    "emoji": Script(lambda dice: "".join(_emoji(dice) for _ in range(dice.randint(1, 3)))),
    "single letters": Script(lambda dice: dice.choice("etaoinshrdlcumwfgypbvkjxqz0123456789")),
}
