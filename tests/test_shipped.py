"""What ships beside the code is found in a checkout, in a wheel, and missed with a clear message."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from termchat import paths

ROOT = Path(__file__).resolve().parent.parent


def test_checkout_finds_its_own_files() -> None:
    assert paths.shipped_folder("themes") == ROOT / "themes"
    assert paths.shipped_file("models.toml") == ROOT / "models.toml"


def test_the_wheels_place_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel, checkout = tmp_path / "_shipped", tmp_path
    for place in (wheel, checkout):
        (place / "themes").mkdir(parents=True)
        (place / "models.toml").write_text("")
    monkeypatch.setattr(paths, "_PLACES", (wheel, checkout))
    assert paths.shipped_folder("themes") == wheel / "themes"
    assert paths.shipped_file("models.toml") == wheel / "models.toml"


def test_a_broken_installation_says_where_it_looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "_PLACES", (tmp_path / "a", tmp_path / "b"))
    with pytest.raises(paths.ShippedError, match=r"themes is missing \(looked in .*a and .*b\)\. Reinstall termchat"):
        paths.shipped_folder("themes")


def test_a_folder_is_not_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models.toml").mkdir()
    monkeypatch.setattr(paths, "_PLACES", (tmp_path,))
    with pytest.raises(paths.ShippedError):
        paths.shipped_file("models.toml")


def test_the_wheel_puts_them_where_they_are_looked_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    package = Path(paths.__file__).parent
    places = {package.parent / target for target in included.values()}
    assert places == {package / "_shipped" / "themes", package / "_shipped" / "models.toml"}
    assert all((ROOT / source).exists() for source in included)
