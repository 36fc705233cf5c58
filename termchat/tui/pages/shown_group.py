"""A group as the view shows it: its tokens, read as they come, its pages, and the lines that say which replies it has."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.cells import cell_len

from termchat.chat.reply_group import ReplyGroup
from termchat.chat.service import Chat
from termchat.conversation.node import Node
from termchat.conversation.setting_changes import list_values
from termchat.decoding.group import GroupKind
from termchat.decoding.records import Reason, Token
from termchat.decoding.samplers import KNOBS, Value
from termchat.decoding.walk_figures import GroupFigures, TrieStretch, WalkFigures
from termchat.decoding.walk_plan import shown_value
from termchat.text import cells, one_line
from termchat.tui.draw.ink import Ink, Line, Run, doing
from termchat.tui.draw.marks import (
    ACCENT,
    FAINT,
    MUTED,
    STRONG,
    TEXT,
    column,
    format_number,
    length,
    mark_bound,
    percent,
    spread,
)
from termchat.tui.draw.wrap import wrap_runs
from termchat.tui.pages.grid_table import GAP, Cell, GridColumn, GridTable
from termchat.tui.pages.scene import Page, Scene, texts_between
from termchat.tui.transcript.looks import Look, token_inks

TEXT_PAGE = "text"
"""The name of the page that the view has widgets for."""
FEWEST = 16
"""Steps from which on a rate can be compared with another."""

_ENDED: dict[Reason, str] = {
    "end": "end", "length": "max_tokens", "stop": "stop sequence", "rule": "rule", "user": "stopped", "context": "context full",
}  # fmt: skip
"""How a reply ended, in a column."""
_TITLES: dict[GroupKind, str] = {
    "walks": "WALKS", "grid": "GRID", "compare": "A/B", "best": "BEST OF", "vote": "VOTE", "beams": "BEAMS",
}  # fmt: skip
_HEAD = Ink("accent", bold=True)
_HERE = Ink("text", ground="panel", bold=True)
_STEPS = 32
"""The newest steps, over which a rate is computed."""
_READ = 6
"""Times as many characters are read from the end of a text as there are cells for it: then it is surely full."""
_NOUN = " walks"
_VARIED = 12
"""Cells that are kept for what varies."""
_DIGITS, _LABEL, _STATE = 3, 24, 7
"""Cells of a walk's number in a list, of its label, at most, and of its state."""
_LEAST, _ENDING = 6, 13
"""Cells of numbers in the table, at least, and of how a walk ended. Numbers do not make a column wider while they grow."""


