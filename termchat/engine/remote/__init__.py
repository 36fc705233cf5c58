"""Engines behind a URL: the model computes on another machine; its tokens are drawn on this one, or there.

`server_worker` is the process, which speaks as llama.cpp's own worker does (`engine.llama.worker`) and owns a session with a
server. A `server_session` answers with the same code as a model in the process: replies, the chain, the dice, their controls,
templates and why-not ask only for a vocabulary and cells. Here they are `server_vocabulary`, read from the server when a model
is loaded, and `server_cells`, which ask for one token at a time: the server reads it and tells the candidates for the next one
with their log-probabilities, as many as prove the draw (`proof`). `server_source` has them ask for one reply or several.

`http_client` is one connection to a server, and one for a stream of events; answers have to come in a limited time.
`model_server` is a server of tokens that keeps to one model; `llama_server` and `vllm_server` are its two kinds, their
contracts typed. In `server_answers` the bytes of any server become values: numbers, ids and texts are checked there, once.
`server_lookup` asks a server what it is and which models it has (`served`), and loads nothing; `token_bytes` finds the bytes of
tokens where a server tells no list of them.

A server that draws by itself streams its tokens. `streams` says what one is asked and what it tells, a segment of a reply after
the other; `llama_stream` is llama-server, `vllm_stream` a vLLM, with `vllm_vocabulary`. `streamed_session` is a session with
one, `streamed_reply` the source of a reply out of its segments, and `server_logprobs` what is told of a step.

Of any other server of OpenAI's chat API (`openai_server`) only texts are known: `text_session` is a session with one, and
`text_reply` makes the records of a reply out of its text, with what the server tells by text.
"""
