"""The chat service: one conversation on one engine, without a screen. The TUI and `termchat run` both stand on it.

`service` is the whole of it for whoever uses it, `state` what its rooms share: `turns` and `room` make prompts of messages,
`replies` and `again` the replies, `editing` what is written anew, `branches` the tree, `loading` and `reopening` other models
and chats, `questions` what is asked of a token. `line` knows who waits for which answer; `changes` is what they report.

`opening` makes a chat from the settings or the store, `recording` keeps it. `once`, `replay`, `sweep` and `doctor` are
commands.
"""
