"""The screens: the chat's, and the dialogs over it.

`layout` is the chat's screen as it is seen, and `chat` hands what a person does to whoever stands between it and the rest,
each made once with the screen: `writing` and `habits` for messages, `tokens` for token mode, `conversations` and `choosing`
for other chats and models, `personate`, `pointing` for the mouse, `big` and `drawer` for the panels. What these need besides
is imported when it is first opened.

A dialog is a `dialog.Dialog` whose result is what was chosen; with a list it is a `listing.Listing`, with lines that are only
read a `listing.ReadListing`, and with what is highlighted in full beside the list a `detailed.DetailedListing`. Its keys are a
table of `termchat.tui.dialogkeys`.
"""
