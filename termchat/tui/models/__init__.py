"""Models on the screen.

`gather` (`Models`) looks for models and reads their files in threads, and `downloads` fetches them; both outlive the dialog.
`model_list` puts them in order for a chat, and `model_lines` draws them. `models_dialog` shows them all; `engine_dialog` has
the settings of one, `skipped` the files that are no models, `welcome` the words for those who have none.
`model_switching` stands between all of these and the chat: it opens the dialog, and loads what a person chooses.
"""
