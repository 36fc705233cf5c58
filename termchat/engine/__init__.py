"""Engines: commands in, records out. The chat and the commands know an engine by its contract alone.

- `port` is the contract: commands, events, errors, and the features that an engine may offer (`Engine.offers`).
- `make` makes an engine; nothing else names a kind of engine.
- `local` is the engine on this machine. It starts the process of `llama.worker`, sends it commands and receives its events
  in the frames of `wire`, and notices when it dies.
- `llama` is what runs in that process, and the only room that imports llama_cpp.
- `gpu_wheel` tells which build of llama.cpp would use this machine's GPU.
"""
