"""Engines: commands in, records out. The chat and the commands know an engine by its contract alone.

- `port` is the contract: commands, events, errors, and the features that an engine may offer (`Engine.offers`).
- `make` makes an engine. The program has one, which is where the model is that was loaded last.
- `abilities` are what an engine can do, as a value of the model that it loaded: who offers a thing asks them, and is told why
  not, and which engine can.
- `address` says where an engine is; `access_key` reads the key that a server asks for.
- `local` is the engine. It starts the process of `llama.worker`, sends it commands and receives its events in the frames of
  `wire`, and notices when it dies. The place of the model is behind its `WorkerLine`.
- `llama` is what runs in that process, and the only room that imports llama_cpp.
- `worker_line` is the line to a worker: how its process is started, and why it ended.
- `ssh` is the line to the same process on another machine, started over ssh.
- `remote` is such a process whose model is on a server, behind a URL.
- `checkup` asks engines elsewhere what they are.
- `gpu_wheel` tells which build of llama.cpp would use this machine's GPU.
"""
