"""Texts made to steer a terminal, to hide from a reader, or to wear a program out; and what a terminal may be sent."""

from __future__ import annotations

import re

CONTROLS = {
    "erase": "\x1b[2J\x1b[1;1H",
    "colour": "\x1b[31mred\x1b[0m",
    "answers typed by the terminal": "\x1b[6n\x1b[c\x1b[>c\x1b[21t\x1b[5n",
    "modes": "\x1b[?1049l\x1b[?2004l\x1b[?25l\x1b[4h",
    "a scroll region": "\x1b[5;6r",
    "reset": "\x1bc",
    "another character set": "\x1b(0\x0e\x0f\x1b%G",
    "title": "\x1b]0;owned\x07",
    "title ended by ST": "\x1b]2;owned\x1b\\",
    "clipboard": "\x1b]52;c;b3duZWQ=\x07",
    "link": "\x1b]8;;http://owned.example\x1b\\click\x1b]8;;\x1b\\",
    "colours of the terminal": "\x1b]4;1;rgb:00/00/00\x07\x1b]10;#000\x07\x1b]11;?\x07",
    "file": "\x1b]1337;File=name=b3duZWQ=:AAAA\x07",
    "notification": "\x1b]9;owned\x07\x1b]777;notify;owned;owned\x07",
    "DCS": "\x1bPowned\x1b\\\x1bP$q\x22p\x1b\\\x1bP+q544e\x1b\\",
    "sixel": "\x1bPq#0;2;0;0;0~\x1b\\",
    "APC": "\x1b_Gowned\x1b\\",
    "PM": "\x1b^owned\x1b\\",
    "SOS": "\x1bXowned\x1b\\",
    "tmux": "\x1bPtmux;\x1b\x1b]52;c;b3duZWQ=\x07\x1b\\",
    "C1 CSI": "\x9b31mred\x9b0m",
    "C1 OSC": "\x9d0;owned\x9c",
    "C1 DCS": "\x90owned\x9c",
    "C1 all": "".join(map(chr, range(0x80, 0xA0))),
    "C0 all": "".join(map(chr, [*range(1, 0x09), 0x0B, 0x0C, *range(0x0E, 0x20), 0x7F])),
    "NUL": "nul\x00byte",
    "a line over another": "over\rwritten\x08\x08\x08\x0b\x0c",
    "bell": "\x07" * 20,
    "half an escape": "\x1b",
    "half a CSI": "\x1b[",
    "half an OSC": "\x1b]0;owned",
    "bidi override": "\u202egnp.exe\u202c \u2066iso\u2069 \u200emark\u200f \u061c",
    "zero width": "a\u200bb\ufeffc\u2060d\u00ade",
    "invisible operators": "f\u2061(x)\u2064",
    "tags": "flag" + "".join(chr(0xE0000 + ord(c)) for c in "hidden") + "\U000e007f",
    "fillers": "a\u3164b\u115f\u1160c\uffa0d\u034fe\u17b4",
    "blanks": "a\u2800b\U0001d159c",
    "bytes in selectors": "a" + "".join(chr(0xE0100 + byte) for byte in b"hidden") + "\ufe05",
    "invisible formats": "\U0001bca0\U0001d173\U00013430",
    "line separators": "one\u2028two\u2029three",
    "annotation": "\ufff9a\ufffab\ufffb",
}
"""What must never arrive as it is."""

BYTES = {
    "C1 CSI": b"\x9b31mred\x9b0m",
    "C1 OSC": b"\x9d0;owned\x9c",
    "too long for what they mean": b"\xc0\x9b \xe0\x80\x9b \xf0\x80\x80\x9b \xc1\x9b",
    "surrogates": b"\xed\xa0\x80 \xed\xb0\x80 \xed\xa0\xbd\xed\xb8\x80",
    "beyond the last character": b"\xf4\x90\x80\x80 \xf8\x88\x80\x80\x80 \xff\xfe",
    "escapes in half a character": b"\xc2\x1b[2J \xe2\x80\x1b]0;owned\x07 \xf0\x9f\x98",
}
"""What is no UTF-8."""

