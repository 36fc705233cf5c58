"""`termchat learn export`: a handout of lessons with the reader's own guesses and results, as Markdown or as one HTML page.

Texts of a model and of a person are shown and never live: nothing in them is a tag, a link or an image there.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Literal, NamedTuple

from termchat import atomic, paths, regular_files
from termchat.chat.groups import list_groups
from termchat.chat.reply_group import ReplyGroup
from termchat.conversation.store.database import StoreError
from termchat.conversation.store.store import Store
from termchat.conversation.transcripts.inert import make_inert
from termchat.conversation.tree import Conversation, Node
from termchat.conversation.walk_groups import RANKED
from termchat.decoding.records import Ranked
from termchat.lessons.glossary import find, is_term
from termchat.lessons.lesson import Lesson, LessonQuestion, LessonText
from termchat.lessons.lesson_facts import ReplyFacts, finished_replies
from termchat.lessons.playing import Guess, LessonState
from termchat.text import one_line, sanitize

_MOST_PICTURE = 4 << 20
"""Bytes of a picture."""
_MOST_REPLIES = 40
"""Of one lesson."""
_LONGEST_ANSWER = 60
"""Cells of what a vote found."""
_TITLE = "What a model does to choose a word"
KeyOf = Callable[[str], str]


class HandoutError(Exception):
    """A handout that cannot be written; the message says why."""


class HandoutReply(NamedTuple):
    """A message and a reply to it, with its figures in a line."""

    message: str
    reply: str
    figures: str


class HandoutBlock(NamedTuple):
    """A paragraph of a handout, set as its kind is. `more` is what stands beside the text: the number of a step or of its
    picture, the guess, the message of a reply, the name of a label, and the sentence of a term."""

    kind: Literal["lesson", "small", "step", "question", "note", "picture", "heading", "reply", "label", "term"]
    text: str
    more: str = ""


def handout_of(
    lesson: Lesson,
    state: LessonState,
    key_of: KeyOf,
    replies: Sequence[HandoutReply] = (),
    pictures: Path | None = None,
) -> list[HandoutBlock]:
    """List the blocks of a lesson; `pictures` is the folder where the screen of each step may be kept."""
    guesses = {guess.step: guess for guess in state.guesses}
    folder = (pictures or paths.lesson_pictures_folder()) / lesson.id
    standing = f"up to step {state.step + 1} of {len(lesson.steps)}" if state.step else "not begun"
    blocks = [HandoutBlock("lesson", lesson.title), HandoutBlock("small", "done" if state.done else standing)]
    for at, step in enumerate(lesson.steps):
        blocks.append(HandoutBlock("step", step.text.fill_keys(key_of), str(at + 1)))
        if step.question is not None:
            guess = _describe_guess(step.question, guesses[at], key_of) if at in guesses else ""
            blocks.append(HandoutBlock("question", step.question.ask.fill_keys(key_of), guess))
        if step.notes:
            blocks.append(HandoutBlock("note", step.notes.fill_keys(key_of)))
        blocks.append(HandoutBlock("picture", str(folder / f"{at + 1:02}.svg"), str(at + 1)))
    if replies:
        blocks.append(HandoutBlock("heading", "Your results"))
    for reply in replies:
        blocks += [HandoutBlock("reply", reply.reply, reply.message), HandoutBlock("small", reply.figures)]
    blocks.append(HandoutBlock("label", lesson.learned.fill_keys(key_of), "Learned"))
    if lesson.next:
        blocks.append(HandoutBlock("label", lesson.next.fill_keys(key_of), "Next"))
    return [*blocks, *(HandoutBlock("term", term, find(term).text) for term in lesson.terms if is_term(term))]


def _describe_guess(question: LessonQuestion, guess: Guess, key_of: KeyOf) -> str:
    """ "You said: 40 %; it was: 3 %" """

    def shown(number: float) -> str:
        return LessonText(question.describe(number)).fill_keys(key_of)

    truth = "what came is not known" if guess.truth is None else f"it was: {shown(guess.truth)}"
    return f"You said: {shown(guess.guess)}; {truth} ({guess.date[:10]})"


def replies_of(store: Store, lesson: str) -> list[HandoutReply]:
    """List the replies of the chat in which a lesson was played last; none where there is no such chat, or it cannot be
    read."""
    try:
        session = store.of_lesson(lesson)
        if session is None:
            return []
        conversation = store.load(session).conversation
    except StoreError:
        return []
    found = []
    for node, group in _results(conversation)[:_MOST_REPLIES]:
        reply = ReplyFacts(conversation, node)
        seed, perplexity = reply.fact("seed_used"), reply.fact("perplexity")
        figures = [group] if group else []
        figures += [f"{len(reply.ids)} token{'s' * (len(reply.ids) != 1)}"]
        figures += [f"temperature {value:g}"] if isinstance(value := reply.fact("used", "temperature"), float) else []
        figures += [f"seed {seed:.0f}"] if isinstance(seed, (int, float)) else []
        figures += [f"perplexity {perplexity:.2f}"] if isinstance(perplexity, float) else []
        found.append(HandoutReply(reply.message() or "", reply.reply(), ", ".join(figures)))
    return found


def _results(conversation: Conversation) -> list[tuple[Node, str]]:
    """List the replies that are over, in the order in which they were made. Of each group it is one, and what it stands for:
    the best one, or where none is better, that from which the chat went on."""
    found = [(node, "") for node in finished_replies(conversation)]
    shown = {span.node.number for span in conversation.find_path()}
    for group in list_groups(conversation):
        walks = {walk: node for walk, node in group.nodes.items() if node.finished is not None}
        if not walks:
            continue
        count = len(group.nodes)
        ranked = group.rank_replies().walks if group.group.kind in RANKED else []
        if (best := next((one for one in ranked if one.walk in walks), None)) is not None:
            found.append((walks[best.walk], _best(best, group, count)))
            continue
        gone_on = [
            walk for walk, node in walks.items() if node.number in shown or conversation.list_children(node.number)
        ]
        walk = next(iter([*gone_on, *walks]))
        label = f" ({group.labels[walk]})" if group.labels[walk] else ""
        found.append((walks[walk], f"walk {walk + 1} of {count}{label}"))
    return sorted(found, key=lambda one: one[0].number)


def _best(best: Ranked, group: ReplyGroup, count: int) -> str:
    if group.group.kind == "vote":
        votes = f"{best.votes} vote{'s' * (best.votes != 1)}"
        won = f"{one_line(best.answer, _LONGEST_ANSWER)}, {votes}" if best.answer is not None else "no answer"
        return f"a vote of {count}: {won}"
    beams = group.group.beams
    of = f"{beams.width} beams" if beams is not None else str(count)
    return f"the best of {of}" + (f", score {best.score:.2f}" if best.score is not None else "")


def write(file: Path, lessons: Sequence[Sequence[HandoutBlock]], *, replace: bool = False) -> list[Path]:
    """Write the handout in the format of the file's ending, .md or .html; the pictures of a Markdown file lie beside it.
    Returns what was written.

    Raises:
        HandoutError: it is another ending, the file exists, or it cannot be written.
    """
    render = {".md": _render_markdown, ".html": _render_html, ".htm": _render_html}.get(file.suffix.lower())
    if render is None:
        raise HandoutError(f"{file.name}: a handout is a .md or an .html file")
    blocks, copies, sources = [block for lesson in lessons for block in lesson], list[Path](), dict[str, str]()
    try:
        if kind := regular_files.odd_kind(file):
            raise regular_files.NotAFile(file, kind)
        if not replace and file.exists():  # before a picture takes the place of another
            raise FileExistsError(file)
        for picture in (Path(block.text) for block in blocks if block.kind == "picture"):
            try:
                data = regular_files.read(picture, _MOST_PICTURE)
            except OSError:
                continue
            if render is _render_markdown:
                copies.append(file.with_name(f"{file.stem}-pictures") / f"{picture.parent.name}-{picture.name}")
                atomic.replace(copies[-1], data)
                sources[str(picture)] = f"{copies[-1].parent.name}/{copies[-1].name}"
            else:
                sources[str(picture)] = f"data:image/svg+xml;base64,{base64.b64encode(data).decode()}"
        if not file.parent.is_dir():
            file.parent.mkdir(parents=True)
        with atomic.writing(file, overwrite=replace) as stream:
            stream.write("\n".join(render(blocks, sources)).encode("utf-8", "replace") + b"\n")
    except FileExistsError as error:
        if not file.parent.is_dir():
            raise HandoutError(f"{file} cannot be written: {file.parent} is not a folder") from error
        raise HandoutError(f"{file} already exists; pass --force to replace it") from None
    except OSError as error:
        raise HandoutError(f"{file} cannot be written: {regular_files.problem(error)}") from error
    return [file, *copies]


# --- Markdown ---------------------------------------------------------------------------------------------------------


def _render_markdown(blocks: Sequence[HandoutBlock], sources: Mapping[str, str]) -> Iterator[str]:
    yield f"# {_TITLE}"
    for kind, text, more in blocks:
        yield ""
        match kind:
            case "lesson":
                yield f"## {_line(text)}"
            case "heading":
                yield f"### {_line(text)}"
            case "step":
                yield f"{more}. {_typed_line(text)}"
            case "question":
                yield f"   {_line(text)} {f'**{_line(more)}**' if more else ''}".rstrip()
            case "note":
                yield f"   *{_line(text)}*"
            case "picture" if text in sources:
                yield f"   ![Step {more}](<{sources[text]}>)"
            case "small":
                yield f"*{_line(text)}*"
            case "reply":
                asked = "".join(f"> {line}\n" for line in more.splitlines())
                yield from _fenced(f"{asked}\n{text}" if asked else text)
            case "label":
                yield f"**{more}:** {_typed_line(text)}"
            case "term":
                yield f"- **{_line(text)}**: {_line(more)}"


def _line(text: str) -> str:
    """Text on one line, without what Markdown would take for more than text."""
    plain = " ".join(sanitize(text, keep="").split())
    return re.sub(r"([\\`*_\[\]<>#|~])", r"\\\1", plain).replace("&", "&amp;").replace("!\\[", "\\!\\[")


def _typed_line(text: str) -> str:
    """Write a line in which texts to type are code, where nothing needs a backslash."""

    def code(found: re.Match[str]) -> str:
        plain = re.sub(r"\\(.)", r"\1", found[1]).replace("&amp;", "&")
        return f"`{plain}`"

    return re.sub(r"\\`(.+?)\\`", code, _line(text))


def _fenced(text: str) -> list[str]:
    """Put a text into a block of code, in which nothing is live."""
    shown = sanitize(text)
    longest = max((len(run) for run in re.findall(r"`{3,}", shown)), default=2)
    fence = "`" * (longest + 1)
    return make_inert("\n".join([f"{fence}text", *shown.split("\n"), fence])).split("\n")


# --- HTML -------------------------------------------------------------------------------------------------------------

_STYLE = """body{font:1rem/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem}
body{color:#1a1a1a;background:#fff}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f4f4f4;padding:.7rem}img{max-width:100%}
.small{color:#555}.step{margin-left:40px}h2{break-before:page}h2:first-of-type{break-before:auto}
@media (prefers-color-scheme:dark){body{color:#e6e6e6;background:#161616}pre{background:#222}.small{color:#aaa}}"""

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def _render_html(blocks: Sequence[HandoutBlock], sources: Mapping[str, str]) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{_TITLE}</title>\n<style>{_STYLE}</style>\n</head>\n<body>"
    yield f"<h1>{_TITLE}</h1>"
    for kind, text, more in blocks:
        match kind:
            case "lesson":
                yield f"<h2>{_safe(text)}</h2>"
            case "heading":
                yield f"<h3>{_safe(text)}</h3>"
            case "step":
                yield f'<ol start="{more}"><li>{_typed(text)}</li></ol>'
            case "question":
                yield f'<p class="step">{_safe(text)} {f"<strong>{_safe(more)}</strong>" if more else ""}</p>'
            case "note":
                yield f'<p class="small step">{_safe(text)}</p>'
            case "picture" if text in sources:
                yield f'<p class="step"><img alt="Step {more}" src="{sources[text]}"></p>'
            case "small":
                yield f'<p class="small">{_safe(text)}</p>'
            case "reply":
                yield f"<pre>{f'<strong>{_safe(more)}</strong>' + chr(10) * 2 if more else ''}{_safe(text)}</pre>"
            case "label":
                yield f"<p><strong>{more}:</strong> {_typed(text)}</p>"
            case "term":
                yield f"<p><strong>{_safe(text)}</strong>: {_safe(more)}</p>"
    yield "</body>\n</html>"


def _safe(text: str) -> str:
    return escape(sanitize(text))


def _typed(text: str) -> str:
    """Mark the texts to type."""
    return re.sub(r"`(.+?)`", r"<code>\1</code>", _safe(text))