class ShownGroup:
    """Tokens are counted from where the walks begin, also in walks that joined later.

    `figures` has the trie and the numbers of the tokens that were read, `labels` what sets each walk apart. The text shows the
    walks of `only`, or all if that is empty.
    """

    def __init__(self, chat: Chat, group: ReplyGroup, look: Look) -> None:
        self.chat, self.group, self.look = chat, group, look
        self.figures = GroupFigures()
        self.labels: dict[int, str] = {}
        self.only: Sequence[int] = ()
        self.pages: dict[str, Page] = {}
        self.page = Page()
        self.stretches: Sequence[TrieStretch] = ()
        """The runs of tokens of the trie, as they were last read."""
        self._varied: dict[str, list[Value]] = {}
        """The newest values of each knob that is not the same for all walks, in their order."""
        alone = (
            node.finished.tokens_per_second
            for _, node in sorted(chat.conversation.nodes.items(), reverse=True)
            if node.start is not None and node.start.group is None
            if node.finished is not None and node.finished.tokens >= FEWEST
        )
        self._alone = next(alone, None)
        """Tokens a second of the newest single reply of some length."""

    @property
    def cursor(self) -> int:
        """The number of the walk under the cursor."""
        return self.group.cursor

    @property
    def walks(self) -> list[int]:
        """The numbers of the walks whose text is shown."""
        only = [walk for walk in self.only if walk in self.group.nodes]
        return only if self.cursor in only else sorted(self.group.nodes)

    # --- tokens ------------------------------------------------------------------------------------------------------

    def read(self) -> None:
        """Read the tokens that came since the last time."""
        self._name_walks()
        for walk in self.group.nodes:
            self.figures.add(walk)
            known, before = self.figures.of[walk].tokens, 0
            for span in self.group.list_spans(walk):
                tokens = span.node.tokens
                for at in range(max(known - before, 0), span.count):
                    self.figures.append_token(walk, tokens.ids[at], tokens.logprobs[at], tokens.entropies[at])
                before += span.count
        self.stretches = list(self.figures.trie.stretches())

    def _name_walks(self) -> None:
        """Find what sets each walk apart: the knobs that do, as they are now; of a grid the run; of one that joined where it
        comes from; where nothing does its seed."""
        plan, nodes = self.group.group, self.group.nodes
        known = {walk: list_values(node.settings[-1]) for walk, node in nodes.items() if node.settings}
        columns = {name: [values[name] for values in known.values() if name in values] for name in KNOBS}
        self._varied = {name: values for name, values in columns.items() if any(value != values[0] for value in values)}
        for walk, node in nodes.items():
            values = known.get(walk, {})
            names = [
                f"{KNOBS[name].label} {shown_value(KNOBS[name], values[name])}"
                for name in self._varied
                if name in values
            ]
            if walk >= plan.size:
                names.insert(0, self.group.labels[walk])
            elif plan.runs > 1 and plan.kind == "grid":
                names.append(f"run {walk % plan.runs + 1}")
            self.labels[walk] = " · ".join(names) or (f"seed {node.start.seed}" if node.start is not None else "")

    def read_record(self, node: int, at: int) -> Token | None:
        """Return the record of a token of a node."""
        return self.chat.session.read_token(self.group.conversation.nodes[node], at)

    def texts(self, walk: int, begin: int, end: int) -> list[str]:
        """List the texts of the tokens of a walk from `begin` to before `end`."""
        return texts_between(self.group.list_spans(walk), begin, end)

    def ending(self, walk: int) -> str:
        """Return the state or the ending of a walk in a word or two."""
        node = self.group.nodes[walk]
        if walk in self.group.paused:
            return "paused"
        if not node.done:
            return "running"
        return _ENDED[node.finished.reason] if node.finished is not None else "interrupted"

    # --- lines over all walks ----------------------------------------------------------------------------------------

    def title_line(self, width: int) -> Line:
        """Render the title: the kind of group, its number of walks and their settings, the rates, and the names of the pages,
        of which a click turns to one."""
        plan = self.group.group
        count = plan.beams.width if plan.beams is not None else len(self.group.nodes)
        left: list[Run] = [(f"{_TITLES[plan.kind]}  ", _HEAD), (str(count), STRONG)]
        tabs = [
            (f" {name} ", _HERE if page is self.page else MUTED._replace(does=f"walks('page', '{name}')"))
            for name, page in self.pages.items()
        ]
        rates = self._render_rates()
        while rates and length([*left, *rates, *tabs]) + _VARIED > width:
            rates.pop()
        right = [*rates, ("  ", MUTED), *tabs] if rates else tabs
        varied = "".join(f" · {one}" for one in [*self._list_varied(), *(["same dice"] if plan.same_dice else [])])
        room = width - length(left) - length(right) - 1
        if (
            plan.kind not in ("walks", "beams") and len(_NOUN) + cells(varied) <= room
        ):  # whose titles say what is counted
            varied = _NOUN + varied
        return Line(spread([*left, (one_line(varied, room), MUTED)], right, width))

    def _list_varied(self) -> list[str]:
        """List the knobs that differ, each with its values in order; of a search how it scores, and how far it is."""
        plan = self.group.group
        if plan.beams is not None:
            by = "after the chain" if plan.beams.after_chain else "by the model"
            step = [f"step {len(self.group.beams)}"] if self.group.beams else []
            return [*step, f"length penalty {plan.beams.length_penalty:g}", f"scores {by}"]
        planned = {knob.name: list[Value](knob.values) for knob in plan.knobs}
        separator = " " if planned else " | "
        return [
            f"{name} {separator.join(shown_value(KNOBS[name], value) for value in dict.fromkeys(values))}"
            for name, values in (planned or self._varied).items()
        ]

    def _render_rates(self) -> list[Run]:
        """Render the tokens a second of each running walk and of all together, over the newest steps; of an ended group the
        mean. A step takes its decode, which all share, and the draws of all."""
        group = self.group
        rate: list[Run] = []
        if group.ended is not None:
            total, steps = group.ended.tokens_per_second, group.ended.steps
        else:
            running = [node.tokens for node in group.nodes.values() if not node.done and len(node.tokens) > 1]
            decode = max((_newest_mean(tokens.decode_us) for tokens in running), default=0.0)
            step = decode + sum(_newest_mean(tokens.sample_us) for tokens in running)
            total = len(running) * 1e6 / step if step else 0.0
            steps = max(len(node.tokens) for node in group.nodes.values())
            rate = [(f"{1e6 / step:.0f} t/s each", TEXT)] if step else []
        if not total:
            return []
        rate.append((f"{' · ' if rate else ''}{total:.0f} t/s total", TEXT))
        if self._alone and steps >= FEWEST:
            rate.append((f" · {total / self._alone:.1f}× a single reply", MUTED))
        return rate

    def prompt_lines(self, width: int, rows: int) -> list[Line]:
        """Render the last lines of the prompt: of the message, or of the reply up to the token."""
        origin, nodes = self.group.origin, self.group.conversation.nodes
        if rows <= 0 or origin.node not in nodes:
            return []
        node = nodes[origin.node]
        text = (node.written if node.role == "user" else node.tokens.texts.join_texts(origin.at)).rstrip("\n")
        most = _READ * width * rows
        you = "you  " if node.role == "user" and len(text) <= most else ""
        lines = wrap_runs([(you, Ink("user", bold=True)), (text[-most:], MUTED)], width)
        if len(lines) > rows:
            first = Line((("… ", FAINT), (one_line(lines[-rows].text, width - 2), MUTED)))
            lines = [first, *lines[len(lines) - rows + 1 :]]
        return lines

    # --- lines of each walk ------------------------------------------------------------------------------------------

    def head_line(self, walk: int, width: int) -> Line:
        """Render the head of a walk's column: its number, from 1, its label and its state."""
        here = walk == self.cursor
        ink = _HERE if here else MUTED
        right = self._render_state(walk)
        left: list[Run] = [(f" {walk + 1} ", _HEAD._replace(ground="panel") if here else ACCENT)]
        left.append((one_line(self.labels[walk], max(width - length(left) - length(right) - 2, 0)), ink))
        gap = width - length(left) - length(right) - 2
        if gap >= 0:
            left += [(" ", ink), ("─" * gap, FAINT if not here else ink), (" ", ink), *right]
        return Line(tuple(doing(f"walks('choose', {walk + 1})", left)), "panel" if here else "")

    def list_lines(self, width: int, rows: int) -> list[Line]:
        """Render a line per walk, as many as fit around the cursor: its beginning in the look."""
        wide = _DIGITS + min(max(map(len, self.labels.values()), default=0), _LABEL)
        left = width - wide - _STATE - 2 * len(GAP)

        def name(walk: int) -> Cell:
            head, ink = (_HEAD, STRONG) if walk == self.cursor else (ACCENT, MUTED)
            return [(f"{walk + 1:>2} ", head), (column(self.labels[walk], wide - _DIGITS), ink)]

        columns: tuple[GridColumn[int], ...] = (
            GridColumn("", name, wide),
            GridColumn("", self._render_state, _STATE, right=True),
            GridColumn("", lambda walk: _render_beginning(self.group.nodes[walk], self.look, left), left),
        )
        return self._make_table(columns, self.walks).lines(width, rows)

    def _render_state(self, walk: int) -> list[Run]:
        """Render the number of tokens, and a sign of whether it runs, waits or is over."""
        node = self.group.nodes[walk]
        paused = walk in self.group.paused
        sign = ("❚❚", Ink("stamp")) if paused else ("■", MUTED) if node.done else ("●", Ink("success"))
        return [(f"{len(node.tokens)} ", MUTED), sign]

    def table_lines(self, width: int) -> list[Line]:
        """Render a head and a line of figures for each walk, then one for all of them. The walk under the cursor stands out;
        the last column counts the tokens that the others begin with as it does."""
        figures, trie = self.figures.of, self.figures.trie
        wide = min(max(map(len, self.labels.values()), default=0), _LABEL)

        def label(walk: int) -> Cell:
            here = walk == self.cursor
            name = column(self.labels[walk], wide)
            return [(f"{walk + 1:>3} ", ACCENT._replace(bold=here)), (name, STRONG if here else TEXT)]

        def figure(show: Callable[[WalkFigures], float | None]) -> Callable[[int], str]:
            return lambda walk: format_number(show(figures[walk]))

        def entropy(walk: int) -> str:
            mean = figures[walk].mean_entropy
            unlisted = max(span.node.tokens.most_unlisted for span in self.group.list_spans(walk))
            return "" if mean is None else mark_bound(mean, unlisted) + format_number(mean)

        def shared(walk: int) -> str:
            return "this" if walk == self.cursor else str(trie.count_common(walk, self.cursor))

        columns: tuple[GridColumn[int], ...] = (
            GridColumn("", label, wide + 4),
            GridColumn("tokens", lambda walk: str(figures[walk].tokens), right=True),
            GridColumn("ending", self.ending, _ENDING),
            GridColumn("mean logprob", figure(lambda one: one.mean_logprob), right=True, short="mean logp"),
            GridColumn("perplexity", figure(lambda one: one.perplexity), _LEAST, right=True, short="ppl", rank=1),
            GridColumn("entropy bits", entropy, right=True, short="entropy", rank=3),
            GridColumn("distinct-1", figure(lambda one: one.count_distinct(1)), right=True, short="dist-1", rank=4),
            GridColumn("-2", figure(lambda one: one.count_distinct(2)), _LEAST, right=True, short="dist-2", rank=2),
            GridColumn("-3", figure(lambda one: one.count_distinct(3)), _LEAST, right=True, short="dist-3", rank=3),
            GridColumn("shared", shared, right=True),
        )
        lines = self._make_table(columns, sorted(self.group.nodes)).lines(width)
        return [*lines, self._all_line(width)]

    def _make_table(self, columns: Sequence[GridColumn[int]], walks: Sequence[int]) -> GridTable[int]:
        """Make a table of walks, in which the one under the cursor stands out."""
        at = walks.index(self.cursor) if self.cursor in walks else -1
        return GridTable(columns, walks, at, lambda walk: f"walks('choose', {walk + 1})", marked=False)

    def _all_line(self, width: int) -> Line:
        """Render how many walks differ, where the first two part, and how much they are alike."""
        trie = self.figures.trie
        parted, shared, overlap = trie.first_parted, trie.shared, self.figures.self_overlap
        facts = [f"{trie.different} of {len(self.group.nodes)} different" if trie.different > 1 else "all alike"]
        facts.append(f"the first two part at token {parted + 1}" if parted is not None else "none part")
        facts += [f"{percent(shared, 0)} of tokens shared"] if shared is not None else []
        facts += [f"self-overlap {percent(overlap, 0)}"] if overlap is not None else []
        runs: list[Run] = []
        for fact in facts:
            more: list[Run] = [(" · " if runs else "", MUTED), (fact, MUTED if runs else TEXT)]
            if length([*runs, *more]) > width:
                break
            runs += more
        return Line(tuple(runs))


