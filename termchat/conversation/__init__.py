"""Conversations: the tree of turns, the store that keeps it, and transcripts in and out.

    token_texts     the texts of a reply's tokens
    draft_columns   what was drafted for a reply's tokens, packed
    node            one turn or a piece of one; the tokens of a reply as columns
    tree            all nodes of a conversation; the path from the root to the leaf is the chat
    unsent          its draft and its queue
    session         `Session`, a chat as a value: tree, settings, and how it is saved; the one door by which records enter
    position        what stands before a token, and what was in force there
    versions        the alternatives of a turn, to step through
    walk_groups     replies that were made together from one prompt
    reply_facts     what replies were made of, and where that differs
    recorded_reply  a reply in one piece, each step with what it was drawn from and with
    causes          why two replies differ; causes_text says it
    token_marks     loops and ignored end tokens of a reply, as marks
    setting_changes what changed between two settings of a reply, in words
    batch_shapes    in which shapes a path's ids were decoded
    thoughts        what a reply thought before it answered
    standing_reply  what of a reply a constraint was told of, and what that cost
    heat            how much a token stands out, for screen and page
    store/          saved chats and the message history, in one SQLite file
    transcripts/    the formats of files, written and read

The chat grows the tree from the records of the engine and tells the store of each change; screen, transcripts and commands
read the tree. What is in a room further down knows nothing of what is further up; nothing here knows the engine or the screen.
"""
