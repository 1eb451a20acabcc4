"""Where campaigns are kept: a directory whose SQLite file is the record, and files for people written from it."""

from collie.store.directory import CampaignDirectory
from collie.store.memory import MemoryStore
from collie.store.sqlite import SqliteStore

__all__ = ["CampaignDirectory", "MemoryStore", "SqliteStore"]
