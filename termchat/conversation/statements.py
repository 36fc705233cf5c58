"""The statements that write a chat. Their parameter ?1 is the session."""

from __future__ import annotations

ADD_SESSION = """INSERT INTO sessions (id, title, created, updated, system, raw, model, tuning)
    VALUES (?1, ?2, ?3, ?3, ?4, ?5, ?6, ?7)"""
RENAME = """UPDATE sessions SET title = ?2, named = 1 WHERE id = ?1"""
DATE = "UPDATE sessions SET created = ?2, updated = ?3 WHERE id = ?1"
UPDATE_SESSION = """UPDATE sessions SET updated = ?2, title = coalesce(?3, title), leaf = coalesce(?4, leaf),
    tuning = coalesce(?5, tuning), model = coalesce(?6, model), breakpoints = coalesce(?7, breakpoints),
    view = coalesce(?8, view) WHERE id = ?1"""
HIDE = "UPDATE sessions SET deleted = ?2 WHERE id = ?1"
ADD_NODE = """INSERT INTO nodes (session, number, parent, at, role, text, prompt_ids, whole, name, deleted, omitted)
    SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11 WHERE EXISTS (SELECT 1 FROM sessions WHERE id = ?1)"""
UPDATE_NODE = """UPDATE nodes SET name = coalesce(?3, name), deleted = coalesce(?4, deleted)
    WHERE session = ?1 AND number = ?2"""
ADD_RECORD = """INSERT INTO records (session, node, on_path, record)
    SELECT ?1, ?2, ?3, ?4 WHERE EXISTS (SELECT 1 FROM nodes WHERE session = ?1 AND number = ?2)"""
PACK_REPLY = """INSERT OR REPLACE INTO replies (session, node, records, packed)
    SELECT ?1, ?2, (SELECT count(*) FROM records WHERE session = ?1 AND node = ?2), ?3
    WHERE EXISTS (SELECT 1 FROM nodes WHERE session = ?1 AND number = ?2)"""
