"""The tables of a store."""

VERSION = 2
SCHEMA = """
CREATE TABLE facts (
    name TEXT PRIMARY KEY, value TEXT NOT NULL, checksum INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE runs (
    digest BLOB NOT NULL,
    place INTEGER,   -- in the design; NULL outside it, where theta and u are kept
    state TEXT NOT NULL,
    seconds REAL,
    attempts INTEGER NOT NULL,
    host TEXT NOT NULL,
    error TEXT NOT NULL,
    y BLOB,
    theta BLOB,
    u BLOB,
    checksum INTEGER NOT NULL   -- of digest, state, attempts, seconds and y
);
CREATE UNIQUE INDEX runs_by_digest ON runs (digest);
CREATE INDEX runs_by_state ON runs (state, place, seconds, attempts);  -- all that counts need
"""