class GroupPage(Page):
    """A page of a group; this one is the text, which the view has widgets for."""

    name = TEXT_PAGE

    def __init__(self, shown: ShownGroup) -> None:
        self._shown = shown


class TablePage(GroupPage):
    name = "table"

    def lines(self, scene: Scene) -> list[Line]:
        return self._shown.table_lines(scene.width)


def _newest_mean(column: Sequence[int]) -> float:
    """Return the mean of the newest steps; the first token is none, since the prompt was decoded before it."""
    newest = column[max(len(column) - _STEPS, 1) :]
    return sum(newest) / len(newest)


def _render_beginning(node: Node, look: Look, width: int) -> list[Run]:
    """Render the beginning of a walk's text on one line, each token in the ink of its heat; a little more than has room."""
    tokens, used = node.tokens, 0
    texts: list[str] = []
    begin = end = 0
    most = min(len(tokens), 2 * max(width, 0))  # more do not fit, as hardly any has no cells
    while end < most and used <= width:
        text = one_line(tokens.texts[end], width)
        end += 1
        if texts or text.strip():
            texts.append(text)
            used += cell_len(text)
        else:
            begin = end
    inks = token_inks(tokens, look, begin, end) if look != "reading" else [TEXT] * len(texts)
    return list(zip(texts, inks, strict=True))
