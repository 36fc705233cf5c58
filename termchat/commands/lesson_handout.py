"""`termchat learn export`: a handout of lessons with the reader's own guesses and results, as Markdown or as one HTML page.

Texts of a model and of a person are shown and never live: nothing in them is a tag, a link or an image there.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from termchat import atomic, paths, regular_files
from termchat.chat.groups import list_groups
from termchat.chat.reply_group import ReplyGroup
from termchat.conversation.store.database import StoreError
from termchat.conversation.store.store import Store
from termchat.conversation.transcripts.inert import make_inert
from termchat.conversation.tree import Conversation, Node
from termchat.conversation.walk_groups import RANKED
from termchat.decoding.records import Ranked
from termchat.lessons.glossary import UnknownTerm, find
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
KeyOf = Callable[[str], str]


class HandoutError(Exception):
    """A handout that cannot be written; the message says why."""


class HandoutStep(NamedTuple):
    """One step. `guess` is the reader's and the truth, "" without one; `notes` are those for a presenter."""

    text: str
    question: str
    guess: str
    picture: Path | None
    notes: str = ""


class HandoutReply(NamedTuple):
    """A message and a reply to it, with its figures in a line."""

    message: str
    reply: str
    figures: str


class HandoutLesson(NamedTuple):
    """One lesson in a handout."""

    title: str
    learned: str
    next: str
    standing: str
    steps: tuple[HandoutStep, ...]
    replies: tuple[HandoutReply, ...]
    terms: tuple[tuple[str, str], ...]


def handout_of(
    lesson: Lesson,
    state: LessonState,
    key_of: KeyOf,
    replies: Sequence[HandoutReply] = (),
    pictures: Path | None = None,
) -> HandoutLesson:
    """`pictures` is the folder where the screen of each step may be kept."""
    guesses = {guess.step: guess for guess in state.guesses}
    folder = pictures or paths.lesson_pictures_folder()
    steps = []
    for at, step in enumerate(lesson.steps):
        question = step.question
        told = _told(question, guesses[at], key_of) if question is not None and at in guesses else ""
        asked = question.ask.fill_keys(key_of) if question is not None else ""
        picture = folder / lesson.id / f"{at + 1:02}.svg"
        shown = picture if picture.is_file() else None
        steps.append(HandoutStep(step.text.fill_keys(key_of), asked, told, shown, step.notes.fill_keys(key_of)))
    standing = (
        "done" if state.done else f"up to step {state.step + 1} of {len(lesson.steps)}" if state.step else "not begun"
    )
    terms = []
    for term in lesson.terms:
        try:
            terms.append((term, find(term).text))
        except UnknownTerm:
            continue
    return HandoutLesson(
        lesson.title, lesson.learned.fill_keys(key_of), lesson.next.fill_keys(key_of), standing, tuple(steps), tuple(replies),
        tuple(terms),
    )  # fmt: skip


def _told(question: LessonQuestion, guess: Guess, key_of: KeyOf) -> str:
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


def write(file: Path, lessons: Sequence[HandoutLesson], *, replace: bool = False) -> list[Path]:
    """Write the handout in the format of the file's ending, .md or .html; the pictures of a Markdown file lie beside it.
    Returns what was written.

    Raises:
        HandoutError: it is another ending, the file exists, or it cannot be written.
    """
    writer = {".md": _markdown, ".html": _html, ".htm": _html}.get(file.suffix.lower())
    if writer is None:
        raise HandoutError(f"{file.name}: a handout is a .md or an .html file")
    try:
        if kind := regular_files.odd_kind(file):
            raise regular_files.NotAFile(file, kind)
        if not replace and file.exists():  # before a picture takes the place of another
            raise FileExistsError(file)
        pictures: dict[Path, Path] = {}
        if writer is _markdown:
            pictures = _copied(file, lessons)
        if not file.parent.is_dir():
            file.parent.mkdir(parents=True)
        with atomic.writing(file, overwrite=replace) as stream:
            stream.write("\n".join(writer(lessons, pictures)).encode("utf-8", "replace") + b"\n")
    except FileExistsError as error:
        if not file.parent.is_dir():
            raise HandoutError(f"{file} cannot be written: {file.parent} is not a folder") from error
        raise HandoutError(f"{file} already exists; pass --force to replace it") from None
    except OSError as error:
        raise HandoutError(f"{file} cannot be written: {regular_files.problem(error)}") from error
    return [file, *pictures.values()]


