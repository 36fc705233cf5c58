"""How one model is run: as configured for all models, as a person set it for this one, and as was measured to be best."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from termchat import tuned
from termchat.options import OptionValue
from termchat.settings import PICKER, Config


class Picked(NamedTuple):
    """What a person set for one model, by option; the `newer` of it is newer than the flags, and so goes before them."""

    settings: Mapping[str, OptionValue] = {}
    newer: frozenset[str] = frozenset()


class Run(NamedTuple):
    """One model's settings and where they come from; `asked` is for all models, `measured` what was found best for this one."""

    asked: Config
    picked: Picked
    measured: Mapping[str, int]

    @property
    def config(self) -> Config:
        """What comes of them."""
        return self.asked.with_picked(*self.picked).with_tuned(self.measured)

    def set(self, name: str, value: OptionValue) -> Run:
        """A copy in which a person set an option for this model.

        Raises:
            OptionError: the option refuses the value.
        """
        settings, newer = self.picked
        return self._replace(picked=Picked({**settings, name: value}, newer | {name}))

    def unset(self, name: str) -> Run:
        """A copy in which an option is as if nobody had set it for this model."""
        settings, newer = self.picked
        return self._replace(
            picked=Picked({other: value for other, value in settings.items() if other != name}, newer - {name})
        )


def run_of(config: Config, sha256: str, picked: Picked | None = None) -> Run:
    """How the model of this identity is run on this machine; `picked` None is what is kept for it."""
    if picked is None:
        kept = tuned.find_pick(sha256)
        # Only what an option takes: the file may be from another termchat, or somebody's own work.
        taken = config.with_picked(kept.settings, kept.settings) if kept is not None else config
        picked = Picked({name: taken.engine[name] for name, place in taken.origin.items() if place == PICKER})
    measured = tuned.find(sha256)
    return Run(config, picked, measured.settings if measured is not None else {})


def keep(picked: Picked, sha256: str, name: str) -> None:
    """Has a model run so from now on; `name` is for people who read the file.

    Raises:
        OSError: it cannot be written.
    """
    settings = {key: value for key, value in picked.settings.items() if not isinstance(value, tuple)}
    tuned.keep_pick(tuned.Pick(sha256, name, tuned.hardware(), settings))
