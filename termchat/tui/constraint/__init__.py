"""Constraints on the screen: what a reply has to match, set and dropped also while it streams.

    dialog or command ─ text ─▶ ConstraintSetting ─ check ─▶ Questions.check_constraint ─▶ Chat.set_constraint

- `constraint_setting`: `constraint_of` makes a constraint of a text or a file; `ConstraintSetting` checks it, asks the model
  whether it can use it, and sets it; it knows the recent ones. `constraint_dialog` is where one is typed.
- `constraint_line`: the line above the composer: where in the constraint the reply stands, what it cost, and the verdict at
  its end, read from `conversation.standing_reply`.
"""
