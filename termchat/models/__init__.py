"""Models: what can be chosen, where its file is, and what the file says of itself.

A name that a person gives comes in at `catalogue.resolve`, which knows the entries (`entry`) of the bundled and the user's
`models.toml`, and asks `disk` for everything else. A path goes out; `gguf` reads the header of the file behind it.

- `catalogue`, `entry`: models by name, and the one source of each (path, package, repository or address);
- `gguf/`: the header of a file, read within bounds and without llama.cpp;
- `disk/`: the model files of this and of other programs (Ollama, LM Studio, a Hugging Face cache …);
- `download/`: from Hugging Face or an address to the models folder;
- `draft_pairs`: which models can draft for which;
- `listing` joins catalogue and disk into the rows of `models list` and of the dialog; `memory` estimates whether a model fits;
- `elsewhere` asks another machine for its list;
- `manage` adds entries, verifies files and removes downloads;
- `errors`: what all of them raise.

`cli`, `chat` and `tui` call in; nothing here knows them. The engine is given a path and reads the file itself.
"""
