"""GGUF headers: what a model file says of itself, read without llama.cpp and within bounds."""
