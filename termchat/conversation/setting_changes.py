"""What changed between two settings of a reply, in the words that the screen and the transcripts share."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from termchat.conversation.token_marks import TokenMarks
from termchat.conversation.tree import Conversation, Node, Place, Span
from termchat.decoding.biases import parse
from termchat.decoding.conditions import Length, Rule, Stop, ThinkingBudget, format_condition
from termchat.decoding.constraint import format_constraint
from termchat.decoding.drafting import DraftSettings
from termchat.decoding.records import SettingsRecord
from termchat.decoding.samplers import KNOBS, THINK_AUTO, SamplerSettings, Value
from termchat.decoding.setting import Setting
from termchat.decoding.stages import chain_of
from termchat.text import one_line

_LONGEST, _LONGEST_REASON = 60, 200
"""Characters of a model's name in a stamp, and of why nothing is drafted."""


def list_values(settings: SettingsRecord) -> dict[str, Value]:
    """Return the knobs that a Settings record holds, by name; 0 or () where a condition is not there."""
    stops = tuple(condition.text for condition in settings.conditions if isinstance(condition, Stop))
    limits = (condition.tokens - condition.extra for condition in settings.conditions if isinstance(condition, Length))
    samplers = {name: getattr(settings.samplers, name) for name in SamplerSettings.__struct_fields__}
    budgets = (condition.tokens for condition in settings.conditions if isinstance(condition, ThinkingBudget))
    draft = settings.draft or DraftSettings("off")
    drafts: dict[str, Value] = {"draft": draft.by, "draft_max": draft.most, "draft_always": int(draft.always)}
    return samplers | {"stop": stops, "max_tokens": next(limits, 0), "think": next(budgets, THINK_AUTO)} | drafts


def value_texts(records: Sequence[SettingsRecord], show: Callable[[Setting, Value], str]) -> dict[str, str]:
    """Show each knob by name; of one that was turned all values in turn, as "0.8 → 1.2"."""
    turned = [list_values(record) for record in records]
    return {
        name: " → ".join(text for text, _ in groupby(show(KNOBS[name], each[name]) for each in turned))
        for name in (turned[0] if turned else ())
    }


def in_force(settings: SettingsRecord) -> list[str]:
    """List every knob that does something, as "temperature 0.8", and the rules."""
    acting = {
        name for stage in chain_of(settings.samplers) if stage.is_active(settings.samplers) for name in stage.knobs
    }
    held = list_values(settings)
    shown = ((KNOBS[name], value) for name, value in held.items() if not _is_idle(name, held))
    knobs = [
        f"{knob.name} {knob.show(value)}"
        for knob, value in shown
        if not knob.is_off(value)
        and (knob.stage is None or knob.name in acting or knob.always)
        and (knob.kind != "order" or value != knob.default)
    ]
    return [
        *knobs,
        *(f"rule {format_condition(condition)}" for condition in settings.conditions if isinstance(condition, Rule)),
    ]


def describe_changes(before: SettingsRecord, after: SettingsRecord) -> list[str]:
    """List the changes in `after`, as "temperature 0.8 → 1.2"; a preset that set all of it is named before the first.

    The threads are left out: the engine changes them by itself on a busy machine, which is for the status line and for
    the records, and would only cut sentences apart.
    """
    old, new = list_values(before), list_values(after)
    texts = {bias.id: bias.text for settings in (before, after) for bias in settings.biases}
    changed = [name for name in new if old[name] != new[name] and not _is_idle(name, old) and not _is_idle(name, new)]
    told = [_describe_change(KNOBS[name], old[name], new[name], texts) for name in changed]
    places = {after.origin.get(name, "") for name in changed}
    named = next(iter(places)) if len(places) == 1 else ""
    told = [f"{named}: {told[0]}", *told[1:]] if " " in named else told  # as in "preset creative"
    if before.constraint != after.constraint:
        told.append(
            f"constraint {format_constraint(before.constraint) or 'none'} → {format_constraint(after.constraint) or 'none'}"
        )
    if after.constraint_dropped and after.constraint_dropped != before.constraint_dropped:
        told.append(f"constraint dropped: {one_line(after.constraint_dropped, _LONGEST)}")
    if before.draft is not None and after.draft is not None and bool(before.drafting) != bool(after.drafting):
        told.append(
            f"drafting off: {one_line(after.drafting, _LONGEST_REASON)}" if after.drafting else "drafting on again"
        )
    return told


def _is_idle(name: str, held: Mapping[str, Value]) -> bool:
    """Return whether a knob does nothing since the one that it needs is off."""
    needs = KNOBS[name].needs
    return bool(needs) and KNOBS[needs].is_off(held[needs])


