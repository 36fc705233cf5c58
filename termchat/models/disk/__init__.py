"""The models on this disk, wherever programs keep them. Nothing is written.

    program_folders ─ roots ─▶ walk ─ candidates ─▶ discovery ─▶ FoundModel, or Skipped with the reason

- `program_folders`: where Hugging Face, llama.cpp, LM Studio, Ollama, Jan, GPT4All and we keep models, as a table.
- `opened`: the models that were opened by their paths; the folders of these are looked at, too.
- `walk`: goes through one folder within bounds, and groups files to candidates: single ones, and the parts of a set.
- `discovery`: reads Ollama's manifests and the headers of all candidates (`gguf.brief`), and recognises copies.

`listing` shows what is found, `catalogue` looks here for a name that it does not know. All of it is somebody else's: names and
headers are foreign text.
"""
