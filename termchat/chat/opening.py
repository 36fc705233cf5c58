"""From a configuration to what an engine can load, and from the store to a chat that goes on."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from time import time
from typing import TYPE_CHECKING

import msgspec

from termchat.chat.loading import Choice
from termchat.config.origins import DEFAULT, FLAG, MODEL, PERSONA, PRESET
from termchat.config.per_model import Picked, find_rows, run_of
from termchat.conversation.position import constraint_of
from termchat.conversation.session import ModelRef, Session
from termchat.conversation.store.store import Store
from termchat.conversation.tree import Conversation
from termchat.decoding.group import GROUP_KINDS
from termchat.decoding.records import Failed
from termchat.decoding.samplers import KNOBS, Tuning, Value, well_formed
from termchat.engine.address import SIGN, AddressError, EngineAddress, is_url, name_model
from termchat.engine.port import ModelSpec
from termchat.models.errors import ModelError

if TYPE_CHECKING:
    from termchat.config.settings import Settings
    from termchat.models.catalogue import Catalogue
    from termchat.models.gguf.header import Header


_TURNED = (FLAG, "panel", "session")
"""Where a knob of a chat came from that a person turned for that chat."""


def find_model(config: Settings) -> tuple[Settings, ModelSpec]:
    """Find and check the configured model's file; return it, and the configuration with the recommendations for it (see
    `recommended`). A remote engine knows all that for its own models.

    Raises:
        ModelError: there is no such model, or its file cannot be used; says what to do.
    """
    if config.address.url:
        return config, choose_elsewhere(config, config.address).spec
    config, choice = _find_model(config, config.model)
    return config, choice.spec


def find_here(config: Settings) -> ModelSpec:
    """Find and check the configured model's file on this machine, whichever engine is configured.

    Raises:
        ModelError: see `find_model`; or the model is elsewhere.
    """
    if is_url(config.model):
        raise ModelError(f"{config.model} is on another machine", "Run this there.")
    return _find_model(config, config.model)[1].spec


def choose_configured(config: Settings) -> Choice:
    """Choose the configured model, on the configured engine; see `find_model`.

    Raises:
        ModelError: see `find_model`.
    """
    return choose_elsewhere(config, config.address) if config.address.url else choose_model(config, config.model)


def choose_elsewhere(config: Settings, address: EngineAddress, name: str = "", sha256: str = "") -> Choice:
    """Choose a model of a remote engine. That machine decides how it runs, except for flags given here. `name` is its name
    there, `sha256` the hash of its file if known.
    """
    engine = {key: value for key, value in config.engine.of_model.items() if config.origin[key] == FLAG}
    tags = (config.think_start, config.think_end)
    spec = ModelSpec(
        path=well_formed(address.model),
        name=well_formed(name or name_model(address.model) or address.shown),
        engine=address,
        sha256=sha256,
        thinking=tags if all(tags) else (),
        said=tuple(engine),
        **engine,
    )
    return Choice(spec, {}, drafter=_drafter_at(address, config), heeds=config.recommendations)


def _drafter_at(address: EngineAddress, config: Settings) -> ModelSpec | None:
    """Return the model of another machine that is to draft there, if a flag names one."""
    name = config.engine.draft_model
    if not name or config.origin["draft_model"] != FLAG:
        return None
    return ModelSpec(path=well_formed(name), name=well_formed(name), engine=address)


def choose_model(config: Settings, wanted: str | None, picked: Picked | None = None) -> Choice:
    """Choose a model by its catalogue name or path (None: the default one) and check its file; or choose one of an engine
    elsewhere, as `EngineAddress.asked_as` writes it.

    `picked` is how a person wants this model to be run; None is what is kept for it.

    Raises:
        ModelError: there is no such model, or its file cannot be used; says what to do.
    """
    if wanted is not None and wanted.startswith(SIGN):
        name, _, model = wanted.removeprefix(SIGN).partition("/") if "://" not in wanted else (wanted[1:], "", "")
        try:
            address = config.engine_at(name)
        except AddressError as error:
            raise ModelError(str(error)) from error
        return choose_elsewhere(config, msgspec.structs.replace(address, model=model or address.model))
    return _find_model(config, wanted, picked)[1]


def find_drafter(config: Settings) -> ModelSpec | Failed | None:
    """Find and check the file of the configured draft model; return why it cannot be used, or None without one."""
    if config.address.url:
        return _drafter_at(config.address, config)
    from termchat.models import catalogue

    wanted = config.engine.draft_model
    if not wanted:
        return None
    try:
        return _read(config, wanted, catalogue.load(), None)[1]
    except ModelError as error:
        return Failed("draft", f"draft model: {error.message}", error.hint)


def recommend_settings(wanted: str, header: Header, known: Catalogue) -> dict[str, Value]:
    """Look up the recommended settings of a model asked for with these words, by knob name.

    The user's own catalogue overrides the file, which overrides the bundled catalogue: whoever made the file knew it better
    than we do, and the user has the last word.
    """
    entry = known.entries.get(wanted)
    advice: dict[str, Value] = dict(entry.recommended) if entry is not None else {}
    return {**header.recommended, **advice} if wanted in known.own else {**advice, **header.recommended}


def _find_model(config: Settings, wanted: str | None, picked: Picked | None = None) -> tuple[Settings, Choice]:
    from termchat.models import catalogue

    known = catalogue.load()
    config, spec, advice = _read(config, wanted, known, picked)
    return config, Choice(spec, advice, known.problems, find_drafter(config), wanted or catalogue.DEFAULT)


def _read(
    config: Settings, wanted: str | None, known: Catalogue, picked: Picked | None
) -> tuple[Settings, ModelSpec, dict[str, Value]]:
    """Read a model's file; return its configuration, how it is loaded with that, and the knobs that are recommended for it.

    Raises:
        ModelError: see `choose_model`.
    """
    from termchat.models import catalogue
    from termchat.models.disk.opened import remember
    from termchat.models.gguf.header import check_parts, read_header
    from termchat.models.gguf.vocabulary_texts import check_vocabulary

    name, path = catalogue.resolve(wanted, known, config.model_folders)
    header = read_header(path)
    check_parts(path)
    check_vocabulary(path)
    if wanted is not None and wanted not in known.entries and os.path.exists(os.path.expanduser(wanted)):
        remember(path)  # it was asked for by its path
    identity = header.identity()
    advice = recommend_settings(wanted or catalogue.DEFAULT, header, known) if config.recommendations else {}
    config = run_of(config.with_recommended(advice, known.problems), identity, picked).config
    entry = known.entries.get(wanted or catalogue.DEFAULT)
    spec = config.spec(
        name,
        path,
        sha256=identity,
        quantization=header.quantization,
        layers=header.block_count or 0,
        thinking=entry.thinking if entry is not None else (),
        measured=find_rows(identity),
    )
    return config, spec, advice


def load_latest(store: Store, config: Settings) -> Session | None:
    """Load the latest saved chat, ready to go on."""
    session = store.latest()
    return load_session(store, session, config) if session is not None else None


def load_session(store: Store, id: str, config: Settings) -> Session:
    """Load a saved chat with the settings it was left with, where no flag overrides them.

    Raises:
        StoreError: there is no such chat, or it cannot be read.
    """
    session = store.load(id)
    turned, origin, followed = _restore_settings(config, session.conversation, session.tuning)
    if followed:
        config = config.with_recommended(followed)
    config = config.with_left(turned, origin)
    session.tuning, session.origins = config.tuning, config.knob_origin()
    session.constraint = constraint_of(session.conversation)
    session.read_newest()
    return session


def at_model_of(config: Settings, model: ModelRef) -> tuple[Settings, str]:
    """Configure a chat's model on its engine, where no flag names another; return that model, too, if it is not known."""
    place: dict[str, str] = {}
    if model.name and not model.engine:
        place = {"model": model_of(model) or ("" if config.address.url else config.model), "default_engine": ""}
    elif model.name:
        try:
            config.engine_at(model.engine)
        except AddressError:
            return config, _describe_unknown(model)
        place = {"model": model.path or model.name, "default_engine": model.engine}
    return config.with_left(place, {name: config.origin[name] for name in place}), ""


