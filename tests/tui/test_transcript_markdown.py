"""The reading look's Markdown: what is shown for it, and how a long or streaming text is cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from termchat.tui.draw.ink import Ink
from termchat.tui.transcript.chunks import CODE_LINES, LIMIT, Chunk, Splitter
from termchat.tui.transcript.markdown import render_markdown
from tests.tui.transcripts import LONG, bits


def markdown(source: str, width: int = 60) -> list[str]:
    splitter = Splitter()
    splitter.feed(source)
    chunks = [*splitter.finished(), *splitter.open(done=True)]
    lines = [
        line
        for chunk in chunks
        for line in render_markdown(chunk.head + chunk.source, width, chunk.indent, hidden=2 if chunk.head else 0)
    ]
    return [line.text.rstrip() for line in lines]


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("# One\n## Two\nText", ["One", "Two", "Text"]),
        ("- a\n- b\n  - c\n    - d\n- e", ["• a", "• b", "  ◦ c", "    ▪ d", "• e"]),
        ("1. a\n2. b\n\n   more of b\n10) c", ["1. a", "2. b", "", "   more of b", "10) c"]),
        ("1. a\n   - b\n     1. c", ["1. a", "   • b", "     1. c"]),
        ("> a\n> b\n>> c", ["▎ a", "▎ b", "▎ ▎ c"]),
        ("> - a\n>\n> b", ["▎ • a", "▎", "▎ b"]),
        ("Roses are *red\nand* blue,\nviolets too.", ["Roses are red", "and blue,", "violets too."]),
        ("- Yours,\n  Ann", ["• Yours,", "  Ann"]),
        ("a\n\n---\n\nb", ["a", "─" * 60, "b"]),
        ("Title\n=====", ["Title"]),
        ("[a](http://b.c) <http://d.e>", ["a (http://b.c) http://d.e"]),
        ("![fox](fox.png) &amp; \\*x\\*  \nnext", ["fox (fox.png) & *x*", "next"]),
        ("<b>x</b> <script>", ["<b>x</b> <script>"]),
        ("[a]: http://b.c", ["[a]: http://b.c"]),
        ("- ```py\n  x = 1\n  ```", ["• py", "  x = 1"]),
        ("    x = 1\n    y = 2", ["x = 1", "y = 2"]),
        ("Steps:\n1. a\nText:\n- b", ["Steps:", "1. a", "   Text:", "• b"]),
        ("-", ["•"]),
        ("- [ ] a\n- [x] b\n  - [X] c\n- d\n1. [ ] e", ["[ ] a", "[x] b", "    [X] c", "• d", "[ ] e"]),
        ("<div>\n<b>x</b>\n</div>", ["<div>", "<b>x</b>", "</div>"]),
        (
            r"$a_1 * b_2 * c$ and \(x_{i} \\ y\) cost $5, not $6",
            [r"$a_1 * b_2 * c$ and \(x_{i} \\ y\) cost $5, not $6"],
        ),
        ("Sum[^1].\n\n[^1]: a note", ["Sum[^1].", "", "[^1]: a note"][::2]),
    ],
)
def test_markdown_constructs(source: str, shown: list[str]) -> None:
    assert markdown(source) == shown


def test_list_items_and_quotes_wrap_behind_their_marker() -> None:
    assert markdown("- one two three\n> four five six", 10) == ["• one two", "  three", "▎ four", "▎ five six"]


def test_tables_are_aligned_by_cells() -> None:
    source = "| animal | legs | says |\n|:--|--:|:-:|\n| fox | 4 | **x** |\n| 狐狸 | 40 | yes |"
    assert markdown(source) == [
        "animal │ legs │ says",
        "───────┼──────┼─────",
        "fox    │    4 │  x",
        "狐狸   │   40 │ yes",
    ]


def test_tables_that_are_too_wide_wrap_or_give_up_their_columns() -> None:
    source = "| a | b |\n|--|--|\n| one two three four | x |"
    assert markdown(source, 14) == ["a          │ b", "───────────┼──", "one two    │ x", "three four │"]
    many = "|" + "abcdef|" * 9 + "\n|" + "-|" * 9
    assert all(cell_len(line) <= 30 for line in markdown(many, 30))
    assert " ".join(markdown(many, 30)).count("abcdef") == 9


def test_a_table_too_wide_is_told_row_by_row_with_its_columns_names() -> None:
    names = "|" + "".join(f"name{n}|" for n in range(9)) + "\n|" + "-|" * 9
    shown = markdown(f"{names}\n|{'x|' * 9}\n|{'y|' * 9}", 30)
    rule = "─" * 30
    assert shown == [rule, *(f"name{n}: x" for n in range(9)), rule, *(f"name{n}: y" for n in range(9))]


def test_a_long_table_has_one_head_and_straight_columns() -> None:
    rows = "".join(f"| row {n:04} | a **fox** | [x](http://y.z) |\n" for n in range(2000))
    shown = markdown(f"| number | what | where |\n|---|---|---|\n{rows}")
    assert len(shown) == 2002
    assert len({tuple(at for at, char in enumerate(line) if char in "│┼") for line in shown}) == 1


def inks(source: str) -> dict[str, Ink]:
    return {text: ink for line in render_markdown(source, 60) for text, ink in line.runs}


def test_emphasis_is_painted() -> None:
    found = inks("a **b** *c* ~~d~~ `e` [f](http://g) ***h***")
    assert found["b"].bold
    assert found["c"].italic
    assert found["d"].strike
    assert found["e"].color == "code"
    assert (found["f"].color, found["f"].underline) == ("link", True)
    assert found[" (http://g)"].color == "muted"
    assert found["h"].bold
    assert found["h"].italic
    assert found["a "] == Ink()


def test_the_six_headings_differ() -> None:
    found = inks("\n".join(f"{'#' * level} level{level}" for level in range(1, 7)))
    assert len(set(found.values())) == 6


def test_addresses_and_mathematics_stand_out_and_nothing_of_them_is_lost() -> None:
    found = inks("see https://a.b/c_d_e?f=1. So $a*b$ and $c*d$; [x](http://y) done[^1]")
    assert found["https://a.b/c_d_e?f=1"].underline
    assert found["$a*b$"] == found["$c*d$"] == Ink("code")
    assert found["[^1]"].color == "link"
    assert "http://y" not in found, "the text of a link is no second link"


def test_code_is_highlighted_on_its_own_ground() -> None:
    lines = render_markdown('```python\ndef f():\n    return "x"  # y\n```', 60)
    assert [line.ground for line in lines] == ["code_background"] * 3
    colors = {text.strip(): ink.color for line in lines for text, ink in line.runs}
    assert colors["def"] == colors["return"] == "code_keyword"
    assert colors["f"] == "code_name"
    assert colors["# y"] == "code_comment"
    assert {ink.color for text, ink in lines[2].runs if "x" in text} == {"code_string"}


markdown_text = st.lists(bits, max_size=30).map("".join)


def split(text: str, cuts: list[int]) -> list[Chunk]:
    splitter = Splitter()
    chunks = []
    for begin, end in pairwise((0, *cuts, len(text))):
        splitter.feed(text[begin:end])
        chunks += splitter.finished()
        splitter.open()
    return [*chunks, *splitter.open(done=True)]


@given(markdown_text, st.data())
def test_chunks_do_not_depend_on_how_the_text_comes(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=10)))
    chunks = split(text, cuts)
    assert chunks == split(text, [])
    for one, other in pairwise(chunks):
        assert one.start <= one.end <= other.start
    between = [text[one.end : other.start] for one, other in pairwise(chunks)]
    assert not "".join(between).strip()


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_no_chunk_grows_without_end(text: str) -> None:
    for chunk in split(text, []):
        assert len(chunk.source) <= 5 * LIMIT
        assert chunk.kind != "code" or chunk.source.count("\n") <= CODE_LINES[2]


def test_a_cut_block_looks_as_if_it_were_whole() -> None:
    assert markdown(LONG["list item"])[-1].startswith("  more of it")
    assert markdown(LONG["nested list"])[-1] == "   • nested item"
    assert markdown(LONG["quote"])[-1].startswith("▎ quoted")
    assert markdown(LONG["table"])[-1] == "cell │ cell"
    code = split("```python\n" + 'x = """\n\n\n' * 8 + "y = 1\n" * 100, [])
    assert all(chunk.source.count('"""') % 2 == 0 for chunk in code)
    assert "".join(markdown(LONG["paragraph"])).count("word") == 4000


def test_mathematics_of_many_lines_stays_as_it_is() -> None:
    source = "\\[\na = b\n+ c_1 \\\\ d_2\n= 3\n\\]\n\n$$\nx\n$$\nand on"
    (first, second, text) = split(source, [])
    assert (first.kind, first.source.strip()) == ("math", "\\[\na = b\n+ c_1 \\\\ d_2\n= 3\n\\]")
    assert (second.kind, second.source.strip()) == ("math", "$$\nx\n$$")
    assert text.kind == "paragraph"
    assert [chunk.kind for chunk in split("$$ never closed\n\n# a heading", [])] == ["math", "line"]
