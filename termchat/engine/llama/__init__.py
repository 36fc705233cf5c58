"""The llama.cpp engine. It runs in a child process, where `worker` reads commands from a pipe and writes events to another.

`worker` owns a `model_session`: one loaded `model` (vocabulary, ids to bytes), its `cache` (a llama_context seen as a list
of ids), and its chat `template`; as `model_queries` it answers questions about tokens and past positions (`scoring`,
`decoding.whynot`). Of the model they all need no more than a `vocabulary` says, and of the cache what `cells` says: an engine
elsewhere has its own two, and draws replies and answers questions with the same code.

The `scheduler` runs the replies of a request, one or many. A `reply` is a generator: at each step it takes a row of logits, has
`chain` apply the stages of `decoding.stages` and draw, writes a record, and waits for its token to be decoded. The `source`
decodes what all wait for: for a single reply on the cache's main sequence, else in one batch, with a sequence for each. What a
reply has of the cache is its `lane`. A beam search (`beams`) is a policy of how the rows of a step go on as sequences.
`reply_controls` holds what a person changes meanwhile: settings, conditions, pauses, forced tokens. `spellings` says which
tokens a word is made of. `chain` does a step in one call of `observe.c`, which `build_hook` compiles and `observe` loads,
over the samplers of `native_samplers`; or with `decoding.arithmetic` and `softmax`. `dry` finds the penalties of DRY.
`speculation` decides which guessed tokens the source decodes ahead, in one batch with the newest one: from the context, or by a
second model (`draft_model`). `batch_costs` measures the times of batches.

`grammars` compiles constraints, each on trial in a process of its own (`grammar_trial`), and computes beside the decode which
tokens may come next; `chain` or `observe.c` masks the others, before the stages or after them.

`native` imports llama.cpp and keeps its log and its abort flag; `thread_tuner` counts the cores, and chooses from the times of
the steps how many of them compute the next one. `model_loading` opens a model with as many layers on the GPU as fit; `offload`
knows the devices, and `rpc` adds those of other machines. `sandbox` limits what foreign templates and expressions may take.
"""
