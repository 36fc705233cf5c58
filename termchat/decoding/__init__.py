"""The vocabulary of decoding: frozen values and pure functions that every other room reads. Nothing here knows an engine, a
screen or a file.

- `setting`: `Setting`, a setting as people meet it: checked, parsed, shown and moved. The knobs, the options of the config file
  and the fields of plans are tables of it.
- `samplers`: every knob with its range, its default and its key (`KNOBS`), and the values they have (`SamplerSettings`,
  `Tuning`). Flags, config file, panel and checks are made from it.
- `stages`: every stage of the sampler chain, in order (`STAGES`), and which knobs act on a reply. The engine builds its chain
  from it.
- `arithmetic`: each of them in numpy, over a row of logits; `stage_state`: the memory of mirostat and adaptive_p.
- `conditions`: what ends or pauses a reply, as values and as people write it; `rules` says which of them a step meets.
- `thinking`: the tags between which a model thinks, and which tokens of a reply are thoughts.
- `units`: where sentences, lines and paragraphs end, in every script; `loops`: text that is there again and again.
- `dice`: the noise of each (seed, step, token); `draw` turns the logits that are left, with the dice, into a token, and
  rolls the dice many times.
- `records`: the stream of facts about a reply. The engine writes it; the chat, the store, transcripts and the screen read it.
- `whynot`: why a token was not drawn, by computing the chain again. The engine calls it, since it has the logits.
- `constraint`: what a reply has to match; the engine follows it (`engine.llama.grammars`). `constraint_check` translates it for
  llguidance, the same for masks and verdicts, finds faults of its text with their place (`TextError`), and makes a schema from
  an example; `gbnf` translates llama.cpp's grammars for llguidance; `partial_json` finds where in a document an unfinished text
  stands, `verdict` judges a finished one.
- `biases`: logit biases as people write them.
- `redraw`: a recorded step drawn again under other settings, from the candidates of its record.
- `drafting`: the rules of speculation: guesses from n-grams, the times of batches, how many guesses pay, and whether any do;
  `draft_figures`: what drafts did for a reply, read from its tokens.
- `group`: why several replies to one prompt were made; `plans`: the kinds of plans and their fields;
  `walk_plan`: makes a plan; `plan_words`: plans as they are typed behind a slash command.
- `walk_figures`: how likely, varied and alike they are, and where they part (`TokenTrie`); `parting`: why two with the same
  dice do; `ranking`: which is the best, or what most of them answer (`answers`).
- `deadline`: how long a person's regular expressions and a model's template may take.
- `escapes`: backslash escapes in typed text.
"""
