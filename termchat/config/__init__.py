"""What a user configured: declared once, read from several places, one value and one origin for each setting.

`settings` declares every setting as a field of `Settings`, and `load` reads them; `sources` has one source for each place that
a value may come from, in their order. `options` is a field as people meet it: flags, `--help`, `config show`, the explained
config file and the completions are made from `SETTINGS`. An option is added by adding a field. `origins` has the names of the
places, for those who must not wait for pydantic; `file` changes config.toml.

Whoever asks for a setting imports `settings`, and pydantic with it, which takes time: `termchat --version` and the modules
that a screen needs before the settings are read do not.
"""
