"""Models on the screen: which there are, how each is run, and which one the chat goes on with.

    disk, catalogue, hub ─ threads ─▶ Models ─ take() ─▶ ModelsDialog ─ Choice ─▶ Chat

- `gather`: `Models` looks for models, reads their files (`Facts`) and checks the one that is wanted, in threads, whose results
  are calls that `take()` makes, on the timer of the dialog. It outlives the dialog, and so does each download (`downloads`).
- `model_lines`: an `Item`, which is a model as a chat sees it, as a row and in detail. `welcome`: the text for a person without
  a model.
- `models_dialog`: the models in order for one chat, the keys of the list, and the files that were skipped. `engine_dialog`: the
  settings of one model, as a form, its lines and a dialog; the models dialog opens it.
- `model_switching`: `ModelSwitching` is what the chat's screen knows of this room. It opens the dialog, hears of threads by
  `Heard`, and has the chat load what a person chose.

Slash commands complete names from `Models`; nothing here knows how a file is found or read (`termchat.models`).
"""
