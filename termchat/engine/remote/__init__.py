"""Engines behind a URL: the model computes on another machine, and every token is drawn on this one.

`server_engine` starts the process of `server_worker`, which speaks as llama.cpp's own worker does (`engine.llama.worker`) and
owns a `server_session`. That answers with the same code as a model in the process: replies, the chain, the dice, steering,
templates and why-not ask only for a vocabulary and cells. Here they are `server_vocabulary`, read from the server when a model
is loaded, and `server_cells`, which ask for one token at a time: the server reads it and tells the candidates for the next one
with their log-probabilities, as many as prove the draw (`proof`). `server_reply` is the reply that is drawn from them.

`llama_server` is the contract of llama.cpp's HTTP server, typed, and `http_client` is one connection to it. `server_lookup`
asks a server what it is and which models it has (`served`), and loads nothing.

Of any other server of OpenAI's chat API (`openai_server`) only texts are known: `text_session` is a session with one, and
`text_reply` makes the records of a reply out of its text, with what the server tells by text.
"""