FLOODS = {
    "a long word": "x" * 20_000,
    "a long line": "word " * 5_000,
    "zalgo": "Z" + "\u0300\u0338\u0489\u20dd" * 400 + "algo",
    "wide": "漢" * 2_000,
    "joined": "👩\u200d" * 300 + "👩",
    "selectors": "a" + "\ufe0f\ufe0e" * 400,
    "replacement": "\ufffd" * 500,
    "tabs": "\t" * 1_000,
    "line breaks": "\n" * 300,
}
"""What is allowed but too much."""

MARKUP = {
    "Textual": "[red]red[/red] [bold [/] [/nothing] [@click=app.quit]click[/] [link='http://owned.example']go[/link]",
    "Textual, unfinished": "[b][i][$primary on $error 50%][/",
    "Rich": "[blink][reverse]:skull: [/blink][link=http://owned.example]x[/]",
    "backslashes": "\\[red] \\\\[red]",
    "HTML": "<script>alert('owned')</script><img src=x onerror=alert(1)>&#27;[31m&#x1b;]0;owned&#7;",
}
"""What is no more than text."""

MARKDOWN = {
    "quotes": ">" * 600 + " deep",
    "lists": "".join("  " * depth + "- deep\n" for depth in range(120)),
    "numbers": "1. " * 300 + "deep",
    "emphasis": "*a **b " * 800,
    "stars": "*" * 3_000,
    "brackets": "[" * 1_500 + "a" + "](b)" * 1_500,
    "images": "![" * 1_000,
    "backticks": " ".join("`" * n for n in range(1, 120)),
    "links": "[a](<b " * 500,
    "entities": "&amp;" * 2_000 + "&" * 2_000,
    "a wide table": "|" + "a|" * 200 + "\n|" + "-|" * 200 + "\n" + ("|" + "b|" * 200 + "\n") * 5,
    "a long table": "|a|b|\n|-|-|\n" + "|c|d|\n" * 1_000,
    "fences": "```\n~~~\n" * 200,
    "an open fence": "```python\n" + "x = (" * 1_000,
    "headings": "# " * 500 + "deep",
    "rules": "---\n" * 300,
    "references": "[a]: http://owned.example\n" * 200 + "[a]" * 200,
}
"""What takes a parser of Markdown its time."""

OWNED = re.compile(rb"owned\x07|owned\x1b|owned\x9c|owned\xc2\x9c")

_COLOUR = rb"(?:[34]8;(?:5;\d{1,3}|2;\d{1,3};\d{1,3};\d{1,3})|[0-9]{1,3})"
_SEQUENCES = (
    rb"\[(?:" + _COLOUR + rb"(?:;" + _COLOUR + rb")*)?m",  # colours and styles
    rb"\[\d+(?:;\d+)?H",  # where the cursor goes
    rb"\[\d*[ABCDJK]",
    rb"\[\?(?:25|7|1000|1003|1004|1006|1015|1049|2004|2026|2048)[hl]",  # modes that are taken and given back
    rb"\[\?(?:2026|2048)\$p",  # what the terminal can do
    rb"\[[<>]\d*u",  # the keyboard
    rb"\[>4;\d?m",
    rb"\]11;\?\x1b\\",  # which background it has
    rb"\]22;[a-z-]*\x07",  # the pointer's shape
    rb"\]52;c;[A-Za-z0-9+/=]*\x07",  # what was copied; no test but one copies
)
_GRAMMAR = re.compile(rb"\x1b(?:" + rb"|".join(_SEQUENCES) + rb")")
_FORBIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u2800\u3164\ufe03-\ufe0d\ufeff\uffa0\ufff0-\ufffb\udc80-\udcff\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def outside_the_grammar(output: bytes) -> list[str]:
    """What a terminal was sent beside text and the sequences that Textual itself writes; bytes that are no UTF-8, too.

    The list is empty if all is well; else it holds each piece with what stands around it.
    """
    return forbidden(_GRAMMAR.sub(b"", output))


def forbidden(data: bytes) -> list[str]:
    """What steers a terminal or hides from a reader, each piece with what stands around it; bytes that are no UTF-8, too."""
    text = data.decode("utf-8", "surrogateescape")
    return [ascii(text[max(hit.start() - 30, 0) : hit.end() + 30]) for hit in _FORBIDDEN.finditer(text)]
