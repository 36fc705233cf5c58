"""Everything that is chosen from a list, and what becomes of the choice. Each dialog is a `draw.list_dialog.ListDialog`.

**Models**: which there are, how each is run, and which one the chat goes on with.

    disk, catalogue, hub ─ threads ─▶ Models ─ take() ─▶ ModelsDialog ─ Choice ─▶ Chat

- `gather`: `Models` has all models in one dict of `ModelRow`, whatever they come from. It looks for them, reads their files
  (`Facts`), downloads them (`Pull`) and checks the one that is wanted, in threads, whose results are calls that `take()` makes,
  on the timer of the dialog; `ModelSwitching` hears of their ends. `SessionList` has the saved chats, and the thread that
  reads and changes them. Both outlive the dialogs.
- `model_lines`: an `Item`, which is a model as a chat sees it, as a row and in detail; and the text for a person without one.
- `models_dialog`: the models in order for one chat, the keys of the list, and the files that were skipped. `engine_dialog`: the
  settings of one model, as a form in a list.

**Switching**: `switching` opens the dialogs and acts on their results: `ModelSwitching` has the chat load a model,
`ChatSwitching` starts chats, also as a persona, opens saved ones, and saves transcripts.

**Chats**: `sessions_dialog` (the saved chats), `chat_dialogs` (a new chat, and where to save a transcript), `welcome` (an empty
chat). `branch_tree` lists the branches of a chat, and opens `compare` on two replies.

**Others**: `preset_dialog` (presets: whole sampler chains; personas) and `small_dialogs` (earlier and queued messages,
breakpoints, keys, themes, a full context). `bias_dialog` (logit biases), `tokenizer` (the tokens of any text).

A dialog gets the palette and the objects that it shows, and ends with `dismiss(result)`; its opener gets that by a callback,
None if it was closed.
"""
