"""Everything that is chosen from a list, and what becomes of the choice. Each dialog is a `draw.list_dialog.ListDialog`.

**Models**: which there are, how each is run, and which one the chat goes on with.

    disk, catalogue, hub ─ threads ─▶ Models ─ take() ─▶ ModelsDialog ─ Choice ─▶ Chat

- `gather`: `Models` looks for models, reads their files (`Facts`), downloads them (`Pull`) and checks the one that is wanted,
  in threads, whose results are calls that `take()` makes, on the timer of the dialog. It outlives the dialog.
- `model_lines`: an `Item`, which is a model as a chat sees it, as a row and in detail. `welcome`: the text for a person without
  a model.
- `models_dialog`: the models in order for one chat, the keys of the list, and the files that were skipped. `engine_dialog`: the
  settings of one model, as a form in a list.
- `model_switching`: opens the dialog, hears of threads by `Heard`, and has the chat load what a person chose.

**Chats**: `chat_switching` starts chats, also as a persona, opens saved ones and saves transcripts and personas, by `setup`,
`sessions_dialog`, `persona_dialog` and `save`. `session_list` is what is known of the saved chats, and the thread that reads
and changes them. `branch_tree` lists the branches of a chat, and opens `compare` on two replies.

**Others**: `preset_dialog` (whole sampler chains: applied, also while a reply streams, and saved), `breakpoints`,
`bias_dialog` (logit biases), `tokenizer` (the tokens of any text), `history_dialog` (earlier and queued messages), `theme`,
`keylist` (all keys, those of the place one is in first), and `full` (what to drop from a full context).

A dialog gets the palette and the objects that it shows, and ends with `dismiss(result)`; its opener gets that by a callback,
None if it was closed.
"""
