"""Markdown while it streams: from the text of a reply to lines of inks.

`chunks` cuts the text into top-level chunks as it comes; only the last one still changes, so that only that is looked at with
every token. `render` makes the lines of a chunk with the parser of `markdown_it`, and hands what is special to the others:
`inline` has emphasis, links and mathematics, and closes what a chunk that streams leaves open; `table` has columns; `code`
has highlighting, and finds the code blocks of a whole text for who copies them.

`blocks.ChunkBlock` in the room above asks `render` and `code` for the lines of its chunk. Nothing here knows a widget, a
colour or a conversation. Line breaks are kept as they are written, and nothing that was written is left out.
"""