def _copied(file: Path, lessons: Sequence[HandoutLesson]) -> dict[Path, Path]:
    """Copies of the pictures beside a file, by where they are kept."""
    folder = file.with_name(f"{file.stem}-pictures")
    kept = [step.picture for lesson in lessons for step in lesson.steps if step.picture is not None]
    found = {}
    for path in kept:
        if (data := _picture(path)) is not None:
            copy = folder / f"{path.parent.name}-{path.name}"
            atomic.replace(copy, data)
            found[path] = copy
    return found


def _picture(path: Path) -> bytes | None:
    try:
        return regular_files.read(path, _MOST_PICTURE)
    except OSError:
        return None


# --- Markdown ---------------------------------------------------------------------------------------------------------


def _markdown(lessons: Sequence[HandoutLesson], pictures: Mapping[Path, Path]) -> Iterator[str]:
    yield "# What a model does to choose a word"
    for lesson in lessons:
        yield from ("", f"## {_line(lesson.title)}", "", f"*{_line(lesson.standing)}*")
        for number, step in enumerate(lesson.steps, 1):
            yield from ("", f"{number}. {_typed_line(step.text)}")
            if step.question:
                yield from (
                    "",
                    f"   {_line(step.question)} {('**' + _line(step.guess) + '**') if step.guess else ''}".rstrip(),
                )
            if step.notes:
                yield from ("", f"   *{_line(step.notes)}*")
            if (copy := pictures.get(step.picture or Path())) is not None:
                yield from ("", f"   ![Step {number}](<{copy.parent.name}/{copy.name}>)")
        if lesson.replies:
            yield from ("", "### Your results")
        for reply in lesson.replies:
            asked = "".join(f"> {line}\n" for line in reply.message.splitlines())
            yield from (
                "",
                *_fenced(f"{asked}\n{reply.reply}" if asked else reply.reply),
                "",
                f"*{_line(reply.figures)}*",
            )
        yield from ("", f"**Learned:** {_typed_line(lesson.learned)}")
        if lesson.next:
            yield from ("", f"**Next:** {_typed_line(lesson.next)}")
        if lesson.terms:
            yield ""
            yield from (f"- **{_line(term)}**: {_line(text)}" for term, text in lesson.terms)


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
.small{color:#555}dt{font-weight:bold}section{break-before:page}section:first-of-type{break-before:auto}
@media (prefers-color-scheme:dark){body{color:#e6e6e6;background:#161616}pre{background:#222}.small{color:#aaa}}"""

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def _html(lessons: Sequence[HandoutLesson], _: Mapping[Path, Path]) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>What a model does to choose a word</title>\n<style>{_STYLE}</style>\n</head>\n<body>"
    yield "<h1>What a model does to choose a word</h1>"
    for lesson in lessons:
        yield f'<section>\n<h2>{_safe(lesson.title)}</h2>\n<p class="small">{_safe(lesson.standing)}</p>\n<ol>'
        for number, step in enumerate(lesson.steps, 1):
            yield f"<li><p>{_typed(step.text)}</p>"
            if step.question:
                yield f"<p>{_safe(step.question)} {f'<strong>{_safe(step.guess)}</strong>' if step.guess else ''}</p>"
            if step.notes:
                yield f'<p class="small">{_safe(step.notes)}</p>'
            data = _picture(step.picture) if step.picture is not None else None
            if data is not None:
                yield f'<p><img alt="Step {number}" src="data:image/svg+xml;base64,{base64.b64encode(data).decode()}"></p>'
            yield "</li>"
        yield "</ol>"
        if lesson.replies:
            yield "<h3>Your results</h3>"
        for reply in lesson.replies:
            message = f"<strong>{_safe(reply.message)}</strong>\n\n" if reply.message else ""
            yield f'<pre>{message}{_safe(reply.reply)}</pre>\n<p class="small">{_safe(reply.figures)}</p>'
        yield f"<p><strong>Learned:</strong> {_typed(lesson.learned)}</p>"
        if lesson.next:
            yield f"<p><strong>Next:</strong> {_typed(lesson.next)}</p>"
        if lesson.terms:
            yield "<dl>"
            yield from (f"<dt>{_safe(term)}</dt><dd>{_safe(text)}</dd>" for term, text in lesson.terms)
            yield "</dl>"
        yield "</section>"
    yield "</body>\n</html>"


def _safe(text: str) -> str:
    return escape(sanitize(text))


def _typed(text: str) -> str:
    """Mark the texts to type."""
    return re.sub(r"`(.+?)`", r"<code>\1</code>", _safe(text))
