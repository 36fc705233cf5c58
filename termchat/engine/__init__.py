"""Engines: what turns ids into records. `port` is the contract, `llama` speaks to llama.cpp, `local` runs it as a child."""
