"""Constraints on the screen: what a reply has to match, set and dropped also while it streams.

    dialog or command ─ text ─▶ ConstraintSetting ─ check ─▶ Questions.check ─▶ Chat.constrain

- `constraint_setting`: `ConstraintSetting` checks a text, asks the model whether it can use it, and sets it; it knows the
  recent ones, and reads files. `constraint_dialog` is where one is typed.
- `constraint_line`: the line above the composer: where in the constraint the reply stands, what it cost, and the verdict at
  its end, read from `conversation.standing_reply`.
"""
