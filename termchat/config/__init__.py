"""What a user configured: declared once, read from several places, one value and one origin for each setting.

- `fields`: every setting as a field. An option is added by adding a field; flags, `--help`, `config show`, the explained config
  file and the completions are made from `SETTINGS`.
- `sources`: one source for each place that a value may come from, in their order.
- `settings`: all of them as they are in force; `load` reads them.
- `origins`: the names of the places.
- `file`: changes config.toml.
- `per_model`: settings saved or measured for single models.
- `presets`: sampler chains under a name. `personas`: system prompts with a preset and knobs. Both are read from files of
  `named_tables`.
"""
