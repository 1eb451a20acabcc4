"""Campaign directories. The SQLite file is the record. All other files can be written from it."""
