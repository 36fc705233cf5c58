"""From a configuration to what an engine can load, and from the store to a chat that goes on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from termchat.chat.branches import newest_token
from termchat.chat.loading import Choice
from termchat.chat.looking_on import INTERRUPTED
from termchat.chat.recording import StoreRecorder
from termchat.chat.reopening import Past
from termchat.config.origins import DEFAULT, FLAG, MODEL, PERSONA, PRESET
from termchat.config.per_model import Picked, batch_times, run_of
from termchat.conversation.session import Followed, ModelRef
from termchat.conversation.store.store import Store
from termchat.conversation.tree import Conversation
from termchat.decoding.group import GROUP_KINDS
from termchat.decoding.records import Failed, Token
from termchat.decoding.samplers import KNOBS, Tuning, Value
from termchat.engine.port import ModelSpec
from termchat.models.errors import ModelError

if TYPE_CHECKING:
    from termchat.config.settings import Settings
    from termchat.models.catalogue import Catalogue
    from termchat.models.gguf.header import Header


_TURNED = (FLAG, "panel", "session")
"""Where a knob of a chat came from that a person turned for that chat."""


class Reopened(NamedTuple):
    """A chat from the store. `config` has its knobs and model, where no flag says otherwise; what else the chat was left with
    (breakpoints, the view) is in the recorder's `info`. `followed` where another process writes it."""

    config: Settings
    recorder: StoreRecorder
    conversation: Conversation
    newest: Token | None
    followed: Followed | None = None


def find_model(config: Settings) -> tuple[Settings, ModelSpec]:
    """The configured model's file, checked, and the configuration with what is recommended for it (see `recommended`).

    Raises:
        ModelError: there is no such model, or its file cannot be used; says what to do.
    """
    config, choice = _find(config, config.model)
    return config, choice.spec


def choose(config: Settings, wanted: str | None, picked: Picked | None = None) -> Choice:
    """A model by its catalogue name or path (None: the default one), its file checked, run as configured and tuned.

    `picked` is how a person wants this model to be run; None is what is kept for it.

    Raises:
        ModelError: there is no such model, or its file cannot be used; says what to do.
    """
    return _find(config, wanted, picked)[1]


def find_drafter(config: Settings) -> ModelSpec | Failed | None:
    """The file of the model that is to draft, checked, or why it cannot be used; None where none is configured."""
    from termchat.models import catalogue

    wanted = config.engine.draft_model
    if not wanted:
        return None
    try:
        return _read(config, wanted, catalogue.load(), None)[1]
    except ModelError as error:
        return Failed("draft", f"draft model: {error.message}", error.hint)


def recommended(wanted: str, header: Header, known: Catalogue) -> dict[str, Value]:
    """What is recommended for a model that was asked for with these words, by knob name.

    The user's own catalogue overrides the file, which overrides the bundled catalogue: whoever made the file knew it better
    than we do, and the user has the last word.
    """
    entry = known.entries.get(wanted)
    advice: dict[str, Value] = dict(entry.recommended) if entry is not None else {}
    return {**header.recommended, **advice} if wanted in known.own else {**advice, **header.recommended}


def _find(config: Settings, wanted: str | None, picked: Picked | None = None) -> tuple[Settings, Choice]:
    from termchat.models import catalogue

    known = catalogue.load()
    config, spec, advice = _read(config, wanted, known, picked)
    return config, Choice(spec, advice, known.problems, find_drafter(config), wanted or catalogue.DEFAULT)


def _read(
    config: Settings, wanted: str | None, known: Catalogue, picked: Picked | None
) -> tuple[Settings, ModelSpec, dict[str, Value]]:
    """The configuration for a model, how it is loaded with that, and the knobs that are recommended for it.

    Raises:
        ModelError: see `choose`.
    """
    from termchat.models import catalogue
    from termchat.models.gguf.header import check_parts, read_header

    name, path = catalogue.resolve(wanted, known, config.model_folders)
    header = read_header(path)
    check_parts(path)
    identity = header.identity()
    advice = recommended(wanted or catalogue.DEFAULT, header, known) if config.recommendations else {}
    config = run_of(config.with_recommended(advice, known.problems), identity, picked).config
    entry = known.entries.get(wanted or catalogue.DEFAULT)
    spec = config.spec(
        name,
        path,
        sha256=identity,
        quantization=header.quantization,
        layers=header.block_count or 0,
        thinking=entry.thinking if entry is not None else (),
        batch_times=batch_times(identity, config.engine.threads),
    )
    return config, spec, advice