def _describe_change(knob: Setting, old: Value, new: Value, texts: Mapping[int, str]) -> str:
    """Describe one change: only the differing biases, with the text of the token; only the moved stage of an order."""
    plain = f"{knob.name} {knob.show(old)} → {knob.show(new)}"
    if not isinstance(old, tuple) or not isinstance(new, tuple):
        return plain
    if knob.kind == "order":
        return _describe_move(old, new) or plain
    if knob.kind != "biases":
        return plain
    names = {parse(bias).name for bias in new}
    gone = [bias for bias in map(parse, old) if bias.name not in names]
    told = [*(parse(bias) for bias in new if bias not in old), *(bias._replace(value=0.0) for bias in gone)]
    known = [
        bias._replace(what=texts.get(bias.what, bias.what)) if isinstance(bias.what, int) else bias for bias in told
    ]
    return f"{knob.name} " + " ".join(f"{bias.name} {bias.amount or 'off'}" for bias in known)


def _describe_move(old: tuple[str, ...], new: tuple[str, ...]) -> str:
    """ "order: min_p before top_k"; "" where more than one stage has another place."""
    for at, stage in enumerate(new):
        if stage in old and [one for one in old if one != stage] == [one for one in new if one != stage]:
            return f"order: {stage} before {new[at + 1]}" if at + 1 < len(new) else f"order: {stage} last"
    return ""


def model_change(node: Node) -> str | None:
    """ "model smollm2 → gemma" where another model wrote this reply than the one before it on its path; else None.

    Quantizations are told where they differ, and so is the file where nothing else does.
    """
    earlier = node.earlier
    while earlier is not None and earlier.start is None:  # it failed before its first word
        earlier = earlier.earlier
    if earlier is None or earlier.start is None or node.start is None:
        return None
    old, new = earlier.start.model, node.start.model
    if old.fingerprint == new.fingerprint:
        return None
    names, kinds, files = (old.name, new.name), (old.quantization, new.quantization), (old.path, new.path)
    told = [names] if names[0] != names[1] else []
    told += [kinds] if kinds[0] != kinds[1] and all(kinds) else []  # a server may not tell
    told = told or [files]
    before, after = (" ".join(filter(None, words)) for words in zip(*told, strict=True))
    return f"model {one_line(before, _LONGEST)} → {one_line(after, _LONGEST)}"


def list_stamps(node: Node, before_it: int = 0) -> Iterator[tuple[int, str]]:
    """Yield the changes while a reply ran: how many of the node's tokens came before, and "temperature 0.8 → 1.2 at token 143".

    `before_it` are the tokens of the same reply in the nodes before this one; the number in the text counts them too.
    """
    timed = zip(node.settings_at, node.settings, strict=True)
    for (_, before), (at, after) in pairwise(timed):
        changed = describe_changes(before, after)
        if changed:
            yield at, f"{', '.join(changed)} at token {before_it + at}"


class Piece(NamedTuple):
    """A piece of a reply as a transcript shows it: its text, and each mark with how many of the node's tokens come before."""

    span: Span
    text: str
    marks: list[tuple[int, str]]


def mark_pieces(pieces: Iterable[tuple[Span, str]], forks: dict[Place, str]) -> Iterator[Piece]:
    """Yield the pieces of one reply with their marks: another model, turned knobs, loops, ignored end tokens, other branches
    (see `label_forks`)."""
    drawn, told = 0, list(pieces)
    before: SettingsRecord | None = None
    reader = TokenMarks()
    for span, text in told:
        node, whole = span.node, span.count == len(span.node.ids)
        marks = [(0, other)] if (other := model_change(node)) is not None else []
        if before is not None and node.settings and (changed := describe_changes(before, node.settings[0])):
            marks.append((0, f"{', '.join(changed)} at token {drawn}"))
        marks += (stamp for stamp in list_stamps(node, drawn) if whole or stamp[0] < span.count)
        found = [*reader.read(node.tokens, 0, span.count, 0)]
        found += reader.finish_marks() if span is told[-1][0] else ()
        marks += ((mark.token - drawn, mark.text) for mark in found)
        for at, fork in ((place.at, fork) for place, fork in forks.items() if place.node == node.number):
            marks.append((at, f"{fork} at token {drawn + at}" if drawn + at else fork))
        yield Piece(span, text, sorted(marks, key=lambda mark: mark[0]))
        drawn += span.count
        reached = (s for s, at in zip(node.settings, node.settings_at, strict=True) if whole or at < span.count)
        before = max(reached, key=lambda settings: settings.number, default=before)


def label_forks(conversation: Conversation, but: Container[int] = ()) -> dict[Place, str]:
    """Label the forks of the chat that is shown: '2 other branches: "gentle"'. `but` are nodes that do not count."""
    forks = {
        place: [node for node in nodes if node.number not in but] for place, nodes in conversation.find_forks().items()
    }
    return {place: _describe_branches(nodes) for place, nodes in forks.items() if nodes}


def _describe_branches(nodes: list[Node]) -> str:
    names = ", ".join(f'"{one_line(node.name, _LONGEST)}"' for node in nodes if node.name)
    return ("1 other branch" if len(nodes) == 1 else f"{len(nodes)} other branches") + (f": {names}" if names else "")
