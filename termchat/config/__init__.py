"""What a user configured: declared once, read from several places, one value and one origin for each setting.

- `fields`: every setting, a `Setting` in the annotation of its field. Flags, `--help`, `config show`, the explained config file
  and the completions are made from `SETTINGS`; the model of pydantic-settings has the same fields.
- `sources`: one source of pydantic-settings for each place that a value may come from, in their order.
- `settings`: all of them as they are in force, `Settings`, a model of pydantic-settings; `load` reads them.
- `origins`: the names of the places.
- `file`: changes config.toml.
- `per_model`: settings saved or measured for single models.
- `presets`: sampler chains under a name. `personas`: system prompts with a preset and knobs. Both are read from files of
  `named_tables`.

`settings` and `sources` import pydantic, which takes time: `termchat --version`, `--help` and the first frame wait for neither.
"""