def reopen_latest(store: Store, config: Settings) -> Reopened | None:
    """The latest saved chat, ready to continue; None if there is none."""
    session = store.latest()
    return reopen(store, session, config) if session is not None else None


def reopen(store: Store, session: str, config: Settings) -> Reopened:
    """A saved chat as it was, ready to go on.

    Raises:
        StoreError: there is no such chat, or it cannot be read.
    """
    stored = store.load(session)
    conversation = stored.conversation
    for number in stored.interrupted:
        conversation.nodes[number].add(INTERRUPTED)
    turned, origin, followed = _knobs(config, conversation, stored.info.tuning)
    if followed:
        config = config.with_recommended(followed)
    model = model_of(stored.info.model) or config.model
    config = config.with_left({**turned, "model": model}, {**origin, "model": config.origin["model"]})
    info = msgspec.structs.replace(stored.info, tuning=config.tuning)
    recorder = StoreRecorder(store, info, conversation)
    return Reopened(config, recorder, conversation, newest_token(recorder, conversation), stored.followed)


def _knobs(
    config: Settings, conversation: Conversation, left: Tuning
) -> tuple[dict[str, Value], dict[str, str], dict[str, Value]]:
    """The knobs that a chat was `left` with by a person, where each came from, and what its model recommended of the others.

    What a person turned in the chat stays, unless a flag says otherwise now. What nobody turned is as configured now, or else
    as the chat's model recommended, so that it follows another model.
    """
    last = max(
        (node for node in conversation.nodes.values() if node.settings), key=lambda node: node.number, default=None
    )
    drawn = last.settings[-1] if last is not None else None
    kept: dict[str, Value] = {}
    origin: dict[str, str] = {}
    followed: dict[str, Value] = {}
    for name, knob in KNOBS.items():
        value, place = getattr(left, name), drawn.origin.get(name, DEFAULT) if drawn is not None else DEFAULT
        place = DEFAULT if place in GROUP_KINDS else place  # a walk's own, and not the chat's
        before = getattr(drawn.samplers, name, value) if drawn is not None and place != DEFAULT else knob.default
        named = place.startswith((PERSONA, PRESET)) and value == before
        turned = place in _TURNED or named or value != before
        if config.origin[name] == FLAG:
            continue
        if turned:
            kept[name], origin[name] = value, place if named else "session"
        elif place == MODEL and config.origin[name] in (DEFAULT, MODEL):
            followed[name] = value
    return kept, origin, followed


def model_of(model: ModelRef) -> str | None:
    """What to ask the catalogue for: the name where it is known, else the file, if it is still there."""
    from termchat.models import catalogue

    if model.name in catalogue.load().entries:
        return model.name
    return model.path if model.path and Path(model.path).is_file() else None


def fetch(store: Store, session: str, config: Settings, loaded: str) -> Past:
    """A chat as it was left, and the model it was with, found and checked, unless that is the `loaded` one (its SHA-256).

    Raises:
        StoreError: there is no such chat, or it cannot be read.
    """
    found = reopen(store, session, config)
    info = found.recorder.info
    past = Past(found.conversation, info, found.config.knob_origin(), found.newest, followed=found.followed)
    if not info.model.name or (info.model.identity is not None and info.model.identity.sha256 == loaded):
        return past
    choice, missing = _model(config, info.model)
    return past._replace(choice=choice, missing=missing)


def _model(config: Settings, model: ModelRef) -> tuple[Choice | None, str]:
    """The model, or its name and why it cannot be loaded."""
    wanted = model_of(model)
    if wanted is None:
        return None, f"{model.name}, which is not on this machine"
    try:
        return choose(config, wanted), ""
    except ModelError as error:
        return None, f"{model.name}, which cannot be loaded: {error.message}"
