"""Campaign directories. The SQLite file is the record. All other files are written from it."""
