"""The llama.cpp engine, the only room that imports llama_cpp. It runs in a child process; see `worker`."""
