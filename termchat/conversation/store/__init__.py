"""Saved chats and the message history in one SQLite file, which several processes may use at once.

    store       `Store`: hands changes to its writer; answers each question on a connection of its own, after what was queued
    writer      the thread with the queue of changes: in order, in batches, tried again where the disk fails; and the file as it
                is open: repaired when it is opened, followed where it is replaced
    search      lists and searches          load        a whole chat, or records of it
    claims      which process writes to which chat at this moment
    derived     texts and counts that lists and searches read
    deleting    copies of chats, removed ones
    unsent_rows drafts and queued messages
    codec       what columns contain: records, settings, ids, packed replies
    schema      tables and statements, and how a column is read whatever is in it
    database    opening a file, and what SQLite's errors mean
    repair      what can be copied from a damaged file
    store_files the file, what is beside it, and where a damaged one goes

A change goes Store → Writer → SQLite; an answer SQLite → Store. Whoever streams tokens never waits for the disk. A
question that meets damage says so and marks the file; only opening it repairs it.
"""