def _describe_unknown(model: ModelRef) -> str:
    return f"{model.name} on the engine {model.engine}, which is not in config.toml"


def _restore_settings(
    config: Settings, conversation: Conversation, left: Tuning
) -> tuple[dict[str, Value], dict[str, str], dict[str, Value]]:
    """Find the knobs that a person set in a chat that was `left`, their origins, and what its model recommended of the others.

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
    """Return what to ask the catalogue for: the name where it is known, else the file, if it is still there."""
    from termchat.models import catalogue

    if model.name in catalogue.load().entries:
        return model.name
    return model.path if model.path and Path(model.path).is_file() else None


def fetch_session(store: Store, id: str, config: Settings, loaded: str) -> tuple[Session, Choice | None, str]:
    """Load a saved chat with its model, found and checked, unless that is the `loaded` one (see `known_as`); return the
    reason if that fails.

    Raises:
        StoreError: there is no such chat, or it cannot be read.
    """
    session = load_session(store, id, config)
    model = session.model
    if not model.name or model.known_as == loaded:
        return session, None, ""
    try:
        if model.engine:
            address = msgspec.structs.replace(config.engine_at(model.engine), model=model.path or model.name)
            sha256 = model.identity.sha256 if model.identity is not None else ""
            return session, choose_elsewhere(config, address, model.name, sha256), ""
        wanted = model_of(model)
        if wanted is None:
            return session, None, f"{model.name}, which is not on this machine"
        return session, choose_model(config, wanted), ""
    except AddressError:
        return session, None, _describe_unknown(model)
    except ModelError as error:
        return session, None, f"{model.name}, which cannot be loaded: {error.message}"


def make_saver(session: Session, path: Path) -> Callable[[], Path]:
    """Make what writes a transcript of the chat as it is now, in any thread, in the format of the path's ending.

    It returns where, and raises:
        TranscriptError: there is nothing to write yet, or it cannot be written there.
        StoreError: the chat's records cannot be read.
    """
    still = dataclasses.replace(session, updated=time(), conversation=session.conversation.freeze_tree())
    store, nodes = session.store, still.conversation.nodes

    def save() -> Path:
        from termchat.conversation.transcripts import export  # not needed before the first frame
        from termchat.conversation.transcripts.transcript import TranscriptError, limit_records

        if store is None or not still.id:
            raise TranscriptError("nothing to save yet", "Write a message first.")
        return export.write(
            path,
            still.conversation,
            still,
            lambda number: limit_records(nodes[number], store.records(still.id, number)),
        )

    return save
